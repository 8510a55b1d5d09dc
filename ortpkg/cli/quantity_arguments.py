"""Parsers of numbers, sizes and durations on the command line, with the same messages everywhere.

typer's own message for a wrong number is that of the library it uses, which differs between
releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import typer

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.quantities import parse_duration_s, parse_nbytes

_Number = TypeVar("_Number", int, float)

#: Most digits of a size; no machine has larger ones.
_MOST_DIGITS = 18


def duration_argument(text: str | float) -> float:
    """Parse a positive duration: "5ms", "1.5s", "10min" or a plain number of seconds."""
    try:
        duration_s = parse_duration_s(text, "it")
    except UsageError:
        duration_s = 0.0
    if duration_s <= 0:
        raise typer.BadParameter(
            f"{quoted(text)} is no duration above 0; write e.g. 5ms, 90s or 10min; a number alone"
            " is seconds"
        )
    return duration_s


def nbytes_argument(text: str | int) -> int:
    """Parse a positive size: "500MB", "64kB", "1.5GiB" or a plain number of bytes."""
    try:
        nbytes = parse_nbytes(text, "it")
    except UsageError:
        nbytes = 0
    if nbytes <= 0:
        raise typer.BadParameter(
            f"{quoted(text)} is no size above 0; write e.g. 64kB, 500MB or 1.5GiB; a number alone"
            " is bytes"
        )
    return nbytes


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser for an integer from ``least`` to ``most``."""

    def read(text: str | int) -> int:
        digits = str(text).strip().removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
        return _within(int(text) if is_number else None, least, most, text, "whole number")

    return read


def number(least: float | None = None, most: float | None = None) -> Callable[[str], float]:
    """Return a parser for a finite number from ``least`` to ``most``."""

    def read(text: str | float) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        return _within(value if math.isfinite(value) else None, least, most, text, "number")

    return read


def _within(
    value: _Number | None, least: _Number | None, most: _Number | None, text: object, noun: str
) -> _Number:
    """Return ``value`` if it is in the range.

    Otherwise raise BadParameter, which quotes ``text``.
    """
    is_low = value is not None and least is not None and value < least
    is_high = value is not None and most is not None and value > most
    if value is None or is_low or is_high:
        bounds = f" from {least} to {most}" if most is not None else f" of {least} or more"
        raise typer.BadParameter(
            f"{quoted(str(text))} is no {noun}{bounds if least is not None else ''}"
        )
    return value


def named_size(option: str, text: str) -> tuple[str, int]:
    """Parse ``NAME=SIZE`` of a dimension.

    Raises:
        UsageError: The text has another form; the message has ``option``.
    """
    name, _, size = text.partition("=")
    if not name or not (size.isascii() and size.isdigit()) or len(size) > _MOST_DIGITS:
        raise UsageError(f"{option} takes NAME=SIZE, such as batch=8, not {quoted(text)}")
    return name, int(size)
