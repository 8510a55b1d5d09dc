"""``ortpkg.verify``, ``ortpkg.record_digests``: compare files with digests.json, or record them."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from ortpkg.authoring.opening import NamedKind, kind_of
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.archive.archive_reader import open_archive
from ortpkg.package.archive.package_archive import ArchiveSource
from ortpkg.package.archive.packed_verification import verify_packed
from ortpkg.package.changes import repair
from ortpkg.package.integrity.verification import VerificationReport, verify_package

Notify = Callable[[str], None]


def verify(
    root: str | PathLike[str],
    *,
    repair_from: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> VerificationReport:
    """Hash every file of a package again and report each that is not as recorded.

    Every file is read, whatever an earlier check found. This finds damage, not tampering: whoever
    changes a file can change its digest too.

    Args:
        root: directory of the package, or a packed package.
        repair_from: another copy, a directory or a packed file, to take damaged and missing files
            from. Only files whose bytes have the recorded digest are taken, so it needs no trust.
        progress: called with (file, bytes done, bytes in all) from the hashing threads, one at a
            time.
        notify: called with a text when a repair has to wait for another command.
        operations: operations by which a repair changes the disk.

    Returns:
        A frozen report; ``is_intact``, ``differences``, ``exit_code``. A difference is no error.

    Raises:
        PackageNotFoundError: there is no package at ``root``.
        UsageError: it is a bare model, which has no digests, or a repair would have to change a
            packed package.
        AuthoringError, PackageBusyError: a repair cannot write the package, or does not get its
            turn.
        ArchiveError: ``root`` or ``repair_from`` is a file, but not a sound archive.
    """
    path = Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    if kind_of(path) is not NamedKind.PACKAGE:
        return _verify_file(path, is_repair=repair_from is not None, progress=progress)
    if repair_from is None:
        return verify_package(path, progress=progress)
    copy = Path(repair_from)
    if copy.is_dir():
        return repair.repair_package(
            path,
            repair.DirectorySource(copy),
            progress=progress,
            notify=notify,
            operations=operations,
        )
    with open_archive(copy) as archive:
        return repair.repair_package(
            path, ArchiveSource(archive), progress=progress, notify=notify, operations=operations
        )


def _verify_file(path: Path, *, is_repair: bool, progress: Progress | None) -> VerificationReport:
    if kind_of(path) is NamedKind.MODEL:
        raise UsageError(
            f"{quoted(path)} is a model, and nothing records what its bytes should be: ortpkg"
            " create makes a package that does"
        )
    if is_repair:
        raise UsageError(f"{quoted(path)} is packed: unpack it, and repair the folder")
    return verify_packed(path, progress=progress)


def record_digests(
    root: str | PathLike[str],
    *,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> VerificationReport:
    """Write digests.json for the files as they are now, after documents were edited by hand.

    It records whatever is there as right. Damage that nobody has noticed is never found again, so
    verify first, and record only what you changed yourself.

    Returns:
        A report whose ``differences`` are what was accepted.

    Raises:
        PackageNotFoundError: there is no package at ``root``.
        AuthoringError, PackageBusyError: the package cannot be read or written, or it does not get
            its turn.
    """
    path = Path(os.path.abspath(root))  # noqa: PTH100  # as above
    return repair.record_digests(path, progress=progress, notify=notify, operations=operations)
