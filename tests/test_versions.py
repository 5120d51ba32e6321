# SPDX-License-Identifier: Apache-2.0
"""Files of versions that cannot be read: the error says which, and what to do."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import glaive.file
from glaive.errors import UnsupportedError

DATA = Path(__file__).parent / "data" / "versions"
PRELIMINARY = r"preliminary form of file version 2\.1.*pylance \(0\.17 to 0\.32\).*write it as version 2\.0"
TEXTS = {
    "pylance-0.10.18-experimental": r"footer of 48 bytes.*pylance 0\.10",
    "pylance-0.17.0-2.1": PRELIMINARY,
    "pylance-0.18.2-2.1": PRELIMINARY,
    "pylance-0.19.2-2.1": PRELIMINARY,
    "pylance-0.32.1-2.1": PRELIMINARY,
    "pylance-14.0.2-2.3": r"version 2\.3 is unstable.*use version 2\.2",
}


def test_all_files_are_tested() -> None:
    assert {path.stem for path in DATA.glob("*.lance")} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_a_file(name: str) -> None:
    path = str(DATA / f"{name}.lance")
    with pytest.raises(UnsupportedError, match=TEXTS[name]) as caught:
        glaive.file.LanceFileReader(path).read_all().to_table()
    assert path in str(caught.value)


@pytest.mark.parametrize("version", ["2.3", "next"])
def test_a_table_of_version_2_3(version: str, table: pa.Table, uri: str) -> None:
    lance.write_dataset(table, uri, data_storage_version=version)
    dataset = glaive.dataset(uri)
    assert dataset.data_storage_version == "2.3"
    with pytest.raises(UnsupportedError, match=r"version 2\.3 is unstable.*use version 2\.2"):
        dataset.to_table()
    with pytest.raises(UnsupportedError, match=r"writing data file version 2\.3.*\"2\.2\""):
        glaive.write_dataset(table, uri, mode="append")
    with pytest.raises(UnsupportedError, match=r"writing data file version 2\.3.*\"2\.2\""):
        glaive.file.LanceFileWriter(f"{uri}.lance", version=version)


def test_unknown_versions(table: pa.Table, uri: str) -> None:
    with pytest.raises(ValueError, match=r"Unknown Lance storage version: 2\.9.*2\.2 \(stable\)"):
        glaive.write_dataset(table, uri, data_storage_version="2.9")
