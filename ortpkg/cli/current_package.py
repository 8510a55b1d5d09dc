"""Package of the current folder, for commands without a package argument."""

from __future__ import annotations

from pathlib import Path

from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.enclosing_package import enclosing_package


def chosen_package(named: Path | None, output: Output) -> Path:
    """Return the named package, or else that of the current folder, which is printed.

    Raises:
        UsageError: No package is named, and the current folder is not in one.
    """
    if named is not None:
        return named
    folder = _current_folder()
    root = None if folder is None else enclosing_package(folder)
    if root is None:
        where = "the current folder" if folder is None else quoted(folder)
        raise UsageError(
            f"name a package: {where} is not one, nor inside one (a package is a folder with a"
            f" {MANIFEST} of its own)"
        )
    output.note(f"package: {root}")
    return root


def _current_folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # the folder has been deleted
        return None
