# SPDX-License-Identifier: Apache-2.0
"""Everything that can be written, as a stream of record batches.

pandas, polars and `pyarrow.dataset` are recognised only when the program imported them already: an instance
cannot exist before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

__all__ = ["to_reader"]


def to_reader(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """A reader over `data`.

    `schema` is needed for iterables of batches, honoured for pandas, dicts and lists of dicts, and ignored
    where the data has a schema of its own. Raises `TypeError` for unknown types and `ValueError` for an
    iterable without `schema`.
    """
    reader = _reader(data, schema)
    if any(_holds_nested_struct(field.type) for field in reader.schema):
        return pa.RecordBatchReader.from_batches(reader.schema, map(without_offsets, reader))
    return reader


def without_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copies columns that hold a struct in a struct at an offset.

    The native import (arrow-data 59) slices the children of such a struct twice and panics.
    """
    columns = [
        pa.concat_arrays([column, column.slice(0, 0)])
        if _holds_nested_struct(column.type) and _is_offset(column)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_offset(array: pa.Array) -> bool:
    if isinstance(array, pa.ExtensionArray):
        return _is_offset(array.storage)
    if pa.types.is_struct(array.type):
        return bool(array.offset) or any(_is_offset(array.field(i)) for i in range(array.type.num_fields))
    if array.type.num_fields:  # a list: what it holds need not start at its own first value
        values = getattr(array, "values", None)
        return bool(array.offset) or (values is not None and _is_offset(values))
    return False


def _holds_nested_struct(kind: pa.DataType) -> bool:
    """Whether a struct lies directly below a struct or fixed-size list, at any depth."""
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_nested_struct(kind.storage_type)
    children = [kind.field(i).type for i in range(kind.num_fields)]
    nests = pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind)
    return any((nests and pa.types.is_struct(child)) or _holds_nested_struct(child) for child in children)


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if _is_a(data, "pyarrow.dataset", "Dataset"):
        return data.scanner().to_reader()
    if _is_a(data, "pyarrow.dataset", "Scanner"):
        return data.to_reader()
    if _is_a(data, "pandas", "DataFrame"):
        return pa.Table.from_pandas(data, schema=schema).to_reader()
    if _is_a(data, "polars", "DataFrame"):
        return data.to_arrow().to_reader()
    if _is_a(data, "polars", "LazyFrame"):
        raise _unknown_type(data)
    if isinstance(data, dict):
        return pa.Table.from_pydict(data, schema=schema).to_reader()
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return pa.Table.from_pylist(data, schema=schema).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, Iterable):
        return _from_iterable(data, schema)
    raise _unknown_type(data)


def _from_iterable(batches: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    if schema is None:
        raise ValueError("Must provide schema to write dataset from RecordBatch iterable")
    return pa.RecordBatchReader.from_batches(schema, _cast_batches(batches, schema))


def _cast_batches(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"Expected RecordBatch, got {type(batch)}")
        if batch.schema == schema:
            yield batch
        else:
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def _is_a(data: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    # A module that is only half imported, or shadowed by a user's file of that name, has no such class.
    cls = getattr(loaded, name, None)
    return isinstance(cls, type) and isinstance(data, cls)


def _unknown_type(data: Any) -> TypeError:
    return TypeError(
        f"Unknown data type {type(data)}. Supported: pyarrow Table, RecordBatch, RecordBatchReader, Dataset "
        "and Scanner, pandas and polars DataFrame, dict, list of dicts, an iterable of RecordBatch with a "
        "schema, and objects with __arrow_c_stream__."
    )
