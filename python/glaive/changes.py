# SPDX-License-Identifier: Apache-2.0
"""Members of a dataset that change its metadata and schema, and that show its transactions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from glaive import _glaive
from glaive.bitmap import Bitmap
from glaive.errors import InvalidInputError, InvalidWriteError, unsupported

if TYPE_CHECKING:
    from glaive.indices import IndexDescription
    from glaive.transaction import LanceOperation, Transaction

DEFAULT_COMMIT_TIMEOUT = timedelta(minutes=30)
_ALTERATIONS = {"path", "name", "nullable", "data_type"}


class DatasetChanges:
    """Changes of metadata and schema. Each moves the handle to the version that it makes."""

    _ds: _glaive.Dataset

    # --- Transactions

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that made a version; None if the version carries none."""
        from glaive.transaction import Transaction

        row = self._ds.read_transaction(version)
        return None if row is None else Transaction._from_native(row)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The transactions of the newest versions up to this one, newest first."""
        from glaive.transaction import Transaction

        rows = self._ds.recent_transactions(recent_transactions)
        return [None if row is None else Transaction._from_native(row) for row in rows]

    def restore(self) -> None:
        """Makes the version of this handle current, as a new version."""
        self._ds = self._ds.restore()

    # --- Maps

    def config(self) -> dict[str, str]:
        """The config of the table."""
        return self._ds.config()

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the table; that of the schema is another map."""
        return self._ds.table_metadata()

    def update_config(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Sets entries of the config and returns it; None deletes a key, `replace` all other keys."""
        self._ds = self._ds.update_map("config", dict(values), replace)
        return self.config()

    def delete_config_keys(self, keys: list[str]) -> None:
        """Deletes entries of the config; missing ones are ignored."""
        self._ds = self._ds.update_map("config", dict.fromkeys(keys), False)

    def update_metadata(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """As `update_config`, on the metadata of the table."""
        self._ds = self._ds.update_map("table_metadata", dict(values), replace)
        return self.metadata

    def update_schema_metadata(
        self, values: Mapping[str, str | None], *, replace: bool = False
    ) -> dict[str, str]:
        """As `update_config`, on the metadata of the schema."""
        self._ds = self._ds.update_map("schema_metadata", dict(values), replace)
        return {k.decode(): v.decode() for k, v in (self._ds.schema.metadata or {}).items()}

    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Use `update_schema_metadata(..., replace=True)`."""
        _deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata(new_metadata, replace=True)

    def update_field_metadata(
        self, field_updates: Mapping[str, Mapping[str, str | None]], *, replace: bool = False
    ) -> None:
        """Sets entries of the metadata of fields, by path; None deletes a key, `replace` all other keys."""
        updates = {path: dict(values) for path, values in field_updates.items()}
        self._ds = self._ds.update_field_metadata(updates, replace)

    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Use `update_field_metadata(..., replace=True)`."""
        _deprecated("replace_field_metadata", "update_field_metadata with field paths and replace=True")
        self.update_field_metadata({field_name: new_metadata}, replace=True)

    # --- Schema

    @property
    def max_field_id(self) -> int:
        """The highest field id of the schema or of a data file of this version."""
        return self._ds.max_field_id

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their id when they move."""
        return self._ds.has_stable_row_ids

    def drop_columns(self, columns: list[str]) -> None:
        """Drops columns; nested ones are named as `"st.x"`. Data files stay as they are."""
        self._ds = self._ds.drop_columns(columns)

    def alter_columns(self, *alterations: Mapping[str, Any]) -> None:
        """Renames columns (`name`) or changes whether they may hold nulls (`nullable`), by `path`."""
        self._ds = self._ds.alter_columns([_alteration(dict(given)) for given in alterations])

    def add_columns(
        self,
        transforms: Any,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Adds columns that are null in all rows: a field, a list of fields, or a schema."""
        if isinstance(transforms, pa.Field):
            transforms = [transforms]
        if isinstance(transforms, list) and transforms and all(isinstance(f, pa.Field) for f in transforms):
            transforms = pa.schema(transforms)
        if not isinstance(transforms, pa.Schema):
            unsupported("add_columns with values")
        self._ds = self._ds.add_null_columns(transforms)

    # --- Fragments and indices

    def fragment_ids(self) -> Bitmap:
        """The ids of the fragments."""
        return Bitmap(fragment["id"] for fragment in self._ds.fragments())

    @property
    def has_index(self) -> bool:
        """Whether there is an index over columns."""
        return bool(self.describe_indices())

    def list_indices(self) -> list[dict[str, Any]]:
        """The segments of the indices. Use `describe_indices`."""
        names = self._ds.field_names()
        return [
            {
                "name": index.name,
                "type": index.index_type,
                "uuid": segment.uuid,
                "fields": [names[i] for i in index.fields if i in names],
                "version": segment.dataset_version_at_last_update,
                "fragment_ids": segment.fragment_ids,
                "base_id": segment.base_id,
            }
            for index in self.describe_indices()
            for segment in index.segments
        ]

    def describe_indices(self) -> list[IndexDescription]:
        """The indices over columns, as the manifest tells them: their files are not opened."""
        from glaive.indices import SYSTEM_INDICES, describe

        entries = [entry for entry in self._ds.indices() if entry["name"] not in SYSTEM_INDICES]
        if not entries:
            return []
        live = {
            fragment["id"]: fragment["physical_rows"]
            - ((fragment["deletion_file"] or {}).get("num_deleted_rows") or 0)
            for fragment in self._ds.fragments()
        }
        return describe(entries, live, self._ds.field_names())


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated. Use {instead} instead.", DeprecationWarning, stacklevel=3)


def _alteration(given: dict[str, Any]) -> tuple[str, str | None, bool | None]:
    unknown = sorted(set(given) - _ALTERATIONS)
    if unknown:
        raise InvalidInputError(f"Unknown key: {unknown[0]}. Valid keys are name, nullable, and data_type.")
    if "path" not in given:
        raise InvalidInputError("path is required")
    if given.keys() == {"path"}:
        raise InvalidInputError("At least one of name, nullable, or data_type must be specified")
    if given.get("data_type") is not None:
        unsupported("alter_columns(data_type)")
    return given["path"], given.get("name"), given.get("nullable")


def transaction_properties_of(
    properties: Mapping[str, str] | None, commit_message: str | None
) -> dict[str, str]:
    """The properties of a transaction, the commit message among them."""
    merged = dict(properties or {})
    if commit_message is not None:
        merged["__lance_commit_message"] = commit_message
    for key, value in merged.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"transaction_properties must be str to str, got {key!r}: {value!r}")
    return merged


def commit_options(
    max_retries: int,
    detached: bool | None,
    enable_v2_manifest_paths: bool | None,
    commit_timeout: timedelta | None,
) -> dict[str, Any]:
    """How the native module shall commit."""
    return {
        "max_retries": max_retries,
        "detached": bool(detached),
        "enable_v2_manifest_paths": enable_v2_manifest_paths is not False,
        "timeout_seconds": (commit_timeout or DEFAULT_COMMIT_TIMEOUT).total_seconds(),
    }


def native_transaction(
    operation: LanceOperation.BaseOperation | Transaction,
    read_version: int | None,
    commit_message: str | None,
) -> tuple[int, str, dict[str, str], str, Any]:
    """The transaction of a commit. Overwrite and Restore need no read version."""
    from glaive.transaction import LanceOperation, Transaction, native_operation

    if isinstance(operation, Transaction):
        if commit_message is not None:
            raise InvalidWriteError(
                "commit_message is not supported when calling commit with a Transaction. "
                "Set the message on the transaction properties instead."
            )
        return operation._to_native()
    kind, fields = native_operation(operation)
    free = isinstance(operation, (LanceOperation.Overwrite, LanceOperation.Restore))
    if read_version is None and not free:
        raise InvalidInputError("read_version is required for all operations except Overwrite and Restore")
    properties = transaction_properties_of(None, commit_message)
    return read_version or 0, Transaction(0, operation).uuid, properties, kind, fields
