"""Files that a change would touch: the result of a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class PlannedFiles(NamedTuple):
    """Files that a change touches, relative to ``root`` with ``/``.

    Attributes:
        root: the package, or the folder of a new file.
        adds: new file → size in bytes; None if it is known only afterwards.
        changes: files that get other content.
        removes: files and folders to be removed.
    """

    root: Path
    adds: Mapping[str, int | None] = MappingProxyType({})
    changes: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()


class RehearsalEnd(Exception):  # not an error: it ends a rehearsal where its change would begin
    """End of a rehearsal, where the first file would change."""

    def __init__(self, files: PlannedFiles) -> None:
        super().__init__(f"{files.root} would change")
        self.files = files
