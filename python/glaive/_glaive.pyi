# SPDX-License-Identifier: Apache-2.0
"""The native module: conversions over the Rust engine. Not a public API."""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import pyarrow as pa

__version__: str
STABLE_VERSION: str
DEFAULT_BATCH_SIZE: int

# Read version, uuid, properties, class name of the operation, the operation.
_TransactionIn: TypeAlias = tuple[int, str, dict[str, str], str, Any]
_TransactionOut: TypeAlias = tuple[int, str, dict[str, str], str, dict[str, Any]]

@final
class Dataset:
    """One version of a dataset."""

    @staticmethod
    def open(uri: str, version: int | None = None, commit_lock: Any = None) -> Dataset:
        """Opens the latest version, or the one given."""

    @staticmethod
    def write(
        data: Any,
        destination: str | Dataset,
        *,
        mode: str,
        max_rows_per_file: int,
        max_bytes_per_file: int,
        data_cache_bytes: int | None,
        alignment: int,
        data_storage_version: str | None,
        enable_v2_manifest_paths: bool,
        transaction_properties: dict[str, str],
        progress: Any,
        external_blobs: str,
        blob_pack_file_size_threshold: int | None,
        durability: str | None,
        commit_lock: Any,
        auto_cleanup: tuple[int, int] | None,
    ) -> Dataset:
        """Writes an Arrow stream and returns the new version."""

    @property
    def uri(self) -> str:
        """Where this branch of the dataset is."""

    @property
    def branch(self) -> str | None: ...
    @property
    def version(self) -> int: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def data_storage_version(self) -> str: ...
    def latest_version(self) -> int:
        """The newest version, looked up now."""

    def version_info(self) -> tuple[int, int, dict[str, str]]:
        """Number, nanoseconds since the epoch, summary."""

    def versions(self) -> list[tuple[int, int, dict[str, str]]]:
        """All versions, oldest first."""

    def checkout_version(self, version: int) -> Dataset:
        """Another version."""

    def fragments(self) -> list[dict[str, Any]]:
        """The fragments as `FragmentMetadata.to_json` shows them."""

    def field_ids(self) -> list[Any]:
        """Trees (id, Arrow field, children)."""

    def count_rows(self, fragment_ids: Sequence[int] | None = None) -> int:
        """Live rows of the dataset or of some fragments."""

    def scan(
        self,
        *,
        columns: Sequence[str] | None,
        limit: int | None,
        offset: int | None,
        batch_size: int | None,
        fragment_ids: Sequence[int] | None,
        with_row_id: bool,
        with_row_address: bool,
        readahead: int | None,
        blobs_as_bytes: bool,
    ) -> Scan:
        """A scan that can run once. `batch_size` None: batches as large as one read."""

    def take(self, indices: Any, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Rows by position."""

    def take_blobs(
        self, column: str, rows: Sequence[int], selector: str
    ) -> list[tuple[int, BlobHandle | None]]:
        """Blobs by row as (row address, handle); None for a null. `selector`: ids, addresses or indices."""

    def read_blobs(
        self, column: str, rows: Sequence[int], selector: str, preserve_order: bool
    ) -> list[tuple[int, bytes | None]]:
        """Blobs by row as (row address, bytes); None for a null."""

    def read_blob_ranges(
        self, column: str, requests: Sequence[tuple[int, int, int]], selector: str
    ) -> list[tuple[int, int, bytes | None]]:
        """Parts (row, offset, length) as (number of the request, row address, bytes); None for a null."""

    @property
    def has_stable_row_ids(self) -> bool: ...
    @property
    def max_field_id(self) -> int: ...
    def config(self) -> dict[str, str]: ...
    def table_metadata(self) -> dict[str, str]: ...
    def indices(self) -> list[dict[str, Any]]:
        """The entries of the index section."""

    def field_names(self) -> dict[int, str]:
        """Names by field id, nested ones as paths."""

    def read_transaction(self, version: int) -> _TransactionOut | None:
        """The transaction that made a version; None if the version carries none."""

    def recent_transactions(self, count: int) -> list[_TransactionOut | None]:
        """The transactions of the newest versions, newest first."""

    def restore(self) -> Dataset:
        """Makes this version current."""

    def update_map(self, map: str, updates: dict[str, str | None], replace: bool) -> Dataset:
        """Edits one of the maps "config", "table_metadata" and "schema_metadata"."""

    def update_field_metadata(self, updates: dict[str, dict[str, str | None]], replace: bool) -> Dataset:
        """Edits the metadata of fields by path."""

    def drop_columns(self, columns: Sequence[str]) -> Dataset:
        """Drops columns."""

    def alter_columns(self, alterations: Sequence[tuple[str, str | None, bool | None]]) -> Dataset:
        """Renames columns or changes their nullability: path, name, nullable."""

    def add_null_columns(self, schema: pa.Schema) -> Dataset:
        """Adds columns that are null in all rows."""

    def delete_fragment_rows(self, fragment_id: int, offsets: Sequence[int]) -> dict[str, Any] | None:
        """Writes a deletion file for rows of a fragment; None if no row is left."""

@final
class BlobHandle:
    """One blob, read in parts."""

    @property
    def size(self) -> int: ...
    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`."""

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts given as (offset, length)."""

@final
class Scan:
    """Batches that are read as they are asked for."""

    @property
    def schema(self) -> pa.Schema: ...
    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch; None at the end."""

    def to_reader(self) -> pa.RecordBatchReader:
        """The rest as a stream."""

    def to_table(self) -> pa.Table:
        """The rest as a table."""

@final
class FileReader:
    """One file."""

    def __new__(cls, path: str, columns: Sequence[str] | None = None) -> FileReader: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def schema(self) -> pa.Schema: ...
    def metadata(self) -> dict[str, Any]:
        """Layout of the file."""

    def read_range(self, start: int, num_rows: int, batch_size: int, readahead: int) -> Scan:
        """Rows of a range."""

    def take_rows(self, indices: Sequence[int], batch_size: int, readahead: int) -> Scan:
        """Rows by position, ascending."""

    def read_global_buffer(self, index: int) -> bytes:
        """A global buffer; 0 is the schema."""

@final
class FileWriter:
    """A file that is being written."""

    def __new__(
        cls,
        path: str,
        schema: pa.Schema,
        version: str | None = None,
        data_cache_bytes: int | None = None,
        max_page_bytes: int | None = None,
        alignment: int = 64,
    ) -> FileWriter: ...
    def write(self, data: Any) -> None:
        """Appends the batches of an Arrow stream or one batch."""

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Adds an entry to the schema's metadata."""

    def add_global_buffer(self, data: bytes) -> int:
        """Adds a global buffer and returns its index."""

    def finish(self) -> int:
        """Completes the file and returns its rows."""

def check_file_options(version: str | None, alignment: int) -> None:
    """Raises unless files of that version and alignment can be written."""

def number_fields(schema: pa.Schema) -> list[Any]:
    """Trees (id, Arrow field, children) as a new dataset numbers them."""

_Reference = int | str | tuple[str | None, int | None]

def checkout(dataset: Dataset, reference: _Reference) -> Dataset:
    """Another version, by any of its names."""

def list_tags(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """All tags by name."""

def tag_version(dataset: Dataset, name: str) -> int:
    """The version that a tag names."""

def create_tag(dataset: Dataset, name: str, reference: _Reference) -> None:
    """Makes a tag."""

def update_tag(dataset: Dataset, name: str, reference: _Reference) -> None:
    """Moves a tag."""

def delete_tag(dataset: Dataset, name: str) -> None:
    """Removes a tag."""

def replace_tag_metadata(dataset: Dataset, name: str, metadata: dict[str, str]) -> None:
    """Replaces the metadata of a tag."""

def list_branches(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """All branches but main by name."""

def create_branch(dataset: Dataset, name: str, reference: _Reference) -> Dataset:
    """Makes a branch and opens it."""

def delete_branch(dataset: Dataset, name: str) -> None:
    """Removes a branch with its files."""

def replace_branch_metadata(dataset: Dataset, name: str, metadata: dict[str, str]) -> None:
    """Replaces the metadata of a branch."""

def cleanup(
    dataset: Dataset,
    older_than_us: int | None,
    retain_versions: int | None,
    versions: list[int] | None,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: int | None,
    progress: Any,
) -> dict[str, int]:
    """Removes old versions and returns the counts."""

def plan_cleanup(
    dataset: Dataset,
    older_than_us: int | None,
    retain_versions: int | None,
    versions: list[int] | None,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: int | None,
) -> tuple[dict[str, int], list[tuple[str, str, int, bool, bool, str]], set[str]]:
    """What a cleanup would do."""

def migrate_manifest_paths_v2(dataset: Dataset) -> Dataset:
    """Renames the manifests of an early writer."""

def version_numbers(dataset: Dataset) -> list[int]:
    """The numbers of all versions."""

def buffer_addresses(batch: Any) -> list[int]:
    """Addresses of the buffers of a batch that was handed in, in the order of the Arrow layout."""

def scan_and_addresses(
    dataset: Dataset, columns: Sequence[str] | None
) -> list[tuple[pa.RecordBatch, list[int]]]:
    """The batches of a scan with the addresses that their buffers had before they were handed out."""

def commit(destination: str | Dataset, transaction: _TransactionIn, options: dict[str, Any]) -> Dataset:
    """Commits a transaction and returns the version that it made."""

def commit_batch(
    destination: str | Dataset, transactions: Sequence[_TransactionIn], options: dict[str, Any]
) -> tuple[Dataset, _TransactionOut]:
    """Commits several appends as one version; returns it and the transaction that made it."""
