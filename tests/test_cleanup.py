# SPDX-License-Identifier: Apache-2.0
"""Removing old versions: what goes, what stays, and that both engines agree."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import glaive
from glaive.commit import CommitConflictError

NOW = timedelta(microseconds=1)


@pytest.fixture
def versions(table: pa.Table, uri: str) -> str:
    """Four versions: the second replaces the first, the others add rows."""
    for mode in ("create", "overwrite", "append", "append"):
        glaive.write_dataset(table, uri, mode=mode)
    return uri


def numbers(uri: str) -> list[int]:
    return [v["version"] for v in glaive.dataset(uri).versions()]


def files(uri: str) -> set[str]:
    return {str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file()}


def check_all(uri: str) -> None:
    """Every version that is left can be read by both."""
    for number in numbers(uri):
        ours = glaive.dataset(uri, version=number).to_table()
        assert ours == lance.dataset(uri, version=number).to_table()


def test_an_age_beyond_the_calendar_is_still_an_age(versions: str) -> None:
    ds = glaive.dataset(versions)
    ds.cleanup_old_versions(older_than=timedelta(days=100_000_000), retain_versions=1)
    assert numbers(versions) == [1, 2, 3, 4]
    ds.cleanup_old_versions(older_than=timedelta(days=-100_000_000), retain_versions=3)
    assert numbers(versions) == [2, 3, 4]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, [1, 2, 3, 4]),
        ({"older_than": NOW}, [4]),
        ({"older_than": timedelta(days=1)}, [1, 2, 3, 4]),
        ({"retain_versions": 2}, [3, 4]),
        ({"retain_versions": 9}, [1, 2, 3, 4]),
        ({"versions": [1, 3, 4, 77]}, [2, 4]),
        ({"versions": [1, 2], "retain_versions": 3}, [2, 3, 4]),
        ({"older_than": timedelta(days=1), "retain_versions": 1}, [1, 2, 3, 4]),
        ({"older_than": timedelta(seconds=-5)}, [4]),
    ],
)
def test_policies(options: dict[str, Any], left: list[int], versions: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.lance")
    shutil.copytree(versions, copy)
    theirs = lance.dataset(copy).cleanup_old_versions(**options)
    ds = glaive.dataset(versions)
    plan = ds.explain_cleanup_old_versions(**options, include_files=True)
    before = files(versions)
    stats = ds.cleanup_old_versions(**options)
    assert plan.stats == stats
    assert before - files(versions) == {file.path for file in plan.candidate_files}
    assert numbers(versions) == left
    assert files(versions) == files(copy)
    for name in stats.__dataclass_fields__:
        assert getattr(stats, name) == getattr(theirs, name), name
    check_all(versions)


def test_wrong_policies(versions: str) -> None:
    ds = glaive.dataset(versions)
    for options, error in [
        ({"retain_versions": 0}, OSError),
        ({"retain_versions": -1}, OverflowError),
        ({"versions": []}, OSError),
        ({"delete_rate_limit": 0}, OSError),
        ({"delete_concurrency": 0}, OSError),
        ({"older_than": 5}, TypeError),
    ]:
        with pytest.raises(error):  # type: ignore[call-overload]
            ds.cleanup_old_versions(**options)  # type: ignore[arg-type]
    assert numbers(versions) == [1, 2, 3, 4]


def test_tagged_versions_stay(versions: str) -> None:
    ds = glaive.dataset(versions)
    ds.tags.create("keep", 1)
    with pytest.raises(OSError, match=r'Cleanup error: 1 tagged version\(s\).*\{"keep": 1\}'):
        ds.cleanup_old_versions(NOW)
    assert numbers(versions) == [1, 2, 3, 4]
    plan = ds.explain_cleanup_old_versions(NOW, error_if_tagged_old_versions=False, include_files=True)
    assert "the version has the tag keep" in {file.reason for file in plan.kept_files}
    ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert numbers(versions) == [1, 4]
    check_all(versions)


def test_an_old_handle_removes_nothing_newer(versions: str) -> None:
    glaive.dataset(versions, version=2).cleanup_old_versions(retain_versions=1)
    assert numbers(versions) == [2, 3, 4]
    check_all(versions)


@pytest.mark.parametrize("maker", [glaive, lance])
def test_files_of_branches_stay(maker: Any, versions: str, table: pa.Table) -> None:
    branch = maker.dataset(versions).create_branch("b", 1)
    maker.write_dataset(table, branch, mode="append")
    glaive.dataset(versions).cleanup_old_versions(NOW)
    assert numbers(versions) == [1, 4]
    for engine in (glaive, lance):
        assert engine.dataset(branch.uri).to_table().num_rows == 200
    # The branch itself can be cleaned, and its parent loses nothing.
    glaive.dataset(branch.uri).cleanup_old_versions(NOW)
    assert numbers(branch.uri) == [2]
    check_all(branch.uri)
    check_all(versions)


def test_unverified_files(versions: str) -> None:
    ds = glaive.dataset(versions)
    root = Path(versions)
    strays = ["data/x.lance", "data/x/1.blob", "_transactions/1-x.txn", "_deletions/0-1-2.bin"]
    strays += ["_indices/7d7d3a4e-0000-4000-8000-000000000000/page.idx", "_versions/.tmp_1", "data/.tmp_2"]
    alone = ["readme.txt", "data/notes.txt", "_versions/old.manifest-1", "_deletions/x.txt"]
    for name in strays + alone:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    ds.cleanup_old_versions()
    assert files(versions) >= set(strays + alone)
    week_ago = time.time() - 7 * 24 * 3600 - 60
    for name in strays[:3]:
        os.utime(root / name, (week_ago, week_ago))
    ds.cleanup_old_versions()
    assert files(versions).isdisjoint(strays[:3])
    assert files(versions) >= set(strays[3:] + alone)
    assert not (root / "data" / "x").exists()
    ds.cleanup_old_versions(delete_unverified=True)
    assert files(versions).isdisjoint(strays)
    assert files(versions) >= set(alone)
    check_all(versions)


def test_blob_files_go_with_their_data_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "b.lance")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array([b"x" * 200_000, b"y" * 5_000_000])], schema=pa.schema([field]))
    for mode in ("create", "overwrite"):
        glaive.write_dataset(table, uri, mode=mode)
    assert any(name.endswith(".blob") for name in files(uri))
    before = {name for name in files(uri) if name.startswith("data/")}
    glaive.dataset(uri).cleanup_old_versions(NOW)
    after = {name for name in files(uri) if name.startswith("data/")}
    assert len(after) * 2 == len(before)
    assert glaive.dataset(uri).read_blobs("b", indices=[1])[0][1] == b"y" * 5_000_000


def test_a_damaged_manifest_stops_a_cleanup(versions: str) -> None:
    before = files(versions)
    path = sorted((Path(versions) / "_versions").glob("*.manifest"))[1]
    content = path.read_bytes()
    path.write_bytes(content[:-4] + b"XXXX")
    with pytest.raises(glaive.errors.CorruptFileError, match=path.name):
        glaive.dataset(versions).cleanup_old_versions(NOW)
    assert files(versions) == before


def test_progress(versions: str) -> None:
    calls: list[tuple[int, int]] = []
    stats = glaive.dataset(versions).cleanup_old_versions(
        NOW, progress=lambda done, total: calls.append((done, total))
    )
    assert stats.old_versions == 3
    assert calls[-1][0] == calls[-1][1]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_an_exception_of_progress_ends_a_cleanup(versions: str) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        glaive.dataset(versions).cleanup_old_versions(NOW, progress=stop)
    assert numbers(versions) == [4]
    check_all(versions)


def test_a_stale_writer_is_told(versions: str, table: pa.Table) -> None:
    stale = glaive.dataset(versions, version=1)
    glaive.dataset(versions).cleanup_old_versions(NOW)
    with pytest.raises(CommitConflictError, match="its transaction is no longer there"):
        glaive.write_dataset(table, stale, mode="append")
    check_all(versions)


def test_automatic_cleanup(table: pa.Table, uri: str) -> None:
    options = {"interval": 3, "older_than_seconds": 0}
    glaive.write_dataset(table, uri, auto_cleanup_options=options)
    assert lance.dataset(uri).config() == {
        "lance.auto_cleanup.interval": "3",
        "lance.auto_cleanup.older_than": "0s",
    }
    glaive.dataset(uri).tags.create("t", 1)
    left = []
    for _ in range(5):
        glaive.write_dataset(table, uri, mode="append")
        left.append(numbers(uri))
    assert left == [[1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 5, 6]]
    check_all(uri)
    for wrong in [{"interval": -1}, {"intervall": 1}]:
        with pytest.raises(ValueError, match="auto_cleanup_options"):
            glaive.write_dataset(table, uri + "x", auto_cleanup_options=wrong)


def test_migration(table: pa.Table, uri: str) -> None:
    for _ in range(3):
        glaive.write_dataset(table, uri, mode="append", enable_v2_manifest_paths=False)
    stale = glaive.dataset(uri)
    ds = glaive.dataset(uri)
    directory = Path(uri) / "_versions"
    content = (directory / "1.manifest").read_bytes()
    assert (directory / "3.manifest").exists()
    ds.migrate_manifest_paths_v2()
    ds.migrate_manifest_paths_v2()
    assert {path.name for path in directory.glob("*.manifest")} == {
        f"{2**64 - 1 - n:020}.manifest" for n in (1, 2, 3)
    }
    # A handle from before goes on.
    assert stale.checkout_version(2).count_rows() == 200
    assert glaive.write_dataset(table, stale, mode="append").version == 4
    check_all(uri)
    # As after an interruption.
    (directory / "1.manifest").write_bytes(content)
    text = r"'\S+\.manifest' and '\S+\.manifest'.*migrate_manifest_paths_v2"
    with pytest.raises(glaive.errors.CorruptFileError, match=text):
        glaive.dataset(uri)
    glaive.dataset(uri, version=2).migrate_manifest_paths_v2()
    assert numbers(uri) == [1, 2, 3, 4]
    (directory / "1.manifest").write_bytes(content + b" ")
    with pytest.raises(glaive.errors.CorruptFileError, match="different manifests of version 1"):
        ds.migrate_manifest_paths_v2()


def test_detached_versions_keep_their_files(versions: str) -> None:
    ds = lance.dataset(versions)
    operation = lance.LanceOperation.Append(lance.fragment.write_fragments(pa.table(ds.head(5)), versions))
    detached = lance.LanceDataset.commit(versions, operation, read_version=4, detached=True)
    glaive.dataset(versions).cleanup_old_versions(NOW, delete_unverified=True)
    opened = glaive.dataset(versions, version=detached.version)
    assert opened.version == detached.version
    assert opened.to_table().num_rows == 305


# --- Locks


class Lock:
    """Notes what happens to it."""

    def __init__(self, fail: Exception | None = None, times: int = 0, at_exit: Exception | None = None):
        self.calls: list[Any] = []
        self.fail, self.times, self.at_exit = fail, times, at_exit

    @contextmanager
    def __call__(self, version: int) -> Any:
        if self.fail is not None and self.times > 0:
            self.times -= 1
            raise self.fail
        self.calls.append(version)
        yield
        if self.at_exit:
            raise self.at_exit
        self.calls.append("done")


def test_locks_hold_every_commit(table: pa.Table, uri: str) -> None:
    lock = Lock()
    ds = glaive.write_dataset(table, uri, commit_lock=lock)
    glaive.write_dataset(table, ds, mode="append", commit_lock=lock)
    opened = glaive.dataset(uri, commit_lock=lock)
    opened.insert(table)
    opened.checkout_version(3).create_branch("b")
    assert lock.calls == [1, "done", 2, "done", 3, "done", 3, "done"]


def test_a_lock_that_is_taken_is_tried_again(table: pa.Table, uri: str) -> None:
    lock = Lock(CommitConflictError("taken"), times=2)
    glaive.write_dataset(table, uri)
    assert glaive.write_dataset(table, uri, mode="append", commit_lock=lock).version == 2
    assert lock.calls == [2, "done"]


def test_a_lock_that_fails(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    before = files(uri)
    with pytest.raises(KeyError, match="boo"):
        glaive.write_dataset(table, uri, mode="append", commit_lock=Lock(KeyError("boo"), times=99))
    assert files(uri) == before
    # The version stands when the lock fails afterwards, and so do its files.
    with pytest.raises(KeyError, match="late"):
        glaive.write_dataset(table, uri, mode="append", commit_lock=Lock(at_exit=KeyError("late")))
    assert glaive.dataset(uri).to_table().num_rows == 200
    with pytest.raises(TypeError, match="commit_lock must be a function"):
        glaive.write_dataset(table, uri, mode="append", commit_lock=3)  # type: ignore[arg-type]


def test_a_lock_hears_that_the_commit_failed(table: pa.Table, uri: str) -> None:
    told: list[Any] = []

    class Manager:
        def __enter__(self) -> None:
            # Another writer takes the version in spite of the lock.
            glaive.write_dataset(table, uri, mode="append")

        def __exit__(self, kind: Any, *_: Any) -> None:
            told.append(kind)

    locks = iter([Manager()])
    glaive.write_dataset(table, uri)
    lock = Lock()
    ds = glaive.write_dataset(
        table, uri, mode="append", commit_lock=lambda version: next(locks, None) or lock(version)
    )
    assert told == [CommitConflictError]
    assert (ds.version, lock.calls) == (3, [3, "done"])


def test_the_other_engine_knows_what_our_branches_use(versions: str, table: pa.Table) -> None:
    branch = glaive.dataset(versions).create_branch("b", 1)
    glaive.write_dataset(table, branch, mode="append")
    lance.dataset(versions).cleanup_old_versions(NOW)
    assert glaive.dataset(branch.uri).to_table().num_rows == 200
    check_all(versions)


def test_a_version_that_is_restored_keeps_its_files(versions: str) -> None:
    theirs = lance.dataset(versions, version=1)
    theirs.restore()
    glaive.dataset(versions).cleanup_old_versions(NOW)
    assert numbers(versions) == [5]
    assert glaive.dataset(versions).count_rows() == 100
    check_all(versions)


def test_cleaning_a_clone_leaves_its_source_alone(versions: str, table: pa.Table) -> None:
    clone = versions + ".clone"
    lance.dataset(versions).shallow_clone(clone, 2)
    glaive.write_dataset(table, clone, mode="append")
    before = files(versions)
    glaive.dataset(clone).cleanup_old_versions(NOW, delete_unverified=True)
    assert files(versions) == before
    assert numbers(clone) == [3]
    check_all(clone)


def test_cleanup_beside_writers(table: pa.Table, uri: str) -> None:
    """Nothing that is acknowledged is lost while old versions go all the time."""
    glaive.write_dataset(table, uri)
    writes = 15

    def write(_: int) -> int:
        done = 0
        while done < writes:
            try:
                glaive.write_dataset(table, uri, mode="append")
                done += 1
            except (CommitConflictError, FileNotFoundError):
                # The version that it was based on, or one in between, was removed.
                continue
        return done

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write, n) for n in range(2)]
        while not all(writer.done() for writer in writers):
            glaive.dataset(uri).cleanup_old_versions(retain_versions=2)
        assert [writer.result() for writer in writers] == [writes, writes]
    assert glaive.dataset(uri).count_rows() == (2 * writes + 1) * len(table)
    check_all(uri)
