"""What all sections of a report have: a headline, and how good or bad what it says is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: Of the variants of a component, and the rows of a table, that a page shows.
MOST_ROWS = 200


class Status(StrEnum):
    """How a headline is coloured; a word says the same beside the colour."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page.

    Attributes:
        headline: what a reader in a hurry has to know of it, one line.
        status: whether that is good news.
    """

    headline: str
    status: Status = Status.PLAIN


def left_out(count: int, what: str, where: str) -> str:
    """The sentence below a table that ends early; "" where nothing is left out."""
    return f"{count} more {what} are not shown here; {where} has all." if count > 0 else ""
