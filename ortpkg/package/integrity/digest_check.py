"""A package's files held against digests.json: lists them, hashes them, says what differs."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ortpkg.errors import PackageFormatError, quoted
from ortpkg.package.integrity.digests import (
    MOST_FILES,
    STAGING_PREFIX,
    PackageDigests,
    RecordedFile,
    check_recordable,
    read_digests,
)
from ortpkg.package.sidecar import DIGESTS_FILE, is_signature_file
from ortpkg.storage.hashing import HashedFile, Progress, hash_files


class DifferenceKind(StrEnum):
    """How a file differs from what digests.json says."""

    CHANGED = "changed"
    MISSING = "missing"
    EXTRA = "extra"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDifference:
    """One file that is not as recorded.

    ``message`` says it in a sentence, digests are "" where there is none.
    """

    kind: DifferenceKind
    file: str
    message: str
    expected: str = ""
    actual: str = ""


class OversizedFileError(OSError):
    """A file that was not read, since it is far larger than its record. ``nbytes``: of the file."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.nbytes = nbytes


def list_files(root: Path) -> tuple[str, ...]:
    """Every file and symbolic link of a package, relative to ``root`` with ``/``, in byte order.

    Left out: digests.json itself, signatures, and the staging folders of changes.
    PackageFormatError for more than 100,000.
    """
    files: list[str] = []
    for parent, directories, names in os.walk(root, onerror=_raise):
        if Path(parent) == root:
            directories[:] = [name for name in directories if not name.startswith(STAGING_PREFIX)]
            names = [
                name
                for name in names
                if name != DIGESTS_FILE and not name.startswith(STAGING_PREFIX)
            ]
        links = [name for name in directories if Path(parent, name).is_symlink()]
        found = (Path(parent, name).relative_to(root).as_posix() for name in (*names, *links))
        files += [path for path in found if not is_signature_file(path)]
        if len(files) > MOST_FILES:
            raise PackageFormatError(
                f"{quoted(root)} holds more than {MOST_FILES} files", path=root
            )
    return tuple(sorted(files, key=os.fsencode))


def compute_digests(root: Path, *, progress: Progress | None = None) -> PackageDigests:
    """Hashes every file of the package as it is now.

    OSError where one cannot be read or is not a regular file, PackageFormatError where a name
    cannot be recorded.
    """
    names = list_files(root)
    return digests_of(root, hash_files({name: root / name for name in names}, progress=progress))


def digests_of(root: Path, hashed: Mapping[str, HashedFile | OSError]) -> PackageDigests:
    """What is to be recorded of the files ``hashed``, all that the package has.

    Errors as :func:`compute_digests`.
    """
    check_recordable(root, hashed)
    files = {}
    for name, found in hashed.items():
        if isinstance(found, OSError):
            raise OSError(found.errno, found.strerror or str(found), str(root / name)) from found
        files[name] = RecordedFile.of(found.digest)
    return PackageDigests(files=files)


def check_digests(root: Path, *, progress: Progress | None = None) -> tuple[DigestDifference, ...]:
    """Re-hashes the whole package: every file that differs, sorted by path.

    Where nothing is recorded, every file is extra.

    What an interrupted change added or was about to remove may be there or not. PackageFormatError
    as :func:`read_digests`.
    """
    recorded = read_digests(root) or PackageDigests()
    present = list_files(root)
    return differences(recorded, present, hash_recorded(root, recorded, present, progress=progress))


def hash_recorded(
    root: Path,
    recorded: PackageDigests,
    present: Collection[str],
    *,
    progress: Progress | None = None,
) -> dict[str, HashedFile | OSError]:
    """Hashes those of the files ``present`` that are recorded.

    A folder in a file's place cannot be read; what is far larger than its record is not read.
    """
    listed = set(present)
    files = [file for file in recorded.files if file in listed or (root / file).is_dir()]
    oversized = {
        file: OversizedFileError(nbytes)
        for file in files
        if recorded.files[file].is_far_exceeded_by(nbytes := _size_of(root / file))
    }
    hashed = hash_files(
        {file: root / file for file in files if file not in oversized}, progress=progress
    )
    return {file: oversized.get(file) or hashed[file] for file in files}


def _size_of(path: Path) -> int:
    """0 where reading the file says what is wrong with it."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def differences(
    recorded: PackageDigests, present: Collection[str], hashed: Mapping[str, HashedFile | OSError]
) -> tuple[DigestDifference, ...]:
    """How the files ``present``, those recorded among them ``hashed``, differ from ``recorded``.

    Sorted by path.
    """
    pending = recorded.pending
    transient = frozenset((*pending.adds, *pending.removes) if pending else ())
    found = []
    for file in sorted({*present, *recorded.files}, key=os.fsencode):
        if file in hashed:
            difference = _changed(file, recorded.files[file], hashed[file])
            found += [difference] if difference else []
        elif is_within(file, transient):
            continue
        elif file in recorded.files:
            message = "recorded, but not there"
            expected = recorded.files[file].digests[-1]
            found.append(
                DigestDifference(
                    kind=DifferenceKind.MISSING, file=file, message=message, expected=expected
                )
            )
        else:
            found.append(
                DigestDifference(
                    kind=DifferenceKind.EXTRA, file=file, message="there, but not recorded"
                )
            )
    return tuple(found)


def is_within(path: str, places: Collection[str]) -> bool:
    """Whether ``path`` is one of ``places`` or lies in one. Pass a set where there may be many."""
    if path in places:
        return True
    end = path.find("/")
    while end >= 0:
        if path[:end] in places:
            return True
        end = path.find("/", end + 1)
    return False


def _changed(
    file: str, recorded: RecordedFile, found: HashedFile | OSError
) -> DigestDifference | None:
    expected = recorded.digests[-1]
    if isinstance(found, OversizedFileError):
        message = f"it has {found.nbytes} bytes instead of {recorded.nbytes}, and was not read"
        return DigestDifference(
            kind=DifferenceKind.CHANGED, file=file, message=message, expected=expected
        )
    if isinstance(found, OSError):
        message = quoted(found.strerror or found)
        return DigestDifference(
            kind=DifferenceKind.UNREADABLE, file=file, message=message, expected=expected
        )
    actual = found.digest
    if actual.sha256 in recorded.digests:
        return None
    sizes = (
        ""
        if actual.nbytes == recorded.nbytes
        else f" ({actual.nbytes} bytes instead of {recorded.nbytes})"
    )
    return DigestDifference(
        kind=DifferenceKind.CHANGED,
        file=file,
        message=f"its bytes are not those recorded{sizes}",
        expected=expected,
        actual=actual.sha256,
    )


def _raise(error: OSError) -> None:
    raise error
