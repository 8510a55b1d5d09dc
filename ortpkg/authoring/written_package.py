"""Read the package that a command has just written: the result is what is on the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ortpkg.foundations.errors import PackageError, ResultUnreadableError, printable, quoted
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package


def open_written(root: Path) -> PackageInfo:
    """Open the complete package at ``root``.

    Raises:
        ResultUnreadableError: it cannot be read all the same.
    """
    with reading_result(root):
        return open_package(root)


@contextlib.contextmanager
def reading_result(root: Path) -> Iterator[None]:
    """Turn errors inside the context into ones that say that ``root`` was written before."""
    try:
        yield
    except (OSError, PackageError) as error:
        raise ResultUnreadableError(
            f"{quoted(root)} was written and is complete, but cannot be read now:"
            f" {printable(error)}",
            path=root,
        ) from error
