"""Suggestions for mistyped names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable

from ortpkg.foundations.errors import quoted

#: Most entries of a folder that are compared with a missing name.
_MOST_ENTRIES = 10_000


def closest(name: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the candidate that ``name`` was probably meant to be, ignoring case.

    Returns None if nothing is as near as ``cutoff``, from 0 (anything) to 1 (the same).
    """
    import difflib  # only on the way to a message

    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" to append to a wrong name, or "" if nothing is near."""
    suggestion = closest(name, candidates)
    return "" if suggestion is None else f" (did you mean {quoted(suggestion)}?)"


def did_you_mean_path(path: str | os.PathLike[str]) -> str:
    """Return " (did you mean 'x'?)" for a path that does not exist, or "" where nothing is near.

    The first part of the path that does not exist is compared with the entries of the folder that
    it would lie in: entries that only add an ending ("digits" for "digits.ortpackage") come before
    those of similar spelling. An ending that two names share makes them no more alike.
    """
    folder, missing, rest = _split_at_missing(os.fspath(path))
    names = _entries(folder)
    suggestion = next((name for name in names if missing and name.startswith(f"{missing}.")), None)
    suggestion = suggestion or _spelled_alike(missing, names)
    if suggestion is None:
        return ""
    corrected = os.path.join(folder, suggestion)  # noqa: PTH118  # keeps "./" as it was typed
    whole = os.path.join(corrected, rest) if rest else corrected  # noqa: PTH118
    return f" (did you mean {quoted(whole if os.path.lexists(whole) else corrected)}?)"


def no_directory(path: str | os.PathLike[str]) -> str:
    """Return the sentence on a directory that is missing, in which a file or package is to lie."""
    return f"there is no directory {quoted(path)}{did_you_mean_path(path)}"


def _spelled_alike(missing: str, names: Iterable[str]) -> str | None:
    """Return the name that is nearest to ``missing``, if they are alike without endings, too."""
    stem = os.path.splitext(missing)[0]  # noqa: PTH122  # a name that begins with a dot keeps it
    return closest(
        missing,
        (name for name in names if closest(stem, [os.path.splitext(name)[0]]) is not None),  # noqa: PTH122
    )


def _split_at_missing(path: str) -> tuple[str, str, str]:
    """Return the deepest folder of a path that exists, the next part, and what follows it."""
    folder, rest = path.rstrip(os.sep), ""
    while True:
        folder, missing = os.path.split(folder)
        if not missing or os.path.isdir(folder or os.curdir):  # noqa: PTH112
            return folder, missing, rest
        rest = os.path.join(missing, rest) if rest else missing  # noqa: PTH118


def _entries(folder: str) -> list[str]:
    try:
        with os.scandir(folder or os.curdir) as entries:
            return sorted(entry.name for entry in itertools.islice(entries, _MOST_ENTRIES))
    except (OSError, ValueError):
        return []
