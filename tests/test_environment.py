# SPDX-License-Identifier: Apache-2.0
"""The environment variables of pylance's writer act on ours, and pylance reads what comes out."""

from __future__ import annotations

import warnings
from pathlib import Path

import lance.file
import pyarrow as pa
import pytest

import glaive.file

ROWS = 3000
# Variable, value, file version, column on which it acts.
ACTING = [
    ("LANCE_FILE_WRITER_MAX_PAGE_BYTES", "1000", "2.0", "ints"),
    ("LANCE_DICT_ENCODING_THRESHOLD", "10", "2.0", "few"),
    ("LANCE_DICT_ENCODING_THRESHOLD", "254", "2.0", "some"),
    ("LANCE_MINIBLOCK_MAX_VALUES", "64", "2.1", "text"),
    ("LANCE_MINIBLOCK_MAX_VALUES", "0", "2.2", "doubles"),
    ("LANCE_BINARY_MINIBLOCK_CHUNK_SIZE", "512", "2.1", "text"),
    ("LANCE_BINARY_MINIBLOCK_CHUNK_SIZE", "-1", "2.2", "text"),
    ("LANCE_BINARY_MINIBLOCK_CHUNK_SIZE", "16384", "2.2", "text"),
    ("LANCE_ENCODING_DICT_TOO_SMALL", "1000000", "2.1", "few"),
    ("LANCE_ENCODING_DICT_DIVISOR", "1000", "2.2", "few"),
    ("LANCE_ENCODING_DICT_MAX_CARDINALITY", "10", "2.2", "few"),
    ("LANCE_ENCODING_DICT_SIZE_RATIO", "0.05", "2.1", "few"),
    ("LANCE_ENCODING_DICT_VALUES_COMPRESSION", "none", "2.2", "some"),
    ("LANCE_ENCODING_DICT_VALUES_COMPRESSION", "lz4", "2.2", "some"),
]
UNUSABLE = [
    ("LANCE_FILE_WRITER_MAX_PAGE_BYTES", "0"),
    ("LANCE_DICT_ENCODING_THRESHOLD", "-1"),
    ("LANCE_MINIBLOCK_MAX_VALUES", "many"),
    ("LANCE_BINARY_MINIBLOCK_CHUNK_SIZE", "4k"),
    ("LANCE_ENCODING_DICT_TOO_SMALL", ""),
    ("LANCE_ENCODING_DICT_DIVISOR", "0"),
    ("LANCE_ENCODING_DICT_MAX_CARDINALITY", "1e5"),
    ("LANCE_ENCODING_DICT_SIZE_RATIO", "1.5"),
    ("LANCE_ENCODING_DICT_VALUES_COMPRESSION", "gzip"),
    ("LANCE_ENCODING_DICT_VALUES_COMPRESSION_LEVEL", "high"),
]


def data() -> pa.Table:
    return pa.table(
        {
            "ints": pa.array([i * 7919 % 100_003 for i in range(ROWS)], pa.int32()),
            "doubles": [i * 0.37 for i in range(ROWS)],
            "few": [f"the value {i % 20}" for i in range(ROWS)],
            "some": [f"one of more values {i % 250}" for i in range(ROWS)],
            "text": [str(i * 7919 % 100_003) for i in range(ROWS)],
        }
    )


def layout(path: str) -> dict[str, list[list[int]]]:
    columns = lance.file.LanceFileReader(path).metadata().columns
    sizes = [[[b.size for b in page.buffers] for page in column.pages] for column in columns]
    return dict(zip(data().column_names, sizes, strict=True))


def write(path: Path, version: str | None = None) -> str:
    with glaive.file.LanceFileWriter(str(path), version=version) as writer:
        writer.write_batch(data())
    return str(path)


@pytest.mark.parametrize(("name", "value", "version", "column"), ACTING)
def test_a_variable_acts(
    name: str, value: str, version: str, column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = layout(write(tmp_path / "plain.lance", version))
    monkeypatch.setenv(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = write(tmp_path / "other.lance", version)
        uri = str(tmp_path / "t.lance")
        glaive.write_dataset(data(), uri, data_storage_version=version)
    other = layout(path)
    assert other[column] != plain[column]
    for engine in (lance, glaive):
        assert engine.file.LanceFileReader(path).read_all().to_table().equals(data())
        assert engine.dataset(uri).to_table().equals(data())
    (fragment,) = glaive.dataset(uri).get_fragments()
    assert layout(f"{uri}/data/{fragment.data_files()[0].path}") == other


def test_levels_of_compression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_ENCODING_DICT_VALUES_COMPRESSION", "zstd")
    plain = layout(write(tmp_path / "plain.lance"))
    monkeypatch.setenv("LANCE_ENCODING_DICT_VALUES_COMPRESSION_LEVEL", "-50")
    path = write(tmp_path / "other.lance")
    assert layout(path)["some"] != plain["some"]
    assert lance.file.LanceFileReader(path).read_all().to_table().equals(data())


@pytest.mark.parametrize(("name", "value"), UNUSABLE)
def test_a_value_that_cannot_be_used(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = layout(write(tmp_path / "plain.lance"))
    monkeypatch.setenv(name, value)
    text = f"environment variable {name} has the value '{value}', which is not"
    with pytest.warns(UserWarning, match=text) as caught:
        glaive.write_dataset(data(), tmp_path / "t.lance")
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(UserWarning, match=text) as caught:
        path = write(tmp_path / "other.lance")
    assert [w.filename for w in caught] == [__file__]
    assert layout(path) == plain


def test_metadata_of_a_field_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_ENCODING_DICT_DIVISOR", "1000")
    field = pa.field("few", pa.string(), metadata={"lance-encoding:dict-divisor": "2"})
    table = data().select(["few"]).cast(pa.schema([field]))
    path = str(tmp_path / "f.lance")
    with glaive.file.LanceFileWriter(path) as writer:
        writer.write_batch(table)
    monkeypatch.delenv("LANCE_ENCODING_DICT_DIVISOR")
    expected = layout(write(tmp_path / "plain.lance"))["few"]
    columns = lance.file.LanceFileReader(path).metadata().columns
    assert [[b.size for b in page.buffers] for page in columns[0].pages] == expected
