# SPDX-License-Identifier: Apache-2.0
"""Bad input and damaged files: the right exception, which names the place and the fault; never a panic."""

from __future__ import annotations

import pickle
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import glaive
from columns import column, columns
from glaive import errors
from glaive.commit import CommitConflictError
from glaive.file import LanceFileReader, LanceFileWriter

FOOTER = 40
FLIPS = 1500  # damaged copies of each kind of file


def only(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def data_file(uri: str) -> Path:
    return only(Path(uri) / "data")


def manifest(uri: str) -> Path:
    (path,) = (Path(uri) / "_versions").glob("*.manifest")
    return path


def edit(path: Path, change: Callable[[bytearray], Any]) -> None:
    data = bytearray(path.read_bytes())
    changed = change(data)
    path.write_bytes(data if changed is None else changed)


def fails(call: Callable[[], Any], *texts: str, cls: type = Exception) -> Exception:
    """The error of `call`; it must name all `texts`."""
    with pytest.raises(cls) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)
    return caught.value


# --- The classes


def test_what_the_classes_derive_from() -> None:
    bases = {
        "DatasetNotFoundError": (FileNotFoundError, ValueError),
        "FileMissingError": (FileNotFoundError, ValueError),
        "DatasetAlreadyExistsError": (FileExistsError,),
        "InvalidInputError": (ValueError,),
        "InvalidWriteError": (errors.InvalidInputError, OSError),
        "OutOfBoundsError": (errors.InvalidInputError, OSError),
        "RefConflictError": (FileExistsError, ValueError),
        "RefNotFoundError": (errors.DatasetNotFoundError, FileNotFoundError, ValueError),
        "SchemaMismatchError": (OSError, ValueError),
        "CorruptFileError": (OSError, ValueError),
        "UnsupportedError": (NotImplementedError, OSError, ValueError),
        "IoError": (OSError,),
    }
    assert set(errors.__all__) == {"GlaiveError", *bases}
    for name, expected in bases.items():
        cls = getattr(errors, name)
        assert issubclass(cls, (errors.GlaiveError,))
        assert all(issubclass(cls, base) for base in expected)
        error = pickle.loads(pickle.dumps(cls("what, where, and what to do")))
        assert (type(error), str(error)) == (cls, "what, where, and what to do")


def test_conflicts() -> None:
    assert issubclass(CommitConflictError, (OSError, errors.GlaiveError))
    assert CommitConflictError().retryable
    error = pickle.loads(pickle.dumps(CommitConflictError("text", retryable=False)))
    assert (str(error), error.retryable) == ("text", False)


# --- Tables that are, or are not, there


def test_missing_table(uri: str) -> None:
    fails(lambda: glaive.dataset(uri), uri, "was not found", cls=errors.DatasetNotFoundError)


