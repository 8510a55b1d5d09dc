"""``--dry-run``: what a command would do to files, said in one way for all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output, nbytes_text

if TYPE_CHECKING:
    from ortpkg.storage.file_operations import FileOperations
    from ortpkg.storage.planned_files import PlannedFiles


def operations_for(dry_run: bool) -> FileOperations | None:
    """How a command changes the disk: None as always; for a dry run, not at all."""
    if not dry_run:
        return None
    from ortpkg.storage.rehearsal import Rehearsal  # only for a dry run

    return Rehearsal()


def print_planned(files: PlannedFiles, output: Output) -> None:
    """Prints what a dry run found."""
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
