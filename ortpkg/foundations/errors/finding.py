"""Findings in a package, and quoting of untrusted text in messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ortpkg.foundations.errors.secret_texts import redacted

#: Most characters of untrusted text in a message.
MOST_QUOTED_CHARACTERS = 200
_MOST_MESSAGE_CHARACTERS = 2000


class Severity(StrEnum):
    """Severity of a finding: an error makes the document invalid, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong or doubtful in a package, precise enough to be fixed.

    Attributes:
        rule: Stable identifier, e.g. ``"ORT003"``; documented in ``docs/rules.md``.
        severity: Error or warning.
        document: File relative to the package root with ``/`` separators, e.g.
            ``"models/m/metadata.json"``.
        pointer: JSON pointer (RFC 6901) into the document; ``""`` is the whole document.
        message: What is wrong.
        remedy: What would be right.
        target: Reader for which it is true, e.g. "onnxruntime-1.27"; "" for all.
        subject: Name that the finding is about, if a program may know better what has that name;
            else "".
    """

    rule: str
    document: str
    message: str
    pointer: str = ""
    remedy: str = ""
    severity: Severity = Severity.ERROR
    target: str = ""
    subject: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        where = f"{self.document}#{self.pointer}" if self.pointer else self.document
        remedy = f" ({self.remedy})" if self.remedy else ""
        # A pointer consists of the package's own keys, which are not trusted.
        return f"{quoted(where)[1:-1]}: {self.message}{remedy} [{self.rule}]"


def quoted(text: object, most_characters: int = MOST_QUOTED_CHARACTERS) -> str:
    """Quote untrusted text for a message: escape odd characters, limit the length, hide secrets."""
    excerpt = redacted(str(text))
    if len(excerpt) > most_characters:
        excerpt = excerpt[: most_characters - 1] + "…"
    return repr(excerpt)


def unquoted(text: object) -> str:
    """Return untrusted text like :func:`quoted` without the quotes, for use within a sentence."""
    return quoted(text)[1:-1]


def printable(error: BaseException) -> str:
    """Return an error's text, which may quote the model, with escapes and limited length."""
    text = redacted(str(error)) or type(error).__name__
    escaped = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
    return (
        escaped
        if len(escaped) <= _MOST_MESSAGE_CHARACTERS
        else escaped[: _MOST_MESSAGE_CHARACTERS - 1] + "…"
    )