def test_missing_version(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    fails(lambda: glaive.dataset(uri, version=7), "7", "was not found", cls=errors.DatasetNotFoundError)


def test_a_file_instead_of_a_table(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "plain"
    path.write_text("no table")
    fails(lambda: glaive.dataset(path), "plain", cls=ValueError)
    fails(lambda: glaive.write_dataset(table, path), "plain", cls=OSError)
    assert path.read_text() == "no table"


def test_existing_table(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    error = fails(lambda: glaive.write_dataset(table, uri), uri, "Dataset already exists")
    assert isinstance(error, errors.DatasetAlreadyExistsError)
    assert glaive.dataset(uri).version == 1


def test_missing_data_file(table: pa.Table, uri: str) -> None:
    ds = glaive.write_dataset(table, uri)
    path = data_file(uri)
    path.unlink()
    for call in (ds.to_table, lambda: list(ds.to_batches()), lambda: ds.take([1])):
        fails(call, uri, path.name, cls=errors.FileMissingError)
    fails(lambda: ds.scanner().to_reader().read_all(), uri, path.name)
    assert ds.count_rows() == 100  # from the manifest


# --- Arguments of a write


def unchanged(uri: str) -> Iterator[None]:
    before = {p: p.read_bytes() for p in Path(uri).rglob("*") if p.is_file()}
    yield
    assert {p: p.read_bytes() for p in Path(uri).rglob("*") if p.is_file()} == before


BAD_APPENDS = {
    "extra column": (lambda t: t.append_column("z", pa.nulls(100)), ["Append with different schema", "z"]),
    "other type": (
        lambda t: t.set_column(0, "id", t.column("id").cast(pa.int32())),
        ["Append with different schema", "id", "int64", "int32"],
    ),
    "other string type": (
        lambda t: t.set_column(1, "name", t.column("name").cast(pa.large_string())),
        ["Append with different schema", "name", "large_string"],
    ),
    "other case": (
        lambda t: t.rename_columns(["ID", "name", "score", "st"]),
        ["Append with different schema"],
    ),
    "child of another type": (
        lambda t: t.set_column(3, "st", pa.array([{"x": 1.5, "y": "a"}] * 100)),
        ["Append with different schema", "x"],
    ),
}


@pytest.mark.parametrize("name", BAD_APPENDS)
def test_append_of_another_schema(name: str, table: pa.Table, uri: str) -> None:
    change, texts = BAD_APPENDS[name]
    glaive.write_dataset(table, uri)
    check = unchanged(uri)
    next(check)
    fails(
        lambda: glaive.write_dataset(change(table), uri, mode="append"),
        uri,
        *texts,
        cls=errors.SchemaMismatchError,
    )
    next(check, None)


def test_appends_that_fit(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    ds = glaive.write_dataset(table.select(["st", "score", "name", "id"]), uri, mode="append")
    assert ds.to_table().slice(100) == table
    ds = glaive.write_dataset(table.select(["id"]), uri, mode="append")
    assert ds.to_table(columns=["name"], offset=200).column("name").null_count == 100
    assert ds.to_table() == lance.dataset(uri).to_table()
    strict = table.cast(pa.schema([f.with_nullable(f.name != "id") for f in table.schema]))
    ds = glaive.write_dataset(strict, uri, mode="append")
    assert ds.schema == table.schema


def test_nulls_where_none_may_be(uri: str) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    glaive.write_dataset(pa.table({"a": [1]}, schema=schema), uri)
    glaive.write_dataset(pa.table({"a": [2]}), uri, mode="append")
    check = unchanged(uri)
    next(check)
    fails(
        lambda: glaive.write_dataset(pa.table({"a": [3, None]}), uri, mode="append"), "a", "null", cls=OSError
    )
    next(check, None)
    assert glaive.dataset(uri).to_table().to_pydict() == {"a": [1, 2]}


BAD_SCHEMAS = {
    "duplicate": (pa.table([[1], [2]], names=["a", "a"]), ["Duplicate field name", "a"]),
    "reserved": (pa.table({"_rowid": [1]}), ["_rowid", "reserved"]),
    "dot": (pa.table({"a.b": [1]}), ["a.b", "cannot contain"]),
    "empty name": (pa.table({"": [1]}), ["name"]),
    "month_day_nano": (
        pa.table({"a": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}),
        ["a", "Unsupported data type"],
    ),
    "decimal32": (pa.table({"a": pa.array([1], pa.decimal32(5, 2))}), ["a", "Unsupported data type"]),
    "run ends": (
        pa.table({"a": pa.RunEndEncodedArray.from_arrays([1, 2], [5, 6])}),
        ["a", "Unsupported data type"],
    ),
}


@pytest.mark.parametrize("name", BAD_SCHEMAS)
def test_schemas_that_cannot_be_stored(name: str, uri: str) -> None:
    data, texts = BAD_SCHEMAS[name]
    fails(lambda: glaive.write_dataset(data, uri), *texts, cls=OSError)
    assert not Path(uri).exists()


def test_bad_arguments(table: pa.Table, uri: str) -> None:
    fails(lambda: glaive.write_dataset(table, uri, mode="zz"), "Invalid mode zz", cls=ValueError)
    fails(lambda: glaive.write_dataset(table, uri, max_rows_per_file=0), "max_rows_per_file", cls=ValueError)
    fails(
        lambda: glaive.write_dataset(table, uri, max_bytes_per_file=0), "max_bytes_per_file", cls=ValueError
    )
    assert not Path(uri).exists()


def test_a_stream_that_raises(table: pa.Table, uri: str) -> None:
    def stream() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=25)
        raise LookupError("the well is dry")

    fails(lambda: glaive.write_dataset(stream(), uri, schema=table.schema), "the well is dry", cls=OSError)
    assert not (Path(uri) / "_versions").exists()
    glaive.write_dataset(table, uri)
    check = unchanged(uri)
    next(check)
    for size in (10, 1000):
        fails(
            lambda size=size: glaive.write_dataset(
                stream(), uri, schema=table.schema, mode="append", max_rows_per_file=size
            ),
            "the well is dry",
            cls=OSError,
        )
    fails(
        lambda: glaive.write_dataset([3], uri, schema=table.schema, mode="append"),
        "Expected RecordBatch, got <class 'int'>",
        cls=OSError,
    )
    next(check, None)


def test_progress_that_raises(table: pa.Table, uri: str) -> None:
    class Refuses(glaive.progress.NoopFragmentWriteProgress):
        def complete(self, fragment: Any, **kwargs: Any) -> None:
            raise LookupError("no more")

    fails(lambda: glaive.write_dataset(table, uri, progress=Refuses()), "no more")
    fails(lambda: glaive.dataset(uri), cls=errors.DatasetNotFoundError)


def test_a_directory_that_cannot_be_written(table: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    fails(lambda: glaive.write_dataset(table, tmp_path / "file" / "t.lance"), "file", cls=OSError)


# --- Damaged files


def footer_field(number: int, width: int, offset: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        at = len(data) - FOOTER + offset
        data[at : at + width] = number.to_bytes(width, "little")

    return change


# What a footer holds: three u64 offsets, two u32 counts, two u16 versions, the magic.
DAMAGE: dict[str, tuple[Callable[[bytearray], Any], list[str]]] = {
    "empty": (lambda d: b"", []),
    "shorter than a footer": (lambda d: d[-20:], []),
    "last byte cut off": (lambda d: d[:-1], ["magic"]),
    "first half cut off": (lambda d: d[len(d) // 2 :], []),
    "second half cut off": (lambda d: d[: len(d) // 2], []),
    "magic": (lambda d: d[:-4] + b"LANX", ["magic"]),
    "column metadata offset": (footer_field(2**63, 8, 0), []),
    "column table offset": (footer_field(2**64 - 1, 8, 8), []),
    "global table offset": (footer_field(2**40, 8, 16), []),
    "number of global buffers": (footer_field(2**32 - 1, 4, 24), []),
    "number of columns": (footer_field(2**32 - 1, 4, 28), []),
    "no columns": (footer_field(0, 4, 28), []),
    "version": (footer_field(77, 2, 34), ["version"]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_data_file(name: str, table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    path = data_file(uri)
    change, texts = DAMAGE[name]
    edit(path, change)
    ds = glaive.dataset(uri)
    for call in (ds.to_table, lambda: list(ds.to_batches(columns=["name"])), lambda: ds.take([1, 50])):
        fails(call, uri, path.name, *texts, cls=errors.GlaiveError)
    error = fails(lambda: LanceFileReader(str(path)).read_all().to_table(), path.name, *texts, cls=OSError)
    assert isinstance(error, (errors.CorruptFileError, errors.UnsupportedError))


def test_damaged_manifest(table: pa.Table, uri: str) -> None:
    glaive.write_dataset(table, uri)
    path = manifest(uri)
    whole = path.read_bytes()
    for change in (
        lambda d: b"",
        lambda d: d[:-1],
        lambda d: d[: len(d) // 2],
        lambda d: d[:-4] + b"LANX",
        lambda d: d[:-16] + struct.pack("<Q", 2**63) + d[-8:],
    ):
        path.write_bytes(change(whole))
        fails(lambda: glaive.dataset(uri), uri, path.name, cls=errors.CorruptFileError)
    path.write_bytes(whole)
    assert glaive.dataset(uri).to_table() == table


def test_unknown_feature_flags(table: pa.Table, uri: str, tmp_path: Path) -> None:
    """A reader must refuse a reader flag that it does not know, a writer a writer flag."""
    glaive.write_dataset(table, uri)
    path = manifest(uri)
    whole = path.read_bytes()

    def add_flag(field: int) -> bytes:
        # A message may be continued by appending: `field` as varint, 1 << 40. The length stands before it.
        start = struct.unpack("<Q", whole[-16:-8])[0]
        length = struct.unpack("<I", whole[start : start + 4])[0]
        message = whole[start + 4 : start + 4 + length]
        message += bytes([field << 3]) + bytes([0x80, 0x80, 0x80, 0x80, 0x80, 0x20])
        return (
            whole[:start]
            + struct.pack("<I", len(message))
            + message
            + whole[start + 4 + length : -16]
            + whole[-16:]
        )

    path.write_bytes(add_flag(9))
    fails(lambda: glaive.dataset(uri), uri, "feature", "40", cls=errors.UnsupportedError)
    path.write_bytes(add_flag(10))
    assert glaive.dataset(uri).to_table() == table
    fails(
        lambda: glaive.write_dataset(table, uri, mode="append"), uri, "feature", cls=errors.UnsupportedError
    )
    path.write_bytes(whole)
    assert glaive.dataset(uri).to_table() == table


def test_unknown_encoding(table: pa.Table, uri: str) -> None:
    """The type url of a page's encoding is replaced by one of the same length."""
    glaive.write_dataset(table.select(["id"]), uri)
    path = data_file(uri)
    known, unknown = b"/lance.encodings21.PageLayout", b"/lance.encodings99.PageLayout"
    assert known in path.read_bytes()
    edit(path, lambda d: bytes(d).replace(known, unknown))
    ds = glaive.dataset(uri)
    error = fails(ds.to_table, uri, path.name, "id", "encodings99")
    assert isinstance(error, (errors.UnsupportedError, errors.CorruptFileError))


# --- Every byte may be wrong


def small_table(seed: int) -> pa.Table:
    names = [
        *("int64 full", "int32 small", "int64 runs", "bool", "string text", "string few", "string wide"),
        *("binary short", "double full", "float close", "struct of struct", "decimal128(38, 10)", "null"),
        *("uuid", "int16 constant", "large_string runs", "timestamp[us, tz=UTC]", "binary[300]"),
    ]
    return pa.table({name: column(columns()[name], 300, "random 10 %") for name in names[seed % 3 :: 3]})


def flipped(whole: bytes, random_: random.Random) -> bytes:
    """A copy with some bytes changed, or cut, or with a number set to an extreme."""
    data = bytearray(whole)
    # Half of the damage goes to the end, where the metadata is.
    low = 0 if random_.random() < 0.5 else max(len(data) - 2500, 0)
    kind = random_.randrange(4)
    at = random_.randrange(low, len(data))
    if kind == 0:
        data[at] ^= 1 << random_.randrange(8)
    elif kind == 1:
        for _ in range(random_.randrange(1, 8)):
            data[random_.randrange(low, len(data))] = random_.randrange(256)
    elif kind == 2:
        data[at : at + 8] = random_.choice([b"\xff" * 8, b"\x00" * 8, b"\x80" + b"\xff" * 7])[
            : len(data) - at
        ]
    else:
        del data[at : at + random_.randrange(1, 64)]
    return bytes(data)


def use(ds: Any) -> None:
    """All ways to read; the data may be wrong, the process may not."""
    ds.to_table().validate()
    for name in ds.schema.names:
        list(ds.to_batches(columns=[name], batch_size=64))
    ds.take([0, 299, 7])
    ds.versions()


def survives(call: Callable[[], Any]) -> bool:
    """Whether `call` worked; every error must be of the package or of pyarrow's validation."""
    try:
        call()
    except (errors.GlaiveError, pa.ArrowException):
        return False
    return True


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_flipped_data_files(part: int, version: str, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    glaive.write_dataset(small_table(part), uri, data_storage_version=version)
    path = data_file(str(uri))
    whole = path.read_bytes()
    random_ = random.Random(f"{part} {version}")
    refused = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(whole, random_))
        refused += not survives(lambda: use(glaive.dataset(uri)))
    assert refused > FLIPS // 20  # the damage is noticed at least where it hits the metadata


@pytest.mark.parametrize("engine", [glaive, lance], ids=["glaive", "pylance"])
def test_flipped_manifests(engine: Any, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    table = small_table(0)
    engine.write_dataset(table, str(uri), max_rows_per_file=120)
    path = manifest(str(uri))
    whole = path.read_bytes()
    random_ = random.Random(7)
    refused = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(whole, random_))
        refused += not survives(lambda: use(glaive.dataset(uri)))
    assert refused > FLIPS // 5
    path.write_bytes(whole)
    assert glaive.dataset(uri).to_table() == table


def test_damaged_tables_are_not_written_to(table: pa.Table, tmp_path: Path) -> None:
    """An append to a damaged table works or raises; it never breaks versions that were good."""
    uri = tmp_path / "t.lance"
    glaive.write_dataset(table, uri)
    first = manifest(str(uri)).read_bytes()
    random_ = random.Random(11)
    for _ in range(100):
        copy = tmp_path / "copy.lance"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(uri, copy)
        manifest(str(copy)).write_bytes(flipped(first, random_))
        survives(lambda copy=copy: glaive.write_dataset(table, copy, mode="append"))
    assert glaive.dataset(uri).to_table() == table


# --- Single files


def test_missing_file(tmp_path: Path) -> None:
    error = fails(lambda: LanceFileReader(str(tmp_path / "no.lance")), "no.lance", cls=ValueError)
    assert isinstance(error, FileNotFoundError)


def test_not_a_lance_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lance"
    path.write_text("this is not what it says it is, whatever its name may promise")
    fails(lambda: LanceFileReader(str(path)), "x.lance", "magic", cls=OSError)


def test_writer_arguments(tmp_path: Path, table: pa.Table) -> None:
    path = str(tmp_path / "x.lance")
    fails(lambda: LanceFileWriter(path).close(), "chema", cls=ValueError)
    fails(lambda: LanceFileWriter(path, table.schema, version="legacy"), cls=NotImplementedError)
    fails(lambda: LanceFileWriter(path, table.schema, version="9"), "9", cls=ValueError)
    fails(lambda: LanceFileWriter(path, table.schema, zz=1), "zz", cls=TypeError)
    writer = LanceFileWriter(path, table.schema)
    fails(lambda: writer.write_batch(pa.table({"zz": [1]})), "id", cls=ValueError)
    assert writer.close() == 0
    fails(lambda: writer.write_batch(table), "closed", cls=ValueError)
    fails(lambda: writer.add_global_buffer(b""), "closed", cls=ValueError)
