"""Everything the command line prints: tables and lines for people, JSON for programs, errors for both.

Data goes to standard output, everything else to standard error. No colour when piped, under NO_COLOR or on a dumb
terminal. Texts that come from a package are printed as plain text with control characters escaped, so that no name can
steer the terminal.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from ortpkg.errors import Finding, OrtpkgError, PackageFormatError, Severity

if TYPE_CHECKING:
    from rich.console import Console

JSON_SCHEMA_VERSION = "1.0"
#: Columns of a table that is not printed on a terminal: wide enough that no cell is ever wrapped.
_PIPED_COLUMNS = 10_000


def plain(text: object) -> str:
    """``text`` with control, format and unassigned characters escaped, so that a terminal shows it and no more."""
    return "".join(character if _is_harmless(character) else _escaped(character) for character in str(text))


def _is_harmless(character: str) -> bool:
    return character == "\n" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def nbytes_text(nbytes: int) -> str:
    """A size for people: 512 B, 13.4 kB, 1.2 GB (decimal units)."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def duration_text(duration_s: float) -> str:
    """A duration for people: 250 µs, 3.1 ms, 2.5 s."""
    if duration_s < 1e-3:
        return f"{duration_s * 1e6:.0f} µs"
    if duration_s < 1:
        return f"{duration_s * 1e3:.1f} ms"
    return f"{duration_s:.1f} s"


@dataclass(frozen=True, slots=True)
class Column:
    """A table column: its heading, whether its cells are numbers (right-aligned), and the style of its cells."""

    heading: str
    is_numeric: bool = False
    style: str = ""


class Output:
    """Where one command prints. ``is_json``: the caller asked for ``--json``."""

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json

    def json(self, kind: str, content: Mapping[str, Any]) -> None:
        """Prints one JSON object with its schema version and kind first."""
        self.document({"schema_version": JSON_SCHEMA_VERSION, "kind": kind, **content})

    def document(self, content: Mapping[str, Any]) -> None:
        """Prints one JSON object as it is, in a format that is not ours."""
        sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def line(self, text: object = "", *, style: str = "") -> None:
        """Prints one line of data."""
        self._print(sys.stdout, text, style)

    def note(self, text: object, *, style: str = "") -> None:
        """Prints one line that is not data (progress, warnings, what was done) on standard error."""
        self._print(sys.stderr, text, style)

    def warning(self, text: object) -> None:
        self.note(f"warning: {text}", style="yellow")

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
        """Prints a table; cells are plain text."""
        # rich is loaded only by commands that print a table or in colour.
        from rich import box
        from rich.table import Table
        from rich.text import Text

        console = _console(sys.stdout)
        table = Table(
            box=box.SIMPLE_HEAD if console.is_terminal else None,
            header_style="bold",
            pad_edge=False,
            padding=(0, 2, 0, 0),
        )
        for column in columns:
            justify: Literal["left", "right"] = "right" if column.is_numeric else "left"
            table.add_column(Text(column.heading), justify=justify, style=column.style, overflow="fold")
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        if title:
            self.line(title, style="bold")
        with console.capture() as captured:
            console.print(table)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def _print(self, stream: IO[str], text: object, style: str) -> None:
        if style and stream.isatty():
            from rich.text import Text  # only for colour

            _console(stream).print(Text(plain(text), style=style), soft_wrap=True)
        else:
            stream.write(plain(text) + "\n")


def _console(stream: IO[str]) -> Console:
    from rich.console import Console  # loaded late: 30 ms

    width = None if stream.isatty() else _PIPED_COLUMNS
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=width)


def finding_json(finding: Finding) -> dict[str, str]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "document": finding.document,
        "pointer": finding.pointer,
        "message": finding.message,
        "remedy": finding.remedy,
        "target": finding.target,
    }


def print_error(error: OrtpkgError, output: Output) -> None:
    """Says what went wrong: for people on standard error, with ``--json`` as an object on standard output."""
    if output.is_json:
        findings = error.findings if isinstance(error, PackageFormatError) else ()
        content: dict[str, Any] = {
            "error": {
                "type": type(error).__name__,
                "code": error.code.value,
                "exit_code": int(error.exit_code),
                "message": str(error),
                "findings": [finding_json(finding) for finding in findings],
            }
        }
        output.json("error", content)
    output.note(f"error: {error}", style="bold red")


def print_findings(findings: Sequence[Finding], output: Output) -> None:
    """Prints findings as lines, errors first within a document's order."""
    for finding in findings:
        style = "red" if finding.severity is Severity.ERROR else "yellow"
        where = f"{finding.document}#{finding.pointer}" if finding.pointer else finding.document
        target = f" for {finding.target}" if finding.target else ""
        output.line(f"{finding.rule} {finding.severity.value}{target}: {where}: {finding.message}", style=style)
        if finding.remedy:
            output.line(f"    {finding.remedy}")
