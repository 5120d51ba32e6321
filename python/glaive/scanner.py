# SPDX-License-Identifier: Apache-2.0
"""Scans: the options of a read, and the object that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads

from glaive import _glaive
from glaive.errors import InvalidInputError, unsupported

if TYPE_CHECKING:
    import pandas as pd

    from glaive.dataset import LanceDataset

__all__ = ["LanceScanner"]

MAX_BATCH_ROWS = 2**32 - 1

# Options that only steer how a scan runs: results are the same whatever they say.
_HINTS = frozenset(
    {
        "batch_readahead",
        "disable_scoring_autoprojection",
        "fast_search",
        "fragment_readahead",
        "io_buffer_size",
        "late_materialization",
        "prefilter",
        "scan_in_order",
        "use_scalar_index",
        "use_stats",
    }
)
# What pyarrow's own functions pass to any dataset.
_PYARROW_HINTS = frozenset({"use_threads", "fragment_scan_options", "memory_pool", "cache_metadata"})
_SUPPORTED = frozenset(
    {
        "batch_size",
        "blob_handling",
        "columns",
        "fragments",
        "limit",
        "offset",
        "with_row_address",
        "with_row_id",
    }
)
# Options that change the result and that this version cannot honour.
_UNSUPPORTED = {
    "filter": "filter",
    "nearest": "vector search (nearest)",
    "full_text_query": "full-text search (full_text_query)",
    "order_by": "order_by",
    "batch_size_bytes": "batch_size_bytes",
    "strict_batch_size": "strict_batch_size",
    "include_deleted_rows": "include_deleted_rows",
    "index_segments": "index_segments",
    "scan_stats_callback": "scan_stats_callback",
    "row_addr_allowlist": "row_addr_allowlist",
    "row_addr_blocklist": "row_addr_blocklist",
}
_BLOB_MODES = ("lazy", "bytes", "descriptions")
_ROW_ADDRESS = "_rowaddr"
_BLOB_HANDLING = ("all_binary", "blobs_descriptions", "all_descriptions")


class LanceScanner(pads.Scanner):
    """One scan of a dataset or of some of its fragments. It can be run any number of times."""

    def __init__(self, scanner: _Request, dataset: LanceDataset) -> None:
        self._request = scanner
        self._ds = dataset

    def to_reader(self) -> pa.RecordBatchReader:
        """The result as a stream."""
        return self._open().to_reader()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The result batch by batch; nothing is read before the first is asked for."""
        scan = self._open()
        while (batch := scan.next_batch()) is not None:
            yield batch

    def to_table(self) -> pa.Table:
        """The whole result."""
        # A table has no batches to be seen: it comes in pieces that are best for reading.
        return self._ds._ds.scan(**vars(self._request)).to_table()

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: Any) -> pd.DataFrame:
        """The whole result as a data frame; `kwargs` go to `pyarrow.Table.to_pandas`.

        `blob_mode` says what stands for blobs: "lazy" `BlobFile`s, "bytes" or "descriptions".
        """
        if blob_mode not in _BLOB_MODES:
            raise InvalidInputError("blob_mode must be one of: 'lazy', 'bytes', 'descriptions'")
        if blob_mode == "bytes":
            request = self._request.with_changes(blobs_as_bytes=True)
            return LanceScanner(request, self._ds).to_table().to_pandas(**kwargs)
        blobs = [field.name for field in self.projected_schema if _is_descriptor(field)]
        if blob_mode == "descriptions" or not blobs:
            return self.to_table().to_pandas(**kwargs)
        return self._to_pandas_lazy(blobs, kwargs)

    def _to_pandas_lazy(self, blobs: list[str], kwargs: dict[str, Any]) -> pd.DataFrame:
        has_address = _ROW_ADDRESS in self.projected_schema.names
        request = self._request if has_address else self._request.with_changes(with_row_address=True)
        table = LanceScanner(request, self._ds).to_table()
        addresses = table.column(_ROW_ADDRESS)
        frame = table if has_address else table.drop_columns([_ROW_ADDRESS])
        frame = frame.to_pandas(**kwargs)
        for name in blobs:
            files = self._ds.take_blobs(name, addresses=addresses)
            # Assigned one by one: pandas would look into a list of files.
            column = frame[name].astype(object)
            for row, file in enumerate(files):
                column.iat[row] = file
            frame[name] = column
        return frame

    def head(self, num_rows: int) -> pa.Table:
        """The first `num_rows` rows of the result."""
        limit = num_rows if self._request.limit is None else min(num_rows, self._request.limit)
        return LanceScanner(self._request.with_limit(limit), self._ds).to_table()

    def count_rows(self) -> int:
        """How many rows the result has, from the metadata alone."""
        request = self._request
        rows = max(self._ds._ds.count_rows(request.fragment_ids) - (request.offset or 0), 0)
        return rows if request.limit is None else min(rows, request.limit)

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._open().schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._ds.schema

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The result as an Arrow C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def explain_plan(self, verbose: bool = False) -> str:
        """Not implemented."""
        unsupported("explain_plan")

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Not implemented."""
        unsupported("analyze_plan")

    def scan_batches(self) -> NoReturn:
        """Not implemented."""
        unsupported("scan_batches")

    def take(self, indices: Any) -> NoReturn:
        """Not implemented: use `LanceDataset.take`."""
        raise NotImplementedError("take of a scanner: use LanceDataset.take")

    @staticmethod
    def from_batches(*args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented."""
        raise NotImplementedError("from_batches")

    @staticmethod
    def from_dataset(*args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented: use `LanceDataset.scanner`."""
        raise NotImplementedError("from_dataset: use LanceDataset.scanner")

    @staticmethod
    def from_fragment(*args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented: use `LanceFragment.scanner`."""
        raise NotImplementedError("from_fragment: use LanceFragment.scanner")

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle a LanceScanner: pickle the dataset")

    def _open(self) -> _glaive.Scan:
        batch_size = self._request.batch_size or _glaive.DEFAULT_BATCH_SIZE
        return self._ds._ds.scan(**{**vars(self._request), "batch_size": batch_size})


class _Request:
    """Checked scan options: its attributes are the arguments of `_glaive.Dataset.scan`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        _check_hints(options)
        columns = options.get("columns")
        self.columns = None if columns is None else check_columns(columns)
        self.limit = _count(options.get("limit"), "Limit")
        self.offset = _count(options.get("offset"), "Offset")
        self.batch_size = _batch_size(options.get("batch_size"))
        self.fragment_ids = _fragment_ids(options.get("fragments"))
        self.with_row_id = bool(options.get("with_row_id"))
        self.with_row_address = bool(options.get("with_row_address"))
        self.readahead = options.get("batch_readahead")
        self.blobs_as_bytes = options.get("blob_handling") == "all_binary"

    def with_limit(self, limit: int) -> _Request:
        """The same request with another limit."""
        return self.with_changes(limit=_count(limit, "Limit"))

    def with_changes(self, **attributes: Any) -> _Request:
        """The same request but for some attributes."""
        other = object.__new__(_Request)
        other.__dict__.update(self.__dict__, **attributes)
        return other


def scan_request(given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> _Request:
    """Checks options; what the call gives (and is not None) wins over `defaults`."""
    merged = {}
    for name, value in (defaults or {}).items():
        if name == "with_fragments":
            name = "fragments"
        if name not in _SUPPORTED and name not in _HINTS and name not in _UNSUPPORTED:
            raise InvalidInputError(f"Unknown option {name}")
        merged[name] = value
    merged.update({name: value for name, value in given.items() if value is not None})
    return _Request(merged)


def drop_pyarrow_hints(options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` without those that pyarrow passes to every dataset; others that are unknown raise."""
    kept = {name: value for name, value in options.items() if name not in _PYARROW_HINTS}
    for name in kept:
        if name not in _SUPPORTED and name not in _HINTS and name not in _UNSUPPORTED:
            raise TypeError(f"scanner() got an unexpected keyword argument {name!r}")
    return kept


def _check_hints(options: Mapping[str, Any]) -> None:
    for name, feature in _UNSUPPORTED.items():
        value = options.get(name)
        if value is not None and value is not False:
            unsupported(feature)
    readahead = options.get("batch_readahead")
    if readahead is not None and readahead <= 0:
        raise InvalidInputError("batch_readahead must be greater than 0")
    readahead = options.get("fragment_readahead")
    if readahead is not None and readahead < 0:
        raise InvalidInputError("fragment_readahead must be non-negative")
    handling = options.get("blob_handling")
    if handling is not None and handling not in _BLOB_HANDLING:
        raise InvalidInputError(f"Invalid blob_handling {handling!r}: one of {', '.join(_BLOB_HANDLING)}")


def _is_descriptor(field: pa.Field) -> bool:
    """Whether a column of a result holds whole descriptors of blobs."""
    is_blob = b"lance-encoding:blob" in (field.metadata or {})
    return is_blob and pa.types.is_struct(field.type) and {"position", "size"} <= set(field.type.names)


def check_columns(columns: Any) -> list[str]:
    """Column names of a projection, checked for type and duplicates."""
    if isinstance(columns, dict):
        unsupported("columns as expressions (a dict)")
    if not isinstance(columns, list):
        raise TypeError(f"columns must be a list or dict[name, expression], got {type(columns)}")
    seen = set()
    for name in columns:
        if not isinstance(name, str):
            raise TypeError(f"column names must be str, got {type(name)}")
        if name in seen:
            raise InvalidInputError(f"Duplicate column name: {name}")
        seen.add(name)
    return columns


def _count(value: Any, what: str) -> int | None:
    if value is None:
        return None
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be an int, got {type(value)}")
    value = value.__index__()
    if value < 0:
        raise InvalidInputError(f"{what} must be non-negative")
    return value


def _batch_size(value: Any) -> int | None:
    rows = _count(value, "batch_size")
    if rows is not None and not 1 <= rows <= MAX_BATCH_ROWS:
        raise InvalidInputError(f"batch_size must be between 1 and {MAX_BATCH_ROWS}, got {rows}")
    return rows


def _fragment_ids(fragments: Any) -> list[int] | None:
    if fragments is None:
        return None
    from glaive.fragment import LanceFragment

    ids = []
    for fragment in fragments:
        if not isinstance(fragment, LanceFragment):
            raise TypeError(f"fragments must be an iterable of LanceFragment, got {type(fragment)}")
        ids.append(fragment.fragment_id)
    return ids
