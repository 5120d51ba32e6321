# SPDX-License-Identifier: Apache-2.0
"""Members of pylance's `LanceDataset` that a later version will have.

Calling one, or reading a property, raises `UnsupportedError`, so that a program learns at once
what is missing.
"""

from __future__ import annotations

from typing import Any, NoReturn

from glaive.errors import unsupported

METHODS = """
_take_rows add_bases all_files base_paths centroids
commit_existing_index_segments create_index create_index_uncommitted
create_scalar_index deep_clone delete delta drop drop_index
from_pydantic_model get_ivf_model index_statistics initialize_mem_wal
io_stats_incremental io_stats_snapshot latest_storage_options mem_wal_index_details mem_wal_writer
merge merge_existing_index_segments merge_index_metadata merge_insert
new_file_session prewarm_index remap_row_addrs session shallow_clone sql
tracked_files truncate_table update validate
"""
PROPERTIES = """
initial_storage_options optimize stats storage_options_accessor
"""


def add_later_members(cls: type) -> None:
    """Gives `cls` a member that raises for every name above."""
    for name in METHODS.split():
        setattr(cls, name, _raising(cls, name))
    for name in PROPERTIES.split():
        setattr(cls, name, property(_raising(cls, name)))


def _raising(cls: type, name: str) -> Any:
    def member(*args: Any, **kwargs: Any) -> NoReturn:
        unsupported(f"{cls.__name__}.{name}")

    member.__name__ = name
    member.__qualname__ = f"{cls.__name__}.{name}"
    member.__doc__ = "Not implemented."
    return member
