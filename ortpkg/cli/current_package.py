"""The package that a command is about where none is named: the current folder's."""

from __future__ import annotations

from pathlib import Path

from ortpkg.cli.rendering import Output
from ortpkg.errors import UsageError, quoted
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.enclosing_package import enclosing_package


def chosen_package(named: Path | None, output: Output) -> Path:
    """The package that is named, or else that of the current folder, which is said.

    UsageError where none is named, and neither the current folder nor one above it is a package.
    """
    if named is not None:
        return named
    folder = _current_folder()
    found = None if folder is None else enclosing_package(folder)
    if found is None:
        where = "the current folder" if folder is None else quoted(folder)
        raise UsageError(
            f"name a package: {where} is none and lies in none (a package is a folder with a"
            f" {MANIFEST} of its own)"
        )
    output.note(f"package: {found}")
    return found


def _current_folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it has been deleted
        return None
