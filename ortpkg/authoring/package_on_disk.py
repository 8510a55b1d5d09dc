"""Lock a package while a command writes it, and read the result again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path

from ortpkg.authoring.new_variant import Notify
from ortpkg.authoring.package_plan import PackagePlan, check_intact, check_record, new_package
from ortpkg.authoring.written_package import open_written
from ortpkg.foundations.errors import AuthoringError, quoted, unquoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.package.changes.broken_signatures import (
    report_broken_signatures,
    report_lost_signatures,
)
from ortpkg.package.changes.recovery import recover
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.changes.transaction import PackageChange, create_package
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package


@contextlib.contextmanager
def open_locked_package(
    root: Path, *, notify: Notify | None, operations: FileOperations | None
) -> Iterator[PackageInfo]:
    """Yield the package at ``root`` under its lock, after recovery from a killed command.

    Raises:
        PackageBusyError: another command does not finish changing it.
        AuthoringError: it is an installed one.
    """
    check_is_not_installed(root)
    with lock_package(root, on_wait=notify):
        recover(root, operations=operations)
        package = open_package(root)
        check_is_written_here(package)
        with report_broken_signatures(root, notify):
            yield package


@contextlib.contextmanager
def locked_intact_package(
    root: Path,
    *,
    notify: Notify,
    operations: FileOperations | None,
    progress: Progress | None,
    converts: bool = False,
) -> Iterator[PackageInfo]:
    """Lock a package like :func:`open_locked_package`, after a check of all its files.

    ``converts``: all documents are rewritten, so their form does not matter.

    Raises:
        DigestMismatchError: a file is not as recorded.
        PackageBusyError, AuthoringError: as :func:`open_locked_package`.
    """
    check_is_not_installed(root)
    with lock_package(root, on_wait=notify):
        check_record(root)
        recover(root, operations=operations)
        check_intact(root, notify=notify, progress=progress)
        package = open_package(root)
        if not converts:
            check_is_written_here(package)
        with report_broken_signatures(root, notify):
            yield package


def check_is_written_here(package: PackageInfo) -> None:
    """Refuse to change documents of a form that ortpkg only reads.

    Raises:
        AuthoringError: they have the form of Olive 0.13.
    """
    if package.is_olives:
        raise AuthoringError(
            f"{quoted(package.root)} has a form that Olive 0.13 alone writes and ortpkg reads only:"
            f" ortpkg convert {unquoted(package.root)} --to component -o NEW makes one that can be"
            " changed"
        )


def write_planned(
    source: Path,
    output: str | PathLike[str],
    plan: Callable[[PackageInfo], PackagePlan],
    *,
    others: tuple[Path, ...] = (),
    overwrite: bool,
    notify: Notify,
    operations: FileOperations | None,
    progress: Progress | None,
) -> PackageInfo:
    """Write the package that ``plan`` makes of the one at ``source``, and open it.

    Args:
        source: the package to start from.
        output: the new package.
        plan: returns the content of the new package.
        others: further packages whose files it takes.
        overwrite: replace an existing package.
        notify: called with messages for the user.
        operations: change the disk.
        progress: called while files are hashed and copied.

    Raises:
        DigestMismatchError: a file of ``source`` is not as recorded.
    """
    target = Path(os.path.abspath(output))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    check_intact(source, notify=notify, progress=progress)
    written = write_package(
        target,
        new_package(plan(open_package(source))),
        overwrite=overwrite,
        notify=notify,
        operations=operations,
        progress=progress,
    )
    report_lost_signatures((source, *others), target, notify)
    return written


def write_package(
    target: Path,
    change: PackageChange,
    *,
    overwrite: bool,
    notify: Notify | None,
    operations: FileOperations | None,
    progress: Progress | None = None,
) -> PackageInfo:
    """Write the package at ``target`` in one step, and open it."""
    with lock_package(target, on_wait=notify):
        create_package(
            target, change, overwrite=overwrite, operations=operations, progress=progress
        )
        return open_written(target)
