# SPDX-License-Identifier: Apache-2.0
"""Operations and transactions: what a commit does, as values that a program can build and send."""

from __future__ import annotations

import uuid
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from glaive.fragment import DataFile, FragmentMetadata
from glaive.indices import Index
from glaive.schema import LanceSchema

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DatasetBasePath", "LanceOperation", "Transaction"]


@dataclass
class DatasetBasePath:
    """Another place that holds files of a dataset."""

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int = 0


def _check_fragments(fragments: Any) -> None:
    if not isinstance(fragments, list):
        raise TypeError(f"fragments must be list[FragmentMetadata], got {type(fragments)}")
    for fragment in fragments:
        if not isinstance(fragment, FragmentMetadata):
            raise TypeError(f"fragments must be list[FragmentMetadata], got list[{type(fragment)}]")


def _name(cls: type) -> type:
    """Shows a class with the name under which programs find it."""
    cls.__repr__ = _repr  # type: ignore[assignment,method-assign]
    return cls


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
    return f"{type(self).__qualname__}({values})"


class LanceOperation:
    """The operations that can be committed."""

    class BaseOperation:
        """What all operations have in common."""

    @_name
    @dataclass
    class Overwrite(BaseOperation):
        """Replaces schema and rows, or makes a dataset."""

        new_schema: LanceSchema | pa.Schema
        fragments: list[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)

    @_name
    @dataclass
    class Append(BaseOperation):
        """Adds fragments."""

        fragments: list[FragmentMetadata]

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)

    @_name
    @dataclass
    class Delete(BaseOperation):
        """Deletes rows: fragments with their new deletion files, and fragments that are gone."""

        updated_fragments: list[FragmentMetadata]
        deleted_fragment_ids: list[int]
        predicate: str

        def __post_init__(self) -> None:
            _check_fragments(self.updated_fragments)

    @_name
    @dataclass
    class Update(BaseOperation):
        """Changes rows. `update_mode` is "rewrite_rows", "rewrite_columns" or ""."""

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None

        def __post_init__(self) -> None:
            _check_fragments(self.updated_fragments)
            _check_fragments(self.new_fragments)

    @_name
    @dataclass
    class Merge(BaseOperation):
        """Adds columns: all fragments, and the whole schema."""

        fragments: list[FragmentMetadata]
        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)
            if isinstance(self.schema, pa.Schema):
                warnings.warn(
                    "Passing a pyarrow.Schema to Merge is deprecated: pass a LanceSchema",
                    DeprecationWarning,
                    stacklevel=3,
                )

    @_name
    @dataclass
    class Restore(BaseOperation):
        """Makes an old version current."""

        version: int

    @_name
    @dataclass
    class Clone(BaseOperation):
        """Makes a dataset from a version of another."""

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None

    @_name
    @dataclass
    class RewriteGroup:
        """Fragments that become others with the same rows."""

        old_fragments: list[FragmentMetadata]
        new_fragments: list[FragmentMetadata]

        def __post_init__(self) -> None:
            _check_fragments(self.old_fragments)
            _check_fragments(self.new_fragments)

    @_name
    @dataclass
    class RewrittenIndex:
        """An index segment whose files were written anew."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @_name
    @dataclass
    class Rewrite(BaseOperation):
        """Stores the same rows in other fragments."""

        groups: list[LanceOperation.RewriteGroup]
        rewritten_indices: list[LanceOperation.RewrittenIndex]

    @_name
    @dataclass
    class CreateIndex(BaseOperation):
        """Adds and removes index segments."""

        new_indices: list[Index]
        removed_indices: list[Index]

    @_name
    @dataclass
    class DataReplacementGroup:
        """A file that replaces columns of a fragment."""

        fragment_id: int
        new_file: DataFile

    @_name
    @dataclass
    class DataReplacement(BaseOperation):
        """Replaces the files of columns."""

        replacements: list[LanceOperation.DataReplacementGroup]

    @_name
    @dataclass
    class DataOverlayFile:
        """Cells that replace others: offsets of all fields, or one list for each field."""

        data_file: DataFile
        offsets: Iterable[int] | list[Iterable[int]]
        committed_version: int | None = None

    @_name
    @dataclass
    class DataOverlayGroup:
        """Overlays of one fragment."""

        fragment_id: int
        overlays: list[LanceOperation.DataOverlayFile]

    @_name
    @dataclass
    class DataOverlay(BaseOperation):
        """Replaces single cells. It can be read, but not committed."""

        groups: list[LanceOperation.DataOverlayGroup]

    @_name
    @dataclass
    class Project(BaseOperation):
        """Drops, renames or reorders columns."""

        schema: LanceSchema
        preserves_nullability: bool = False

    @_name
    @dataclass
    class UpdateMap:
        """Changes of a map; None deletes a key, and `replace` all other keys."""

        updates: dict[str, str | None]
        replace: bool = False

    @_name
    @dataclass
    class UpdateConfig(BaseOperation):
        """Changes of config and metadata."""

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @_name
    @dataclass
    class ReserveFragments(BaseOperation):
        """Sets fragment ids aside. pylance shows this operation as a bare `BaseOperation`."""

        num_fragments: int

    @_name
    @dataclass
    class UpdateBases(BaseOperation):
        """Adds base paths. pylance shows this operation as a bare `BaseOperation`."""

        new_bases: list[DatasetBasePath]


@dataclass
class Transaction:
    """An operation with the version that it was computed from."""

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)

    @staticmethod
    def _from_native(row: tuple[int, str, dict[str, str], str, dict[str, Any]]) -> Transaction:
        read_version, name, properties, kind, fields = row
        return Transaction(read_version, _operation(kind, fields), name, properties)

    def _to_native(self) -> tuple[int, str, dict[str, str], str, Any]:
        return (
            self.read_version,
            self.uuid,
            dict(self.transaction_properties or {}),
            *native_operation(self.operation),
        )


def native_operation(operation: Any) -> tuple[str, Any]:
    """The name of an operation and the object whose attributes are its fields."""
    if not isinstance(operation, LanceOperation.BaseOperation):
        raise TypeError(
            f"operation must be a LanceOperation.BaseOperation or Transaction, got {type(operation)}"
        )
    return type(operation).__name__, operation


def _fragments(rows: list[dict[str, Any]]) -> list[FragmentMetadata]:
    return [FragmentMetadata._from_dict(row) for row in rows]


def _schema(row: tuple[pa.Schema, list[Any]]) -> LanceSchema:
    return LanceSchema._from_native(*row)


def _map(row: tuple[dict[str, str | None], bool] | None) -> LanceOperation.UpdateMap | None:
    return None if row is None else LanceOperation.UpdateMap(*row)


def _maps(rows: dict[int, Any]) -> dict[int, LanceOperation.UpdateMap] | None:
    return {field_id: LanceOperation.UpdateMap(*row) for field_id, row in rows.items()} or None


def _bases(rows: list[dict[str, Any]]) -> list[DatasetBasePath]:
    return [DatasetBasePath(**row) for row in rows]


def _groups(rows: list[tuple[Any, Any]]) -> list[LanceOperation.RewriteGroup]:
    return [LanceOperation.RewriteGroup(_fragments(old), _fragments(new)) for old, new in rows]


def _indices(rows: list[dict[str, Any]]) -> list[Index]:
    return [Index._from_dict(row) for row in rows]


def _overlays(rows: list[tuple[int, list[Any]]]) -> list[LanceOperation.DataOverlayGroup]:
    files = LanceOperation.DataOverlayFile
    return [
        LanceOperation.DataOverlayGroup(
            fragment, [files(DataFile(**file), offsets, version) for file, offsets, version in overlays]
        )
        for fragment, overlays in rows
    ]


# What turns the plain value of a field into that of the dataclass.
_CONVERSIONS: dict[str, Any] = {
    "fragments": _fragments,
    "updated_fragments": _fragments,
    "new_fragments": _fragments,
    "schema": _schema,
    "new_schema": _schema,
    "config_updates": _map,
    "table_metadata_updates": _map,
    "schema_metadata_updates": _map,
    "field_metadata_updates": _maps,
    "initial_bases": lambda rows: _bases(rows) or None,
    "new_bases": _bases,
    "new_indices": _indices,
    "removed_indices": _indices,
}
_CONVERSIONS_OF: dict[str, dict[str, Any]] = {
    "Rewrite": {
        "groups": _groups,
        "rewritten_indices": lambda rows: [LanceOperation.RewrittenIndex(*row) for row in rows],
    },
    "DataReplacement": {
        "replacements": lambda rows: [
            LanceOperation.DataReplacementGroup(fragment, DataFile(**file)) for fragment, file in rows
        ]
    },
    "DataOverlay": {"groups": _overlays},
}


def _operation(kind: str, fields: dict[str, Any]) -> LanceOperation.BaseOperation:
    conversions = {**_CONVERSIONS, **_CONVERSIONS_OF.get(kind, {})}
    values = {name: conversions.get(name, lambda value: value)(value) for name, value in fields.items()}
    cls = getattr(LanceOperation, kind, LanceOperation.BaseOperation)
    return cls(**values)
