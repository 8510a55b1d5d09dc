"""Suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable

from ortpkg.errors import quoted


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that ``name`` was probably meant to be, ignoring case.

    None where nothing is as near as ``cutoff``, from 0 (anything) to 1 (the same).
    """
    import difflib  # only on the way to a message

    by_lower_case = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " (did you mean 'x'?)", or "" where nothing is near.

    Ready to be put behind the wrong name.
    """
    suggestion = closest(name, known)
    return "" if suggestion is None else f" (did you mean {quoted(suggestion)}?)"
