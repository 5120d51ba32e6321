# SPDX-License-Identifier: Apache-2.0
"""Conflicts between writers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from glaive.errors import GlaiveError

__all__ = ["CommitConflictError", "CommitLock"]

CommitLock = Callable[[int], AbstractContextManager[object]]


class CommitConflictError(GlaiveError, OSError):
    """Another writer committed first.

    `retryable` tells whether doing the operation again on the latest version can succeed.
    """

    def __init__(self, message: str = "", retryable: bool = True) -> None:
        # One argument only: OSError would read two as (errno, strerror).
        super().__init__(message)
        self.retryable = retryable
