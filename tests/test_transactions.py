# SPDX-License-Identifier: Apache-2.0
"""Transactions both ways with pylance: each commits what the other made, and reads the same of it."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import glaive
from glaive import LanceOperation, Transaction
from glaive.bitmap import Bitmap
from glaive.commit import CommitConflictError
from glaive.errors import UnsupportedError

# Names of files, uuids and random numbers differ between two writes of the same data.
_RANDOM = {"path", "_path", "uuid", "file_size_bytes", "created_at"}


@pytest.fixture
def rows() -> pa.Table:
    return pa.table({"a": pa.array(range(30), pa.int64()), "b": [str(i) for i in range(30)]})


def both(rows: pa.Table, tmp_path: Path) -> tuple[Any, Any]:
    """The same table, once of glaive and once of pylance."""
    return (
        glaive.write_dataset(rows, tmp_path / "glaive.lance", max_rows_per_file=10),
        lance.write_dataset(rows, str(tmp_path / "pylance.lance"), max_rows_per_file=10),
    )


def plain(value: Any) -> Any:
    """An operation, or part of one, without what is random."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "to_pyarrow"):
        arrow = value.to_pyarrow()
        return [[f.id() for f in value.fields()], str(arrow.remove_metadata())]
    if type(value).__name__ in ("RowIdMeta", "RowDatasetVersionMeta"):
        return json.loads(value.json())
    if type(value).__name__ == "Bitmap":
        return list(value)
    if type(value).__name__ == "DeletionFile":
        return {k: v for k, v in value.asdict().items() if k != "id"}
    if hasattr(value, "__dataclass_fields__"):
        fields = {k: getattr(value, k) for k in value.__dataclass_fields__}
        return [type(value).__name__, {k: plain(v) for k, v in fields.items() if k not in _RANDOM}]
    return value


def assert_same(ours: Any, theirs: Any) -> None:
    """Both datasets hold the same, say the same of their last commit, and the other engine reads them."""
    assert ours.version == theirs.version
    mine = ours.read_transaction(ours.version)
    other = theirs.read_transaction(theirs.version)
    assert mine.read_version == other.read_version
    assert plain(mine.operation) == plain(other.operation)
    assert mine.transaction_properties == other.transaction_properties
    for opened in (lance.dataset(ours.uri), glaive.dataset(theirs.uri), ours, theirs):
        table = opened.to_table()
        assert table.schema.equals(theirs.to_table().schema, check_metadata=True)
        assert table.equals(theirs.to_table())
    crossed = lance.dataset(ours.uri).read_transaction(ours.version)
    assert plain(crossed.operation) == plain(other.operation)
    assert [f.fragment_id for f in ours.get_fragments()] == [f.fragment_id for f in theirs.get_fragments()]
    assert (ours.config(), ours.metadata, ours.schema_metadata) == (
        theirs.config(),
        theirs.metadata,
        theirs.schema_metadata,
    )


