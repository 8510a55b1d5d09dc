"""State of each file of a package, compared with digests.json as far as a budget of bytes allows.

Within the budget the states are those that ``ortpkg verify`` finds. Beyond it a file is judged by a
cached digest, by its size, or not at all, and its state says which.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ortpkg.foundations.storage.digest_cache import DigestCache
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.package.integrity.absent_files import absent_files
from ortpkg.package.integrity.digest_check import (
    DifferenceKind,
    DigestDifference,
    differences,
    hash_recorded,
    list_files,
)
from ortpkg.package.integrity.digests import PackageDigests, RecordedFile, read_entries
from ortpkg.package.integrity.verification import check_own_record, verify_package
from ortpkg.package.sidecar import has_digests


class FileState(StrEnum):
    """State of a file compared with its record; the first four are no reason to worry."""

    VERIFIED = "verified"
    KNOWN = "known from before"
    NOT_READ = "not read"
    ABSENT = "absent"
    CHANGED = "changed"
    MISSING = "missing"
    EXTRA = "extra"
    UNREADABLE = "unreadable"


_STATES: Mapping[DifferenceKind, FileState] = {
    DifferenceKind.CHANGED: FileState.CHANGED,
    DifferenceKind.MISSING: FileState.MISSING,
    DifferenceKind.EXTRA: FileState.EXTRA,
    DifferenceKind.UNREADABLE: FileState.UNREADABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile:
    """One file of a package.

    Attributes:
        path: relative to the root, with ``/``.
        state: compared with its record.
        nbytes: the recorded size; the actual one of a file that is not recorded.
        message: what is wrong with it; "" for nothing.
    """

    path: str
    state: FileState
    nbytes: int
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFileStates:
    """All files of a package.

    Attributes:
        files: recorded ones in their order, then others on the disk.
        package_digest: SHA-256 over all recorded files; "" if nothing is recorded.
        notes: further remarks for the user.
    """

    files: tuple[VerifiedFile, ...]
    package_digest: str
    notes: tuple[str, ...]


def file_states(root: Path, *, most_nbytes: int | None) -> PackageFileStates:
    """Compare the files of the package at ``root`` with digests.json. Differences are no error.

    Args:
        root: the package.
        most_nbytes: how many bytes are hashed at most; None for all.

    Raises:
        PackageNotFoundError: ``root`` is not a package.
        PackageFormatError: it holds too many files, or digests.json cannot be read.
    """
    recorded = read_entries(root) if has_digests(root) else None
    nbytes = 0 if recorded is None else sum(file.nbytes for file in recorded.files.values())
    if recorded is not None and most_nbytes is not None and nbytes > most_nbytes:
        return _partly_read(root, recorded, most_nbytes)
    report = verify_package(root)
    return PackageFileStates(
        files=tuple(_files(root, recorded, report.differences, report.absent_files)),
        package_digest=report.package_digest,
        notes=report.notes,
    )


def _files(
    root: Path,
    recorded: PackageDigests | None,
    differences: Sequence[DigestDifference],
    absent: Mapping[str, object],
    unread: Mapping[str, FileState] | None = None,
) -> Iterator[VerifiedFile]:
    by_path = {difference.file: difference for difference in differences}
    files: Mapping[str, RecordedFile] = {} if recorded is None else recorded.files
    for path, file in files.items():
        difference = by_path.pop(path, None)
        state = (unread or {}).get(path, FileState.VERIFIED)
        if path in absent:
            state = FileState.ABSENT
        elif difference is not None:
            state = _STATES[difference.kind]
        message = "" if difference is None else difference.message
        yield VerifiedFile(path=path, state=state, nbytes=file.nbytes, message=message)
    for path, difference in by_path.items():
        state = _STATES[difference.kind]
        nbytes = 0
        with contextlib.suppress(OSError, ValueError):
            nbytes = (root / path).lstat().st_size
        yield VerifiedFile(path=path, state=state, nbytes=nbytes, message=difference.message)


def _partly_read(root: Path, recorded: PackageDigests, most_nbytes: int) -> PackageFileStates:
    """Hash files in their order until the budget is spent; judge the others by cache and size."""
    present = set(list_files(root))
    absent = absent_files(root, recorded)
    cache = DigestCache(root)
    unread: dict[str, FileState] = {}
    changes: list[DigestDifference] = []
    budget = most_nbytes
    for path, file in recorded.files.items():
        stamp = file_stamp(root / path) if path in present else None
        if stamp is None:
            continue
        state, difference = _known_state(path, file, stamp, cache)
        if difference is not None:
            changes.append(difference)
        if state is FileState.NOT_READ and stamp.nbytes <= budget:
            budget -= stamp.nbytes
        else:
            unread[path] = state
    rest = PackageDigests(
        files={path: file for path, file in recorded.files.items() if path not in unread},
        pending=recorded.pending,
    )
    hashed_now = sorted(present - unread.keys())
    changes += differences(rest, hashed_now, hash_recorded(root, rest, hashed_now))
    record_damage = check_own_record(root)
    return PackageFileStates(
        files=tuple(
            _files(
                root,
                recorded,
                [*changes, *([record_damage] if record_damage else [])],
                absent,
                unread,
            )
        ),
        package_digest=recorded.package_digest,
        notes=(),
    )


def _known_state(
    path: str, file: RecordedFile, stamp: FileStamp, cache: DigestCache
) -> tuple[FileState, DigestDifference | None]:
    """Return the state of a file that is not read; NOT_READ if nothing is known."""
    cached = cache.digest(path, stamp)
    if cached is not None and cached.sha256 in file.digests:
        return FileState.KNOWN, None
    message = ""
    if cached is not None:
        message = "its bytes are not those recorded"
    elif len(file.digests) == 1 and stamp.nbytes != file.nbytes:
        message = f"it has {stamp.nbytes} bytes instead of {file.nbytes}"
    if not message:
        return FileState.NOT_READ, None
    difference = DigestDifference(
        kind=DifferenceKind.CHANGED, file=path, message=message, expected=file.digests[-1]
    )
    return FileState.CHANGED, difference
