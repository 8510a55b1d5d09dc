"""Check that a set of file names means the same on every operating system, as archives need."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ortpkg.package.paths.path_text import why_not_a_name

_MOST_PATH_NBYTES = 1024
_MOST_DEPTH = 32


def why_not_portable_file(name: str) -> str | None:
    """Return why ``name`` (relative, with ``/``) may not be a file of an archive, or None.

    This is stricter than for a reference in a document: a file has one spelling, so empty segments
    and ``.`` are refused.
    """
    if len(name.encode("utf-8", "surrogatepass")) > _MOST_PATH_NBYTES:
        return f"is longer than {_MOST_PATH_NBYTES} bytes"
    segments = name.split("/")
    if len(segments) > _MOST_DEPTH:
        return f"is nested deeper than {_MOST_DEPTH} folders"
    if name.startswith("/"):
        return "is absolute"
    return next((reason for segment in segments if (reason := why_not_a_name(segment))), None)


def folded_name(name: str) -> str:
    """Return a name as file systems compare it that ignore case and the composition of letters.

    Case is folded in full; names that are equal afterwards are one file on Windows or macOS.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def find_collision(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two of ``names`` that some file system takes for one, or a file that is a folder too.

    Case (full case folding) and the composition of letters are ignored, in the names of folders
    too. A name that ends with ``/`` is a folder's own; others imply their folders.
    """
    spellings: dict[str, str] = {}
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        key = ""
        segments = name.removesuffix("/").split("/")
        for depth, segment in enumerate(segments, start=1):
            key = f"{key}/{folded_name(segment)}" if key else folded_name(segment)
            spelling = "/".join(segments[:depth])
            is_file = depth == len(segments) and not name.endswith("/")
            if spellings.setdefault(key, spelling) != spelling or (is_file and key in files):
                return spellings[key], name
            if key in (folders if is_file else files):
                return (folders if is_file else files)[key], name
            (files if is_file else folders).setdefault(key, name)
    return None
