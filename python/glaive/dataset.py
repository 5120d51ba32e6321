# SPDX-License-Identifier: Apache-2.0
"""Datasets: opening, writing, reading, versions."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads

from glaive import _glaive, cleanup
from glaive._later import add_later_members
from glaive.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from glaive.changes import (
    DEFAULT_COMMIT_TIMEOUT,
    DatasetChanges,
    commit_options,
    native_transaction,
    transaction_properties_of,
)
from glaive.errors import InvalidInputError, InvalidWriteError, OutOfBoundsError, unsupported
from glaive.fragment import FragmentMetadata, LanceFragment
from glaive.refs import Branches, Reference, Tags, checked_reference
from glaive.scanner import LanceScanner, check_columns, drop_pyarrow_hints, scan_request
from glaive.types.inputs import to_reader

if TYPE_CHECKING:
    import pandas as pd

    from glaive.cleanup import CleanupExplanation, CleanupStats
    from glaive.commit import CommitLock
    from glaive.progress import FragmentWriteProgress
    from glaive.schema import LanceSchema
    from glaive.transaction import LanceOperation, Transaction

__all__ = ["Branches", "LanceDataset", "LanceScanner", "Tags", "dataset", "write_dataset"]

DEFAULT_MAX_BYTES_PER_FILE = 90 * 1024**3
DEFAULT_MAX_ROWS_PER_FILE = 1024 * 1024
_MODES = ("create", "append", "overwrite")


def dataset(
    uri: str | Path | None = None,
    version: Reference | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: CommitLock | None = None,
    index_cache_size: int | None = None,
    storage_options: dict[str, str] | None = None,
    default_scan_options: dict[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: dict[str, Any] | None = None,
    session: Any = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    base_store_params: Any = None,
) -> LanceDataset:
    """Opens a dataset at its latest version, at `version`, or as it was before `asof`.

    `version` is a number, a tag, or a branch with a version of it: ("dev", 3), ("dev", None) for its latest.

    `asof` picks the greatest version whose timestamp is strictly earlier; timestamps are naive local times.
    Raises `DatasetNotFoundError` where there is no dataset or no such version. The cache sizes, `block_size`,
    `read_params` and `session` are hints.
    """
    if uri is None and not (namespace_client and table_id):
        raise InvalidInputError("Must specify either 'uri' or both 'namespace_client' and 'table_id'.")
    opened = LanceDataset(
        uri,  # type: ignore[arg-type]  # None only together with a namespace, which the constructor refuses
        version,
        block_size=block_size,
        index_cache_size=index_cache_size,
        commit_lock=commit_lock,
        storage_options=storage_options,
        default_scan_options=default_scan_options,
        metadata_cache_size_bytes=metadata_cache_size_bytes,
        index_cache_size_bytes=index_cache_size_bytes,
        read_params=read_params,
        session=session,
        namespace_client=namespace_client,
        table_id=table_id,
        base_store_params=base_store_params,
    )
    if version is not None or asof is None:
        return opened
    # As in pylance, the default scan options do not survive this.
    return LanceDataset(
        opened.uri, _version_before(opened, asof), commit_lock=commit_lock, storage_options=storage_options
    )


def write_dataset(
    data_obj: Any,
    uri: str | Path | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    max_rows_per_file: int = DEFAULT_MAX_ROWS_PER_FILE,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    commit_lock: CommitLock | None = None,
    progress: FragmentWriteProgress | None = None,
    storage_options: dict[str, str] | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: dict[str, int] | None = None,
    commit_message: str | None = None,
    transaction_properties: dict[str, str] | None = None,
    initial_bases: Any = None,
    target_bases: Any = None,
    target_all_bases: bool | None = None,
    base_store_params: Any = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    session: Any = None,
    alignment: int = 64,
    durability: str | None = None,
) -> LanceDataset:
    """Writes `data_obj` and returns the dataset at the new version.

    `mode` is "create" (an existing dataset is an error), "append" (creates where there is none) or
    "overwrite" (new rows and schema, the history stays). `data_obj` is anything that `glaive.types.to_reader`
    takes. Given a `LanceDataset` as `uri`, the write is based on its version, and it stays where it is.

    `alignment` is where the buffers of the files start: at multiples of 64 bytes, or of 4096, so that a
    reader can use direct I/O (not an option of pylance, which reads such files). Then a page takes 2 KiB
    more for each of its buffers on average, and a file about 4 KiB more for each column.

    Blobs given by a URI (`glaive.blob`) keep it where it lies below a base path of the dataset, or anywhere
    with `allow_external_blob_outside_bases`; `external_blob_mode="ingest"` copies the bytes.
    `blob_pack_file_size_threshold` is when a file that blobs share is full.

    `durability` says what the new version survives once this returns: "process" (the default, as pylance) the
    end of the process, "disk" also a power loss (not an option of pylance). "disk" waits for the device at
    every file and directory: six times for an append of one file. The handle that is returned keeps it for
    later writes through it. `commit_lock` is called with each version
    that is about to be made and gives the context manager that is held meanwhile. `auto_cleanup_options`
    ({"interval": versions, "older_than_seconds": age}) makes a new dataset remove old versions after commits.

    A failed write leaves the dataset as it was. `max_rows_per_group`, `max_page_bytes` and `session`
    are hints.
    """
    later = {
        "enable_stable_row_ids": enable_stable_row_ids,
        "initial_bases": initial_bases,
        "target_bases": target_bases,
        "target_all_bases": target_all_bases,
        "base_store_params": base_store_params,
        "namespace_client": namespace_client,
        "table_id": table_id,
    }
    _refuse(later, "write_dataset")
    _check_storage_options(storage_options)
    _check_lock(commit_lock)
    if mode not in _MODES:
        raise InvalidInputError(f"Invalid mode {mode}")
    _check_positive("max_rows_per_file", max_rows_per_file)
    _check_positive("max_bytes_per_file", max_bytes_per_file)
    if blob_pack_file_size_threshold is not None:
        _check_positive("blob_pack_file_size_threshold", blob_pack_file_size_threshold)
    external_blobs = _external_blobs(external_blob_mode, allow_external_blob_outside_bases)
    destination, kept_uri = _destination(uri)
    written = _glaive.Dataset.write(
        to_reader(data_obj, schema),
        destination,
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        data_cache_bytes=data_cache_bytes,
        alignment=alignment,
        data_storage_version=_storage_version(data_storage_version, use_legacy_format),
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        transaction_properties=transaction_properties_of(transaction_properties, commit_message),
        progress=None if progress is None else _FragmentProgress(progress),
        external_blobs=external_blobs,
        blob_pack_file_size_threshold=blob_pack_file_size_threshold,
        durability=durability,
        commit_lock=commit_lock,
        auto_cleanup=_auto_cleanup(auto_cleanup_options),
    )
    return LanceDataset._from_native(written, kept_uri, storage_options=storage_options)


class LanceDataset(DatasetChanges, pads.Dataset):
    """One version of a dataset. Use `glaive.dataset` to open one.

    A handle is a snapshot: writes by others do not move it. `insert` moves the handle it is called on.
    """

    def __init__(
        self,
        uri: str | Path,
        version: Reference | None = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: dict[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: dict[str, Any] | None = None,
        session: Any = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Any = None,
    ) -> None:
        later = {
            "namespace_client": namespace_client,
            "table_id": table_id,
            "namespace_client_managed_versioning": namespace_client_managed_versioning,
            "base_store_params": base_store_params,
        }
        _check_lock(commit_lock)
        _refuse(later, "dataset")
        _check_storage_options(storage_options)
        for name, value in {
            "index_cache_size": index_cache_size,
            "metadata_cache_size": metadata_cache_size,
        }.items():
            if value is not None:
                warnings.warn(f"{name} is deprecated: use {name}_bytes", DeprecationWarning, stacklevel=3)
        self._uri = _uri_text(uri)
        self._ds = _open(self._uri, version, commit_lock)
        self._storage_options = storage_options
        self._default_scan_options = default_scan_options

    @classmethod
    def _from_native(
        cls,
        native: _glaive.Dataset,
        uri: str,
        *,
        storage_options: dict[str, str] | None = None,
        default_scan_options: dict[str, Any] | None = None,
    ) -> LanceDataset:
        self = cls.__new__(cls)
        self._uri = uri
        self._ds = native
        self._storage_options = storage_options
        self._default_scan_options = default_scan_options
        return self

    # --- What it is

    @property
    def uri(self) -> str:
        """Where the dataset is, as the caller gave it."""
        return self._uri

    @property
    def schema(self) -> pa.Schema:
        """The schema; with default scan options, the schema of a scan."""
        if self._default_scan_options:
            return self.scanner().projected_schema
        return self._ds.schema

    @property
    def lance_schema(self) -> LanceSchema:
        """The schema with field ids."""
        from glaive.schema import LanceSchema

        return LanceSchema._from_native(self._ds.schema, self._ds.field_ids())

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The metadata of the schema."""
        return {k.decode(): v.decode() for k, v in (self._ds.schema.metadata or {}).items()}

    @property
    def data_storage_version(self) -> str:
        """The file version of new data files, for example "2.2"."""
        return self._ds.data_storage_version

    @property
    def partition_expression(self) -> NoReturn:
        """Not implemented: a Lance dataset has no partitions."""
        raise NotImplementedError("partition_expression: a Lance dataset has no partitions")

    def __len__(self) -> int:
        return self.count_rows()

    def __repr__(self) -> str:
        return f"LanceDataset(uri={self._uri!r}, version={self.version})"

    # --- Versions

    @property
    def version(self) -> int:
        """The version that this handle shows."""
        return self._ds.version

    @property
    def latest_version(self) -> int:
        """The newest version, looked up now."""
        return self._ds.latest_version()

    def versions(self) -> list[dict[str, Any]]:
        """All versions, oldest first: number, naive local timestamp, and counts as text."""
        return [_version_info(info) for info in self._ds.versions()]

    def get_version(self) -> dict[str, Any]:
        """What `versions` says of the version of this handle."""
        return _version_info(self._ds.version_info())

    def version_refs(self) -> list[dict[str, int]]:
        """The numbers of all versions, oldest first. Reads no manifest."""
        return [{"version": number} for number in _glaive.version_numbers(self._ds)]

    def checkout_version(self, version: Reference) -> LanceDataset:
        """A new handle on another version: its number on this branch, a tag, or (branch, number).

        As in pylance, `uri` of the new handle is that of this one, also on another branch.
        """
        if version is None:
            raise TypeError("version must be an int, not None")
        native = _glaive.checkout(self._ds, checked_reference(version))
        return LanceDataset._from_native(
            native,
            self._uri,
            storage_options=self._storage_options,
            default_scan_options=self._default_scan_options,
        )

    def checkout_latest(self) -> None:
        """Moves this handle to the newest version."""
        self._ds = self._ds.checkout_version(self.latest_version)

    @property
    def tags(self) -> Tags:
        """The tags of the dataset."""
        return Tags(self)

    @property
    def branches(self) -> Branches:
        """The branches of the dataset."""
        return Branches(self)

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> LanceDataset:
        """Makes a branch that starts from `reference`, by default from this version, and opens it.

        Nothing is copied: the branch reads the files of the dataset that it starts from.
        """
        _check_storage_options(storage_options)
        start = self.version if reference is None else checked_reference(reference)
        native = _glaive.create_branch(self._ds, branch, start)
        options = storage_options or self._storage_options
        return LanceDataset._from_native(native, native.uri, storage_options=options)

    # --- Reading

    def scanner(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        index_segments: Any = None,
        full_text_query: Any = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: Any = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Any = None,
        strict_batch_size: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        row_addr_allowlist: bytes | None = None,
        row_addr_blocklist: bytes | None = None,
        **pyarrow_hints: Any,
    ) -> LanceScanner:
        """A scan that can be run any number of times.

        `columns` picks columns in this order; `_rowid` and `_rowaddr` may be listed anywhere. `limit` and
        `offset` count rows. Batches have at most `batch_size` rows and never cross a fragment. `fragments`
        are scanned in the order given.
        """
        options = {k: v for k, v in locals().items() if k not in ("self", "pyarrow_hints")}
        options.update(drop_pyarrow_hints(pyarrow_hints))
        return LanceScanner(scan_request(options, self._default_scan_options), self)

    def to_table(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: Any = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
    ) -> pa.Table:
        """The rows as a table; options as in `scanner`."""
        options = {k: v for k, v in locals().items() if k != "self"}
        return self.scanner(**options).to_table()

    def to_batches(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: Any = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        strict_batch_size: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch; options as in `scanner`, others are ignored as in pylance."""
        options = {k: v for k, v in locals().items() if k not in ("self", "kwargs")}
        return self.scanner(**options).to_batches()

    def to_pandas(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: Any = None,
        blob_mode: str = "lazy",
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> pd.DataFrame:
        """The rows as a data frame; `kwargs` go to `pyarrow.Table.to_pandas`.

        `blob_mode` says what stands for blobs: "lazy" `BlobFile`s, "bytes" or "descriptions".
        """
        options = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "blob_mode")}
        return self.scanner(**options).to_pandas(blob_mode=blob_mode, **kwargs)

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """The first `num_rows` rows; options as in `scanner`."""
        return self.scanner(limit=num_rows, **kwargs).to_table()

    def slice(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows `start` to `end` (exclusive)."""
        if start < 0:
            raise InvalidInputError(f"start must be non-negative, got {start}")
        if end < start:
            raise InvalidInputError(f"end ({end}) must be >= start ({start})")
        return self.scanner(columns=columns, offset=start, limit=end - start).to_table()

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Rows by position, in the order given; positions may repeat.

        Positions count live rows in scan order. A position beyond the end is an `OSError`, a negative one an
        `OverflowError`.
        """
        names = None if columns is None else check_columns(columns)
        if names == []:
            raise OutOfBoundsError("take needs at least one column")
        positions = indices.to_pylist() if isinstance(indices, (pa.Array, pa.ChunkedArray)) else indices
        return pa.Table.from_batches([self._ds.take(positions, names)])

    # --- Blobs

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """The blobs of some rows as files, in the order given; None for a null.

        Exactly one of row `ids`, row `addresses` and `indices` (positions) names the rows. Nothing is read of
        a blob before its file is, and then `buffer_size` bytes at a time.
        """
        selector, rows = _blob_rows(ids, addresses, indices)
        if buffer_size < 0:
            raise InvalidInputError("buffer_size must be non-negative")
        taken = self._ds.take_blobs(blob_column, rows, selector)
        return [None if blob is None else BlobFile(blob, buffer_size=buffer_size) for _, blob in taken]

    def read_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """The blobs of some rows as (row address, bytes), in the order given; None for a null.

        Rows are named as in `take_blobs`. `preserve_order=False` returns them by address. `io_buffer_size` is
        a hint.
        """
        selector, rows = _blob_rows(ids, addresses, indices)
        if io_buffer_size is not None:
            _check_positive("io_buffer_size", io_buffer_size)
        return self._ds.read_blobs(blob_column, rows, selector, preserve_order is not False)

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Parts of blobs as (number of the request, row address, bytes); None for a null.

        A request is (row, offset, length), and `selector` says what the rows are. A part beyond the end of
        its blob is a `ValueError`. The other options are hints.
        """
        if io_buffer_size is not None:
            _check_positive("io_buffer_size", io_buffer_size)
        return self._ds.read_blob_ranges(blob_column, requests, selector)

    def sample(
        self,
        num_rows: int,
        columns: list[str] | dict[str, str] | None = None,
        randomize_order: bool = True,
        **kwargs: Any,
    ) -> pa.Table:
        """`num_rows` random rows, each at most once; `randomize_order=False` keeps their order."""
        positions = random.sample(range(self.count_rows()), num_rows)
        if not randomize_order:
            positions.sort()
        return self.take(positions, columns, **kwargs)

    def count_rows(self, filter: Any = None, **kwargs: Any) -> int:
        """Live rows, from the metadata alone."""
        if filter is not None:
            unsupported("count_rows with a filter")
        return self._ds.count_rows()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    # --- Fragments

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """The fragments in scan order."""
        if filter is not None:
            raise InvalidInputError("get_fragments() does not support filter yet")
        return [LanceFragment(self, None, fragment=metadata) for metadata in self._fragment_metadata()]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment with this id, or None."""
        if fragment_id < 0:
            raise OverflowError("can't convert negative int to unsigned")
        for metadata in self._fragment_metadata():
            if metadata.id == fragment_id:
                return LanceFragment(self, fragment_id, fragment=metadata)
        return None

    def _fragment_metadata(self) -> list[FragmentMetadata]:
        return [FragmentMetadata._from_dict(fragment) for fragment in self._ds.fragments()]

    # --- Writing

    def insert(self, data: Any, *, mode: str = "append", **kwargs: Any) -> None:
        """Writes `data` as `write_dataset` does and moves this handle to the result."""
        self._ds = write_dataset(data, self, mode=mode, **kwargs)._ds

    @staticmethod
    def commit(
        base_uri: str | Path | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Any = None,
        commit_timeout: timedelta | None = DEFAULT_COMMIT_TIMEOUT,
    ) -> LanceDataset:
        """Commits an operation and returns the dataset at the new version.

        `read_version` is the version that the operation was computed from; Overwrite and Restore take the
        latest. Nothing finds out whether the same fragments, or the same transaction, were committed before.
        Raises `CommitConflictError` if another writer committed what does not go with it.
        """
        later = {
            "commit_lock": commit_lock,
            "enable_stable_row_ids": enable_stable_row_ids,
            "namespace_client": namespace_client,
            "table_id": table_id,
            "namespace_client_managed_versioning": namespace_client_managed_versioning,
            "base_store_params": base_store_params,
        }
        _refuse(later, "LanceDataset.commit")
        _check_storage_options(storage_options)
        destination, uri = _commit_destination(base_uri)
        transaction = native_transaction(operation, read_version, commit_message)
        options = commit_options(max_retries, detached, enable_v2_manifest_paths, commit_timeout)
        committed = _glaive.commit(destination, transaction, options)
        return LanceDataset._from_native(committed, uri, storage_options=storage_options)

    @staticmethod
    def commit_batch(
        dest: str | Path | LanceDataset,
        transactions: Iterable[Transaction],
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        base_store_params: Any = None,
        commit_timeout: timedelta | None = DEFAULT_COMMIT_TIMEOUT,
    ) -> dict[str, Any]:
        """Commits several appends as one version: `{"dataset": ..., "merged": ...}`."""
        from glaive.transaction import Transaction

        _refuse({"commit_lock": commit_lock, "base_store_params": base_store_params}, "commit_batch")
        _check_storage_options(storage_options)
        destination, uri = _commit_destination(dest)
        rows = [transaction._to_native() for transaction in transactions]
        options = commit_options(max_retries, detached, enable_v2_manifest_paths, commit_timeout)
        committed, merged = _glaive.commit_batch(destination, rows, options)
        dataset = LanceDataset._from_native(committed, uri, storage_options=storage_options)
        return {"dataset": dataset, "merged": Transaction._from_native(merged)}

    # --- Cleanup

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        delete_concurrency: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> CleanupStats:
        """Removes old versions of this branch and the files that only they use.

        A version goes if it is older than `older_than`, not among the newest `retain_versions` and one of
        `versions`, as far as these are given; by default, if it is older than two weeks. The version of this
        handle and newer ones stay, and so do tagged versions (which are an error unless
        `error_if_tagged_old_versions` is False), versions from which a branch starts, and every file that a
        version of the dataset or of its branches uses. Shallow clones in other places are not known.

        A file that no version uses goes when it is a week old: a writer may be about to commit it.
        `delete_unverified` takes younger ones too. `delete_rate_limit` is in files per second.
        `progress(removed, total)` hears of every batch of files; an exception ends the cleanup, which can be
        repeated (not an option of pylance). `delete_concurrency` is a hint.
        """
        _check_concurrency(delete_concurrency)
        asked = cleanup.policy(
            older_than,
            retain_versions,
            versions,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
        )
        return cleanup.CleanupStats(**_glaive.cleanup(self._ds, *asked, progress))

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """What `cleanup_old_versions` would do, with `include_files` file by file. Removes nothing."""
        asked = cleanup.policy(
            older_than,
            retain_versions,
            versions,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
        )
        return cleanup.explain(self._ds, asked, include_files, max_files)

    def migrate_manifest_paths_v2(self) -> None:
        """Renames the manifests of a dataset that an early writer made, so that the newest sorts first.

        No writer may be at work. Can be repeated, also after it was interrupted.
        """
        self._ds = _glaive.migrate_manifest_paths_v2(self._ds)

    # --- Copies

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _reopen,
            (self._uri, self.version, self._storage_options, self._default_scan_options, self._ds.uri),
        )

    # --- What pyarrow's class has and this one has not

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not implemented."""
        raise NotImplementedError("replace_schema")

    def filter(self, expression: Any) -> NoReturn:
        """Not implemented."""
        unsupported("LanceDataset.filter")

    def sort_by(self, sorting: Any, **kwargs: Any) -> NoReturn:
        """Not implemented: sort the result of `to_table`."""
        raise NotImplementedError("sort_by: sort the result of to_table()")

    def join(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented: join the result of `to_table`."""
        raise NotImplementedError("join: join the result of to_table()")

    def join_asof(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not implemented: join the result of `to_table`."""
        raise NotImplementedError("join_asof: join the result of to_table()")

    def _get_fragments(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("_get_fragments: use get_fragments()")

    def _scanner_options(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("_scanner_options: use scanner()")

    @property
    def _scan_options(self) -> NoReturn:
        raise NotImplementedError("_scan_options: use scanner()")


add_later_members(LanceDataset)


def _reopen(
    uri: str,
    version: int,
    storage_options: dict[str, str] | None,
    default_scan_options: dict[str, Any] | None,
    place: str,
) -> LanceDataset:
    """A handle again. `place` differs from `uri` on a branch that was checked out."""
    return LanceDataset._from_native(
        _glaive.Dataset.open(place, version),
        uri,
        storage_options=storage_options,
        default_scan_options=default_scan_options,
    )


class _FragmentProgress:
    """Gives a caller's progress object fragments where the native module has dicts."""

    def __init__(self, progress: FragmentWriteProgress) -> None:
        self._progress = progress

    def begin(self, fragment: dict[str, Any]) -> None:
        self._progress.begin(FragmentMetadata._from_dict(fragment))

    def complete(self, fragment: dict[str, Any]) -> None:
        self._progress.complete(FragmentMetadata._from_dict(fragment))


def _blob_rows(ids: Any, addresses: Any, indices: Any) -> tuple[str, Any]:
    """What the rows are, and the rows."""
    given = {"ids": ids, "addresses": addresses, "indices": indices}
    named = [(selector, rows) for selector, rows in given.items() if rows is not None]
    if len(named) != 1:
        raise InvalidInputError("Exactly one of ids, indices, or addresses must be specified")
    selector, rows = named[0]
    return selector, rows.to_pylist() if isinstance(rows, (pa.Array, pa.ChunkedArray)) else rows


def _destination(uri: Any) -> tuple[str | _glaive.Dataset, str]:
    """Where to write, and the uri of the result."""
    if isinstance(uri, LanceDataset):
        return uri._ds, uri.uri if uri._ds.branch is None else uri._ds.uri
    if not isinstance(uri, (str, Path)):
        raise TypeError(f"dest must be a str, Path, or LanceDataset. Got {type(uri)}")
    text = _uri_text(uri)
    return text, text


def _commit_destination(base_uri: Any) -> tuple[str | _glaive.Dataset, str]:
    if not isinstance(base_uri, (str, Path, LanceDataset)):
        raise TypeError(f"base_uri must be str, Path, or LanceDataset, got {type(base_uri)}")
    return _destination(base_uri)


def _uri_text(uri: Any) -> str:
    if not isinstance(uri, (str, os.PathLike)):
        raise TypeError(f"uri must be a str or Path, got {type(uri)}")
    text = os.fspath(uri)
    if not isinstance(text, str):
        raise TypeError(f"uri must be a str or Path, got {type(text)}")
    return text


def _open(uri: str, version: Any, commit_lock: CommitLock | None) -> _glaive.Dataset:
    """The latest version, or the one of that number or name."""
    reference = None if version is None else checked_reference(version)
    if reference is None or isinstance(reference, int):
        return _glaive.Dataset.open(uri, reference, commit_lock)
    return _glaive.checkout(_glaive.Dataset.open(uri, None, commit_lock), reference)


def _check_lock(commit_lock: Any) -> None:
    if commit_lock is not None and not callable(commit_lock):
        raise TypeError(f"commit_lock must be a function, got {type(commit_lock)}")


def _auto_cleanup(options: Mapping[str, int] | None) -> tuple[int, int] | None:
    """Versions from one cleanup to the next, and the age in seconds at which one goes."""
    if options is None:
        return None
    unknown = set(options) - {"interval", "older_than_seconds"}
    if unknown:
        raise InvalidInputError(f"auto_cleanup_options: unknown {sorted(unknown)}")
    values = options.get("interval", 20), options.get("older_than_seconds", 14 * 24 * 3600)
    if min(values) < 0:
        raise InvalidInputError(f"auto_cleanup_options must not be negative: {dict(options)}")
    return values


def _version_info(info: tuple[int, int, dict[str, str]]) -> dict[str, Any]:
    number, nanoseconds, metadata = info
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    # In two steps: a float holds no microseconds of this size.
    timestamp = datetime.fromtimestamp(seconds) + timedelta(microseconds=rest // 1000)
    return {"version": number, "timestamp": timestamp, "metadata": metadata}


def _version_before(opened: LanceDataset, asof: Any) -> int:
    limit = _timestamp(asof)
    earlier = [v["version"] for v in opened.versions() if v["timestamp"] < limit]
    if not earlier:
        raise InvalidInputError(f"{limit} is earlier than the first version of this dataset")
    return max(earlier)


def _timestamp(value: Any) -> datetime:
    if isinstance(value, str):
        try:
            return datetime.strptime(value, "%Y-%m-%d %H:%M:%S")
        except ValueError:
            raise InvalidInputError(
                f"Failed to parse timestamp string {value}: expected YYYY-MM-DD HH:MM:SS"
            ) from None
    if not isinstance(value, datetime):
        raise TypeError(f"Unrecognized version timestamp {value} of type {type(value)}")
    return value


def _external_blobs(mode: str, outside_bases: bool) -> str:
    if mode not in ("reference", "ingest"):
        raise InvalidInputError(f"Invalid external blob mode: {mode}")
    if not outside_bases:
        return mode
    if mode == "ingest":
        raise InvalidWriteError(
            'allow_external_blob_outside_bases only applies when external_blob_mode="reference"'
        )
    return "outside_bases"


def _storage_version(version: str | None, use_legacy_format: bool | None) -> str | None:
    if use_legacy_format is None:
        return version
    warnings.warn(
        "use_legacy_format is deprecated: use data_storage_version", DeprecationWarning, stacklevel=3
    )
    if version is not None:
        return version
    return "legacy" if use_legacy_format else "stable"


def _check_positive(name: str, value: int) -> None:
    if value <= 0:
        raise InvalidInputError(f"{name} must be greater than 0, got {value}")


def _check_concurrency(value: int | None) -> None:
    if value is not None and value < 1:
        raise InvalidWriteError(f"delete_concurrency must be at least 1, got {value}")


def _check_storage_options(options: Any) -> None:
    for key, value in (options or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"storage_options must be str to str, got {key!r}: {value!r}")


def _refuse(options: Mapping[str, Any], where: str) -> None:
    """Raises for an option that was given and that this version cannot honour."""
    for name, value in options.items():
        if value is not None and value is not False:
            unsupported(f"{where}({name})")


def __getattr__(name: str) -> Any:
    # Classes that pylance keeps in this module; few programs need them.
    if name in ("DatasetBasePath", "LanceOperation", "Transaction"):
        from glaive import transaction

        return getattr(transaction, name)
    if name in ("Index", "IndexFile"):
        from glaive import indices

        return getattr(indices, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
