"""Looks up ordinary names in a package at one look each: nearly all that a package refers to is
such a name.

Whether an ordinary name may be used is no question under any rules, so that only what stands there
is left to find out. Whatever is not as simple as that, links above all, is left to those who
resolve paths by the rules.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import NamedTuple

from ortpkg.package.paths.path_resolver import PathKind, are_plain_names, is_link, is_plain_name

_IS_WINDOWS = os.name == "nt"
_KINDS = {stat.S_IFREG: PathKind.FILE, stat.S_IFDIR: PathKind.DIRECTORY}
_FEWEST_TO_LIST = 8  # a listing costs as much as a look at so many names


class Place(NamedTuple):
    """An absolute path, with symbolic links followed, and what is there."""

    path: str
    kind: PathKind


class PlainNames:
    """What was seen in one package; make a new one each time that a package is opened."""

    __slots__ = ("_folders", "_names", "_seen")

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._folders: dict[str, frozenset[str]] = {}
        self._seen: dict[str, Place | None] = {}

    def list_folders(self, directory: str, *, expected: int) -> None:
        """Looks at all folders in ``directory`` (a real path) at once, where ``expected`` lookups
        below it are to come.

        Links and names that are not ordinary are left to a closer look, and so is what stands
        behind far more entries than are expected.
        """
        # On Windows, junctions look like folders here.
        if expected < _FEWEST_TO_LIST or _IS_WINDOWS or directory in self._folders:
            return
        try:
            with os.scandir(directory) as entries:
                some = islice(entries, 100 + 4 * expected)
                names = [each.name for each in some if each.is_dir(follow_symlinks=False)]
                if not are_plain_names(names):
                    names = [name for name in names if is_plain_name(name)]
                self._folders[directory] = frozenset(names)
        except OSError:
            return

    def find(self, name: str, base: str) -> Place | None:
        """What ``name`` is in the real path ``base``, where the name is ordinary and what it names
        is no link.

        None: it takes a closer look.
        """
        path = base + os.sep + name
        folders = self._folders.get(base)
        if folders is not None and name in folders:
            return Place(path, PathKind.DIRECTORY)
        if path in self._seen:
            return self._seen[path]
        if name not in self._names:
            if not is_plain_name(name):
                return None
            self._names.add(name)
        place = self._seen[path] = _look_at(path)
        return place


def _look_at(path: str) -> Place | None:
    try:
        status = os.lstat(path)
    except (OSError, ValueError):  # missing, not permitted, or below a file
        return Place(path, PathKind.MISSING)
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    return None if kind is None or (_IS_WINDOWS and is_link(status)) else Place(path, kind)
