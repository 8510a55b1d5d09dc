"""Dry runs: run a command up to its first change, and report what that would do.

All ``--dry-run`` options work like this: every change of files announces itself to
:meth:`FileOperations.announce
<ortpkg.foundations.storage.file_operations.FileOperations.announce>` once it is planned and
checked, and before it begins; a :class:`Rehearsal` in its place ends the command there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.planned_files import PlannedFiles, RehearsalEnd


class Rehearsal(FileOperations):
    """Operations that change nothing: the first announced change raises :class:`RehearsalEnd`."""

    are_real = False

    def announce(self, files: PlannedFiles) -> NoReturn:
        """End the command: always raise RehearsalEnd."""
        raise RehearsalEnd(files)

    def before(self, operation: str, path: Path) -> NoReturn:
        """Raise AuthoringError: only tidying up after a stopped command is not announced."""
        raise AuthoringError(
            f"{quoted(path)}: a command that was stopped left something to tidy up ({operation}),"
            " which the next change does first; what comes then cannot be foretold"
        )


def rehearse(change: Callable[[FileOperations], object]) -> PlannedFiles | None:
    """Return the files that ``change`` would touch; None if it would change nothing.

    ``change`` must pass on the operations that it is given: ``rehearse(lambda operations:
    ortpkg.create("p", models, operations=operations))``. Errors of the change are raised as always.
    """
    try:
        change(Rehearsal())
    except RehearsalEnd as rehearsed:
        return rehearsed.files
    return None
