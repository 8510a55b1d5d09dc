"""Everything the command line prints: tables and lines for people, JSON for programs, errors for both.

Data goes to standard output, everything else to standard error. No colour when piped, with --no-color, under NO_COLOR
or on a dumb terminal. --quiet leaves out what is neither data nor an error. Texts that come from a package are printed
as plain text with control characters escaped, so that no name can steer the terminal.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from ortpkg.errors import Finding, OrtpkgError, PackageFormatError, Severity, UsageError, quoted
from ortpkg.quantities import duration_text as duration_text  # noqa: PLC0414 - commands take them from here
from ortpkg.quantities import nbytes_text as nbytes_text  # noqa: PLC0414

if TYPE_CHECKING:
    from rich.console import Console

JSON_SCHEMA_VERSION = "1.0"
#: Columns of a table that is not printed on a terminal: wide enough that no cell is ever wrapped.
_PIPED_COLUMNS = 10_000


class OutputError(UsageError):
    """Standard output cannot be written: it is closed, or the disk is full."""

    @classmethod
    def of(cls, error: OSError) -> OutputError:
        """The error for what the system says of standard output."""
        return cls(f"cannot write to standard output: {quoted(error.strerror or error)[1:-1]}")


@dataclass(slots=True)
class _Settings:
    """Of this process: what stands on its command line."""

    is_quiet: bool = False
    is_colorless: bool = False


_SETTINGS = _Settings()


def configure(*, is_quiet: bool = False, is_colorless: bool = False) -> None:
    """Turns on what the command line asks for; what one place turned on, another does not turn off."""
    _SETTINGS.is_quiet |= is_quiet
    _SETTINGS.is_colorless |= is_colorless


def reset() -> None:
    """Forgets what earlier command lines of this process asked for."""
    _SETTINGS.is_quiet = _SETTINGS.is_colorless = False


def is_quiet() -> bool:
    """Whether ``--quiet`` was given: then nothing is printed but data and errors."""
    return _SETTINGS.is_quiet


def is_coloured(stream: IO[str]) -> bool:
    """Whether it is a terminal that wants colours: NO_COLOR (https://no-color.org) is not set, and it is not dumb."""
    refuses = _SETTINGS.is_colorless or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not refuses


def plain(text: object) -> str:
    """``text`` with control, format and unassigned characters escaped, so that a terminal shows it and no more."""
    return "".join(character if _is_harmless(character) else _escaped(character) for character in str(text))


def _is_harmless(character: str) -> bool:
    return character == "\n" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


#: Characters that JSON leaves as they are and that can steer a terminal: C1 controls, directions, line separators.
_HARMFUL = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def _json_escape(match: re.Match[str]) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in match.group())


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
        is_unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
        text = json.dumps(content, indent=2, ensure_ascii=not is_unicode)
        _write(_HARMFUL.sub(_json_escape, text) + "\n")

    def line(self, text: object = "", *, style: str = "") -> None:
        """Prints one line of data."""
        _write(_styled(sys.stdout, text, style))

    def note(self, text: object, *, style: str = "", is_urgent: bool = False) -> None:
        """Prints one line that is not data (progress, warnings, what was done) on standard error.

        ``is_urgent``: under --quiet too.
        """
        if is_urgent or not _SETTINGS.is_quiet:
            with suppress(OSError, ValueError):  # nobody listens there; the data, or the exit code, still counts
                sys.stderr.write(_styled(sys.stderr, text, style))
                sys.stderr.flush()

    def warning(self, text: object) -> None:
        """Prints a warning on standard error; not where ``--quiet`` was given."""
        self.note(f"warning: {text}", style="yellow")

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
        """Prints a table; cells are plain text."""
        # rich is loaded only by commands that print a table or in colour.
        from rich import box
        from rich.table import Table
        from rich.text import Text

        console = _console(sys.stdout)
        table = Table(
            box=box.SIMPLE_HEAD if sys.stdout.isatty() else None,
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
        _write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _write(text: str) -> None:
    """Writes data. BrokenPipeError where the reader has gone, OutputError where it cannot be written."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError.of(error) from error


def _styled(stream: IO[str], text: object, style: str) -> str:
    """One line, in colour where ``stream`` shows colours; either way a text that steers no terminal."""
    if not style or not is_coloured(stream):
        return plain(text) + "\n"
    from rich.text import Text  # only for colour

    console = _console(stream)
    with console.capture() as captured:
        console.print(Text(plain(text), style=style), soft_wrap=True)
    return captured.get()


def _console(stream: IO[str]) -> Console:
    """Lays text out for ``stream``; it writes nowhere itself."""
    from rich.console import Console  # loaded late: 30 ms

    is_terminal = stream.isatty()
    return Console(
        file=io.StringIO(),  # what it prints is captured; rich would flush the stream itself, and fail where it is full
        force_terminal=is_terminal,
        width=None if is_terminal else _PIPED_COLUMNS,
        color_system="auto" if is_coloured(stream) else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def finding_json(finding: Finding) -> dict[str, str]:
    """A finding as ``--json`` prints it; the keys are the attributes of :class:`Finding`."""
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
        with suppress(OutputError):  # standard error says it
            output.json("error", content)
    output.note(f"error: {error}", style="bold red", is_urgent=True)


def print_findings(findings: Sequence[Finding], output: Output) -> None:
    """Prints findings as lines, errors first within a document's order."""
    for finding in findings:
        style = "red" if finding.severity is Severity.ERROR else "yellow"
        where = f"{finding.document}#{finding.pointer}" if finding.pointer else finding.document
        target = f" for {finding.target}" if finding.target else ""
        output.line(f"{finding.rule} {finding.severity.value}{target}: {where}: {finding.message}", style=style)
        if finding.remedy:
            output.line(f"    {finding.remedy}")
