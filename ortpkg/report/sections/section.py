"""Base of all sections of a report: a headline and its rating."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: Most variants of a component, and most rows of a table, that a page shows.
MOST_ROWS = 200


class Status(StrEnum):
    """Rating of a headline, shown as colour and as a word."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Part of the page.

    Attributes:
        headline: The most important fact, on one line.
        status: Rating of the headline.
    """

    headline: str
    status: Status = Status.PLAIN


def left_out(count: int, what: str, where: str) -> str:
    """Return the sentence below a table that was cut, or ""."""
    return f"{count} more {what} are not shown here; {where} has all." if count > 0 else ""
