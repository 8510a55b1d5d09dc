"""Sizes, durations and counts as people write and read them."""

from __future__ import annotations

import math
import re

from ortpkg.foundations.errors import UsageError, quoted

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-zµμ]*)")
#: Decimal units, as disks and networks count, and binary ones; case does not matter.
_SIZE_UNITS: dict[str, int] = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
#: Units as people write them; of two equally good ones, the first is used.
_WRITTEN_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")
_DURATION_UNITS: dict[str, float] = {
    "": 1.0,
    "h": 3600.0,
    "min": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ns": 1e-9,
}


def nbytes_text(nbytes: int) -> str:
    """Return a size for people: 512 B, 13.4 kB, 1.2 GB (decimal units)."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def limit_text(nbytes: int) -> str:
    """Return a limit as it may have been written: 300 MB, 1.5 GiB; rounded if no unit fits."""
    divided = [(nbytes / _SIZE_UNITS[unit.lower()], unit) for unit in _WRITTEN_SIZE_UNITS]
    exact = [
        f"{amount:g} {unit}"
        for amount, unit in divided
        if round(amount, 3) == amount and 1 <= amount < 1000
    ]
    return min(exact, key=len, default=nbytes_text(nbytes))


def amount_text(nbytes: int) -> str:
    """Return a size for comparison with a limit, rounded up so that an excess is visible."""
    unit = next((size for size in (10**12, 10**9, 10**6, 10**3) if nbytes >= size), 1)
    return nbytes_text(nbytes if unit == 1 else -(-nbytes * 10 // unit) * unit // 10)


def time_limit_text(duration_s: float) -> str:
    """Return a time limit as it may have been written: 2 ms, 0.5 s, 90 s, 10 min."""
    if duration_s >= 60 and duration_s % 60 == 0:
        return f"{duration_s / 60:g} min"
    if 0 < duration_s < 0.1:
        return f"{duration_s * 1e3:g} ms"
    return f"{duration_s:g} s"


def duration_text(duration_s: float) -> str:
    """Return a duration for people: 250 µs, 3.1 ms, 2.5 s."""
    if duration_s < 1e-3:
        return f"{duration_s * 1e6:.0f} µs"
    if duration_s < 1:
        return f"{duration_s * 1e3:.1f} ms"
    return f"{duration_s:.1f} s"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun whose plural takes an "s": 1 step, 2 steps."""
    return f"{number} {noun}{'s' * (number != 1)}"


def parse_nbytes(text: str | int, name: str) -> int:
    """Parse a size such as "500MB", "1.5 GiB" or a plain number of bytes.

    Raises:
        UsageError: The text is not a size; the message has ``name``.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    amount, unit = _parts(text)
    if amount is None or unit.lower() not in _SIZE_UNITS:
        raise UsageError(
            f"{name} is no size: {quoted(text)}; write e.g. 500MB, 2GB or 1.5GiB; a number alone is"
            " bytes"
        )
    return int(amount * _SIZE_UNITS[unit.lower()])


def parse_duration_s(text: str | float, name: str) -> float:
    """Parse a duration such as "5ms", "1.5s", "10min" or a plain number of seconds.

    Raises:
        UsageError: The text is not a duration; the message has ``name``.
    """
    if (
        isinstance(text, int | float)
        and not isinstance(text, bool)
        and math.isfinite(text)
        and text >= 0
    ):
        return float(text)
    amount, unit = _parts(text)
    if amount is None or unit.lower() not in _DURATION_UNITS:
        raise UsageError(
            f"{name} is no duration: {quoted(text)}; write e.g. 5ms, 200us or 1.5s; a number alone"
            " is seconds"
        )
    return amount * _DURATION_UNITS[unit.lower()]


def _parts(text: object) -> tuple[float | None, str]:
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    return (None, "") if match is None else (float(match[1]), match[2])
