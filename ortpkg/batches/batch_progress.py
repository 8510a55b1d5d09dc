"""What is told while a batch runs, and at its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ortpkg.batches.package_runner import ChosenVariant


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDone:
    """A part that is written.

    Attributes:
        part: its number.
        rows: how many rows it has in the output.
        errors: how many failed.
        worker: which worker ran it.
        node: on which machine.
        variants: what ran it.
        notes: what failed on that worker before, and what else a user should know.
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
    """What ran on one machine, and how much."""

    node: str
    variants: tuple[ChosenVariant, ...]
    workers: int
    parts: int
    rows: int


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts what is done.

    Attributes:
        row_count: how many rows there are.
        rows_before: how many of them were written before this run.
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
        """Adds a part that was written to the counts."""
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
        """Since the first part was begun."""
        return time.monotonic() - self._start_s

    @property
    def rate_per_s(self) -> float:
        """Rows a second, those that failed too; from the first part on, if there are more."""
        rows, elapsed_s = self.rows + self.errors, self.elapsed_s
        if self._first_s is not None and len(self._done) > 1:
            rows -= self._done[0].rows + self._done[0].errors
            elapsed_s -= self._first_s
        return rows / max(elapsed_s, 1e-9)

    @property
    def remaining_s(self) -> float | None:
        """How long the rest takes at that rate; None before anything is done."""
        done = self.rows + self.errors
        if not done:
            return None
        return (self.row_count - self.rows_before - done) / self.rate_per_s

    @property
    def workers(self) -> int:
        """How many have done something."""
        return len({each.worker for each in self._done})

    def nodes(self) -> Sequence[NodeVariants]:
        """What ran where, by machine and variants."""
        groups: dict[tuple[str, tuple[ChosenVariant, ...]], list[PartDone]] = {}
        for each in self._done:
            groups.setdefault((each.node, each.variants), []).append(each)
        return [
            NodeVariants(
                node=node,
                variants=variants,
                workers=len({each.worker for each in done}),
                parts=len(done),
                rows=sum(each.rows for each in done),
            )
            for (node, variants), done in sorted(groups.items(), key=lambda item: item[0][0])
        ]
