# SPDX-License-Identifier: Apache-2.0
"""Tags and branches: names for versions of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from glaive import _glaive
from glaive.errors import InvalidInputError

if TYPE_CHECKING:
    from glaive.dataset import LanceDataset

# `list` is a method of the classes below.
_Ordered: TypeAlias = list[tuple[str, dict[str, Any]]]

__all__ = ["Branches", "Reference", "Tags"]

# A version of the current branch, a tag, or a branch (None: main) and a version of it (None: the latest).
Reference: TypeAlias = int | str | tuple[str | None, int | None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def checked_reference(reference: Any) -> Any:
    """The reference as the native module takes it."""
    if isinstance(reference, str):
        return reference
    if isinstance(reference, tuple):
        if len(reference) != 2 or not isinstance(reference[0], str | None):
            raise InvalidInputError("Version must be an int, a str or a (str, int) tuple.")
        return reference[0], None if reference[1] is None else _number(reference[1])
    return _number(reference)


def _number(version: Any) -> int:
    if not hasattr(version, "__index__"):
        raise InvalidInputError(
            f"Version must be an int, a str or a (str, int) tuple, not {type(version).__name__}"
        )
    number: int = version.__index__()
    if number < 0:
        raise OverflowError("can't convert negative int to unsigned")
    return number


class _Refs:
    def __init__(self, dataset: LanceDataset) -> None:
        self._dataset = dataset

    @property
    def _ds(self) -> _glaive.Dataset:
        return self._dataset._ds

    def _reference(self, reference: Any) -> Any:
        return self._dataset.version if reference is None else checked_reference(reference)


class Tags(_Refs):
    """The tags of a dataset, those of all branches. A tagged version is kept by cleanup."""

    def list(self) -> dict[str, dict[str, Any]]:
        """All tags by name: branch (None: main), version, times, size of the manifest, metadata."""
        tags = _glaive.list_tags(self._ds)
        for tag in tags.values():
            for key in ("created_at", "updated_at"):
                tag[key] = _time(tag[key])
        return tags

    def list_ordered(self, order: str | None = None) -> _Ordered:
        """The tags by version, the highest first; `order` is "asc" or "desc"."""
        return sorted(self.list().items(), key=lambda item: item[1]["version"], reverse=_descending(order))

    def get_version(self, tag: str) -> int:
        """The version that the tag names."""
        return _glaive.tag_version(self._ds, tag)

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Names a version; by default that of the dataset. An existing tag is a `RefConflictError`."""
        _glaive.create_tag(self._ds, tag, self._reference(reference))

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Moves an existing tag."""
        _glaive.update_tag(self._ds, tag, self._reference(reference))

    def delete(self, tag: str) -> None:
        """Removes the tag. The version stays."""
        _glaive.delete_tag(self._ds, tag)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replaces the free text of the tag."""
        _glaive.replace_tag_metadata(self._ds, tag, dict(metadata))


class Branches(_Refs):
    """The branches of a dataset but main. `LanceDataset.create_branch` makes one."""

    def list(self) -> dict[str, dict[str, Any]]:
        """All branches by name: where each starts, its identifier, when it was made, metadata."""
        return _glaive.list_branches(self._ds)

    def list_ordered(self, order: str | None = None) -> _Ordered:
        """The branches by the version they start from, the highest first; `order` is "asc" or "desc"."""
        key = "parent_version"
        return sorted(self.list().items(), key=lambda item: item[1][key], reverse=_descending(order))

    def delete(self, branch: str) -> None:
        """Removes a branch with its versions and files.

        Raises while another branch starts from it or a tag names a version of it.
        """
        _glaive.delete_branch(self._ds, branch)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replaces the free text of the branch."""
        _glaive.replace_branch_metadata(self._ds, branch, dict(metadata))


def _descending(order: str | None) -> bool:
    if order not in (None, "asc", "desc"):
        raise InvalidInputError(f"Invalid sort order {order!r}. Valid values are: asc, desc")
    return order != "asc"


def _time(nanoseconds: int | None) -> datetime | None:
    if nanoseconds is None:
        return None
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
