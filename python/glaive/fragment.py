# SPDX-License-Identifier: Apache-2.0
"""Fragments: the horizontal slices of a dataset, and their metadata."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads

from glaive.errors import InvalidInputError, OutOfBoundsError, unsupported
from glaive.scanner import LanceScanner, scan_request

if TYPE_CHECKING:
    import pandas as pd

    from glaive.dataset import LanceDataset

__all__ = [
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "LanceFragment",
    "RowDatasetVersionMeta",
    "RowIdMeta",
]


class _CallablePath(str):
    """A path that may also be called, as old programs do: `data_file.path()`."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


@dataclass
class DataFile:
    """One data file of a fragment: some of its columns, all of its rows."""

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def __post_init__(self) -> None:
        self.path = _CallablePath(self.path)

    def field_ids(self) -> list[int]:
        """Ids of the fields that the file holds."""
        return self.fields

    def __repr__(self) -> str:
        return (
            f"DataFile(path={str(self.path)!r}, fields={self.fields}, column_indices={self.column_indices}, "
            f"file_major_version={self.file_major_version}, file_minor_version={self.file_minor_version}, "
            f"file_size_bytes={self.file_size_bytes})"
        )

    def _asdict(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "fields": self.fields,
            "column_indices": self.column_indices,
            "file_major_version": self.file_major_version,
            "file_minor_version": self.file_minor_version,
            "file_size_bytes": self.file_size_bytes,
            "base_id": self.base_id,
        }


