"""One thing that is wrong in a package, and untrusted text in what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ortpkg.errors.secret_texts import redacted

#: Of untrusted text in a message, no more is shown.
MOST_QUOTED_CHARACTERS = 200
_MOST_MESSAGE_CHARACTERS = 2000


class Severity(StrEnum):
    """How bad a finding is: an error makes the document invalid, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong or doubtful in a package, precise enough to be mended.

    Attributes:
        rule: stable identifier, e.g. ``"ORT003"``; documented in ``docs/rules.md``.
        severity: error or warning.
        document: file relative to the package root with ``/`` separators, e.g.
            ``"models/m/metadata.json"``.
        pointer: JSON pointer (RFC 6901) into the document; ``""`` is the whole document.
        message: what is wrong.
        remedy: what would be right.
        target: the reader that this is true of, e.g. "onnxruntime-1.27"; "" for everybody.
        subject: the name that the finding is about, where a program may know better what has that
            name; "" otherwise.
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
        # A pointer is made of the package's own keys.
        return f"{quoted(where)[1:-1]}: {self.message}{remedy} [{self.rule}]"


def quoted(text: object, most_characters: int = MOST_QUOTED_CHARACTERS) -> str:
    """Quotes untrusted text for a message: odd characters escaped, length bounded, no secrets."""
    excerpt = redacted(str(text))
    if len(excerpt) > most_characters:
        excerpt = excerpt[: most_characters - 1] + "…"
    return repr(excerpt)


def unquoted(text: object) -> str:
    """The same without the quotes, for text that is part of a sentence."""
    return quoted(text)[1:-1]


def printable(error: BaseException) -> str:
    """An error's text, which may quote the model: control characters escaped, length bounded."""
    text = redacted(str(error)) or type(error).__name__
    escaped = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
    return (
        escaped
        if len(escaped) <= _MOST_MESSAGE_CHARACTERS
        else escaped[: _MOST_MESSAGE_CHARACTERS - 1] + "…"
    )
