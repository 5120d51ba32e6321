# SPDX-License-Identifier: Apache-2.0
"""What glaive raises, classed by what a caller can do about it.

Every class also derives from the built-in that programs written for pylance catch there. The native module
maps its error kinds to these classes, and to `glaive.commit.CommitConflictError`, in one place
(`python/src/errors.rs`).
"""

from __future__ import annotations

from typing import NoReturn

__all__ = [
    "CorruptFileError",
    "DatasetAlreadyExistsError",
    "DatasetNotFoundError",
    "FileMissingError",
    "GlaiveError",
    "InvalidInputError",
    "InvalidWriteError",
    "IoError",
    "OutOfBoundsError",
    "RefConflictError",
    "RefNotFoundError",
    "SchemaMismatchError",
    "UnsupportedError",
]


class GlaiveError(Exception):
    """Base class of all errors of this package."""


class DatasetNotFoundError(GlaiveError, FileNotFoundError, ValueError):
    """There is no dataset, or not this version of it, at the given place."""


class FileMissingError(GlaiveError, FileNotFoundError, ValueError):
    """A file that was named by the caller or by a dataset does not exist."""


class DatasetAlreadyExistsError(GlaiveError, FileExistsError):
    """`mode="create"` at a place that holds a dataset."""


class InvalidInputError(GlaiveError, ValueError):
    """An argument is wrong."""


class InvalidWriteError(InvalidInputError, OSError):
    """What was given to a write cannot be stored."""


class OutOfBoundsError(InvalidInputError, OSError):
    """A row position lies beyond the end."""


class RefNotFoundError(DatasetNotFoundError):
    """There is no such tag, branch or version."""


class RefConflictError(GlaiveError, FileExistsError, ValueError):
    """A tag or branch of this name exists already."""


class SchemaMismatchError(GlaiveError, OSError, ValueError):
    """Data does not fit the schema of the dataset or file."""


class CorruptFileError(GlaiveError, OSError, ValueError):
    """Stored bytes break the rules of the format."""


class UnsupportedError(GlaiveError, NotImplementedError, OSError, ValueError):
    """A legal feature that this version does not implement."""


class IoError(GlaiveError, OSError):
    """The operating system, the store or an input stream failed."""


def unsupported(feature: str) -> NoReturn:
    """Raises `UnsupportedError` for a feature that a later version will have."""
    raise UnsupportedError(f"Not supported: {feature} is not implemented in this version of glaive")
