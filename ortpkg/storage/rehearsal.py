"""Dry runs: a command goes as far as its first change, and says what that would do.

The one mechanism of all ``--dry-run``: every change of files announces itself to
:meth:`FileOperations.announce <ortpkg.storage.file_operations.FileOperations.announce>` once it is
planned and checked, and before it begins; a :class:`Rehearsal` in its place ends the command there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ortpkg.errors import AuthoringError, quoted
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.planned_files import PlannedFiles, Rehearsed


class Rehearsal(FileOperations):
    """Changes nothing: raises :class:`Rehearsed` where the first change is announced."""

    are_real = False

    def announce(self, files: PlannedFiles) -> NoReturn:
        """Ends the command: always raises Rehearsed."""
        raise Rehearsed(files)

    def before(self, operation: str, path: Path) -> NoReturn:
        """AuthoringError: only tidying up after a command that was stopped is not announced."""
        raise AuthoringError(
            f"{quoted(path)}: a command that was stopped left something to tidy up ({operation}),"
            " which the next change does first; what comes then cannot be foretold"
        )


def rehearse(change: Callable[[FileOperations], object]) -> PlannedFiles | None:
    """What ``change`` would do to files, where it passes on the operations that it is given.

    None where it would change nothing.

    ``rehearse(lambda operations: ortpkg.create("p", models, operations=operations))``. What it
    would refuse is raised as always.
    """
    try:
        change(Rehearsal())
    except Rehearsed as rehearsed:
        return rehearsed.files
    return None
