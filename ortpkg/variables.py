"""Environment variables that say yes or no."""

from __future__ import annotations

import os

from ortpkg.errors import UsageError, quoted

_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def yes_or_no(text: str) -> bool | None:
    """What a word says, in any case; None where it says neither.

    >>> yes_or_no("on"), yes_or_no("No"), yes_or_no("maybe")
    (True, False, None)
    """
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def flag_variable(name: str) -> bool:
    """What an environment variable says; no where it is not set, or empty. UsageError where it says something else."""
    text = os.environ.get(name, "")
    stated = yes_or_no(text) if text.strip() else False
    if stated is None:
        raise UsageError(f"{name} is {quoted(text)}; 1 or 0 was expected")
    return stated
