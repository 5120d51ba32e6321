# SPDX-License-Identifier: Apache-2.0
"""Tags and branches, both ways with pylance."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import glaive
from glaive.errors import InvalidInputError, RefConflictError, RefNotFoundError, UnsupportedError

NAMES = json.loads((Path(__file__).parent / "data" / "refs" / "ref_names.json").read_text())
ENGINES = {"glaive": glaive, "pylance": lance}


@pytest.fixture
def versions(table: pa.Table, uri: str) -> str:
    """A dataset of three versions with 100, 200 and 300 rows."""
    for _ in range(3):
        glaive.write_dataset(table, uri, mode="append")
    return uri


def error_of(action: Any, *args: Any) -> Exception | None:
    try:
        action(*args)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("case", NAMES, ids=[repr(case["name"]) for case in NAMES])
def test_names(case: dict[str, str], versions: str) -> None:
    ds = glaive.dataset(versions)
    for kind, action in {"tag": ds.tags.create, "branch": ds.create_branch}.items():
        error = error_of(action, case["name"])
        expected = case[kind]
        if not case["name"].isascii():
            expected = "OSError"
        if expected == "ok":
            assert error is None, (kind, error)
        else:
            assert isinstance(error, OSError), (kind, error)
            if len(case["name"]) > 200:
                assert "File name too long" in str(error)
            elif case["name"].isascii():
                assert expected.removeprefix("OSError: ") in str(error)
            else:
                assert "Ref is invalid" in str(error)


@pytest.mark.parametrize("writer", ENGINES)
def test_tags_both_ways(writer: str, versions: str) -> None:
    ds = ENGINES[writer].dataset(versions)
    ds.tags.create("first", 1)
    ds.tags.create("second", ("main", 2))
    ds.tags.create("newest")
    ds.tags.create("copy", "first")
    ds.tags.update("copy", 2)
    ds.tags.replace_metadata("copy", {"why": "test"})
    ds.tags.create("gone", 1)
    ds.tags.delete("gone")
    listed = {name: engine.dataset(versions).tags.list() for name, engine in ENGINES.items()}
    assert listed["glaive"] == listed["pylance"]
    found = listed["glaive"]
    assert {name: tag["version"] for name, tag in found.items()} == {
        "first": 1,
        "second": 2,
        "newest": 3,
        "copy": 2,
    }
    assert found["copy"]["metadata"] == {"why": "test"}
    assert found["copy"]["updated_at"] > found["copy"]["created_at"]
    for engine in ENGINES.values():
        ds = engine.dataset(versions)
        assert ds.tags.get_version("second") == 2
        assert ds.checkout_version("first").count_rows() == 100
        assert engine.dataset(versions, version="copy").version == 2
        versions_of = [tag["version"] for _, tag in ds.tags.list_ordered("asc")]
        assert versions_of == [1, 2, 2, 3]


def test_tag_files_have_the_same_bytes(versions: str) -> None:
    texts = []
    for engine in ENGINES.values():
        engine.dataset(versions).tags.create("t", 2)
        path = Path(versions) / "_refs" / "tags" / "t.json"
        text = path.read_text()
        stored = json.loads(text)
        for key in ("createdAt", "updatedAt"):
            assert len(stored[key]) == len("2026-11-20T03:21:53.888485238Z")
            text = text.replace(stored[key], "TIME")
        texts.append(text)
        path.unlink()
    assert texts[0] == texts[1]


def test_errors_of_tags(versions: str) -> None:
    tags = glaive.dataset(versions).tags
    tags.create("t", 1)
    for error, text, action in [
        (RefConflictError, "Ref conflict error: tag t already exists", lambda: tags.create("t", 1)),
        (
            RefNotFoundError,
            "Version not found error: version main:99 does not exist",
            lambda: tags.create("u", 99),
        ),
        (RefNotFoundError, "version main:99 does not exist", lambda: tags.update("t", 99)),
        (RefNotFoundError, "version zz:1 does not exist", lambda: tags.create("u", ("zz", 1))),
        (
            RefNotFoundError,
            "Ref not found error: tag no does not exist",
            lambda: tags.create("u", "no"),
        ),
        (RefNotFoundError, "tag no does not exist", lambda: tags.get_version("no")),
        (RefNotFoundError, "tag no does not exist", lambda: tags.update("no", 1)),
        (RefNotFoundError, "tag no does not exist", lambda: tags.delete("no")),
        (RefNotFoundError, "tag no does not exist", lambda: tags.replace_metadata("no", {})),
        (
            InvalidInputError,
            "Invalid sort order 'x'. Valid values are: asc, desc",
            lambda: tags.list_ordered("x"),
        ),
        (InvalidInputError, "Version must be an int", lambda: tags.create("u", 1.5)),
        (OverflowError, "negative", lambda: tags.create("u", -1)),
    ]:
        with pytest.raises(error, match=text) as caught:  # type: ignore[call-overload]
            action()
        assert isinstance(caught.value, ValueError | OverflowError)
    assert set(tags.list()) == {"t"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": -1, "manifestSize": 1}', '{"version": "1", "manifestSize": 1}']
)
def test_damaged_tags_are_named(text: str, versions: str) -> None:
    directory = Path(versions) / "_refs" / "tags"
    directory.mkdir(parents=True)
    (directory / "bad.json").write_text(text)
    ds = glaive.dataset(versions)
    with pytest.raises(glaive.errors.CorruptFileError, match=r"bad\.json"):
        ds.tags.list()


def test_tags_of_old_writers(versions: str) -> None:
    directory = Path(versions) / "_refs" / "tags"
    directory.mkdir(parents=True)
    (directory / "old.json").write_text('{"version":1,"manifestSize":246,"later":[]}')
    ds = glaive.dataset(versions)
    assert ds.tags.list()["old"] == lance.dataset(versions).tags.list()["old"]
    ds.tags.update("old", 2)
    assert lance.dataset(versions).tags.get_version("old") == 2


@pytest.mark.parametrize("writer", ENGINES)
def test_branches_both_ways(writer: str, versions: str, table: pa.Table) -> None:
    write = ENGINES[writer].write_dataset
    ds = ENGINES[writer].dataset(versions)
    branch = ds.create_branch("dev/x", 2)
    assert branch.version == 2
    assert branch.uri == f"{versions}/tree/dev/x"
    branch = write(table, branch, mode="append")
    child = branch.create_branch("dev/x/y")
    write(table, child, mode="overwrite")
    branch.tags.create("on-branch")
    branch.branches.replace_metadata("dev/x", {"k": "v"})
    listed = {name: engine.dataset(versions).branches.list() for name, engine in ENGINES.items()}
    assert listed["glaive"] == listed["pylance"]
    assert [name for name, _ in ds.branches.list_ordered()] == ["dev/x/y", "dev/x"]
    for engine in ENGINES.values():
        ds = engine.dataset(versions)
        opened = ds.checkout_version(("dev/x", None))
        assert (opened.version, opened.count_rows(), opened.uri) == (3, 300, versions)
        assert opened.to_table().num_rows == 300
        assert ds.checkout_version(("dev/x", 2)).to_table() == ds.checkout_version(2).to_table()
        assert ds.checkout_version(("dev/x/y", None)).count_rows() == 100
        assert engine.dataset(f"{versions}/tree/dev/x").version == 3
        assert ds.checkout_version("on-branch").count_rows() == 300
        assert opened.checkout_version(("main", 1)).count_rows() == 100
        assert opened.checkout_version((None, None)).version == 3
        assert ds.tags.list()["on-branch"]["branch"] == "dev/x"
    assert ds.count_rows() == 300


def test_writing_on_a_branch_of_the_other(versions: str, table: pa.Table) -> None:
    lance.dataset(versions).create_branch("theirs", 1)
    glaive.dataset(versions).create_branch("ours", 1)
    for name in ("theirs", "ours"):
        for engine in ENGINES.values():
            ds = engine.dataset(versions).checkout_version((name, None))
            ds = engine.write_dataset(table, ds, mode="append")
            assert ds.uri.endswith(f"tree/{name}")
        for engine in ENGINES.values():
            ds = engine.dataset(f"{versions}/tree/{name}")
            assert (ds.version, ds.count_rows()) == (3, 300)
    # pylance deletes where both deleted nothing yet: the deletion file lies in the branch.
    ds = lance.dataset(f"{versions}/tree/ours")
    ds.delete("id < 10")
    assert glaive.dataset(f"{versions}/tree/ours").count_rows() == 270
    assert glaive.dataset(versions).count_rows() == 300


def test_a_branch_with_an_index_and_deletions(versions: str) -> None:
    theirs = lance.dataset(versions)
    theirs.create_scalar_index("id", "BTREE")
    theirs.delete("id = 5")
    branch = glaive.dataset(versions).create_branch("b")
    assert branch.count_rows() == 297
    opened = lance.dataset(branch.uri)
    assert opened.count_rows() == 297
    assert opened.to_table(filter="id = 6").num_rows == 3
    assert opened.describe_indices()[0].name == "id_idx"


def test_deleting_branches(versions: str) -> None:
    ds = glaive.dataset(versions)
    outer = ds.create_branch("dev/x")
    outer.create_branch("dev/x/y")
    ds.create_branch("dev/z")
    outer.tags.create("t")
    tree = Path(versions) / "tree"
    with pytest.raises(
        OSError, match=r'Ref conflict error: Branch dev/x is referenced by \[\("dev/x/y", 3\)\] versions'
    ):
        ds.branches.delete("dev/x")
    ds.branches.delete("dev/x/y")
    assert not (tree / "dev/x/y").exists()
    with pytest.raises(OSError, match=r'Branch dev/x is referenced by tags \[\("t", 3\)\], can not delete'):
        ds.branches.delete("dev/x")
    ds.tags.delete("t")
    ds.branches.delete("dev/x")
    assert not (tree / "dev/x").exists()
    assert (tree / "dev/z").exists()
    with pytest.raises(RefNotFoundError, match="Branch dev/x does not exist"):
        ds.branches.delete("dev/x")
    assert set(lance.dataset(versions).branches.list()) == {"dev/z"}
    with pytest.raises(RefConflictError, match="branch dev/z already exists"):
        ds.create_branch("dev/z")
    assert ds.create_branch("dev/x", 1).count_rows() == 100


def test_a_parent_keeps_branches_that_lie_below_it(versions: str) -> None:
    """`tree/a` and `tree/a/b` share directories although neither branch comes from the other."""
    ds = glaive.dataset(versions)
    ds.create_branch("a")
    below = ds.create_branch("a/b")
    ds.branches.delete("a")
    assert below.checkout_version(3).count_rows() == 300
    assert lance.dataset(below.uri).to_table().num_rows == 300


def test_a_branch_whose_creation_was_interrupted(versions: str) -> None:
    ds = glaive.dataset(versions)
    ds.create_branch("b", 2)
    (Path(versions) / "_refs" / "branches" / "b.json").unlink()
    with pytest.raises(RefConflictError, match="was not made completely"):
        ds.create_branch("b", 1)
    assert ds.create_branch("b", 2).version == 2
    assert lance.dataset(versions).branches.list()["b"]["parent_version"] == 2


def test_opening_by_name(versions: str) -> None:
    ds = glaive.dataset(versions)
    ds.create_branch("b", 1)
    ds.tags.create("t", 2)
    assert glaive.dataset(versions, version=("b", None)).count_rows() == 100
    assert glaive.dataset(versions, version="t").version == 2
    with pytest.raises(RefNotFoundError, match="tag 1 does not exist"):
        glaive.dataset(versions, version="1")
    for missing in [("zz", 1), ("b", 9), 77]:
        with pytest.raises(FileNotFoundError):
            ds.checkout_version(missing)
    with pytest.raises(OverflowError):
        ds.checkout_version(-1)
    assert ds.version_refs() == [{"version": n} for n in (1, 2, 3)]


def test_a_branch_survives_pickling(versions: str) -> None:
    glaive.dataset(versions).create_branch("b", 1)
    ds = glaive.dataset(versions).checkout_version(("b", 1))
    again = pickle.loads(pickle.dumps(ds))
    assert (again.uri, again.version, again.count_rows()) == (versions, 1, 100)


def test_asof_with_a_tag(versions: str) -> None:
    """A version wins over a time."""
    ds = glaive.dataset(versions)
    ds.tags.create("t", 2)
    stamps = [v["timestamp"] for v in ds.versions()]
    assert glaive.dataset(versions, asof=stamps[1]).version == 1
    assert glaive.dataset(versions, version="t", asof=stamps[1]).version == 2


def test_what_is_missing_is_named(versions: str) -> None:
    with pytest.raises(UnsupportedError, match="shallow_clone"):
        glaive.dataset(versions).shallow_clone("x", 1)


def test_names_in_files_are_checked_too(versions: str) -> None:
    """A ref file may say anything; nothing outside of the dataset is read or removed for it."""
    refs = Path(versions) / "_refs"
    outside = Path(versions).parent / "outside"
    (outside / "_versions").mkdir(parents=True)
    ds = glaive.dataset(versions)
    ds.create_branch("b")
    stored = (refs / "branches" / "b.json").read_text()
    (refs / "branches" / "..%2F..%2Foutside.json").write_text(stored)
    with pytest.raises(OSError, match="Ref is invalid"):
        ds.branches.delete("../../outside")
    with pytest.raises(OSError, match="Ref is invalid"):
        ds.cleanup_old_versions()
    assert (outside / "_versions").is_dir()
    (refs / "tags").mkdir()
    (refs / "tags" / "t.json").write_text('{"branch": "../../outside", "version": 1, "manifestSize": 1}')
    with pytest.raises(OSError, match="Ref is invalid"):
        ds.checkout_version("t")
    with pytest.raises(OSError, match="Ref is invalid"):
        ds.tags.get_version("../branches/b")


def test_a_branch_opened_by_a_relative_path(
    versions: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    glaive.dataset(versions).create_branch("b", 1)
    monkeypatch.chdir(versions)
    ds = glaive.write_dataset(table, glaive.dataset("tree/b"), mode="append")
    ds.tags.create("t")
    assert ds.checkout_version(("main", None)).version == 3
    monkeypatch.chdir("tree")
    assert glaive.dataset("b").checkout_version("t").count_rows() == 200


def test_a_branch_that_is_not_where_it_says(versions: str, tmp_path: Path) -> None:
    ds = glaive.dataset(versions)
    branch = ds.create_branch("b")
    moved = Path(branch.uri).rename(tmp_path / "moved")
    opened = glaive.dataset(moved)
    assert opened.count_rows() == 300
    with pytest.raises(glaive.errors.CorruptFileError, match="does not end with tree/b"):
        opened.tags.list()
    moved.rename(Path(versions) / "tree" / "c")
    (Path(versions) / "_refs" / "branches" / "b.json").rename(
        Path(versions) / "_refs" / "branches" / "c.json"
    )
    with pytest.raises(glaive.errors.CorruptFileError, match="holds branch b, not c"):
        ds.checkout_version(("c", None))


def test_branches_of_early_writers_have_a_derived_identifier(versions: str) -> None:
    ds = glaive.dataset(versions)
    ds.create_branch("a/b", 2).create_branch("c")
    for name in ("a%2Fb", "c"):
        path = Path(versions) / "_refs" / "branches" / f"{name}.json"
        stored = json.loads(path.read_text())
        del stored["identifier"]
        path.write_text(json.dumps(stored))
    ours, theirs = (engine.dataset(versions).branches.list() for engine in ENGINES.values())
    assert ours == theirs
    assert [pair[0] for branch in ours.values() for pair in branch["branch_identifier"]] == [0, 0]
    with pytest.raises(OSError, match="referenced by"):
        ds.branches.delete("a/b")
