# SPDX-License-Identifier: Apache-2.0
"""Blob columns: large binary values that are stored outside of the pages of a data file.

    schema = pa.schema([pa.field("id", pa.int64()), glaive.blob_field("video")])
    table = pa.table([ids, glaive.blob_array([data, None, "s3://bucket/video.mp4"])], schema=schema)
    ds = glaive.write_dataset(table, "videos.lance")
    with ds.take_blobs("video", indices=[0])[0] as file:
        header = file.read(1024)

A scan returns descriptors of such a column; `blob_handling="all_binary"` returns the bytes.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from glaive import _glaive

__all__ = ["Blob", "BlobArray", "BlobFile", "BlobType", "blob_array", "blob_field"]

DEFAULT_BLOB_BUFFER_SIZE = 512 * 1024
_EXTENSION = "lance.blob.v2"
_STORAGE = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.utf8()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
    ]
)


@dataclass(frozen=True)
class Blob:
    """A value to write into a blob column: bytes, or the URI of an object outside of the dataset.

    `position` and `size` pick a part of that object. A null is `None`, an empty value `Blob.empty()`.
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.data is not None and self.uri is not None:
            raise ValueError("Blob cannot have both data and uri")
        if self.uri is not None and not self.uri:
            raise ValueError("Blob uri cannot be empty")
        if (self.position is None) != (self.size is None):
            raise ValueError("External blob must set both position and size, or neither")
        if self.position is not None and self.uri is None:
            raise ValueError("External packed blob must have a uri")
        if self.data is None and self.uri is None:
            raise ValueError("Blob must set `data` or `uri`; use None for a null blob")
        if self.size is not None and self.size <= 0:
            raise ValueError("External blob range size must be greater than zero")
        if self.position is not None and self.position < 0:
            raise ValueError("External blob range position must not be negative")

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """A value that is stored in the dataset."""
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """An object outside of the dataset, or a part of it."""
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """A value of no bytes, which is not null."""
        return Blob(data=b"")


class BlobType(pa.ExtensionType):
    """The type of a blob column as it is written: a struct of `data`, `uri`, maybe `position` and `size`."""

    def __init__(self, storage_type: pa.DataType = _STORAGE) -> None:
        super().__init__(storage_type, _EXTENSION)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BlobType:
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type:
        return BlobArray

    def __reduce__(self) -> tuple[Any, ...]:
        return (BlobType, (self.storage_type,))


class BlobArray(pa.ExtensionArray):
    """An array of values to write into a blob column."""

    @classmethod
    def from_pylist(cls, values: Iterable[Any]) -> BlobArray:
        """Of bytes, URIs (`str`), `Blob`s and `None`."""
        rows = [_row(value) for value in values]
        storage = pa.array(rows, _STORAGE)
        return pa.ExtensionArray.from_storage(BlobType(), storage)


def _row(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = Blob.from_bytes(value)
    elif isinstance(value, str):
        value = Blob.from_uri(value)
    elif not _is_blob(value):
        raise TypeError(f"BlobArray values must be bytes-like, str (URI), Blob, or None; got {type(value)}")
    return {"data": value.data, "uri": value.uri, "position": value.position, "size": value.size}


def _is_blob(value: Any) -> bool:
    """Also the `Blob` of pylance."""
    return isinstance(value, Blob) or (
        type(value).__name__ == "Blob" and all(hasattr(value, name) for name in _STORAGE.names)
    )


def blob_array(values: list[Any]) -> BlobArray:
    """An array for a blob column, of bytes, URIs (`str`), `Blob`s and `None`."""
    return BlobArray.from_pylist(values)


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """The field of a blob column.

    Values longer than `inline_size_threshold` bytes (default 64 KiB) leave the data file for one that many
    values share, which is full at `pack_file_size_threshold` (1 GiB); those longer than
    `dedicated_size_threshold` (4 MiB) get a file of their own.
    """
    metadata = {}
    thresholds = {
        "inline_size_threshold": (inline_size_threshold, 0, "non-negative"),
        "dedicated_size_threshold": (dedicated_size_threshold, 1, "positive"),
        "pack_file_size_threshold": (pack_file_size_threshold, 1, "positive"),
    }
    for option, (value, least, what) in thresholds.items():
        if value is None:
            continue
        if value < least:
            raise ValueError(f"{option} must be {what}")
        metadata[f"lance-encoding:blob-{option.replace('_', '-')}"] = str(value)
    return pa.field(name, BlobType(), nullable=nullable, metadata=metadata or None)


class _RawBlob(io.RawIOBase):
    """A blob as a file without a buffer."""

    def __init__(self, handle: _glaive.BlobHandle) -> None:
        self._handle = handle
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self._handle.size)
        data = self._handle.read(min(self._position, end), end)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        end = self._handle.size
        data = self._handle.read(min(self._position, end), end)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._handle.size}
        if whence not in starts:
            raise ValueError(f"Invalid whence: {whence}")
        position = starts[whence] + offset
        if position < 0:
            raise ValueError(f"negative seek value {position}")
        self._position = position
        return position

    def tell(self) -> int:
        return self._position


class BlobFile(io.BufferedIOBase):
    """A blob as a file open for reading. Nothing is read before the first `read`.

    `read_range` and `read_ranges` read parts without moving the position.
    """

    def __init__(self, inner: _glaive.BlobHandle, *, buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE) -> None:
        if buffer_size < 0:
            raise ValueError("buffer_size must be non-negative")
        self._handle = inner
        self._buffer_size = buffer_size
        self._buffered: io.BufferedReader | None = None

    def _file(self) -> io.BufferedReader:
        if self.closed:
            raise ValueError("read of closed file")
        if self._buffered is None:
            # A buffer larger than the blob would be wasted, and callers hold many of these.
            size = max(min(self._buffer_size, self._handle.size), 1)
            self._buffered = io.BufferedReader(_RawBlob(self._handle), size)
        return self._buffered

    def size(self) -> int:
        """Bytes of the blob."""
        return self._handle.size

    def read_range(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; `ValueError` beyond the end."""
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Parts given as (offset, length), near ones by one read; `ValueError` beyond the end."""
        self._file()
        return self._handle.read_ranges(ranges)

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes; all that is left by default."""
        return self._file().read(size)

    def read1(self, size: int = -1) -> bytes:
        """At most `size` bytes, by at most one read."""
        return self._file().read1(size)

    def readall(self) -> bytes:
        """All that is left."""
        return self._file().read()

    def readinto(self, buffer: Any) -> int:
        """Fills `buffer` and returns the number of bytes."""
        return self._file().readinto(buffer)

    def readinto1(self, buffer: Any) -> int:
        """Fills `buffer` by at most one read and returns the number of bytes."""
        return self._file().readinto1(buffer)

    def readline(self, size: int | None = -1) -> bytes:
        """A line."""
        return self._file().readline(-1 if size is None else size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position."""
        return self._file().seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self._file().tell()

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def close(self) -> None:
        """Lets go of the buffer."""
        self._buffered = None
        super().close()

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"


def _register() -> None:
    """Makes pyarrow know the type, unless pylance did so in this process."""
    with contextlib.suppress(pa.ArrowKeyError):
        pa.register_extension_type(BlobType())


_register()
