"""How many cases ran, how long, with what findings: a log line per batch, and sums."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.fuzz.driver import Attack


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What came of ``count`` seeds of one kind, from ``first`` on."""

    kind: str
    first: int
    count: int
    #: On the wall, and of processors: the children's, with what it takes to start them.
    duration_s: float
    processor_s: float
    ended_at: str
    #: A seed and its problem each.
    findings: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, kind: str, first: int, attack: Attack) -> Self:
        return cls(
            kind=kind,
            first=first,
            count=attack.count,
            duration_s=round(attack.duration_s, 2),
            processor_s=round(attack.processor_s, 2),
            ended_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            findings=tuple((finding.seed, finding.problem) for finding in attack.findings),
        )


def append(log: Path, batch: Batch) -> None:
    """Adds a line to the log, which is made where there is none."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(dataclasses.asdict(batch)) + "\n")


def read(log: Path) -> list[Batch]:
    """The batches of a log; none where there is no log."""
    if not log.exists():
        return []
    return [_batch(line) for line in log.read_text(encoding="utf-8").splitlines()]


def _batch(line: str) -> Batch:
    values = json.loads(line)
    values["findings"] = tuple(map(tuple, values["findings"]))
    return Batch(**values)


class Tally:
    """Sums of batches, by kind."""

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self._batches = list(batches)

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)

    @property
    def has_findings(self) -> bool:
        return any(batch.findings for batch in self._batches)

    def line(self, kind: str) -> str:
        """The kind's sum in a line; of all kinds, where it is empty."""
        batches = [batch for batch in self._batches if kind in ("", batch.kind)]
        count = sum(batch.count for batch in batches)
        processor_s = sum(batch.processor_s for batch in batches)
        duration_s = sum(batch.duration_s for batch in batches)
        found = sum(len(batch.findings) for batch in batches)
        rate = count / processor_s if processor_s else 0.0
        return (
            f"{kind or 'in all':<10}{count:>9,} cases{found:>5} findings{duration_s:>10,.0f} s"
            f"{processor_s:>9,.0f} s of processors{rate:>7,.0f} cases for each"
        )

    def table(self) -> str:
        """A line for each kind that ran, and one for all."""
        kinds = dict.fromkeys(batch.kind for batch in self._batches)
        return "\n".join(self.line(kind) for kind in (*kinds, ""))
