"""Reads the package that a command has just written: what is on the disk is the outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ortpkg.errors import PackageError, ResultUnreadableError, printable, quoted
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package


def open_written(root: Path) -> PackageInfo:
    """The package at ``root``, which is complete.

    ResultUnreadableError where it cannot be read all the same.
    """
    with reading_result(root):
        return open_package(root)


@contextlib.contextmanager
def reading_result(root: Path) -> Iterator[None]:
    """Says of what fails inside that the package at ``root`` was written before."""
    try:
        yield
    except (OSError, PackageError) as error:
        raise ResultUnreadableError(
            f"{quoted(root)} was written and is complete, but cannot be read now:"
            f" {printable(error)}",
            path=root,
        ) from error
