"""Environment variables that say yes or no, or name a folder."""

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
    """What an environment variable says; no where it is not set, or empty.

    UsageError where it says something else.
    """
    text = os.environ.get(name, "")
    stated = yes_or_no(text) if text.strip() else False
    if stated is None:
        raise UsageError(f"{name} is {quoted(text)}; 1 or 0 was expected")
    return stated


def unusable_folder(name: str) -> str:
    """Why nothing can be kept in the folder that a variable names.

    "" where it can be, or the variable says nothing.
    """
    folder = os.environ.get(name)
    if not folder:
        return ""
    existing = os.path.abspath(folder)  # noqa: PTH100 - a Path raises over what is no path, and takes longer
    while not os.path.lexists(existing) and existing != os.path.dirname(existing):  # noqa: PTH120
        existing = os.path.dirname(existing)  # noqa: PTH120
    if not os.path.isdir(existing):  # noqa: PTH112
        return f"{name} is {quoted(folder)}, and {quoted(existing)} is no folder"
    return (
        ""
        if os.access(existing, os.W_OK | os.X_OK)
        else f"{name} is {quoted(folder)}, which may not be written"
    )
