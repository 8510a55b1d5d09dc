"""All output of the command line: tables and lines for people, JSON, and errors for both.

Data goes to standard output, everything else to standard error. There is no colour when piped, with
--no-color, under NO_COLOR or on a dumb terminal. --quiet leaves out everything but data and errors.
Texts of packages are printed with control characters escaped, so that no name can control the
terminal.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ortpkg.cli.wrapping import display_width, wrapped
from ortpkg.foundations.errors import (
    Finding,
    OrtpkgError,
    PackageFormatError,
    Severity,
    UsageError,
    redacted,
    unquoted,
)
from ortpkg.foundations.quantities import duration_text as duration_text  # noqa: PLC0414 - commands take them from here
from ortpkg.foundations.quantities import nbytes_text as nbytes_text  # noqa: PLC0414

if TYPE_CHECKING:
    from ortpkg.cli.table_layout import Column

JSON_SCHEMA_VERSION = "1.0"
#: Width of pictures if the width of a line is unknown.
_PLAIN_COLUMNS = 80


class OutputError(UsageError):
    """Standard output cannot be written: it is closed, or the disk is full."""

    @classmethod
    def of(cls, error: OSError) -> OutputError:
        """Return the error for a system error of standard output."""
        return cls(f"cannot write to standard output: {unquoted(error.strerror or error)}")


class _Settings:
    """Settings of this process, from its command line."""

    is_quiet: bool = False
    is_colorless: bool = False


_SETTINGS = _Settings()


def configure(*, is_quiet: bool = False, is_colorless: bool = False) -> None:
    """Enable the options of the command line; options stay enabled when called again."""
    _SETTINGS.is_quiet |= is_quiet
    _SETTINGS.is_colorless |= is_colorless


def reset() -> None:
    """Reset the options of earlier command lines of this process."""
    _SETTINGS.is_quiet = _SETTINGS.is_colorless = False


def is_quiet() -> bool:
    """Return True if ``--quiet`` was given, so that only data and errors are printed."""
    return _SETTINGS.is_quiet


def is_coloured(stream: IO[str]) -> bool:
    """Return True for a terminal with colours: not dumb, and without NO_COLOR (no-color.org)."""
    refuses = (
        _SETTINGS.is_colorless or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    )
    return stream.isatty() and not refuses


def plain(text: object) -> str:
    """Return ``text`` with escapes for what is unsafe on a terminal.

    These are control, format and unassigned characters.
    """
    text = str(text)
    if text.isascii() and text.isprintable():  # shortcut for almost every cell of a long table
        return text
    return "".join(
        character if _is_harmless(character) else _escaped(character) for character in text
    )


def _is_harmless(character: str) -> bool:
    return character == "\n" or unicodedata.category(character) not in {
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
        "Zl",
        "Zp",
    }


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


#: Characters that JSON does not escape and that can control a terminal: C1 controls, directions,
#: line separators. Compiled by the first JSON, because most commands print none.
_HARMFUL = "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"


def _json_escape(match: re.Match[str]) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in match.group())


class PictureRoom(NamedTuple):
    """Room for pictures: characters of a line, Unicode support, and whether there is a terminal."""

    columns: int
    is_unicode: bool
    is_terminal: bool


class Output:
    """Output of one command; with ``is_json`` the caller asked for ``--json``."""

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json

    def json(self, kind: str, content: Mapping[str, Any]) -> None:
        """Print one JSON object with its schema version and kind first."""
        self.document({"schema_version": JSON_SCHEMA_VERSION, "kind": kind, **content})

    def document(self, content: Mapping[str, Any]) -> None:
        """Print one JSON object unchanged, in a foreign format."""
        text = json.dumps(content, indent=2, ensure_ascii=not _is_unicode(sys.stdout))
        _write(re.sub(_HARMFUL, _json_escape, text) + "\n")

    def line(self, text: object = "", *, style: str = "", hang: str | None = None) -> None:
        """Print one line of data.

        With ``hang`` it is running text, which a narrow terminal gets on several lines, broken
        between words; ``hang`` begins each further line.
        """
        _write(
            _styled(
                sys.stdout, text if hang is None else _wrapped_for(sys.stdout, text, hang), style
            )
        )

    def spans(self, spans: Sequence[tuple[str, str]]) -> None:
        """Print one line of data from (text, style) of its parts, which is never broken."""
        _write(_styled_spans(sys.stdout, spans))

    @property
    def room(self) -> PictureRoom:
        """Room for a picture of characters: a terminal's lines, or plain ones of 80."""
        is_terminal = sys.stdout.isatty()
        return PictureRoom(
            columns=_terminal_columns() if is_terminal else _PLAIN_COLUMNS,
            is_unicode=is_terminal and _is_unicode(sys.stdout),
            is_terminal=is_terminal,
        )

    def tree(self, lines: Sequence[tuple[str, str, str]], *, short: Callable[[str], str]) -> None:
        """Print (text, style, hang) of lines like :meth:`line`.

        If one is too wide, all are printed in their short form.
        """
        is_narrow = sys.stdout.isatty() and any(
            display_width(plain(text)) > _terminal_columns() for text, *_ in lines
        )
        for text, style, hang in lines:
            self.line(short(text) if is_narrow else text, style=style, hang=hang)

    def note(self, text: object, *, style: str = "", is_urgent: bool = False) -> None:
        """Print one line that is not data (progress, warnings, results) on standard error.

        With ``is_urgent`` it is printed under --quiet, too.
        """
        if is_urgent or not _SETTINGS.is_quiet:
            with suppress(
                OSError, ValueError
            ):  # nobody reads it; the data or the exit code still counts
                message = redacted(str(text))
                sys.stderr.write(
                    _styled(sys.stderr, _wrapped_for(sys.stderr, message, "  "), style)
                )
                sys.stderr.flush()

    def warning(self, text: object) -> None:
        """Print a warning on standard error, unless ``--quiet`` was given."""
        self.note(f"warning: {text}", style="yellow")

    def table(
        self, columns: Sequence[Column], rows: Iterable[Sequence[object]], *, title: str = ""
    ) -> None:
        """Print a table; cells are plain text.

        On a terminal it is laid out for its width, with a note on what is left out.

        Raises:
            BrokenPipeError, OutputError: Standard output cannot be written.
        """
        from ortpkg.cli.table_layout import lay_out  # most commands print no table

        is_terminal = sys.stdout.isatty()
        cells = [
            [_cell_text(column, cell) for column, cell in zip(columns, row, strict=True)]
            for row in rows
        ]
        laid_out = lay_out(columns, cells, _terminal_columns() if is_terminal else None)
        if title:
            self.line(title, style="bold")
        for line in laid_out.head:
            self.line(line, style="bold")
        if is_terminal and laid_out.head:
            rule = "─" if _is_unicode(sys.stdout) else "-"
            self.line(rule * max(map(display_width, (*laid_out.head, *laid_out.body))))
        _write("".join(f"{line}\n" for line in laid_out.body))
        if laid_out.left_out:
            self.note(f"no room for: {', '.join(laid_out.left_out)} (--json has all)")


