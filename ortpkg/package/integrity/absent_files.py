"""Find the files of a sparse package that this copy of it does not have.

A machine fetches the documents of a package and the files of the variants that it runs; the others
are absent, which is neither damage nor an error. A file that ``digests.json`` records is absent if
its folder does not exist, or holds nothing but documents (JSON), which travel with every package. A
file that is missing from a folder with other files is damage.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.foundations.errors import PackageFormatError
from ortpkg.package.paths.disk_places import PathKind

if TYPE_CHECKING:
    from ortpkg.package.integrity.digests import PackageDigests, RecordedFile

_DOCUMENT_SUFFIX = ".json"


def absent_files(root: Path, recorded: PackageDigests) -> Mapping[str, RecordedFile]:
    """Return the files of ``recorded`` that are absent from ``root``, by path with ``/``.

    A package with an interrupted change is not sparse: nothing is absent.
    """
    if recorded.pending is not None:
        return {}
    folders: dict[str, bool] = {}
    absent = {}
    for path, file in recorded.files.items():
        if path.endswith(_DOCUMENT_SUFFIX):
            continue
        folder = path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = folder != "" and _is_left_out(root / folder)
        if folders[folder]:
            absent[path] = file
    return absent


def _is_left_out(folder: Path) -> bool:
    """Return True if a folder does not exist, or holds documents alone, at least one."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return bool(names) and all(name.endswith(_DOCUMENT_SUFFIX) for name in names)


class AbsentFiles:
    """Absent files of one package; ``digests.json`` is read at the first question.

    A reader asks only about files that are not on the disk, so a whole package is opened without
    it.

    Attributes:
        was_queried: True once somebody has asked.
    """

    def __init__(self, root: Path | str) -> None:
        self._root = root
        self.was_queried = False

    def kind_at(self, path: str) -> PathKind:
        """Return the kind that ``path`` would have if no file were absent.

        ``path`` is absolute, with links followed. Return MISSING if nothing would be there.
        """
        relative = self._relative(path)
        if relative in self.files:
            return PathKind.FILE
        return PathKind.DIRECTORY if relative in self._folders else PathKind.MISSING

    def files_beside(self, present: Collection[str], directory: str) -> list[str]:
        """Return names of absent files directly in ``directory``, whose files are ``present``."""
        if not all(name.endswith(_DOCUMENT_SUFFIX) for name in present):
            return []
        split = [path.rpartition("/") for path in self.files]
        relative = self._relative(directory)
        return [name for folder, _, name in split if folder == relative]

    def is_any_below(self, path: Path) -> bool:
        """Return True if ``path`` (absolute, links followed) or a file in it is absent."""
        relative = self._relative(path)
        return relative in self.files or relative in self._folders

    @cached_property
    def files(self) -> Mapping[str, RecordedFile]:
        """Absent files: path relative to the root, with ``/`` → its record."""
        # Imported here: opening a whole package needs no SHA-256.
        from ortpkg.package.integrity.digests import read_entries

        self.was_queried = True
        root = Path(self._real_root)
        try:
            recorded = read_entries(root)
        except PackageFormatError:  # verify reports it
            recorded = None
        return {} if recorded is None else absent_files(root, recorded)

    @cached_property
    def _real_root(self) -> str:
        return os.path.realpath(self._root)

    def _relative(self, path: Path | str) -> str:
        return os.path.relpath(path, self._real_root).replace(os.sep, "/")

    @cached_property
    def _folders(self) -> frozenset[str]:
        """Folders of absent files, and the folders above them."""
        folders = set()
        for path in self.files:
            while (path := path.rpartition("/")[0]) and path not in folders:
                folders.add(path)
        return frozenset(folders)
