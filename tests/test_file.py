# SPDX-License-Identifier: Apache-2.0
"""glaive.file beside lance.file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import numpy as np
import pyarrow as pa
import pytest

import glaive.file

ENGINES = {"glaive": glaive.file, "pylance": lance.file}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "f.lance")


@pytest.fixture(params=["2.1", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("writer", ENGINES)
@pytest.mark.parametrize("reader", ENGINES)
def test_both_ways(writer: str, reader: str, version: str, table: pa.Table, path: str) -> None:
    with ENGINES[writer].LanceFileWriter(path, table.schema, version=version) as out:
        for batch in table.to_batches(max_chunksize=30):
            out.write_batch(batch)
        assert out.add_global_buffer(b"hello") == 1
        assert out.add_global_buffer(b"") == 2
        out.add_schema_metadata("key", "value")
    file = ENGINES[reader].LanceFileReader(path)
    assert file.num_rows() == 100
    assert file.read_all().to_table().equals(table)
    assert file.read_global_buffer(1) == b"hello"
    assert file.read_global_buffer(2) == b""
    assert file.metadata().schema.metadata == {b"key": b"value"}
    assert file.metadata().schema.equals(table.schema)


def test_ranges(table: pa.Table, path: str) -> None:
    with glaive.file.LanceFileWriter(path) as writer:  # the schema is that of the first batch
        writer.write_batch(table)
    reader = glaive.file.LanceFileReader(path)
    assert reader.read_range(30, 20).to_table() == table.slice(30, 20)
    assert reader.read_range(100, 0).to_table().num_rows == 0
    assert [b.num_rows for b in reader.read_all(batch_size=40).to_batches()] == [40, 40, 20]
    assert reader.take_rows([3, 9, 77]).to_table() == table.take([3, 9, 77])
    assert reader.take_rows(np.array([4])).to_table() == table.take([4])
    assert reader.take_rows(pa.array([], pa.int64())).to_table() == table.slice(0, 0)
    some = glaive.file.LanceFileReader(path, columns=["name", "st"])
    assert some.read_all().to_table() == table.select(["name", "st"])


def test_reader_arguments(table: pa.Table, path: str) -> None:
    with glaive.file.LanceFileWriter(path, table.schema) as writer:
        writer.write_batch(table)
    reader = glaive.file.LanceFileReader(path)
    calls = {
        r"cannot read Range\(95\.\.101\) from columns with 100 rows": lambda: reader.read_range(95, 6),
        "sorted in ascending order": lambda: reader.take_rows([3, 1]),
        "not strictly increasing": lambda: reader.take_rows([1, 1]),
        "cannot read row 100": lambda: reader.take_rows([100]),
        "global buffer 7": lambda: reader.read_global_buffer(7),
        "batch_size": lambda: reader.read_all(batch_size=0),
    }
    for text, call in calls.items():
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(OverflowError):
        reader.read_range(-1, 1)
    with pytest.raises(OSError, match="zz"):
        glaive.file.LanceFileReader(path, columns=["zz"])


def summary(metadata: Any) -> dict[str, Any]:
    names = ("major_version", "minor_version", "num_rows", "num_data_bytes", "num_column_metadata_bytes")
    return {name: getattr(metadata, name) for name in (*names, "num_global_buffer_bytes")} | {
        "global_buffers": [(b.position, b.size) for b in metadata.global_buffers],
        "columns": [
            (
                [(b.position, b.size) for b in column.column_buffers],
                [[(b.position, b.size) for b in page.buffers] for page in column.pages],
            )
            for column in metadata.columns
        ],
    }


@pytest.mark.parametrize("writer", ENGINES)
def test_metadata(writer: str, version: str, table: pa.Table, path: str) -> None:
    with ENGINES[writer].LanceFileWriter(path, table.schema, version=version) as out:
        out.write_batch(table)
        out.add_global_buffer(b"x" * 100)
    ours, theirs = glaive.file.LanceFileReader(path), lance.file.LanceFileReader(path)
    assert summary(ours.metadata()) == summary(theirs.metadata())
    assert all(page.encoding for column in ours.metadata().columns for page in column.pages)
    assert [(c.num_pages, c.size_bytes) for c in ours.file_statistics().columns] == [
        (c.num_pages, c.size_bytes) for c in theirs.file_statistics().columns
    ]


def test_close(table: pa.Table, path: str) -> None:
    writer = glaive.file.LanceFileWriter(path, table.schema)
    writer.write_batch(table)
    assert writer.close() == 100
    assert writer.close() == 100
    assert glaive.file.stable_version() == lance.file.stable_version()


def test_an_exception_abandons_the_file(table: pa.Table, path: str) -> None:
    def write() -> None:
        with glaive.file.LanceFileWriter(path, table.schema) as writer:
            writer.write_batch(table)
            raise KeyError("elsewhere")

    with pytest.raises(KeyError):
        write()
    with pytest.raises(OSError, match=r"f\.lance"):
        glaive.file.LanceFileReader(path)


@pytest.mark.parametrize("key", ["rle-threshold", "bss", "dict-divisor", "minichunk-size"])
def test_metadata_that_cannot_be_used(key: str, path: str, tmp_path: Path) -> None:
    field = pa.field("a", pa.int64(), metadata={f"lance-encoding:{key}": "nonsense"})
    data = pa.table([pa.array(range(10))], schema=pa.schema([field]))
    text = f"field 'a': metadata key 'lance-encoding:{key}' has the value 'nonsense'"
    with pytest.warns(UserWarning, match=text) as caught:
        glaive.write_dataset(data, tmp_path / "t.lance")
    assert [w.filename for w in caught if w.category is UserWarning] == [__file__]
    writer = glaive.file.LanceFileWriter(path)
    with pytest.warns(UserWarning, match=text) as caught:
        writer.write_batch(data)
    assert [w.filename for w in caught if w.category is UserWarning] == [__file__]
    writer.write_batch(data)
    writer.close()
    assert lance.file.LanceFileReader(path).num_rows() == 20


def test_unknown_compression(path: str) -> None:
    field = pa.field("a", pa.int64(), metadata={"lance-encoding:compression": "brotli"})
    with pytest.raises(ValueError, match="brotli"):
        glaive.file.LanceFileWriter(path, pa.schema([field]))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("alignment", [64, 4096])
def test_alignment(alignment: int, version: str, table: pa.Table, path: str, tmp_path: Path) -> None:
    with glaive.file.LanceFileWriter(path, version=version, alignment=alignment) as out:
        out.write_batch(table)
        out.add_global_buffer(b"hello")
    uri = str(tmp_path / "t.lance")
    dataset = glaive.write_dataset(table, uri, data_storage_version=version, alignment=alignment)
    (fragment,) = dataset.get_fragments()
    files = [path, f"{uri}/data/{fragment.data_files()[0].path}"]
    for name in files:
        metadata = lance.file.LanceFileReader(name).metadata()
        starts = [b.position for c in metadata.columns for p in c.pages for b in p.buffers]
        starts += [b.position for b in metadata.global_buffers]
        assert len(set(starts)) > len(table.column_names)
        assert [start % alignment for start in starts] == [0] * len(starts)
        assert lance.file.LanceFileReader(name).read_all().to_table().equals(table)
        assert glaive.file.LanceFileReader(name).read_all().to_table().equals(table)
    assert lance.file.LanceFileReader(path).read_global_buffer(1) == b"hello"
    assert lance.dataset(uri).take([3, 70]).equals(table.take([3, 70]))


@pytest.mark.parametrize("alignment", [-64, 0, 1, 100, 512, 8192])
def test_other_alignments(alignment: int, table: pa.Table, path: str, tmp_path: Path) -> None:
    text = f"alignment={alignment} is not possible; use 64, or 4096 for direct I/O"
    with pytest.raises(ValueError, match=text):
        glaive.file.LanceFileWriter(path, alignment=alignment)
    with pytest.raises(ValueError, match=text):
        glaive.write_dataset(table, tmp_path / "t.lance", alignment=alignment)
    assert list(tmp_path.iterdir()) == []


KEYS = [
    {"compression": "none"},
    {"compression": "zstd", "compression-level": "7", "bss": "on"},
    {"compression": "lz4", "bss": "off"},
    {"compression": "fsst", "dict-divisor": "100000"},
    {"structural-encoding": "fullzip", "compression": "zstd"},
    {"structural-encoding": "fullzip", "dict-divisor": "100000"},
    {"structural-encoding": "miniblock", "dict-values-compression": "none"},
    {"minichunk-size": "0", "rle-threshold": "0"},
    {"dict-values-compression": "zstd", "dict-values-compression-level": "5", "dict-size-ratio": "1"},
]


@pytest.mark.parametrize("writer", ENGINES)
@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_metadata_keys_both_ways(keys: dict[str, str], writer: str, version: str, path: str) -> None:
    rows = 2500
    arrays = {
        "ints": pa.array([i // 2 % 1000 * 70001 for i in range(rows)], pa.int32()),
        "floats": pa.array([1000 + i % 1000 / 7 for i in range(rows)]),
        "bools": pa.array([i % 3 == 0 for i in range(rows)]),
        "few": pa.array([f"the value number {i % 20}" for i in range(rows)]),
        "text": pa.array([None if i % 11 == 0 else f"text that repeats itself, {i}" for i in range(rows)]),
        "wide": pa.array([str(i) + "w" * 400 for i in range(rows)]),
        "huge": pa.array([str(i % 20) + "w" * 40_000 if i < 40 else "" for i in range(rows)]),
        "list": pa.array([[i, i + 1] for i in range(rows)]),
        "vector": pa.array([[i, i + 1, 0.5] for i in range(rows)], pa.list_(pa.float32(), 3)),
        "keyed": pa.array([f"{i % 90}" for i in range(rows)]).dictionary_encode(),
    }
    metadata = {f"lance-encoding:{key}": value for key, value in keys.items()}
    schema = pa.schema([pa.field(name, array.type, metadata=metadata) for name, array in arrays.items()])
    data = pa.table(list(arrays.values()), schema=schema)
    with ENGINES[writer].LanceFileWriter(path, schema, version=version) as out:
        out.write_batch(data)
    for reader in ENGINES.values():
        file = reader.LanceFileReader(path)
        assert file.read_all().to_table().to_pylist() == data.to_pylist()
        assert file.take_rows([7, 2499]).to_table().to_pylist() == data.take([7, 2499]).to_pylist()