@dataclass
class DeletionFile:
    """The file that names a fragment's deleted rows."""

    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None = None

    def asdict(self) -> dict[str, Any]:
        """The attributes as a dict."""
        return dict(vars(self))

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Where the file is, relative to the dataset or below `base_uri`."""
        suffix = "arrow" if self.file_type == "array" else "bin"
        relative = f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{suffix}"
        return relative if base_uri is None else f"{base_uri}/{relative}"

    def json(self) -> str:
        """The attributes as JSON text."""
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(text: str) -> DeletionFile:
        """Reads the text of `json`."""
        return DeletionFile(**json.loads(text))


@dataclass(frozen=True)
class RowIdMeta:
    """The row ids of a fragment, in their stored form; without bytes they are a hidden column."""

    inline: bytes | None

    def asdict(self) -> dict[str, Any]:
        """What `json` writes."""
        return {"Column": None} if self.inline is None else {"Inline": list(self.inline)}

    def json(self) -> str:
        """The meta as JSON text."""
        return json.dumps(self.asdict(), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> RowIdMeta:
        """Reads the text of `json`."""
        return RowIdMeta(_inline(json.loads(text)))


@dataclass(frozen=True)
class RowDatasetVersionMeta:
    """The version stamps of a fragment's rows, as stored; without bytes they are a hidden column."""

    inline: bytes | None

    def asdict(self) -> dict[str, Any]:
        """What `json` writes."""
        return {"column": None} if self.inline is None else {"inline": list(self.inline)}

    def json(self) -> str:
        """The meta as JSON text."""
        return json.dumps(self.asdict(), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> RowDatasetVersionMeta:
        """Reads the text of `json`."""
        return RowDatasetVersionMeta(_inline(json.loads(text)))


def _inline(stored: Any) -> bytes | None:
    """The bytes of a meta: from the native module, or from JSON."""
    if isinstance(stored, bytes):
        return stored
    if stored == "column" or "column" in stored or "Column" in stored:
        return None
    for key in ("Inline", "inline"):
        if key in stored:
            return bytes(stored[key])
    raise InvalidInputError(f"row ids or version stamps are stored as 'inline', got {sorted(stored)}")


@dataclass
class FragmentMetadata:
    """What the manifest says of a fragment."""

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None
    overlays: list[Any] = field(default_factory=list)

    @property
    def num_deletions(self) -> int:
        """Deleted rows."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """Use `files`."""
        return self.files

    def to_json(self) -> dict[str, Any]:
        """A dict that `json.dumps` takes."""
        return {
            "id": self.id,
            "files": [file._asdict() for file in self.files],
            "overlays": self.overlays,
            "physical_rows": self.physical_rows,
            "deletion_file": None if self.deletion_file is None else self.deletion_file.asdict(),
            **{name: meta and meta.asdict() for name, meta in self._lineage().items()},
        }

    def _lineage(self) -> dict[str, RowIdMeta | RowDatasetVersionMeta | None]:
        return {
            "row_id_meta": self.row_id_meta,
            "created_at_version_meta": self.created_at_version_meta,
            "last_updated_at_version_meta": self.last_updated_at_version_meta,
        }

    @staticmethod
    def from_json(json_data: str) -> FragmentMetadata:
        """Reads the text of `json.dumps(metadata.to_json())`."""
        return FragmentMetadata._from_dict(json.loads(json_data))

    @staticmethod
    def _from_dict(fields: dict[str, Any]) -> FragmentMetadata:
        fields = dict(fields)
        files = [DataFile(**file) for file in fields.pop("files")]
        deletions = fields.pop("deletion_file", None)
        for name, cls in _LINEAGE.items():
            if fields.get(name) is not None:
                fields[name] = cls(_inline(fields[name]))
        return FragmentMetadata(
            files=files, deletion_file=None if deletions is None else DeletionFile(**deletions), **fields
        )


_LINEAGE: dict[str, type[RowIdMeta] | type[RowDatasetVersionMeta]] = {
    "row_id_meta": RowIdMeta,
    "created_at_version_meta": RowDatasetVersionMeta,
    "last_updated_at_version_meta": RowDatasetVersionMeta,
}


class LanceFragment(pads.Fragment):
    """One fragment of one version of a dataset."""

    def __init__(
        self, dataset: LanceDataset, fragment_id: int | None, *, fragment: FragmentMetadata | None = None
    ) -> None:
        self._ds = dataset
        if fragment is None:
            fragment = next((m for m in dataset._fragment_metadata() if m.id == fragment_id), None)
        if fragment is None:
            raise InvalidInputError(
                f"Fragment {fragment_id} does not exist in version {dataset.version} of {dataset.uri}"
            )
        self._metadata = fragment

    @property
    def fragment_id(self) -> int:
        """The id, unique in the history of the dataset."""
        return self._metadata.id

    @property
    def metadata(self) -> FragmentMetadata:
        """What the manifest says of the fragment."""
        return self._metadata

    @property
    def num_deletions(self) -> int:
        """Deleted rows."""
        return self._metadata.num_deletions

    @property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones included."""
        return self._metadata.physical_rows

    @property
    def schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._ds.schema

    @property
    def physical_schema(self) -> NoReturn:
        """Not implemented."""
        raise NotImplementedError("physical_schema")

    @property
    def partition_expression(self) -> NoReturn:
        """Not implemented: a Lance dataset has no partitions."""
        raise NotImplementedError("partition_expression: a Lance dataset has no partitions")

    def data_files(self) -> list[DataFile]:
        """The data files."""
        return list(self._metadata.files)

    def deletion_file(self) -> str | None:
        """The path of the deletion file within the dataset."""
        deletions = self._metadata.deletion_file
        return None if deletions is None else deletions.path(self.fragment_id)

    def count_rows(self, filter: Any = None) -> int:
        """Live rows."""
        if filter is not None:
            unsupported("count_rows with a filter")
        return self._ds._ds.count_rows([self.fragment_id])

    def scanner(
        self,
        *,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: Any = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: Any = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> LanceScanner:
        """A scan of this fragment; options as in `LanceDataset.scanner`."""
        options = {name: value for name, value in locals().items() if name != "self"}
        request = scan_request({**options, "fragments": [self]})
        return LanceScanner(request, self._ds)

    def to_batches(self, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch; options as in `scanner`."""
        yield from self.scanner(**options).to_batches()

    def to_table(
        self,
        columns: list[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        **options: Any,
    ) -> pa.Table:
        """The rows as a table; options as in `scanner`."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            **options,
        ).to_table()

    def to_pandas(
        self,
        columns: list[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_mode: str = "lazy",
        order_by: Any = None,
        **kwargs: Any,
    ) -> pd.DataFrame:
        """The rows as a data frame; `kwargs` go to `pyarrow.Table.to_pandas`."""
        scanner = self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            order_by=order_by,
        )
        return scanner.to_pandas(blob_mode=blob_mode, **kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """The first `num_rows` live rows."""
        return self.scanner(limit=num_rows).to_table()

    def take(self, indices: Any, columns: list[str] | None = None) -> pa.Table:
        """Rows by position among the live rows; positions must not decrease."""
        positions = [operator.index(i) for i in indices]
        for before, (first, second) in enumerate(zip(positions, positions[1:], strict=False)):
            if second < first:
                raise OutOfBoundsError(
                    "Requested row indices are not strictly increasing at index "
                    f"{before}: {first} then {second}"
                )
        rows = self.count_rows()
        if positions and positions[-1] >= rows:
            raise OutOfBoundsError(
                f"Row {positions[-1]} is beyond the end of fragment {self.fragment_id} with {rows} rows"
            )
        if positions and positions[0] < 0:
            raise OverflowError("can't convert negative int to unsigned")
        first_row = self._first_row()
        return self._ds.take([first_row + i for i in positions], columns)

    def _first_row(self) -> int:
        """How many live rows of the dataset come before this fragment."""
        before = []
        for metadata in self._ds._fragment_metadata():
            if metadata.id == self.fragment_id:
                break
            before.append(metadata.id)
        return self._ds._ds.count_rows(before)

    def __reduce__(self) -> tuple[Any, ...]:
        return (LanceFragment, (self._ds, self.fragment_id))

    def __repr__(self) -> str:
        files = [str(file.path) for file in self._metadata.files]
        return f"LanceFragment(id={self.fragment_id}, data_files={files})"

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.create")

    @staticmethod
    def create_from_file(*args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.create_from_file")

    def delete(self, predicate: str) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.delete")

    def delete_rows(self, offsets: Any) -> FragmentMetadata | None:
        """Writes a deletion file with these physical offsets besides those before; commits nothing.

        Returns the fragment as it is then, or None if no row is left.
        """
        rows = [operator.index(offset) for offset in offsets]
        updated = self._ds._ds.delete_fragment_rows(self.fragment_id, rows)
        return None if updated is None else FragmentMetadata._from_dict(updated)

    def merge(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.merge")

    def merge_columns(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.merge_columns")

    def update_columns(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.update_columns")

    def open_session(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.open_session")

    def validate(self) -> NoReturn:
        """Not implemented."""
        unsupported("LanceFragment.validate")
