# SPDX-License-Identifier: Apache-2.0
"""Schemas with field ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

__all__ = ["LanceField", "LanceSchema"]


@dataclass(frozen=True, repr=False)
class LanceField:
    """One field: its Arrow form, its id, and its children in order."""

    _arrow: pa.Field
    _id: int
    _children: tuple[LanceField, ...] = ()

    def name(self) -> str:
        """The name within the parent."""
        return self._arrow.name

    def id(self) -> int:
        """The id, unique in the dataset, which data files refer to."""
        return self._id

    def children(self) -> list[LanceField]:
        """The child fields."""
        return list(self._children)

    def to_arrow(self) -> pa.Field:
        """The Arrow field."""
        return self._arrow

    @property
    def metadata(self) -> dict[str, str]:
        """The field's metadata."""
        return {k.decode(): v.decode() for k, v in (self._arrow.metadata or {}).items()}

    def __repr__(self) -> str:
        kind, children = self._arrow.type, self.children()
        return f"LanceField(name={self.name()!r}, id={self._id}, type={kind}, children={children})"


@dataclass(frozen=True, repr=False)
class LanceSchema:
    """A schema whose fields have ids."""

    _fields: tuple[LanceField, ...]
    _metadata: dict[bytes, bytes] | None = field(default=None, hash=False)

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """Numbers the fields depth-first from 0, as a new dataset does."""
        from glaive import _glaive

        return LanceSchema._from_native(schema, _glaive.number_fields(schema))

    @staticmethod
    def _from_native(schema: pa.Schema, ids: list[Any]) -> LanceSchema:
        """`ids` are trees `(id, Arrow field, [children])` in the order of the schema."""
        return LanceSchema(tuple(_field(tree) for tree in ids), schema.metadata)

    def to_pyarrow(self) -> pa.Schema:
        """The Arrow schema."""
        return pa.schema([f.to_arrow() for f in self._fields], metadata=self._metadata)

    def fields(self) -> list[LanceField]:
        """The top-level fields."""
        return list(self._fields)

    def field(self, path: str) -> LanceField | None:
        """The field at a path such as `"st.x"`; None when there is none."""
        return self._find(path, lambda name: name)

    def field_case_insensitive(self, path: str) -> LanceField | None:
        """As `field`, ignoring case where the exact spelling does not exist."""
        return self.field(path) or self._find(path, str.lower)

    def _find(self, path: str, fold: Any) -> LanceField | None:
        level, found = self._fields, None
        for part in path.split("."):
            found = next((f for f in level if fold(f.name()) == fold(part)), None)
            if found is None:
                return None
            level = found._children
        return found

    def __repr__(self) -> str:
        return f"LanceSchema(fields={self.fields()})"


def _field(tree: Any) -> LanceField:
    number, arrow, children = tree
    return LanceField(pa.field(arrow), number, tuple(_field(child) for child in children))
