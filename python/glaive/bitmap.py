# SPDX-License-Identifier: Apache-2.0
"""Sets of small numbers, such as fragment ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet

__all__ = ["Bitmap"]


class Bitmap(MutableSet[int]):
    """A set of numbers, ascending when iterated."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._values = set(values)

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Bitmap({{{', '.join(map(str, self))}}})"

    def add(self, value: int) -> None:
        """Adds a number."""
        self._values.add(value)

    def discard(self, value: int) -> None:
        """Removes a number if it is there."""
        self._values.discard(value)

    def update(self, values: Iterable[int]) -> None:
        """Adds numbers."""
        self._values.update(values)

    def copy(self) -> Bitmap:
        """A set of its own with the same numbers."""
        return Bitmap(self._values)

    def union(self, other: Iterable[int]) -> Bitmap:
        """The numbers in either."""
        return Bitmap(self._values.union(other))

    def intersection(self, other: Iterable[int]) -> Bitmap:
        """The numbers in both."""
        return Bitmap(self._values.intersection(other))

    def difference(self, other: Iterable[int]) -> Bitmap:
        """The numbers that are not in the other."""
        return Bitmap(self._values.difference(other))

    def symmetric_difference(self, other: Iterable[int]) -> Bitmap:
        """The numbers in exactly one of both."""
        return Bitmap(self._values.symmetric_difference(other))

    def issubset(self, other: Iterable[int]) -> bool:
        """Whether all numbers are in the other."""
        return self._values.issubset(other)

    def issuperset(self, other: Iterable[int]) -> bool:
        """Whether all numbers of the other are here."""
        return self._values.issuperset(other)
