"""Prints the rows of a try as they come, and writes them as a table, as JSON and as a log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

_MOST_DETAIL_CHARACTERS = 300
_LOG_LINES = 40
_HEADER = ("step", "on", "outcome", "details", "s")


class Outcome(StrEnum):
    """Outcome of a step; NOT_TRIED for want of time or of a device."""

    YES = "yes"
    NO = "no"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        step: what was tried.
        on: the execution provider, or "".
        outcome: result of the step.
        details: figures, or the reason of a failure.
        duration_s: seconds that it took.
    """

    step: str
    outcome: Outcome
    on: str = ""
    details: str = ""
    duration_s: float = 0.0


@dataclass
class Report:
    """Report on one try of a machine.

    Attributes:
        folder: folder that it is written to.
        facts: name → value: card, driver, versions, in order.
        rows: results of the steps, in order.
    """

    folder: Path
    facts: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    _started_s: float = field(default_factory=time.monotonic)

    def add(self, row: Row) -> None:
        """Print a row, add it, and write the report so far."""
        short = Row(**{**asdict(row), "details": _one_line(row.details)})
        self.rows.append(short)
        on = f" [{short.on}]" if short.on else ""
        elapsed_s = time.monotonic() - self._started_s
        print(
            f"{elapsed_s:5.0f} s  {short.outcome:<9} {short.step}{on}: {short.details}"
            f" ({short.duration_s:.1f} s)",
            flush=True,
        )
        self.write()

    def log(self, title: str, parts: Mapping[str, str]) -> None:
        """Append the ends of a command's outputs to the log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "gpu_log.txt").open("a", encoding="utf-8") as file:
            file.write(f"===== {title}\n")
            for name, text in parts.items():
                lines = text.splitlines()
                left_out = len(lines) - _LOG_LINES
                kept = lines[-_LOG_LINES:]
                note = [f"({left_out} lines before these)"] if left_out > 0 else []
                file.write("\n".join([f"--- {name}", *note, *kept]) + "\n")

    def write(self) -> None:
        """Write the report as Markdown and as JSON."""
        self.folder.mkdir(parents=True, exist_ok=True)
        document = {"facts": self.facts, "rows": [asdict(row) for row in self.rows]}
        (self.folder / "gpu_report.json").write_text(
            json.dumps(document, indent=1) + "\n", encoding="utf-8"
        )
        (self.folder / "gpu_report.md").write_text(self.markdown(), encoding="utf-8")

    def markdown(self) -> str:
        """Return facts and rows as Markdown, in the form of docs/ep_libraries.md."""
        facts = [f"{name} {value}" for name, value in self.facts.items() if value]
        table = [_HEADER, tuple("---" for _ in _HEADER)]
        table += [
            (row.step, row.on, row.outcome.value, row.details, f"{row.duration_s:.1f}")
            for row in self.rows
        ]
        lines = [_table_line(cells) for cells in table]
        return f"Seen with {', '.join(facts)}.\n\n" + "\n".join(lines) + "\n"


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    is_long = len(line) > _MOST_DETAIL_CHARACTERS
    return f"{line[: _MOST_DETAIL_CHARACTERS - 1]}…" if is_long else line
