"""Progress of a batch while it runs, and its summary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ortpkg.scale.batches.package_runner import ChosenVariant


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDone:
    """Part that has been written.

    Attributes:
        part: Number of the part.
        rows: Number of its rows in the output.
        errors: Number of failed rows.
        worker: Worker that ran it.
        node: Machine of the worker.
        variants: Variants that ran it.
        notes: Earlier failures on that worker, and other notes for the user.
    """

    part: int
    rows: int
    errors: int
    worker: str
    node: str
    variants: tuple[ChosenVariant, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVariants:
    """Variants of one machine, and how much they ran."""

    node: str
    variants: tuple[ChosenVariant, ...]
    workers: int
    parts: int
    rows: int


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counter of finished work.

    Attributes:
        row_count: Number of all rows.
        rows_before: Number of rows that were written before this run.
        rows: Number of rows written in this run.
        errors: Number of failed rows.
        notes: Notes of all workers, each once.
    """

    row_count: int
    rows_before: int = 0
    rows: int = 0
    errors: int = 0
    notes: list[str] = field(default_factory=list)
    _done: list[PartDone] = field(default_factory=list)
    _start_s: float = 0.0
    _first_s: float | None = None

    def __post_init__(self) -> None:
        self._start_s = time.monotonic()

    def add(self, done: PartDone) -> None:
        """Count a part that was written."""
        self.rows += done.rows
        self.errors += done.errors
        for note in done.notes:
            text = f"{done.node}: {note}"
            if text not in self.notes:
                self.notes.append(text)
        self._done.append(done)
        if self._first_s is None:
            self._first_s = self.elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first part was started."""
        return time.monotonic() - self._start_s

    @property
    def rate_per_s(self) -> float:
        """Rows per second, including failed ones; without the first part if there are more."""
        rows, elapsed_s = self.rows + self.errors, self.elapsed_s
        if self._first_s is not None and len(self._done) > 1:
            rows -= self._done[0].rows + self._done[0].errors
            elapsed_s -= self._first_s
        return rows / max(elapsed_s, 1e-9)

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds for the remaining rows; None before anything is done."""
        done = self.rows + self.errors
        if not done:
            return None
        return (self.row_count - self.rows_before - done) / self.rate_per_s

    @property
    def workers(self) -> int:
        """Number of workers that have finished a part."""
        return len({part.worker for part in self._done})

    def nodes(self) -> Sequence[NodeVariants]:
        """Return what ran where, by machine and variants."""
        groups: dict[tuple[str, tuple[ChosenVariant, ...]], list[PartDone]] = {}
        for part in self._done:
            groups.setdefault((part.node, part.variants), []).append(part)
        return [
            NodeVariants(
                node=node,
                variants=variants,
                workers=len({part.worker for part in done}),
                parts=len(done),
                rows=sum(part.rows for part in done),
            )
            for (node, variants), done in sorted(groups.items(), key=lambda item: item[0][0])
        ]