CHANGES: dict[str, Callable[[Any], Any]] = {
    "update_config": lambda ds: ds.update_config({"k": "v", "lance.x": ""}),
    "replace config": lambda ds: (ds.update_config({"k": "v"}), ds.update_config({"q": "w"}, replace=True)),
    "delete_config_keys": lambda ds: (ds.update_config({"k": "v"}), ds.delete_config_keys(["k", "zz"])),
    "delete by None": lambda ds: (ds.update_config({"k": "v"}), ds.update_config({"k": None})),
    "update_metadata": lambda ds: ds.update_metadata({"k": "v"}),
    "update_schema_metadata": lambda ds: ds.update_schema_metadata({"k": "v"}),
    "update_field_metadata": lambda ds: ds.update_field_metadata({"a": {"k": "v"}, "b": {"q": "w"}}),
    "drop_columns": lambda ds: ds.drop_columns(["b"]),
    "drop nothing": lambda ds: ds.drop_columns([]),
    "rename": lambda ds: ds.alter_columns({"path": "b", "name": "c"}),
    "swap": lambda ds: ds.alter_columns({"path": "a", "name": "b"}, {"path": "b", "name": "a"}),
    "not null": lambda ds: ds.alter_columns({"path": "a", "nullable": False}),
    "add null column": lambda ds: ds.add_columns(pa.field("c", pa.list_(pa.int32()))),
    "add null columns": lambda ds: ds.add_columns(
        pa.schema([pa.field("c", pa.int8()), pa.field("s", pa.struct({"x": pa.int8()}))])
    ),
    "drop and add": lambda ds: (ds.drop_columns(["b"]), ds.add_columns([pa.field("z", pa.float32())])),
    "restore": lambda ds: (ds.drop_columns(["b"]), ds.checkout_version(1).restore(), ds.checkout_latest()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_same_change_same_transaction(name: str, rows: pa.Table, tmp_path: Path) -> None:
    ours, theirs = both(rows, tmp_path)
    for ds in (ours, theirs):
        CHANGES[name](ds)
    assert_same(ours, theirs)


def commit(module: Any, ds: Any, operation: Any, **kwargs: Any) -> Any:
    return module.LanceDataset.commit(ds.uri, operation, read_version=ds.version, **kwargs)


def _append(module: Any, ds: Any) -> Any:
    fragments = [f.metadata for f in ds.get_fragments()[:1]]
    return commit(module, ds, module.LanceOperation.Append(fragments), commit_message="again")


def _overwrite(module: Any, ds: Any) -> Any:
    fragments = [f.metadata for f in ds.get_fragments()[1:]]
    return commit(module, ds, module.LanceOperation.Overwrite(ds.schema, fragments))


def _delete(module: Any, ds: Any) -> Any:
    updated = ds.get_fragments()[0].delete_rows([3, 5])
    return commit(module, ds, module.LanceOperation.Delete([updated], [2], "some"))


def _update(module: Any, ds: Any) -> Any:
    updated = ds.get_fragments()[0].delete_rows([3])
    new = ds.get_fragments()[2].metadata
    new.id = 0
    operation = module.LanceOperation.Update(
        removed_fragment_ids=[2], updated_fragments=[updated], new_fragments=[new], update_mode="rewrite_rows"
    )
    return commit(module, ds, operation)


def _merge(module: Any, ds: Any) -> Any:
    fragments = [f.metadata for f in ds.get_fragments()]
    return commit(module, ds, module.LanceOperation.Merge(fragments, ds.lance_schema))


def _project(module: Any, ds: Any) -> Any:
    ds.drop_columns(["b"])
    schema = ds.lance_schema
    ds.checkout_version(1).restore()
    ds.checkout_latest()
    return commit(module, ds, module.LanceOperation.Project(schema, preserves_nullability=True))


def _rewrite(module: Any, ds: Any) -> Any:
    first, _, third = (f.metadata for f in ds.get_fragments())
    new = type(first).from_json(json.dumps({**third.to_json(), "id": 0}))
    group = module.LanceOperation.RewriteGroup([first, third], [new, new])
    return commit(module, ds, module.LanceOperation.Rewrite([group], []))


def _replacement(module: Any, ds: Any) -> Any:
    file = ds.get_fragments()[2].metadata.files[0]
    group = module.LanceOperation.DataReplacementGroup(0, file)
    return commit(module, ds, module.LanceOperation.DataReplacement([group]))


def _config(module: Any, ds: Any) -> Any:
    op = module.LanceOperation
    operation = op.UpdateConfig(
        config_updates=op.UpdateMap({"k": "v", "z": None}),
        table_metadata_updates=op.UpdateMap({"t": "u"}, replace=True),
        schema_metadata_updates=op.UpdateMap({"s": "m"}),
        field_metadata_updates={0: op.UpdateMap({"f": "g"})},
    )
    return commit(module, ds, operation)


def _restore(module: Any, ds: Any) -> Any:
    ds.drop_columns(["b"])
    return commit(module, ds, module.LanceOperation.Restore(1))


def _index(module: Any, ds: Any) -> Any:
    homes = {"lance": "lance.dataset", "glaive": "glaive.indices"}
    index = __import__(homes[module.__name__], fromlist=["Index"]).Index
    entry = index(
        uuid="6b9f2b52-2f5d-4d4e-8f0e-9f8c2f6d3a11",
        name="a_idx",
        fields=[0],
        dataset_version=1,
        fragment_ids={0, 1, 2},
        index_version=0,
        covering_fields=[],
    )
    return commit(module, ds, module.LanceOperation.CreateIndex([entry], []))


COMMITS: dict[str, Callable[[Any, Any], Any]] = {
    "Append": _append,
    "Overwrite": _overwrite,
    "Delete": _delete,
    "Update": _update,
    "Merge": _merge,
    "Project": _project,
    "Rewrite": _rewrite,
    "DataReplacement": _replacement,
    "UpdateConfig": _config,
    "Restore": _restore,
    "CreateIndex": _index,
}


@pytest.mark.parametrize("name", COMMITS)
def test_same_commit_same_transaction(name: str, rows: pa.Table, tmp_path: Path) -> None:
    ours, theirs = both(rows, tmp_path)
    ours = COMMITS[name](glaive, ours)
    theirs = COMMITS[name](lance, theirs)
    assert_same(ours, theirs)
    assert type(ours.read_transaction(ours.version).operation).__name__ == name


@pytest.mark.parametrize("name", COMMITS)
def test_histories_go_on_in_the_other_engine(name: str, rows: pa.Table, tmp_path: Path) -> None:
    ours, theirs = both(rows, tmp_path)
    ours, theirs = COMMITS[name](glaive, ours), COMMITS[name](lance, theirs)
    more = rows.select(ours.schema.names).slice(0, 2)
    lance.write_dataset(more, ours.uri, mode="append")
    glaive.write_dataset(more, theirs.uri, mode="append")
    assert lance.dataset(ours.uri).to_table().equals(glaive.dataset(theirs.uri).to_table())
    assert glaive.dataset(ours.uri).to_table().equals(lance.dataset(theirs.uri).to_table())


def test_every_transaction_of_pylance_can_be_read(rows: pa.Table, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    ds = lance.write_dataset(rows, uri, max_rows_per_file=10, commit_message="hello")
    ds.delete("a = 3")
    ds.create_scalar_index("a", "BTREE")
    ds.update({"b": "'x'"}, where="a = 14")
    ds.add_columns({"c": "a + 1"})
    ds.alter_columns({"path": "c", "data_type": pa.int32()})
    ds.optimize.compact_files()
    ds.restore()
    opened = glaive.dataset(uri)
    kinds = [type(t.operation).__name__ for t in reversed(opened.get_transactions(100)) if t]
    assert kinds == [
        *("Overwrite", "Delete", "CreateIndex", "Update", "Merge", "Merge"),
        *("ReserveFragments", "Rewrite", "Restore"),
    ]
    for version in range(1, opened.version + 1):
        mine = opened.read_transaction(version)
        assert mine is not None
        assert pickle.loads(pickle.dumps(mine)) == mine
        try:
            other = ds.read_transaction(version)
        except TypeError:  # pylance cannot build its own RewrittenIndex
            continue
        assert (mine.uuid, mine.transaction_properties) == (other.uuid, other.transaction_properties)
        if type(other.operation).__name__ != "BaseOperation":
            assert plain(mine.operation) == plain(other.operation)
    assert opened.get_transactions(2) == [opened.read_transaction(v) for v in (opened.version, 8)]


def test_indices_of_pylance(rows: pa.Table, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    ds = lance.write_dataset(rows, uri, max_rows_per_file=10)
    ds.create_scalar_index("a", "BTREE")
    ds.create_scalar_index("b", "BITMAP", name="bits")
    ds.delete("a = 3")
    ds = lance.dataset(uri)
    opened = glaive.dataset(uri)
    assert opened.has_index
    assert plain(opened.list_indices()) == plain(ds.list_indices())
    names = (
        "name",
        "type_url",
        "index_type",
        "num_rows_indexed",
        "fields",
        "field_names",
        "total_size_bytes",
    )
    for mine, other in zip(opened.describe_indices(), ds.describe_indices(), strict=True):
        assert [getattr(mine, n) for n in names] == [getattr(other, n) for n in names]
        for segment, expected in zip(mine.segments, other.segments, strict=True):
            fields = [n for n in dir(expected) if not n.startswith("_")]
            assert [plain(getattr(segment, n)) for n in fields] == [
                plain(getattr(expected, n)) for n in fields
            ]
    # They survive our commits, and go with their column.
    opened.update_config({"k": "v"})
    opened.drop_columns(["b"])
    assert [i["name"] for i in lance.dataset(uri).list_indices()] == ["a_idx"]
    assert lance.dataset(uri).to_table(filter="a = 12").num_rows == 1


def test_stable_row_ids_where_no_id_is_given(rows: pa.Table, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows, uri, max_rows_per_file=10, enable_stable_row_ids=True)
    ds = glaive.dataset(uri)
    assert ds.has_stable_row_ids
    metadata = ds.get_fragments()[0].metadata
    assert metadata.row_id_meta is not None
    assert glaive.FragmentMetadata.from_json(json.dumps(metadata.to_json())) == metadata
    assert plain(metadata) == plain(lance.dataset(uri).get_fragments()[0].metadata)
    ds.update_config({"k": "v"})
    ds.add_columns(pa.field("c", pa.int8()))
    ds.drop_columns(["c"])
    updated = ds.get_fragments()[1].delete_rows([0])
    assert updated is not None
    operation = LanceOperation.Delete([updated], [], "a = 10")
    ds = glaive.LanceDataset.commit(ds, operation, read_version=ds.version)
    theirs = lance.dataset(uri)
    assert theirs.count_rows() == 29
    kept = theirs.to_table(with_row_id=True)
    assert kept["_rowid"].to_pylist() == [i for i in range(30) if i != 10]
    append = LanceOperation.Append([f.metadata for f in ds.get_fragments()])
    with pytest.raises(UnsupportedError, match="stable row ids"):
        glaive.LanceDataset.commit(ds, append, read_version=ds.version)
    glaive.dataset(uri, version=1).restore()
    assert lance.dataset(uri).count_rows() == 30


def test_batches_of_appends(rows: pa.Table, tmp_path: Path) -> None:
    ours, theirs = both(rows, tmp_path)
    for module, ds in ((glaive, ours), (lance, theirs)):
        fragments = [f.metadata for f in ds.get_fragments()]
        for fragment in fragments:
            fragment.id = 0
        transactions = [
            module.Transaction(1, module.LanceOperation.Append(fragments[:1])),
            module.Transaction(1, module.LanceOperation.Append(fragments[1:])),
        ]
        result = module.LanceDataset.commit_batch(ds.uri, transactions)
        assert result["dataset"].version == 2
        assert result["dataset"].count_rows() == 60
        merged = result["merged"]
        assert (merged.read_version, len(merged.operation.fragments)) == (1, 3)
    assert_same(glaive.dataset(ours.uri), lance.dataset(theirs.uri))
    # An id that is in use is replaced; pylance refuses it.
    again = LanceOperation.Append([f.metadata for f in ours.get_fragments()])
    appended = glaive.LanceDataset.commit(ours.uri, again, read_version=2)
    assert sorted(appended.fragment_ids()) == list(range(9))
    for bad, text in (
        ([], "No transactions to commit"),
        ([Transaction(1, LanceOperation.Restore(1))], "Only append transactions are supported"),
    ):
        with pytest.raises(OSError, match=text):
            glaive.LanceDataset.commit_batch(ours.uri, bad)


def test_arguments_of_commit(rows: pa.Table, tmp_path: Path) -> None:
    ds, _ = both(rows, tmp_path)
    fragments = [f.metadata for f in ds.get_fragments()]
    append = LanceOperation.Append(fragments)
    commit = glaive.LanceDataset.commit
    cases: list[tuple[type[BaseException], str, Callable[[], Any]]] = [
        (ValueError, "read_version is required", lambda: commit(ds.uri, append)),
        (TypeError, "fragments must be list", lambda: LanceOperation.Append(tuple(fragments))),  # type: ignore[arg-type]
        (TypeError, "operation must be", lambda: commit(ds.uri, 5, read_version=1)),  # type: ignore[arg-type]
        (TypeError, "base_uri must be", lambda: commit(5, append, read_version=1)),  # type: ignore[arg-type]
        (
            OSError,
            "must already exist unless the operation is Overwrite",
            lambda: commit(tmp_path / "no.lance", append, read_version=1),
        ),
        (OSError, "was not found", lambda: commit(ds.uri, append, read_version=99)),
        (
            ValueError,
            "commit_message is not supported",
            lambda: commit(ds.uri, Transaction(1, append), commit_message="x"),
        ),
        (UnsupportedError, "Clone", lambda: commit(ds, LanceOperation.Clone(True, None, 1, "x", None), 1)),
        (UnsupportedError, "DataOverlay", lambda: commit(ds, LanceOperation.DataOverlay([]), 1)),
        (TypeError, "str", lambda: commit(ds, LanceOperation.Delete([], [], 5), 1)),  # type: ignore[arg-type]
        (OSError, "was not found", lambda: ds.read_transaction(999)),
        (TypeError, "str", lambda: ds.update_config({"a": 5})),
        (OSError, "Field 'zz' not found", lambda: ds.update_field_metadata({"zz": {}})),
        (ValueError, "Column zz does not exist", lambda: ds.drop_columns(["zz"])),
        (ValueError, "all columns", lambda: ds.drop_columns(["a", "b"])),
        (ValueError, "path is required", lambda: ds.alter_columns({"name": "x"})),
        (ValueError, "At least one of", lambda: ds.alter_columns({"path": "a"})),
        (ValueError, "Unknown key: foo", lambda: ds.alter_columns({"path": "a", "foo": 1})),
        (OSError, "Duplicate field name", lambda: ds.alter_columns({"path": "a", "name": "b"})),
        (OSError, "must be nullable", lambda: ds.add_columns(pa.field("x", pa.int8(), nullable=False))),
    ]
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
    assert glaive.dataset(ds.uri).version == 1
    detached = commit(ds, LanceOperation.Overwrite(ds.schema, fragments[:1]), 1, detached=True)
    assert detached.version >= 1 << 63
    assert lance.dataset(ds.uri).checkout_version(detached.version).count_rows() == 10
    later = commit(ds.uri, LanceOperation.Overwrite(ds.schema, fragments))
    assert later.version == 2
    again = commit(tmp_path / "new.lance", LanceOperation.Overwrite(ds.schema, []))
    assert (again.version, lance.dataset(again.uri).count_rows()) == (1, 0)


def test_a_conflict_says_what_came_first(rows: pa.Table, tmp_path: Path) -> None:
    ds, _ = both(rows, tmp_path)
    other = lance.dataset(ds.uri)
    other.drop_columns(["b"])
    uuid = other.read_transaction(2).uuid
    with pytest.raises(
        CommitConflictError, match=f"(?s)Retryable commit conflict for version 2.*{uuid}"
    ) as e:
        ds.alter_columns({"path": "b", "name": "c"})
    assert e.value.retryable
    lance.write_dataset(rows, ds.uri, mode="overwrite")
    with pytest.raises(CommitConflictError, match="Incompatible transaction: This Append") as e:
        glaive.write_dataset(rows, ds, mode="append")
    assert not e.value.retryable


def _writer(module: str, uri: str, number: int, count: int) -> None:
    engine = __import__(module)
    for i in range(count):
        table = pa.table({"a": pa.array([1000 * number + i], pa.int64()), "b": ["x"]})
        engine.write_dataset(table, uri, mode="append")
        while True:
            try:
                engine.dataset(uri).update_config({f"k{number}": str(i)})
                break
            except OSError as error:
                if "onflict" not in str(error) and "contention" not in str(error):
                    raise


def test_processes_of_both_engines_race(rows: pa.Table, tmp_path: Path) -> None:
    uri = glaive.write_dataset(rows, tmp_path / "t.lance").uri
    context = multiprocessing.get_context("spawn")
    engines = (("glaive", 1), ("lance", 2), ("glaive", 3))
    writers = [context.Process(target=_writer, args=(m, str(uri), n, 5)) for m, n in engines]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    expected = sorted([*range(30), *(1000 * n + i for _, n in engines for i in range(5))])
    for engine in (glaive, lance):
        ds = engine.dataset(str(uri))
        assert sorted(ds.to_table()["a"].to_pylist()) == expected
        assert ds.config() == {"k1": "4", "k2": "4", "k3": "4"}
        assert ds.version == 31


def test_deletions_of_both_engines_are_merged(rows: pa.Table, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    stale = lance.write_dataset(rows, uri)
    ds = glaive.dataset(uri)
    updated = ds.get_fragments()[0].delete_rows([3])
    glaive.LanceDataset.commit(ds, LanceOperation.Delete([updated], [], "a = 3"), read_version=1)
    stale.delete("a = 4")
    kept = [i for i in range(30) if i not in (3, 4)]
    assert glaive.dataset(uri).to_table()["a"].to_pylist() == kept
    assert glaive.dataset(uri).get_fragments()[0].num_deletions == 2


@pytest.mark.parametrize("count", [1, 4999, 5000])
def test_deletion_files(count: int, tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array(range(6000), pa.int64())})
    uri = str(tmp_path / "t.lance")
    ds = glaive.write_dataset(rows, uri)
    updated = ds.get_fragments()[0].delete_rows(range(count))
    assert updated is not None
    assert updated.deletion_file is not None
    theirs = lance.write_dataset(rows, str(tmp_path / "l.lance")).get_fragments()[0].delete_rows(range(count))
    assert updated.deletion_file.file_type == theirs.deletion_file.file_type
    glaive.LanceDataset.commit(ds, LanceOperation.Delete([updated], [], ""), read_version=1)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == list(range(count, 6000))
    assert ds.get_fragments()[0].delete_rows(range(6000)) is None
    with pytest.raises(OSError, match="beyond the end"):
        ds.get_fragments()[0].delete_rows([6000])


def test_bitmaps_are_sets() -> None:
    bitmap = Bitmap([3, 1])
    bitmap.add(2)
    assert (list(bitmap), repr(bitmap), bitmap == {1, 2, 3}) == ([1, 2, 3], "Bitmap({1, 2, 3})", True)
    assert bitmap | {9} == {1, 2, 3, 9}
    assert bitmap.difference([1]) == {2, 3}
    assert pickle.loads(pickle.dumps(bitmap)) == bitmap