def _cell_text(column: Column, cell: object) -> str:
    """Return a cell as plain text; only running text may contain line breaks."""
    text = plain(cell)
    return text if column.wraps else text.replace("\n", "\\n")


def _wrapped_for(stream: IO[str], text: object, hang: str) -> str:
    """Return ``text``, broken between words if ``stream`` is a terminal that is too narrow."""
    return (
        "\n".join(wrapped(plain(text), _terminal_columns(), hang=hang))
        if stream.isatty()
        else str(text)
    )


def _terminal_columns() -> int:
    """Return the columns of the terminal or COLUMNS, at least 20."""
    return max(20, shutil.get_terminal_size().columns)


def _is_unicode(stream: IO[str]) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def _write(text: str) -> None:
    """Write data.

    Raises:
        BrokenPipeError: The reader has gone.
        OutputError: Standard output cannot be written.
    """
    try:
        sys.stdout.write(redacted(text))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError.of(error) from error


def _styled(stream: IO[str], text: object, style: str) -> str:
    """Return one line that is safe for terminals, in colour if ``stream`` shows colours."""
    return _styled_spans(stream, [(str(text), style)])


def _styled_spans(stream: IO[str], spans: Sequence[tuple[str, str]]) -> str:
    """Return one line of parts with a style each; see :func:`_styled`."""
    safe = [(plain(text), style) for text, style in spans]
    if not any(style for _, style in safe) or not is_coloured(stream):
        return "".join(text for text, _ in safe) + "\n"
    from rich.console import Console  # only for colour: 30 ms
    from rich.text import Text

    # The output is captured, because rich would flush the stream and fail if it is full.
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="auto", markup=False, highlight=False
    )
    with console.capture() as captured:
        console.print(Text.assemble(*safe), soft_wrap=True)
    return captured.get()


def finding_json(finding: Finding) -> dict[str, str]:
    """Return a finding for ``--json``; the keys are the attributes of :class:`Finding`."""
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
    """Print an error on standard error, with ``--json`` also as an object on standard output."""
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
        with suppress(OutputError):  # standard error has the message
            output.json("error", content)
    output.note(f"error: {error}", style="bold red", is_urgent=True)


def print_findings(findings: Sequence[Finding], output: Output) -> None:
    """Print findings as lines, errors first within a document's order."""
    for finding in findings:
        style = "red" if finding.severity is Severity.ERROR else "yellow"
        where = f"{finding.document}#{finding.pointer}" if finding.pointer else finding.document
        target = f" for {finding.target}" if finding.target else ""
        prefix = f"{where}: " if where else ""  # a bare model has no document
        output.line(
            f"{finding.rule} {finding.severity.value}{target}: {prefix}{finding.message}",
            style=style,
            hang="    ",
        )
        if finding.remedy:
            output.line(f"    {finding.remedy}", hang="    ")
