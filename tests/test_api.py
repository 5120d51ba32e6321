# SPDX-License-Identifier: Apache-2.0
"""The API of pylance, as far as it goes here: names, parameters, defaults, results and error classes."""

from __future__ import annotations

import copy
import datetime as dt
import inspect
import io
import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import glaive
from columns import differences
from glaive import _glaive, progress
from glaive.errors import DatasetNotFoundError, UnsupportedError
from glaive.fragment import FragmentMetadata
from glaive.schema import LanceSchema

# --- Writing and versions


def test_create_append_overwrite(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    assert (ds.version, ds.count_rows(), ds.uri) == (1, 100, uri)
    appended = glaive.write_dataset(table.slice(0, 10), uri, mode="append")
    assert (appended.version, len(appended)) == (2, 110)
    other = pa.table({"z": ["only"]})
    replaced = glaive.write_dataset(other, uri, mode="overwrite")
    assert (replaced.version, replaced.to_table().to_pydict()) == (3, {"z": ["only"]})
    assert ds.version == 1  # handles are snapshots
    assert ds.latest_version == 3
    assert glaive.dataset(uri, version=2).count_rows() == 110
    assert [v["version"] for v in replaced.versions()] == [1, 2, 3]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_modes_create_what_is_missing(mode: str, table: pa.Table, uri: str) -> None:
    assert glaive.write_dataset(table, uri, mode=mode).version == 1
    assert differences(glaive.dataset(uri).to_table(), table) == []


def test_fragment_ids_continue_after_overwrite(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri, max_rows_per_file=50)
    ds = glaive.write_dataset(table, uri, mode="overwrite")
    assert [f.fragment_id for f in ds.get_fragments()] == [2]


def test_rows_are_cut_exactly(uri: str) -> None:
    batches = pa.table({"a": range(10)}).to_batches(max_chunksize=2)
    ds = glaive.write_dataset(pa.Table.from_batches(batches), uri, max_rows_per_file=3)
    assert [f.count_rows() for f in ds.get_fragments()] == [3, 3, 3, 1]
    assert [b.num_rows for b in ds.to_batches(batch_size=2)] == [2, 1, 2, 1, 2, 1, 1]


def test_versions_say_what_they_hold(table: pa.Table, uri: str) -> None:
    before = dt.datetime.now()
    ds = glaive.write_dataset(table, uri, max_rows_per_file=40)
    (info,) = ds.versions()
    assert info == ds.get_version()
    assert before <= info["timestamp"] <= dt.datetime.now()
    assert info["timestamp"].tzinfo is None
    (theirs,) = lance.dataset(uri).versions()
    # pylance's time passes through a float.
    assert abs(info["timestamp"] - theirs["timestamp"]) <= dt.timedelta(microseconds=1)
    assert info["metadata"] == theirs["metadata"]


def test_asof(table: pa.Table, uri: str) -> None:
    first = glaive.write_dataset(table, uri)
    time.sleep(0.01)
    between = dt.datetime.now()
    time.sleep(0.01)
    glaive.write_dataset(table, uri, mode="append")
    assert glaive.dataset(uri, asof=between).version == 1
    assert glaive.dataset(uri, asof=pd.Timestamp(between)).version == 1
    assert glaive.dataset(uri, asof=dt.datetime.now()).version == 2
    assert glaive.dataset(uri, asof="2100-01-01 00:00:00").version == 2
    assert glaive.dataset(uri, version=2, asof=between).version == 2
    stamp = first.versions()[0]["timestamp"]
    with pytest.raises(ValueError, match="is earlier than the first version"):
        glaive.dataset(uri, asof=stamp)  # strictly earlier
    with pytest.raises(ValueError, match="2020"):
        glaive.dataset(uri, asof="2020")
    with pytest.raises(TypeError, match="Unrecognized version timestamp"):
        glaive.dataset(uri, asof=dt.date(2100, 1, 1))
    with pytest.raises(TypeError, match="offset-naive"):
        glaive.dataset(uri, asof=dt.datetime.now(dt.UTC))


def test_checkout(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    ds.insert(table)
    assert ds.version == 2
    old = ds.checkout_version(1)
    assert (old.version, ds.version, old.count_rows()) == (1, 2, 100)
    old.checkout_latest()
    assert old.version == 2
    with pytest.raises(OSError, match="was not found"):
        ds.checkout_version(9)
    with pytest.raises(OverflowError):
        ds.checkout_version(-1)
    with pytest.raises(ValueError, match="was not found"):
        glaive.dataset(uri, version=9)
    with pytest.raises(OSError, match="tag v1 does not exist"):
        ds.checkout_version("v1")


def test_a_handle_as_destination(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    new = glaive.write_dataset(table, ds, mode="append")
    assert (ds.version, new.version, new.uri) == (1, 2, uri)
    # An append does not conflict with another, also from a handle that stayed behind.
    third = glaive.write_dataset(table, ds, mode="append")
    assert (third.version, third.count_rows()) == (3, 300)


def test_appends_from_threads(uri: str) -> None:
    glaive.write_dataset(pa.table({"a": [0]}), uri)
    failed: list[BaseException] = []

    def append(i: int) -> None:
        try:
            glaive.write_dataset(pa.table({"a": [i]}), uri, mode="append")
        except BaseException as error:  # reported by the main thread
            failed.append(error)

    threads = [threading.Thread(target=append, args=(i,)) for i in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    ds = glaive.dataset(uri)
    assert ds.version == 9
    assert sorted(ds.to_table().column("a").to_pylist()) == list(range(9))


def test_empty_input(uri: str) -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.string()})
    ds = glaive.write_dataset(schema.empty_table(), uri)
    assert (ds.count_rows(), ds.get_fragments(), ds.schema) == (0, [], schema)
    assert ds.to_table() == schema.empty_table()
    assert list(ds.to_batches()) == []
    assert ds.take([]).schema == schema
    assert ds.head(3).num_rows == 0
    with pytest.raises(ValueError, match="ample"):
        ds.sample(1)
    with pytest.raises(OSError, match="0"):
        ds.take([0])
    assert glaive.write_dataset(schema.empty_table(), uri, mode="append").version == 2
    assert lance.dataset(uri).to_table() == schema.empty_table()


def test_metadata_survives(uri: str) -> None:
    field = pa.field("a", pa.int64(), metadata={b"unit": b"m"})
    schema = pa.schema([field, pa.field("b", pa.string(), nullable=False)], metadata={b"k": b"v"})
    ds = glaive.write_dataset(pa.table({"a": [1], "b": ["x"]}, schema=schema), uri)
    for read in (ds.schema, ds.to_table().schema, lance.dataset(uri).schema):
        assert read.equals(schema, check_metadata=True)
    assert ds.schema_metadata == {"k": "v"}


def test_storage_versions(table: pa.Table, tmp_path: Path) -> None:
    for given, stored in {None: "2.2", "stable": "2.2", "2.1": "2.1", "2.2": "2.2"}.items():
        ds = glaive.write_dataset(table, tmp_path / f"{given}.lance", data_storage_version=given)
        assert ds.data_storage_version == stored
    with pytest.raises(ValueError, match="Unknown Lance storage version: 9"):
        glaive.write_dataset(table, tmp_path / "x.lance", data_storage_version="9.9")
    with pytest.raises(NotImplementedError):
        glaive.write_dataset(table, tmp_path / "x.lance", data_storage_version="legacy")
    assert not (tmp_path / "x.lance").exists()


def test_commit_message(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(
        table,
        uri,
        commit_message="first",
        transaction_properties={"who": "me", "__lance_commit_message": "x"},
    )
    properties = lance.dataset(uri).read_transaction(1).transaction_properties
    assert properties == {"who": "me", "__lance_commit_message": "first"}
    with pytest.raises(TypeError):
        glaive.write_dataset(table, uri, mode="append", transaction_properties={"a": 1})


class Recorder(progress.FragmentWriteProgress):
    def __init__(self) -> None:
        self.calls: list[tuple[str, FragmentMetadata]] = []

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        self.calls.append(("begin", fragment))

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        self.calls.append(("complete", fragment))


def test_progress_of_files(table: pa.Table, uri: str) -> None:
    recorder = Recorder()
    ds = glaive.write_dataset(table, uri, max_rows_per_file=60, progress=recorder)
    assert [name for name, _ in recorder.calls] == ["begin", "complete"] * 2
    complete = [fragment for name, fragment in recorder.calls if name == "complete"]
    assert [f.physical_rows for f in complete] == [60, 40]
    assert [f.files for f in complete] == [f.metadata.files for f in ds.get_fragments()]
    glaive.write_dataset(table, uri, mode="append", progress=progress.NoopFragmentWriteProgress())


def test_progress_bar_is_for_terminals(table: pa.Table) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shows in ((io.StringIO(), False), (Terminal(), True)):
        with progress.ProgressBar("write", 100, delay=0, stream=stream) as bar:
            assert list(bar.watch(table.to_batches())) == table.to_batches()
        assert ("100%" in stream.getvalue()) is shows


# --- Inputs


def batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=30)


class OnlyStream:
    """An object of another library: nothing but the protocol."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


INPUTS = {
    "table": lambda t, tmp: t,
    "record batch": lambda t, tmp: t.to_batches()[0],
    "reader": lambda t, tmp: t.to_reader(max_chunksize=7),
    "dataset": lambda t, tmp: pads.dataset(t),
    "scanner": lambda t, tmp: pads.dataset(t).scanner(),
    "pandas": lambda t, tmp: t.drop_columns("st").to_pandas(),
    "polars": lambda t, tmp: pl.from_arrow(t),
    "dict": lambda t, tmp: t.to_pydict(),
    "list of dicts": lambda t, tmp: t.to_pylist(),
    "lance dataset": lambda t, tmp: glaive.write_dataset(t, tmp / "in.lance"),
    "lance scanner": lambda t, tmp: glaive.write_dataset(t, tmp / "in.lance").scanner(),
    "pylance dataset": lambda t, tmp: lance.write_dataset(t, str(tmp / "in.lance")),
    "duckdb": lambda t, tmp: duckdb.sql("select * from t order by id"),
    "stream": lambda t, tmp: OnlyStream(t),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs(name: str, table: pa.Table, uri: str, tmp_path: Path) -> None:
    ds = glaive.write_dataset(INPUTS[name](table, tmp_path), uri)
    expected = table.drop_columns("st") if name == "pandas" else table
    # Other libraries have their own string types and nulls; the rows are the same.
    if name == "pandas":
        assert ds.to_table().to_pandas().equals(expected.to_pandas())
    else:
        assert ds.to_table().to_pylist() == expected.to_pylist()
    assert lance.dataset(uri).to_table() == ds.to_table()


@pytest.mark.parametrize("wrap", [list, iter, tuple], ids=["list", "iterator", "tuple"])
def test_iterables_of_batches(wrap: Any, table: pa.Table, uri: str) -> None:
    with pytest.raises(ValueError, match="Must provide schema"):
        glaive.write_dataset(wrap(list(batches(table))), uri)
    ds = glaive.write_dataset(wrap(list(batches(table))), uri, schema=table.schema)
    assert ds.to_table() == table


def test_batches_are_cast_to_the_schema(uri: str) -> None:
    batch = pa.record_batch({"a": pa.array([1, 2], pa.int32())})
    ds = glaive.write_dataset([batch], uri, schema=pa.schema({"a": pa.int64()}))
    assert ds.to_table() == pa.table({"a": pa.array([1, 2], pa.int64())})


def test_schema_is_honoured_by_dicts(uri: str) -> None:
    schema = pa.schema({"a": pa.int16()})
    assert glaive.write_dataset({"a": [1]}, uri, schema=schema).schema == schema
    assert glaive.write_dataset([{"a": 2}], uri, schema=schema, mode="append").count_rows() == 2


@pytest.mark.parametrize("data", [3, object(), pl.LazyFrame({"a": [1]})], ids=lambda d: type(d).__name__)
def test_unknown_inputs(data: Any, uri: str) -> None:
    with pytest.raises(TypeError, match="Unknown data type"):
        glaive.write_dataset(data, uri)


@pytest.mark.parametrize("data", ["abc", [], np.arange(3)], ids=["text", "empty list", "numpy"])
def test_iterables_need_a_schema(data: Any, uri: str) -> None:
    with pytest.raises(ValueError, match="Must provide schema"):
        glaive.write_dataset(data, uri)


def test_an_empty_list_with_schema(uri: str) -> None:
    assert glaive.write_dataset([], uri, schema=pa.schema({"a": pa.int8()})).count_rows() == 0


def test_views_are_stored_as_strings(uri: str) -> None:
    table = pa.table({"a": pa.array(["x", None, "long enough to be elsewhere"], pa.string_view())})
    assert glaive.write_dataset(table, uri).to_table() == table.cast(pa.schema({"a": pa.string()}))
    binary = pa.table({"a": pa.array([b"x", None], pa.binary_view())})
    ds = glaive.write_dataset(binary, uri, mode="overwrite")
    assert ds.to_table() == binary.cast(pa.schema({"a": pa.binary()}))


def test_misaligned_buffers(tmp_path: Path, uri: str) -> None:
    import decimal

    values = [decimal.Decimal(i) / 4 for i in range(1000)]
    table = pa.table({"pad": pa.array([True]), "d": pa.array(values[:1], pa.decimal128(20, 2))})
    whole = pa.table({"pad": [True] * 1000, "d": pa.array(values, pa.decimal128(20, 2))})
    path = tmp_path / "t.arrow"
    options = pa.ipc.IpcWriteOptions()
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        for batch in whole.to_batches(max_chunksize=13):
            writer.write_batch(batch)
    with pa.memory_map(str(path)) as source:
        mapped = pa.ipc.open_file(source).read_all()
        assert any(chunk.buffers()[1].address % 16 for chunk in mapped.column("d").chunks), (
            "the file no longer has what this test is about"
        )
        ds = glaive.write_dataset(mapped, uri)
    assert ds.to_table() == whole
    assert lance.dataset(uri).to_table() == whole


def test_offsets_of_nested_structs_are_taken_off() -> None:
    """What the native import cannot take is copied, and nothing else is."""
    from glaive.types.inputs import without_offsets

    inner = pa.array([{"b": {"c": i}} for i in range(20)])
    shapes = {
        "struct": (inner, True),
        "flat struct": (pa.array([{"b": i} for i in range(20)]), False),
        "list": (pa.array([[{"b": {"c": i}}] for i in range(20)]), True),
        "fixed-size list": (
            pa.FixedSizeListArray.from_arrays(pa.array([{"c": i} for i in range(40)]), 2),
            True,
        ),
        "int": (pa.array(range(20)), False),
    }
    for name, (array, copied) in shapes.items():
        batch = pa.record_batch({"a": array.slice(3, 7)})
        out = without_offsets(batch)
        assert out == batch
        assert (out.column(0).offset == 0) is copied, name
        assert without_offsets(out).column(0).buffers() == out.column(0).buffers()
    deep = pa.StructArray.from_arrays([inner.slice(2, 5)], ["a"])
    assert _glaive.buffer_addresses(without_offsets(pa.record_batch({"x": deep})))


# --- Reading


def test_scan_options(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri, max_rows_per_file=30)
    assert ds.to_table(columns=["score", "id"]) == table.select(["score", "id"])
    assert ds.to_table(limit=7, offset=28) == table.slice(28, 7)
    assert ds.to_table(limit=0).num_rows == 0
    assert ds.to_table(offset=1000).num_rows == 0
    assert ds.head(3) == table.slice(0, 3)
    assert ds.slice(29, 31) == table.slice(29, 2)
    assert ds.to_table(columns=[]).num_rows == 100
    assert pa.Table.from_batches(ds.to_batches(), ds.schema) == table
    assert ds.scanner().to_reader().read_all() == table
    assert pa.table(ds) == table  # by __arrow_c_stream__
    assert ds.to_pandas().equals(table.to_pandas())
    assert ds.scanner(columns=["id"]).projected_schema.names == ["id"]
    assert ds.scanner(columns=["id"]).dataset_schema == table.schema
    assert ds.scanner(offset=95).count_rows() == 5
    assert ds.scanner(limit=9).head(4).num_rows == 4


def test_row_ids(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri, max_rows_per_file=60)
    ids = [*range(60), *((1 << 32) + i for i in range(40))]
    both = ds.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert both.column_names == ["id", "_rowid", "_rowaddr"]
    assert both.column("_rowid").to_pylist() == both.column("_rowaddr").to_pylist() == ids
    listed = ds.to_table(columns=["_rowaddr", "id", "_rowid"])
    assert listed.column_names == ["_rowaddr", "id", "_rowid"]
    assert listed.column("_rowid").type == pa.uint64()
    assert ds.scanner(columns=["_rowid", "id"]).to_reader().read_all().column_names == ["_rowid", "id"]
    assert listed == lance.dataset(uri).to_table(columns=["_rowaddr", "id", "_rowid"])
    taken = ds.take([61, 3], columns=["_rowid", "name"])
    assert taken.to_pydict() == {"_rowid": [(1 << 32) + 1, 3], "name": ["name 61", "name 3"]}


def test_nested_columns(table: pa.Table, uri: str) -> None:
    ds, theirs = glaive.write_dataset(table, uri), lance.dataset(uri)
    assert ds.to_table(columns=["st.y", "id"]) == theirs.to_table(columns=["st.y", "id"])
    assert ds.take([3, 1], columns=["st.x"]) == theirs.take([3, 1], columns=["st.x"])


def test_batches_never_cross_fragments(uri: str) -> None:
    ds = glaive.write_dataset(pa.table({"a": range(10)}), uri, max_rows_per_file=4)
    assert [b.num_rows for b in ds.to_batches(batch_size=3)] == [3, 1, 3, 1, 2]


def test_default_batch_size(uri: str) -> None:
    ds = glaive.write_dataset(pa.table({"a": range(30_000)}), uri)
    assert [b.num_rows for b in ds.to_batches()] == [8192, 8192, 8192, 5424]


def test_fragments_in_the_order_given(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri, max_rows_per_file=40)
    first, _, last = ds.get_fragments()
    got = ds.scanner(fragments=[last, first], columns=["id"]).to_table().column("id").to_pylist()
    assert got == [*range(80, 100), *range(40)]
    with pytest.raises(TypeError, match="LanceFragment"):
        ds.scanner(fragments=[1])


def test_scan_arguments(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    for columns in ("id", ("id",)):
        with pytest.raises(TypeError, match="columns must be a list or dict"):
            ds.to_table(columns=columns)
    with pytest.raises(ValueError, match="Duplicate column name: id"):
        ds.to_table(columns=["id", "id"])
    with pytest.raises(ValueError, match="No field named nope"):
        ds.to_table(columns=["nope"])
    with pytest.raises(ValueError, match="Limit must be non-negative"):
        ds.to_table(limit=-1)
    with pytest.raises(ValueError, match="Offset must be non-negative"):
        ds.to_table(offset=-1)
    with pytest.raises(TypeError):
        ds.to_table(limit=1.5)
    for size in (0, 2**32):
        with pytest.raises(ValueError, match="batch_size must be between"):
            ds.to_table(batch_size=size)
    with pytest.raises(ValueError, match="batch_readahead"):
        ds.to_table(batch_readahead=0)
    with pytest.raises(ValueError, match="fragment_readahead"):
        ds.to_table(fragment_readahead=-1)
    with pytest.raises(TypeError, match="zz"):
        ds.to_table(zz=1)
    assert sum(b.num_rows for b in ds.to_batches(zz=1)) == 100  # as pylance
    assert ds.scanner(use_threads=True, memory_pool=None).to_table() == table  # from pyarrow


def test_default_scan_options(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    ds = glaive.dataset(uri, default_scan_options={"with_row_id": True, "columns": ["id"], "limit": 5})
    assert ds.schema.names == ["id", "_rowid"]
    assert ds.to_table().num_rows == 5
    assert ds.to_table(limit=2, columns=["name"]).to_pydict() == {"name": [None, "name 1"], "_rowid": [0, 1]}
    assert ds.count_rows() == 100
    with pytest.raises(ValueError, match="Unknown option zzz"):
        glaive.dataset(uri, default_scan_options={"zzz": 1}).to_table()


def test_take(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri, max_rows_per_file=33)
    rows = [5, 1, 5, 99, 33, 32, 0, 5]
    for given in (rows, tuple(rows), np.array(rows), pa.array(rows), np.array(rows, np.uint8)):
        assert ds.take(given) == table.take(rows)
    assert ds.take(range(10, 40, 7)) == table.take(list(range(10, 40, 7)))
    assert ds.take([True]) == table.take([1])
    assert ds.take([5, 1], columns=["name"]) == table.select(["name"]).take([5, 1])
    assert ds.take([]) == table.slice(0, 0)
    fragment = ds.get_fragments()[1]
    assert fragment.take([1, 1, 5]) == table.take([34, 34, 38])


def test_take_arguments(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    with pytest.raises(OSError, match="100"):
        ds.take([3, 100])
    with pytest.raises(OverflowError):
        ds.take([-1])
    for wrong in ([1.5], "ab", None, ["1"], 3):
        with pytest.raises(TypeError):
            ds.take(wrong)
    with pytest.raises(ValueError, match="No field named nope"):
        ds.take([1], columns=["nope"])
    with pytest.raises(OSError, match="column"):
        ds.take([1], columns=[])
    fragment = ds.get_fragments()[0]
    with pytest.raises(OSError, match="not strictly increasing"):
        fragment.take([3, 1])
    with pytest.raises(OSError, match="beyond the end"):
        fragment.take([100])
    with pytest.raises(OverflowError):
        fragment.take([-1])


def test_sample(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    ids = ds.sample(50).column("id").to_pylist()
    assert len(set(ids)) == 50
    ordered = ds.sample(50, columns=["id"], randomize_order=False).column("id").to_pylist()
    assert ordered == sorted(set(ordered))
    with pytest.raises(ValueError, match="ample larger"):
        ds.sample(101)


def test_slice_arguments(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    with pytest.raises(ValueError, match="start must be non-negative"):
        ds.slice(-1, 3)
    with pytest.raises(ValueError, match="must be >= start"):
        ds.slice(3, 2)


def test_duckdb_and_polars_read(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    assert duckdb.sql("select sum(id) from ds").fetchall() == [(4950,)]
    assert pl.from_arrow(ds.to_table()).height == 100
    assert pl.scan_pyarrow_dataset(ds).select("name").collect().height == 100


def test_pyarrow_writes_it(table: pa.Table, uri: str, tmp_path: Path) -> None:
    ds = glaive.write_dataset(table, uri)
    pads.write_dataset(ds.scanner().to_reader(), tmp_path / "parquet", format="parquet")
    assert pads.dataset(tmp_path / "parquet").to_table() == table


# --- Fragments and schema


def test_fragments(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri, max_rows_per_file=70)
    theirs = lance.dataset(uri)
    for ours, other in zip(ds.get_fragments(), theirs.get_fragments(), strict=True):
        assert ours.metadata.to_json() == other.metadata.to_json()
        assert ours.fragment_id == other.fragment_id
        assert ours.physical_rows == other.physical_rows == ours.count_rows()
        assert (ours.num_deletions, ours.deletion_file()) == (0, None)
        assert ours.to_table() == other.to_table()
        assert ours.head(2) == other.head(2)
        assert [b.num_rows for b in ours.to_batches(batch_size=50)] == [
            b.num_rows for b in other.to_batches(batch_size=50)
        ]
        assert ours.to_table(columns=["id"], limit=3, offset=1, with_row_id=True) == other.to_table(
            columns=["id"], limit=3, offset=1, with_row_id=True
        )
    assert ds.get_fragment(1).fragment_id == 1
    assert ds.get_fragment(7) is None
    with pytest.raises(OverflowError):
        ds.get_fragment(-1)
    with pytest.raises(ValueError, match="does not support filter"):
        ds.get_fragments(filter="id > 1")
    with pytest.raises(ValueError, match="Fragment 7 does not exist"):
        glaive.LanceFragment(ds, 7)


def test_fragment_metadata_round_trip(table: pa.Table, uri: str) -> None:
    import json

    metadata = glaive.write_dataset(table, uri).get_fragments()[0].metadata
    assert FragmentMetadata.from_json(json.dumps(metadata.to_json())) == metadata
    assert metadata.num_rows == 100
    file = metadata.files[0]
    assert file.path == file.path()
    assert (Path(uri) / "data" / file.path).stat().st_size == file.file_size_bytes
    assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_lance_schema(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    theirs = lance.dataset(uri).lance_schema

    def shape(fields: Any) -> list[Any]:
        return [(f.name(), f.id(), shape(f.children())) for f in fields]

    schema = ds.lance_schema
    assert shape(schema.fields()) == shape(theirs.fields())
    assert schema.to_pyarrow() == table.schema
    assert schema == LanceSchema.from_pyarrow(table.schema)
    assert schema.field("st.y").id() == theirs.field("st.y").id()
    assert schema.field("st.z") is None
    assert schema.field_case_insensitive("ST.Y").name() == "y"
    assert pickle.loads(pickle.dumps(schema)) == schema


# --- The object


def test_classes(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    assert isinstance(ds, pads.Dataset)
    assert isinstance(ds.get_fragments()[0], pads.Fragment)
    assert isinstance(ds.scanner(), pads.Scanner)
    assert callable(glaive.dataset)
    from glaive.dataset import LanceDataset

    assert callable(glaive.dataset)
    assert type(ds) is LanceDataset is glaive.LanceDataset


@pytest.mark.parametrize("kind", ["LanceDataset", "LanceFragment", "LanceScanner"])
def test_nothing_inherited_is_left(kind: str) -> None:
    """Every member of pyarrow's class is overridden: behind it would be an uninitialised C++ object."""
    cls = getattr(glaive, kind)
    base = next(c for c in cls.__mro__ if c.__module__.startswith("pyarrow"))
    left = [
        name
        for name in vars(base)
        if getattr(cls, name) is getattr(base, name) and (not name.startswith("__") or name == "__reduce__")
    ]
    assert [name for name in left if name not in ("__reduce_cython__", "__setstate_cython__")] == []


def test_inherited_methods_raise(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    for call in (
        lambda: ds.sort_by("id"),
        lambda: ds.join(ds, "id"),
        lambda: ds.join_asof(ds, "id", "id", 1),
        lambda: ds.filter(pads.field("id") > 1),
        lambda: ds.replace_schema(ds.schema),
        lambda: ds.partition_expression,
        lambda: ds.get_fragments()[0].partition_expression,
        lambda: ds.get_fragments()[0].physical_schema,
        lambda: ds.scanner().take([1]),
        lambda: glaive.LanceScanner.from_dataset(ds),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_what_comes_later_says_so(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    calls = {
        "filter": lambda: ds.to_table(filter="id > 3"),
        "order_by": lambda: ds.to_table(order_by=["id"]),
        "nearest": lambda: ds.to_table(nearest={}),
        "expressions": lambda: ds.to_table(columns={"a": "id + 1"}),
        "LanceDataset.delete": lambda: ds.delete("id > 3"),
        "add_columns with values": lambda: ds.add_columns({"x": "1"}),
        "alter_columns": lambda: ds.alter_columns({"path": "id", "data_type": pa.int32()}),
        "LanceDataset.delta": lambda: ds.delta(1),
        "enable_stable_row_ids": lambda: glaive.write_dataset(
            table, uri, mode="append", enable_stable_row_ids=True
        ),
        "namespace_client": lambda: glaive.dataset(uri, namespace_client=object()),
        "count_rows with a filter": lambda: ds.count_rows("id > 3"),
    }
    for feature, call in calls.items():
        with pytest.raises(UnsupportedError, match=feature):
            call()
    with pytest.raises(TypeError, match="commit_lock"):
        glaive.dataset(uri, commit_lock=3)
    assert glaive.dataset(uri).version == 1


def test_every_member_of_pylance_is_known() -> None:
    for name in ("LanceDataset", "LanceFragment", "LanceScanner"):
        missing = {m for m in dir(getattr(lance, name)) if not m.startswith("_")} - set(
            dir(getattr(glaive, name))
        )
        assert missing == set()


@pytest.mark.parametrize(
    "name",
    [
        *("dataset", "write_dataset", "LanceDataset", "LanceDataset.scanner", "LanceDataset.to_table"),
        *("LanceDataset.to_batches", "LanceDataset.to_pandas", "LanceDataset.head", "LanceDataset.take"),
        *("LanceDataset.sample", "LanceDataset.slice", "LanceDataset.insert", "LanceDataset.count_rows"),
        *("LanceDataset.checkout_version", "LanceDataset.get_fragments", "LanceDataset.get_fragment"),
        *("LanceFragment.scanner", "LanceFragment.take", "LanceFragment.count_rows", "LanceScanner.head"),
    ],
)
def test_signatures(name: str) -> None:
    """Parameters have pylance's names, order and defaults; more may follow."""

    def parameters(module: Any) -> list[tuple[str, Any]]:
        value = module
        for part in name.split("."):
            value = getattr(value, part)
        found = inspect.signature(value).parameters.values()
        return [(p.name, p.default) for p in found if p.kind is not p.VAR_KEYWORD]

    theirs = parameters(lance)
    assert parameters(glaive)[: len(theirs)] == theirs


def test_pickle_and_copy(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    glaive.write_dataset(table, uri, mode="append")
    for twin in (pickle.loads(pickle.dumps(ds)), copy.copy(ds), copy.deepcopy(ds)):
        assert (twin.version, twin.uri) == (1, uri)
        assert twin.to_table() == table
    fragment = pickle.loads(pickle.dumps(ds.get_fragments()[0]))
    assert fragment.to_table() == table
    with pytest.raises(TypeError):
        pickle.dumps(ds.scanner())


def test_uris(table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in (
        "plain.lance",
        "a b ü %20.lance/",
        "file://" + str(tmp_path / "file.lance"),
        "~/home.lance",
    ):
        assert glaive.write_dataset(table, given).uri == given
        assert lance.dataset(given).count_rows() == glaive.dataset(given).count_rows() == 100
    assert sorted(os.listdir(tmp_path)) == ["a b ü %20.lance", "file.lance", "home.lance", "plain.lance"]
    with pytest.raises(ValueError, match="foo"):
        glaive.dataset("foo://x")
    with pytest.raises(DatasetNotFoundError):
        glaive.dataset(tmp_path)
    for wrong in (3, b"x", None):
        with pytest.raises((TypeError, ValueError)):
            glaive.dataset(wrong)
    with pytest.raises(TypeError, match="dest must be"):
        glaive.write_dataset(table, 12)


def test_scans_run_in_threads(uri: str) -> None:
    table = pa.table({"a": range(100_000)})
    ds = glaive.write_dataset(table, uri, max_rows_per_file=10_000)
    wrong: list[int] = []

    def read(i: int) -> None:
        if ds.take([i * 1000]).column("a").to_pylist() != [i * 1000] or ds.to_table() != table:
            wrong.append(i)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
