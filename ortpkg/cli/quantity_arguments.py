"""Sizes and durations on the command line: the same units with every option that takes one."""

from __future__ import annotations

import typer

from ortpkg.errors import UsageError, quoted
from ortpkg.quantities import parse_duration_s, parse_nbytes

#: A size of more digits is none that a machine could have.
_MOST_DIGITS = 18


def duration_argument(text: str | float) -> float:
    """Seconds, from "5ms", "1.5s", "10min" or a plain number of seconds; more than 0."""
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
    """Bytes, from "500MB", "64kB", "1.5GiB" or a plain number of bytes; more than 0."""
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


def named_size(option: str, text: str) -> tuple[str, int]:
    """``NAME=SIZE`` of a dimension. UsageError, which says ``option``, for another form."""
    name, _, size = text.partition("=")
    if not name or not (size.isascii() and size.isdigit()) or len(size) > _MOST_DIGITS:
        raise UsageError(f"{option} takes NAME=SIZE, such as batch=8, not {quoted(text)}")
    return name, int(size)
