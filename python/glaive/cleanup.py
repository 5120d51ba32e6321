# SPDX-License-Identifier: Apache-2.0
"""Removing old versions: what was removed, or would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from glaive import _glaive

__all__ = ["CleanupCandidateFile", "CleanupExplanation", "CleanupStats"]


@dataclass(frozen=True)
class CleanupStats:
    """What a cleanup removed."""

    bytes_removed: int
    old_versions: int
    data_files_removed: int
    transaction_files_removed: int
    index_files_removed: int
    deletion_files_removed: int
    failed_deletes: int


@dataclass(frozen=True)
class CleanupCandidateFile:
    """A file and why it goes, or stays."""

    path: str
    """Below the root of the dataset."""
    kind: str
    """manifest, data, transaction, index, deletion or temporary"""
    size_bytes: int
    unverified: bool
    """No version names it."""
    reason: str


@dataclass(frozen=True)
class CleanupExplanation:
    """What a cleanup would do now. Nothing was removed."""

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile]
    """Files that would go, in this order."""
    kept_files: list[CleanupCandidateFile]
    """Files that would stay (not an attribute of pylance)."""
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[str]
    warnings: list[str]


Policy: TypeAlias = tuple[int | None, int | None, list[int] | None, bool, bool, int | None]


def policy(
    older_than: timedelta | None,
    retain_versions: int | None,
    versions: Sequence[int] | None,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: int | None,
) -> Policy:
    """The arguments of the native functions."""
    if older_than is not None and not isinstance(older_than, timedelta):
        raise TypeError(f"older_than must be a timedelta, got {type(older_than).__name__}")
    for name, value in {"retain_versions": retain_versions, "delete_rate_limit": delete_rate_limit}.items():
        if value is not None and value < 0:
            raise OverflowError(f"can't convert negative int to unsigned ({name})")
    return (
        None if older_than is None else older_than // timedelta(microseconds=1),
        retain_versions,
        None if versions is None else list(versions),
        delete_unverified,
        error_if_tagged_old_versions,
        delete_rate_limit,
    )


def explain(
    dataset: _glaive.Dataset, policy: Policy, include_files: bool, max_files: int
) -> CleanupExplanation:
    """The plan as the public classes show it."""
    counts, rows, branches = _glaive.plan_cleanup(dataset, *policy)
    gone: list[CleanupCandidateFile] = []
    kept: list[CleanupCandidateFile] = []
    for path, kind, size, removed, unverified, reason in rows:
        file = CleanupCandidateFile(path, kind, size, unverified, reason)
        (gone if removed else kept).append(file)
    return CleanupExplanation(
        read_version=dataset.version,
        stats=CleanupStats(**counts),
        candidate_files=gone[:max_files] if include_files else [],
        kept_files=kept[:max_files] if include_files else [],
        candidate_files_truncated=include_files and max(len(gone), len(kept)) > max_files,
        candidate_file_limit=max_files,
        referenced_branches=sorted(branches),
        warnings=[],
    )
