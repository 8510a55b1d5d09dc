"""Environment variables that are flags or name a folder."""

from __future__ import annotations

import os

from ortpkg.foundations.errors import UsageError, quoted

_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def yes_or_no(text: str) -> bool | None:
    """Return the meaning of a word in any case, or None.

    >>> yes_or_no("on"), yes_or_no("No"), yes_or_no("maybe")
    (True, False, None)
    """
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def flag_variable(name: str) -> bool:
    """Return the value of a flag; False if it is not set or empty.

    Raises:
        UsageError: The variable has another value.
    """
    text = os.environ.get(name, "")
    value = yes_or_no(text) if text.strip() else False
    if value is None:
        raise UsageError(f"{name} is {quoted(text)}; 1 or 0 was expected")
    return value


def unusable_folder(name: str) -> str:
    """Return why a variable's folder cannot be written to.

    "" if it can, or without the variable.
    """
    folder = os.environ.get(name)
    if not folder:
        return ""
    existing = os.path.abspath(folder)  # noqa: PTH100 - a Path raises for some texts, and is slower
    while not os.path.lexists(existing) and existing != os.path.dirname(existing):  # noqa: PTH120
        existing = os.path.dirname(existing)  # noqa: PTH120
    if not os.path.isdir(existing):  # noqa: PTH112
        return f"{name} is {quoted(folder)}, and {quoted(existing)} is no folder"
    return (
        ""
        if os.access(existing, os.W_OK | os.X_OK)
        else f"{name} is {quoted(folder)}, which may not be written"
    )
