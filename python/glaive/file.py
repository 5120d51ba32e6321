# SPDX-License-Identifier: Apache-2.0
"""Single Lance files."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from glaive import _glaive
from glaive.errors import InvalidInputError, unsupported
from glaive.types.inputs import to_reader

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ReaderResults",
    "stable_version",
]


def stable_version() -> str:
    """The file version that is written by default."""
    return _glaive.STABLE_VERSION


@dataclass(frozen=True)
class LanceBufferDescriptor:
    """Where a buffer is in the file, in bytes."""

    position: int
    size: int


@dataclass(frozen=True)
class LancePageMetadata:
    """One page: its buffers and a text of its encoding."""

    buffers: list[LanceBufferDescriptor]
    encoding: str


@dataclass(frozen=True)
class LanceColumnMetadata:
    """One column: its own buffers and its pages."""

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass(frozen=True)
class LanceFileMetadata:
    """What the footer and the metadata blocks of a file say; sizes in bytes."""

    major_version: int
    minor_version: int
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    columns: list[LanceColumnMetadata]
    schema: pa.Schema


@dataclass(frozen=True)
class LanceColumnStatistics:
    """How many pages a column has and how many bytes they take."""

    num_pages: int
    size_bytes: int


@dataclass(frozen=True)
class LanceFileStatistics:
    """Statistics of the columns in file order."""

    columns: list[LanceColumnStatistics]


class ReaderResults:
    """Rows that were asked for; reading starts with `to_batches` or `to_table`."""

    def __init__(self, scan: _glaive.Scan) -> None:
        self._scan = scan

    def to_batches(self) -> pa.RecordBatchReader:
        """A stream; can be taken once."""
        return self._scan.to_reader()

    def to_table(self) -> pa.Table:
        """All rows; can be taken once."""
        return self._scan.to_table()


class LanceFileReader:
    """Reads one file. `columns` restricts what is read."""

    def __init__(
        self,
        path: str | Path,
        storage_options: dict[str, str] | None = None,
        columns: list[str] | None = None,
        *,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
    ) -> None:
        if namespace_client is not None or table_id is not None:
            unsupported("LanceFileReader with a namespace")
        self._reader = _glaive.FileReader(os.fspath(path), columns)

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """All rows."""
        return self.read_range(0, self.num_rows(), batch_size=batch_size, batch_readahead=batch_readahead)

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Rows `start` to `start + num_rows`; `ValueError` beyond the end."""
        _check_batches(batch_size, batch_readahead)
        return ReaderResults(self._reader.read_range(start, num_rows, batch_size, batch_readahead))

    def take_rows(self, indices: Any, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Single rows; `indices` must ascend without repeats."""
        _check_batches(batch_size, batch_readahead)
        rows = [operator.index(i) for i in _plain(indices)]
        for first, second in zip(rows, rows[1:], strict=False):
            if second < first:
                raise InvalidInputError(
                    f"Indices must be sorted in ascending order for file API, got {first} > {second}"
                )
        return ReaderResults(self._reader.take_rows(rows, batch_size, batch_readahead))

    def num_rows(self) -> int:
        """Rows in the file."""
        return self._reader.num_rows

    def metadata(self) -> LanceFileMetadata:
        """Layout of the file."""
        raw = self._reader.metadata()
        return LanceFileMetadata(
            global_buffers=_buffers(raw.pop("global_buffers")),
            columns=[_column(column) for column in raw.pop("columns")],
            schema=self._reader.schema,
            **raw,
        )

    def file_statistics(self) -> LanceFileStatistics:
        """Pages and bytes of every column."""
        columns = self.metadata().columns
        return LanceFileStatistics([_statistics(column) for column in columns])

    def read_global_buffer(self, index: int) -> bytes:
        """A global buffer; 0 is the schema."""
        return self._reader.read_global_buffer(index)


class LanceFileWriter:
    """Writes one file; the schema is that of the first batch when not given.

    `alignment`: buffers start at multiples of 64 bytes, or of 4096 for direct I/O (`glaive.write_dataset`).

    Leaving a `with` block by an exception abandons the file.
    """

    def __init__(
        self,
        path: str | Path,
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        max_page_bytes: int | None = None,
        alignment: int = 64,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise TypeError(f"LanceFileWriter got an unexpected keyword argument {next(iter(kwargs))!r}")
        if namespace_client is not None or table_id is not None:
            unsupported("LanceFileWriter with a namespace")
        self._path = os.fspath(path)
        self._version = version
        self._data_cache_bytes = data_cache_bytes
        self._max_page_bytes = max_page_bytes
        self._alignment = alignment
        self._rows: int | None = None
        self._writer: _glaive.FileWriter | None = None
        self._pending_metadata: dict[str, str] = {}
        self._pending_buffers: list[bytes] = []
        _glaive.check_file_options(version, alignment)
        if schema is not None:
            self._open(schema)

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Appends rows."""
        self._check_open()
        writer = self._writer or self._open(batch.schema)
        writer.write(to_reader(batch))

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Adds an entry to the metadata of the schema."""
        self._check_open()
        if self._writer is None:
            self._pending_metadata[key] = value
        else:
            self._writer.add_schema_metadata(key, value)

    def add_global_buffer(self, data: bytes) -> int:
        """Adds a global buffer and returns its index (0 is the schema)."""
        self._check_open()
        if self._writer is None:
            self._pending_buffers.append(bytes(data))
            return len(self._pending_buffers)
        return self._writer.add_global_buffer(data)

    def close(self) -> int:
        """Completes the file and returns its rows; closing again returns them again."""
        if self._rows is None:
            if self._writer is None:
                raise InvalidInputError(
                    "No schema provided on writer open and no data provided. "
                    "Schema is unknown and file cannot be created"
                )
            self._rows = self._writer.finish()
        return self._rows

    def __enter__(self) -> LanceFileWriter:
        return self

    def __exit__(self, exc_type: object, *_exc: object) -> None:
        if exc_type is None:
            self.close()
        else:
            self._writer = None

    def _open(self, schema: pa.Schema) -> _glaive.FileWriter:
        writer = _glaive.FileWriter(
            self._path, schema, self._version, self._data_cache_bytes, self._max_page_bytes, self._alignment
        )
        for key, value in self._pending_metadata.items():
            writer.add_schema_metadata(key, value)
        for data in self._pending_buffers:
            writer.add_global_buffer(data)
        self._writer = writer
        return writer

    def _check_open(self) -> None:
        if self._rows is not None:
            raise InvalidInputError(f"The writer of {self._path} is closed")


def _plain(indices: Any) -> Any:
    return indices.to_pylist() if isinstance(indices, (pa.Array, pa.ChunkedArray)) else indices


def _check_batches(batch_size: int, batch_readahead: int) -> None:
    if batch_size < 1:
        raise InvalidInputError(f"batch_size must be greater than 0, got {batch_size}")
    if batch_readahead < 0:
        raise InvalidInputError(f"batch_readahead must be non-negative, got {batch_readahead}")


def _buffers(raw: list[tuple[int, int]]) -> list[LanceBufferDescriptor]:
    return [LanceBufferDescriptor(position, size) for position, size in raw]


def _column(raw: Any) -> LanceColumnMetadata:
    buffers, pages = raw
    return LanceColumnMetadata(
        _buffers(buffers), [LancePageMetadata(_buffers(page), encoding) for page, encoding in pages]
    )


def _statistics(column: LanceColumnMetadata) -> LanceColumnStatistics:
    sizes = [buffer.size for page in column.pages for buffer in page.buffers]
    sizes += [buffer.size for buffer in column.column_buffers]
    return LanceColumnStatistics(len(column.pages), sum(sizes))
