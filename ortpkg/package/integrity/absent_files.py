"""Files that a sparse package has, and this copy of it does not.

A machine fetches the documents of a package and the files of the variants that it runs; the rest is
absent, which is neither damage nor an error. A file that ``digests.json`` records is absent where
the folder that it lies in is not here, or holds nothing but documents (JSON), which travel with
every package. A file that is gone from a folder which has others is missing: that is damage.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.errors import PackageFormatError
from ortpkg.package.paths.disk_places import PathKind

if TYPE_CHECKING:
    from ortpkg.package.integrity.digests import PackageDigests, RecordedFile

_DOCUMENT_SUFFIX = ".json"


def absent_files(root: Path, recorded: PackageDigests) -> Mapping[str, RecordedFile]:
    """The files of ``recorded`` that are absent from ``root``: path with ``/`` → what is recorded.

    A change that was interrupted tells what it added and was about to remove; a package that has
    one is not sparse.
    """
    if recorded.pending is not None:
        return {}
    folders: dict[str, bool] = {}
    found = {}
    for path, file in recorded.files.items():
        if path.endswith(_DOCUMENT_SUFFIX):
            continue
        folder = path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = folder != "" and _is_left_out(root / folder)
        if folders[folder]:
            found[path] = file
    return found


def _is_left_out(folder: Path) -> bool:
    """Whether a folder is not here, or holds documents alone, at least one."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return bool(names) and all(name.endswith(_DOCUMENT_SUFFIX) for name in names)


class AbsentFiles:
    """What is absent from one package; ``digests.json`` is read when somebody asks first.

    Whoever opens a package asks only where a file is not there, so a package that is whole is
    opened without it.

    Attributes:
        were_asked: somebody looked for what is not here.
    """

    def __init__(self, root: Path | str) -> None:
        self._root = root
        self.were_asked = False

    def kind_at(self, path: str) -> PathKind:
        """What would be at ``path``, absolute with links followed, if nothing were absent.

        MISSING where nothing would be.
        """
        relative = self._relative(path)
        if relative in self.files:
            return PathKind.FILE
        return PathKind.DIRECTORY if relative in self._folders else PathKind.MISSING

    def files_beside(self, here: Collection[str], directory: str) -> list[str]:
        """Names of absent files directly in ``directory``, which holds the files ``here``."""
        if not all(name.endswith(_DOCUMENT_SUFFIX) for name in here):
            return []
        split = [path.rpartition("/") for path in self.files]
        relative = self._relative(directory)
        return [name for folder, _, name in split if folder == relative]

    def is_any_below(self, path: Path) -> bool:
        """Whether ``path``, absolute with links followed, is absent, or a file in it is."""
        relative = self._relative(path)
        return relative in self.files or relative in self._folders

    @cached_property
    def files(self) -> Mapping[str, RecordedFile]:
        """Path relative to the root, with ``/`` → what is recorded of it."""
        # Here, since whoever opens a package that is whole needs no SHA-256.
        from ortpkg.package.integrity.digests import read_entries

        self.were_asked = True
        root = Path(self._real_root)
        try:
            recorded = read_entries(root)
        except PackageFormatError:  # verify says so
            recorded = None
        return {} if recorded is None else absent_files(root, recorded)

    @cached_property
    def _real_root(self) -> str:
        return os.path.realpath(self._root)

    def _relative(self, path: Path | str) -> str:
        return os.path.relpath(path, self._real_root).replace(os.sep, "/")

    @cached_property
    def _folders(self) -> frozenset[str]:
        """The folders that absent files lie in, and those above them."""
        folders = set()
        for path in self.files:
            while (path := path.rpartition("/")[0]) and path not in folders:
                folders.add(path)
        return frozenset(folders)
