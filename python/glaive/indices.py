# SPDX-License-Identifier: Apache-2.0
"""What a version says of its indices."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from glaive.bitmap import Bitmap

__all__ = ["Index", "IndexDescription", "IndexFile", "IndexSegmentDescription"]

# State of the table that is stored like an index.
SYSTEM_INDICES = frozenset({"__lance_frag_reuse", "__lance_mem_wal"})


@dataclass
class IndexFile:
    """One file of an index segment."""

    path: str
    size_bytes: int


@dataclass
class Index:
    """One segment of an index, as transactions name it."""

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Bitmap | set[int]
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)

    @staticmethod
    def _from_dict(fields: dict[str, Any]) -> Index:
        fields = dict(fields)
        ids = fields.pop("fragment_ids")
        files = [IndexFile(path, size) for path, size in fields.pop("files")]
        return Index(
            fragment_ids=Bitmap(ids or ()),
            created_at=_time(fields.pop("created_at_ms")),
            files=files or None,
            **fields,
        )

    @property
    def _created_at_ms(self) -> int | None:
        return None if self.created_at is None else round(self.created_at.timestamp() * 1000)


@dataclass(frozen=True)
class IndexSegmentDescription:
    """One segment of an index."""

    uuid: str
    dataset_version_at_last_update: int
    fragment_ids: Bitmap
    index_version: int
    created_at: datetime | None
    size_bytes: int | None
    base_id: int | None
    covering_fields: list[int]


@dataclass(frozen=True)
class IndexDescription:
    """An index with its segments. What only its files tell is not here: `details` is empty."""

    name: str
    type_url: str
    index_type: str
    num_rows_indexed: int
    fields: list[int]
    field_names: list[str]
    segments: list[IndexSegmentDescription]
    total_size_bytes: int | None
    details: dict[str, Any] = field(default_factory=dict)


def describe(
    entries: list[dict[str, Any]], live_rows: dict[int, int], names: dict[int, str]
) -> list[IndexDescription]:
    """The indices of index section entries; `live_rows` by fragment id, `names` by field id."""
    by_name: dict[str, list[Index]] = {}
    for entry in entries:
        index = Index._from_dict(entry)
        by_name.setdefault(index.name, []).append(index)
    return [_description(segments, live_rows, names) for segments in by_name.values()]


def _description(segments: list[Index], live_rows: dict[int, int], names: dict[int, str]) -> IndexDescription:
    first = segments[0]
    url = first.index_details[0] if first.index_details else ""
    covered = {fragment for segment in segments for fragment in segment.fragment_ids}
    described = [_segment(segment) for segment in segments]
    sizes = [segment.size_bytes for segment in described]
    return IndexDescription(
        name=first.name,
        type_url=url,
        index_type=index_type(url),
        num_rows_indexed=sum(live_rows.get(fragment, 0) for fragment in covered),
        fields=first.fields,
        field_names=[names[i] for i in first.fields if i in names],
        segments=described,
        total_size_bytes=None if None in sizes else sum(size for size in sizes if size is not None),
    )


def _segment(index: Index) -> IndexSegmentDescription:
    return IndexSegmentDescription(
        uuid=index.uuid,
        dataset_version_at_last_update=index.dataset_version,
        fragment_ids=Bitmap(index.fragment_ids),
        index_version=index.index_version,
        created_at=index.created_at,
        size_bytes=None if index.files is None else sum(file.size_bytes for file in index.files),
        base_id=index.base_id,
        covering_fields=index.covering_fields,
    )


def index_type(type_url: str) -> str:
    """The kind of an index by its details message: `/lance.table.BTreeIndexDetails` is "BTree"."""
    name = type_url.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
    return name.removesuffix("Details").removesuffix("Index") or "Unknown"


def _time(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)
