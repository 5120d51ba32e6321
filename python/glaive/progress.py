# SPDX-License-Identifier: Apache-2.0
"""Progress of long writes: the protocol of pylance and a bar for terminals."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from glaive.fragment import FragmentMetadata

__all__ = ["FragmentWriteProgress", "NoopFragmentWriteProgress", "ProgressBar"]


class FragmentWriteProgress(ABC):
    """Told of every data file of a write: pass an instance as `write_dataset(..., progress=)`."""

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """A new file was begun; `fragment` has no files and no row count yet."""

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """The file is complete; `fragment` names it and its rows."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Does nothing."""

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Does nothing."""

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Does nothing."""


class ProgressBar:
    """A one-line bar on a terminal; silent when `stream` is none.

        with ProgressBar("write", total_rows=table.num_rows) as bar:
            glaive.write_dataset(bar.watch(table.to_batches(1024)), uri, schema=table.schema)

    It appears after `delay` seconds, so short work prints nothing, and erases itself at the end.
    """

    WIDTH = 30

    def __init__(
        self, label: str, total_rows: int, *, delay: float = 0.5, stream: TextIO | None = None
    ) -> None:
        self.label = label
        self.total_rows = max(total_rows, 0)
        self.rows = 0
        self._stream = sys.stderr if stream is None else stream
        self._shows = self._stream.isatty()
        self._drawn = False
        self._next_draw = time.monotonic() + delay

    def advance(self, rows: int) -> None:
        """Counts `rows` more and redraws at most ten times a second."""
        self.rows += rows
        now = time.monotonic()
        if self._shows and now >= self._next_draw:
            self._next_draw = now + 0.1
            self._draw()

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Passes batches on and counts their rows."""
        for batch in batches:
            yield batch
            self.advance(batch.num_rows)

    def close(self) -> None:
        """Erases the bar."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _draw(self) -> None:
        share = min(self.rows / self.total_rows, 1.0) if self.total_rows else 1.0
        filled = int(share * self.WIDTH)
        bar = "#" * filled + "." * (self.WIDTH - filled)
        self._stream.write(f"\r{self.label} [{bar}] {share:4.0%} {self.rows:,} rows\x1b[K")
        self._stream.flush()
        self._drawn = True
