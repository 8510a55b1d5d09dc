"""What a change would do to files: what a dry run says instead of doing it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class PlannedFiles(NamedTuple):
    """The files that a change is about, relative to ``root`` with ``/``.

    Attributes:
        root: the package, or the folder of a file that is made.
        adds: new file → size in bytes; None where only making it tells.
        changes: files that get other content.
        removes: files and folders that go.
    """

    root: Path
    adds: Mapping[str, int | None] = MappingProxyType({})
    changes: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()


class Rehearsed(Exception):  # no error: it ends a rehearsal where its change would begin
    """Raised by :class:`~ortpkg.storage.rehearsal.Rehearsal` where the first file would change."""

    def __init__(self, files: PlannedFiles) -> None:
        super().__init__(f"{files.root} would change")
        self.files = files
