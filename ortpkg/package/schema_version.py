"""Version that a manifest states: a text ``"<major>.<minor>"`` or ``"<major>"``, or an integer.

The rules are those of onnxruntime 1.28 to 1.32: both parts are decimal digits and fit 64 bits;
leading zeros do not matter. Major 1 is the only one. A minor above the newest known one (0)
promises keys that a reader does not know, and so turns off the errors for unknown keys.
"""

from __future__ import annotations

import re
from typing import Any

SUPPORTED_MAJOR = 1
NEWEST_KNOWN_MINOR = 0

_TEXT = re.compile(r"([0-9]+)(?:\.([0-9]+))?", re.ASCII)
_MOST_SIGNED = 2**63
_MOST_UNSIGNED = 2**64
_MOST_DIGITS = len(str(_MOST_SIGNED))


def parse_schema_version(declared: Any) -> tuple[int, int] | None:
    """Parse the value of ``schema_version`` as (major, minor); None if it is not a version."""
    if isinstance(declared, bool):
        return None
    if isinstance(declared, int):  # a JSON parser makes a double of an integer that does not fit
        return (declared, 0) if -_MOST_SIGNED <= declared < _MOST_UNSIGNED else None
    if not isinstance(declared, str) or not (match := _TEXT.fullmatch(declared)):
        return None
    major, minor = (_to_int(digits or "0") for digits in match.groups())
    return None if major is None or minor is None else (major, minor)


def _to_int(digits: str) -> int | None:
    significant = digits.lstrip("0") or "0"
    if len(significant) > _MOST_DIGITS:
        return None
    value = int(significant)
    return value if value < _MOST_SIGNED else None


def is_supported(version: tuple[int, int]) -> bool:
    """Return True if the meaning of the version's keys is known."""
    return version[0] == SUPPORTED_MAJOR


def knows_all_keys(version: tuple[int, int]) -> bool:
    """Return True if an unknown key must be a mistake in this version."""
    return version[1] <= NEWEST_KNOWN_MINOR
