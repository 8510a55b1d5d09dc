"""``ortpkg.pack`` and ``ortpkg.unpack``: pack a package into one file, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.archive.archive_directory import DEFAULT_LIMITS, ArchiveLimits
from ortpkg.package.archive.package_archive import PackReport, pack_package, unpack_package

Notify = Callable[[str], None]


def pack(
    root: str | PathLike[str],
    output: str | PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackReport:
    """Write the package at ``root`` to the new file ``output`` (by convention ``name.ortpkg``).

    It is a zip file without compression, with the same bytes for the same package on every system.
    Every file is compared with digests.json; a package without one gets one in the archive.
    ``output`` appears when it is complete.

    Args:
        root: directory of the package.
        output: path of the file; it must not exist.
        overwrite: True to replace an existing file when the new one is complete.
        progress: called with (file, bytes done, bytes in all).
        notify: called with a text when it has to wait for another command.
        operations: operations that change the disk.

    Raises:
        DigestMismatchError: a file is not as recorded, missing, or not recorded.
        StalePackageError: a compiled variant was made of another model than the one beside it.
        AuthoringError: ``output`` exists, a file is a link or has a name that is not portable, or
            the disk is full.
        PackageNotFoundError: there is no package at ``root``.
    """
    return pack_package(
        _absolute(root),
        _absolute(output),
        overwrite=overwrite,
        progress=progress,
        notify=notify,
        operations=operations,
    )


def unpack(
    path: str | PathLike[str],
    root: str | PathLike[str],
    *,
    overwrite: bool = False,
    limits: ArchiveLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackReport:
    """Unpack the file ``path`` to ``root``, a new directory that appears once all is verified.

    Args:
        path: a packed package; any zip file of one that is unambiguous.
        root: the directory; it must not exist, or be empty.
        overwrite: True to replace an existing package when the new one is complete.
        limits: most files and bytes that are accepted.
        progress, notify, operations: as in :func:`pack`.

    Raises:
        ArchiveError: the archive is damaged, breaks a limit, or holds no package; the message names
            the entry.
        DigestMismatchError: a file is not as the archive's digests.json records, missing, or not
            recorded.
        AuthoringError: ``root`` exists, or the disk is full.
    """
    return unpack_package(
        _absolute(path),
        _absolute(root),
        overwrite=overwrite,
        limits=limits,
        progress=progress,
        notify=notify,
        operations=operations,
    )


def _absolute(path: str | PathLike[str]) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
