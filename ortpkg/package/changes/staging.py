"""A new file or folder that appears whole or not at all: made beside its place, then renamed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from ortpkg.errors import AuthoringError, UsageError, quoted
from ortpkg.names import no_directory
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.integrity.digests import STAGING_PREFIX
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.sidecar import DIGESTS_FILE, signature_names
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.planned_files import PlannedFiles

_SPARE_NBYTES = 64 * 1024  # headers, documents, directories and rounding up to blocks
_JOURNAL = f"{STAGING_PREFIX}parts.json"
_LAST_PART = MANIFEST
_MOST_JOURNAL_NBYTES = 1024 * 1024
TOKEN_NBYTES = 8
"""Of the random part of a staging folder's name."""


@contextlib.contextmanager
def staged(
    target: Path, *, nbytes: int, operations: FileOperations, overwrite: bool = False
) -> Iterator[Path]:
    """Yields a free name beside ``target``.

    What is made there becomes ``target`` when the context is left.

    After an error nothing is left of it. What a killed process left is removed by the next that
    makes ``target``; the caller holds its lock (:func:`~ortpkg.storage.package_lock.lock_package`).

    An empty folder that is there already stays the folder that it is, since a process may be
    working in it, or a disk be mounted there: what is made lies in it first; its parts,
    manifest.json last, are then renamed to their places.

    With ``overwrite``, a file or a package's folder that is there already takes the free name when
    the context is left, in the one step in which the new one takes its own, and is removed.

    Raises:
        AuthoringError: there is something at ``target`` that is not to be replaced, or no folder to
            hold it, or no space for ``nbytes``, or the disk cannot be written. There is then
            nothing new.
    """
    is_replaced = overwrite and is_replaceable(target, is_package=target.is_dir())
    if not is_replaced:
        check_is_free(target)
    is_there = target.is_dir() and not is_replaced
    prefix = f"{STAGING_PREFIX}" if is_there else f"{STAGING_PREFIX}{target.name}."
    staging = (target if is_there else target.parent) / f"{prefix}{secrets.token_hex(TOKEN_NBYTES)}"
    try:
        for leftover in _leftovers(target):
            _undo(target, leftover, operations)
        check_space(staging.parent, nbytes, operations)
    except OSError as error:
        raise explanation(error, target) from error
    try:
        yield staging
        if is_replaced and is_replaceable(
            target, is_package=target.is_dir()
        ):  # again: building may have taken minutes
            operations.exchange(staging, target)
        else:
            check_is_free(target, building=staging)
            if is_there:
                _publish_parts(target, staging, operations)
            else:
                operations.replace(staging, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            _undo(target, staging, operations)
        if isinstance(error, OSError):
            raise explanation(error, target) from error
        raise
    with contextlib.suppress(OSError):  # it is there; an error would claim that it is not
        if is_there or is_replaced:
            operations.remove_tree(staging)
        operations.fsync_directory(target if is_there else target.parent)


def check_is_free(target: Path, *, building: Path | None = None) -> None:
    """Verify that ``target`` is free or an empty folder, and that its parent is a folder.

    What a killed process left of its own does not count, nor what is being built.

    Raises:
        UsageError: there is no folder for it to lie in.
        AuthoringError: something is there.
    """
    if not target.parent.is_dir():
        raise UsageError(f"{quoted(target)}: {no_directory(target.parent)}")
    is_folder = target.is_dir() and not target.is_symlink()
    if os.path.lexists(target) and (not is_folder or is_occupied(target, building=building)):
        raise AuthoringError(
            f"{quoted(target)} exists already; choose another name, or replace it with --overwrite"
        )


def is_replaceable(target: Path, *, is_package: bool) -> bool:
    """Whether a package (else: a file) is at ``target``, which may be overwritten on request.

    AuthoringError for anything else that lies there: a link, a device, a folder of other things.
    """
    if not os.path.lexists(target) or (
        target.is_dir() and not target.is_symlink() and not is_occupied(target)
    ):
        return False
    is_right = target.is_file()
    if is_package:
        check_is_not_installed(target)
        is_right = target.is_dir() and any(
            (target / name).is_file() for name in (_LAST_PART, DIGESTS_FILE)
        )
    if target.is_symlink() or not is_right:
        raise AuthoringError(
            f"{quoted(target)} is no {'package' if is_package else 'file'}: it is not overwritten"
        )
    return True


def planned_contents(root: Path, adds: Mapping[str, int], *, is_replaced: bool) -> PlannedFiles:
    """What making a package of the files ``adds`` does to an empty place or to the package there.

    Every package that is made has a digests.json, whose size only making it tells.
    """
    before = {*list_files(root), *signature_names(root)} if is_replaced else set()
    if is_replaced and os.path.lexists(root / DIGESTS_FILE):
        before.add(DIGESTS_FILE)
    made: dict[str, int | None] = {DIGESTS_FILE: None, **adds}
    made[DIGESTS_FILE] = made.pop(DIGESTS_FILE)  # the last, and one that is unpacked has a size
    return PlannedFiles(
        root=root,
        adds={path: nbytes for path, nbytes in made.items() if path not in before},
        changes=tuple(path for path in made if path in before),
        removes=tuple(sorted(before - made.keys())),
    )


def is_occupied(folder: Path, *, building: Path | None = None) -> bool:
    """Whether a folder holds anything but what :func:`staged` left there when it was killed."""
    leftovers = [path for path in _leftovers(folder) if path.parent == folder]
    own = {
        *leftovers,
        *(part for leftover in leftovers for part in _moved_parts(folder, leftover)),
        building,
    }
    return any(path not in own for path in folder.iterdir())


def _publish_parts(target: Path, staging: Path, operations: FileOperations) -> None:
    """Renames what was made in ``staging`` to its places in ``target``.

    What came to its place is known afterwards.
    """
    parts = sorted(staging.iterdir(), key=lambda path: (path.name == _LAST_PART, path.name))
    identities = {part.name: _identity(part) for part in parts}
    operations.write_file(staging / _JOURNAL, json.dumps(identities).encode())
    operations.fsync_directory(staging)
    for part in parts:
        operations.replace(part, target / part.name)
    operations.fsync_directory(target)


def _undo(target: Path, leftover: Path, operations: FileOperations) -> None:
    """Deletes ``leftover``, and what of it was renamed into ``target`` unless all was."""
    for part in _moved_parts(target, leftover):
        operations.remove_tree(part)
    operations.remove_tree(leftover)


def _moved_parts(target: Path, leftover: Path) -> list[Path]:
    """What was renamed from ``leftover`` into ``target`` before a process was killed.

    Nothing where the target was complete.

    Only what is the same file or folder still, unchanged: the rest is somebody's work.
    """
    try:
        identities = json.loads((leftover / _JOURNAL).read_bytes()[:_MOST_JOURNAL_NBYTES])
        if not isinstance(identities, dict) or not any(
            os.path.lexists(leftover / name) for name in identities
        ):
            return []
        names = [name for name in identities if why_not_a_name(name) is None]
        return [
            target / name
            for name in names
            if os.path.lexists(target / name) and _identity(target / name) == identities[name]
        ]
    except (OSError, ValueError):
        return []


def _identity(path: Path) -> list[int]:
    """What a rename does not change; the inode alone may be given to another file later."""
    status = path.lstat()
    return [status.st_ino, status.st_mtime_ns]


def _leftovers(target: Path) -> list[Path]:
    """What killed processes were building: in ``target`` where that is a folder, else beside it."""
    token = f"[0-9a-f]{{{2 * TOKEN_NBYTES}}}"
    beside = re.compile(re.escape(f"{STAGING_PREFIX}{target.name}.") + token)
    found = [path for path in target.parent.iterdir() if beside.fullmatch(path.name)]
    if target.is_dir() and not target.is_symlink():
        inside = re.compile(re.escape(STAGING_PREFIX) + token)
        found += [path for path in target.iterdir() if inside.fullmatch(path.name)]
    return sorted(found)


def check_space(folder: Path, nbytes: int, operations: FileOperations) -> None:
    """Refuses before anything is written.

    What the disk compresses or shares is not foreseen, so no promise.
    """
    free = operations.free_nbytes(folder)
    if nbytes + _SPARE_NBYTES > free:
        raise AuthoringError(
            f"not enough space on the disk of {quoted(folder)}: {nbytes} bytes needed, and"
            f" {_SPARE_NBYTES} to spare, {free} free; nothing was changed"
        )


def explanation(error: OSError, target: Path) -> AuthoringError:
    """An error of the operating system in our words; only for failures that left nothing."""
    where = f": {quoted(error.filename)}" if error.filename else ""
    return AuthoringError(
        f"cannot change {quoted(target)}; nothing was changed: {error.strerror or error}{where}"
    )
