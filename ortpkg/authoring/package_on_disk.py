"""A package while a command writes it: its lock is held, and what came of it is read again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path

from ortpkg.authoring.new_variant import Notify
from ortpkg.authoring.package_plan import PackagePlan, check_intact, check_record, new_package
from ortpkg.authoring.written_package import open_written
from ortpkg.errors import AuthoringError, quoted, unquoted
from ortpkg.package.changes.broken_signatures import (
    report_broken_signatures,
    report_lost_signatures,
)
from ortpkg.package.changes.recovery import recover
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.changes.transaction import PackageChange, create_package
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import Progress
from ortpkg.storage.package_lock import lock_package


@contextlib.contextmanager
def locked_package(
    root: Path, *, notify: Notify | None, operations: FileOperations | None
) -> Iterator[PackageInfo]:
    """The package at ``root``, which is its caller's alone and without what a killed one left.

    PackageBusyError where another command does not finish changing it; AuthoringError for an
    installed one.
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
    """Lock a package like :func:`locked_package`; DigestMismatchError unless files are as recorded.

    ``converts``: all documents are written anew, so that it does not matter which form they have.
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
    """Refuse to change documents of a form that ortpkg reads only.

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
    """Makes at ``output`` what ``plan`` says of the package at ``source``, and opens it.

    ``others``: packages that it is made of besides.

    DigestMismatchError unless each file of ``source`` is as recorded.
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
    """Makes the package at ``target`` in one step, and opens it."""
    with lock_package(target, on_wait=notify):
        create_package(
            target, change, overwrite=overwrite, operations=operations, progress=progress
        )
        return open_written(target)
