"""``--dry-run``: shows what a command would do to files, in the same way for all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output, nbytes_text

if TYPE_CHECKING:
    from ortpkg.foundations.storage.file_operations import FileOperations
    from ortpkg.foundations.storage.planned_files import PlannedFiles


def operations_for(dry_run: bool) -> FileOperations | None:
    """Return a disk writer that only records changes for a dry run, otherwise None."""
    if not dry_run:
        return None
    from ortpkg.foundations.storage.rehearsal import Rehearsal  # only for a dry run

    return Rehearsal()


def print_planned(files: PlannedFiles, output: Output) -> None:
    """Print the changes that a dry run recorded."""
    if output.is_json:
        adds = [{"file": file, "nbytes": nbytes} for file, nbytes in files.adds.items()]
        content = {
            "root": str(files.root),
            "adds": adds,
            "changes": list(files.changes),
            "removes": list(files.removes),
        }
        output.json("dry-run", content)
        return
    for file, nbytes in files.adds.items():
        output.line(
            f"would add {file}{'' if nbytes is None else f' ({nbytes_text(nbytes)})'}",
            style="green",
        )
    for file in files.changes:
        output.line(f"would change {file}", style="yellow")
    for file in files.removes:
        output.line(f"would remove {file}", style="red")
    output.note(f"in {files.root}; nothing was changed")
