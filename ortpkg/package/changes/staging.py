"""Create a file or folder that appears whole or not at all: made beside its target, then moved."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.names import no_directory
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.file_stamp import renamed_identity
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.integrity.digests import STAGING_PREFIX
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.sidecar import DIGESTS_FILE, signature_names

_SPARE_NBYTES = 64 * 1024  # headers, documents, directories and rounding up to blocks
_JOURNAL = f"{STAGING_PREFIX}parts.json"
_LAST_PART = MANIFEST
_MOST_JOURNAL_NBYTES = 1024 * 1024
TOKEN_NBYTES = 8
"""Size of the random part of a staging folder's name."""


@contextlib.contextmanager
def staged(
    target: Path, *, nbytes: int, operations: FileOperations, overwrite: bool = False
) -> Iterator[Path]:
    """Yield an unused path beside ``target``; what the block creates there becomes ``target``.

    After an error nothing of it is left. Leftovers of a killed process are removed by the next
    process that makes ``target``; the caller holds its lock
    (:func:`~ortpkg.foundations.storage.package_lock.lock_package`).

    An existing empty folder is kept, since a process may be working in it or a disk may be mounted
    there. The new content is then made inside it, and its parts are renamed into place,
    manifest.json last.

    With ``overwrite``, an existing file or package changes places with the new one in a single
    step, and is then removed.

    Raises:
        AuthoringError: ``target`` exists and may not be replaced, its parent is missing, the disk
            has no space for ``nbytes``, or cannot be written. Nothing new is left.
    """
    is_replaced = overwrite and is_replaceable(target, is_package=target.is_dir())
    if not is_replaced:
        check_is_free(target)
    is_filled_in_place = target.is_dir() and not is_replaced
    prefix = f"{STAGING_PREFIX}" if is_filled_in_place else f"{STAGING_PREFIX}{target.name}."
    staging = (
        target if is_filled_in_place else target.parent
    ) / f"{prefix}{secrets.token_hex(TOKEN_NBYTES)}"
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
        ):  # checked again: building may have taken minutes
            operations.exchange(staging, target)
        else:
            check_is_free(target, building=staging)
            if is_filled_in_place:
                _publish_parts(target, staging, operations)
            else:
                operations.replace(staging, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            _undo(target, staging, operations)
        if isinstance(error, OSError):
            raise explanation(error, target) from error
        raise
    with contextlib.suppress(OSError):  # the target is complete; an error would deny it
        if is_filled_in_place or is_replaced:
            operations.remove_tree(staging)
        operations.fsync_directory(target if is_filled_in_place else target.parent)


def check_is_free(target: Path, *, building: Path | None = None) -> None:
    """Check that ``target`` is free or an empty folder, and that its parent is a folder.

    Leftovers of a killed process do not count, and neither does ``building``.

    Raises:
        UsageError: the parent is not a folder.
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
    """Return True if ``target`` is a package (or a file) that may be overwritten on request.

    Raises:
        AuthoringError: something else is there: a link, a device, a folder of other things.
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
    """Return the files that a new package with ``adds`` adds, changes and removes at ``root``.

    Every new package has a digests.json, whose size is known only once it is made.
    """
    before = {*list_files(root), *signature_names(root)} if is_replaced else set()
    if is_replaced and os.path.lexists(root / DIGESTS_FILE):
        before.add(DIGESTS_FILE)
    new_files: dict[str, int | None] = {DIGESTS_FILE: None, **adds}
    new_files[DIGESTS_FILE] = new_files.pop(
        DIGESTS_FILE
    )  # moved to the end; an unpacked one has a known size
    return PlannedFiles(
        root=root,
        adds={path: nbytes for path, nbytes in new_files.items() if path not in before},
        changes=tuple(path for path in new_files if path in before),
        removes=tuple(sorted(before - new_files.keys())),
    )


def is_occupied(folder: Path, *, building: Path | None = None) -> bool:
    """Return True if a folder holds anything but leftovers of a killed :func:`staged`."""
    leftovers = [path for path in _leftovers(folder) if path.parent == folder]
    ignored = {
        *leftovers,
        *(part for leftover in leftovers for part in _moved_parts(folder, leftover)),
        building,
    }
    return any(path not in ignored for path in folder.iterdir())


def _publish_parts(target: Path, staging: Path, operations: FileOperations) -> None:
    """Rename the parts made in ``staging`` to their places in ``target``.

    A journal of their identities is written first, for the process that has to undo this.
    """
    parts = sorted(staging.iterdir(), key=lambda path: (path.name == _LAST_PART, path.name))
    identities = {part.name: renamed_identity(part) for part in parts}
    operations.write_file(staging / _JOURNAL, json.dumps(identities).encode())
    operations.fsync_directory(staging)
    for part in parts:
        operations.replace(part, target / part.name)
    operations.fsync_directory(target)


def _undo(target: Path, leftover: Path, operations: FileOperations) -> None:
    """Delete ``leftover`` and the parts it renamed into ``target``, unless all of them were."""
    for part in _moved_parts(target, leftover):
        operations.remove_tree(part)
    operations.remove_tree(leftover)


def _moved_parts(target: Path, leftover: Path) -> list[Path]:
    """Return the parts that a killed process renamed from ``leftover`` into ``target``.

    Return nothing if the target was complete. A part that was changed since is somebody's work and
    is not returned.
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
            if os.path.lexists(target / name)
            and renamed_identity(target / name) == identities[name]
        ]
    except (OSError, ValueError):
        return []


def _leftovers(target: Path) -> list[Path]:
    """Return what killed processes were building beside ``target``, or in it if it is a folder."""
    token = f"[0-9a-f]{{{2 * TOKEN_NBYTES}}}"
    beside = re.compile(re.escape(f"{STAGING_PREFIX}{target.name}.") + token)
    paths = [path for path in target.parent.iterdir() if beside.fullmatch(path.name)]
    if target.is_dir() and not target.is_symlink():
        inside = re.compile(re.escape(STAGING_PREFIX) + token)
        paths += [path for path in target.iterdir() if inside.fullmatch(path.name)]
    return sorted(paths)


def check_space(folder: Path, nbytes: int, operations: FileOperations) -> None:
    """Raise AuthoringError before anything is written if the disk has too little space.

    Compression and sharing by the disk are not foreseen, so this is an estimate.
    """
    free = operations.free_nbytes(folder)
    if nbytes + _SPARE_NBYTES > free:
        raise AuthoringError(
            f"not enough space on the disk of {quoted(folder)}: {nbytes} bytes needed, and"
            f" {_SPARE_NBYTES} to spare, {free} free; nothing was changed"
        )


def explanation(error: OSError, target: Path) -> AuthoringError:
    """Turn an OSError into an AuthoringError; only for failures that left nothing behind."""
    where = f": {quoted(error.filename)}" if error.filename else ""
    return AuthoringError(
        f"cannot change {quoted(target)}; nothing was changed: {error.strerror or error}{where}"
    )
