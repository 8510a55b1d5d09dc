"""A new file or folder that appears whole or not at all: built beside its place, then renamed into it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from ortpkg.errors import AuthoringError, quoted
from ortpkg.package.digests import STAGING_PREFIX
from ortpkg.package.file_operations import FileOperations

_SPARE_NBYTES = 1024 * 1024  # headers, documents, directories and rounding up to blocks
TOKEN_NBYTES = 8
"""Of the random part of a staging folder's name."""


@contextlib.contextmanager
def staged(target: Path, *, nbytes: int, operations: FileOperations) -> Iterator[Path]:
    """Yields a free name beside ``target``; what is made there becomes ``target`` when the context is left.

    After an error nothing is left of it. What a killed process left is removed by the next that makes ``target``; the
    caller holds its lock (:func:`~ortpkg.package.package_lock.lock_package`). An empty folder in the place is replaced.

    Raises:
        AuthoringError: there is something at ``target``, or no folder to hold it, or no space for ``nbytes``, or the
            disk cannot be written. There is then nothing new.
    """
    check_is_free(target)
    try:
        for leftover in _leftovers(target):
            operations.remove_tree(leftover)
        check_space(target.parent, nbytes, operations)
    except OSError as error:
        raise explanation(error, target) from error
    staging = target.parent / f"{STAGING_PREFIX}{target.name}.{secrets.token_hex(TOKEN_NBYTES)}"
    try:
        yield staging
        check_is_free(target)  # again: building may have taken minutes
        if target.is_dir():
            operations.remove_directory(target)  # empty, as checked; Windows does not rename over a folder
        operations.replace(staging, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            operations.remove_tree(staging)
        if isinstance(error, OSError):
            raise explanation(error, target) from error
        raise
    with contextlib.suppress(OSError):  # it is there; an error would claim that it is not
        operations.fsync_directory(target.parent)


def check_is_free(target: Path) -> None:
    """AuthoringError where something is at ``target`` (an empty folder is fine), or its parent is no folder."""
    if not target.parent.is_dir():
        raise AuthoringError(f"{quoted(target.parent)} is not a directory; make it first")
    is_folder = target.is_dir() and not target.is_symlink()
    if os.path.lexists(target) and (not is_folder or any(target.iterdir())):
        raise AuthoringError(f"{quoted(target)} exists already; choose another name")


def _leftovers(target: Path) -> list[Path]:
    name = re.compile(re.escape(f"{STAGING_PREFIX}{target.name}.") + f"[0-9a-f]{{{2 * TOKEN_NBYTES}}}")
    return sorted(path for path in target.parent.iterdir() if name.fullmatch(path.name))


def check_space(folder: Path, nbytes: int, operations: FileOperations) -> None:
    """Refuses before anything is written. What the disk compresses or shares is not foreseen, so no promise."""
    needed, free = nbytes + _SPARE_NBYTES, operations.free_nbytes(folder)
    if needed > free:
        raise AuthoringError(
            f"not enough space on the disk of {quoted(folder)}: {needed} bytes needed, {free} free; nothing was changed"
        )


def explanation(error: OSError, target: Path) -> AuthoringError:
    """An error of the operating system in our words; only for failures that left nothing."""
    where = f": {quoted(error.filename)}" if error.filename else ""
    return AuthoringError(f"cannot change {quoted(target)}; nothing was changed: {error.strerror or error}{where}")
