"""Compare a package's files with digests.json: list them, hash them, report the differences."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ortpkg.foundations.errors import PackageFormatError, quoted
from ortpkg.foundations.storage.hashing import HashedFile, Progress, hash_files
from ortpkg.package.integrity.digests import (
    MOST_FILES,
    STAGING_PREFIX,
    PackageDigests,
    RecordedFile,
    check_recordable,
    read_digests,
)
from ortpkg.package.sidecar import DIGESTS_FILE, is_signature_file


class DifferenceKind(StrEnum):
    """Kind of difference between a file and its record in digests.json."""

    CHANGED = "changed"
    MISSING = "missing"
    EXTRA = "extra"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDifference:
    """One file that is not as recorded.

    ``message`` describes it in a sentence; unknown digests are "".
    """

    kind: DifferenceKind
    file: str
    message: str
    expected: str = ""
    actual: str = ""


class OversizedFileError(OSError):
    """File of ``nbytes`` that was not read because it is far larger than its record."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.nbytes = nbytes


def list_files(root: Path) -> tuple[str, ...]:
    """Return every file and symbolic link of a package, relative to ``root`` with ``/``, sorted.

    The order is that of the paths' bytes. digests.json itself, signatures, and the staging folders
    of changes are left out.

    Raises:
        PackageFormatError: there are more than 100,000.
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
        paths = (Path(parent, name).relative_to(root).as_posix() for name in (*names, *links))
        files += [path for path in paths if not is_signature_file(path)]
        if len(files) > MOST_FILES:
            raise PackageFormatError(
                f"{quoted(root)} holds more than {MOST_FILES} files", path=root
            )
    return tuple(sorted(files, key=os.fsencode))


def compute_digests(root: Path, *, progress: Progress | None = None) -> PackageDigests:
    """Hash every file of the package as it is now.

    Raises:
        OSError: a file cannot be read or is not a regular file.
        PackageFormatError: a name cannot be recorded.
    """
    names = list_files(root)
    return digests_of(root, hash_files({name: root / name for name in names}, progress=progress))


def digests_of(root: Path, hashed: Mapping[str, HashedFile | OSError]) -> PackageDigests:
    """Return the record for the files ``hashed``, which are all files of the package.

    Raises:
        OSError, PackageFormatError: as in :func:`compute_digests`.
    """
    check_recordable(root, hashed)
    files = {}
    for name, result in hashed.items():
        if isinstance(result, OSError):
            raise OSError(
                result.errno, result.strerror or str(result), str(root / name)
            ) from result
        files[name] = RecordedFile.of(result.digest)
    return PackageDigests(files=files)


def check_digests(root: Path, *, progress: Progress | None = None) -> tuple[DigestDifference, ...]:
    """Hash the whole package and return every file that differs, sorted by path.

    Without a record, every file is extra. Files that an interrupted change added or was about to
    remove may exist or not.

    Raises:
        PackageFormatError: as in :func:`read_digests`.
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
    """Hash those of the files ``present`` that are recorded.

    A folder in a file's place gives an OSError; a file far larger than its record is not read.
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
    """Return the size of a file; 0 if hashing it will report the error."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def differences(
    recorded: PackageDigests, present: Collection[str], hashed: Mapping[str, HashedFile | OSError]
) -> tuple[DigestDifference, ...]:
    """Return how the files ``present`` differ from ``recorded``, sorted by path.

    ``hashed`` has the digests of those that are recorded.
    """
    pending = recorded.pending
    transient = frozenset((*pending.adds, *pending.removes) if pending else ())
    result = []
    for file in sorted({*present, *recorded.files}, key=os.fsencode):
        if file in hashed:
            difference = _changed(file, recorded.files[file], hashed[file])
            result += [difference] if difference else []
        elif is_within(file, transient):
            continue
        elif file in recorded.files:
            message = "recorded, but not there"
            expected = recorded.files[file].digests[-1]
            result.append(
                DigestDifference(
                    kind=DifferenceKind.MISSING, file=file, message=message, expected=expected
                )
            )
        else:
            result.append(
                DigestDifference(
                    kind=DifferenceKind.EXTRA, file=file, message="there, but not recorded"
                )
            )
    return tuple(result)


def is_within(path: str, containers: Collection[str]) -> bool:
    """Return True if ``path`` is one of ``containers`` or lies in one.

    Pass a set if there are many.
    """
    if path in containers:
        return True
    end = path.find("/")
    while end >= 0:
        if path[:end] in containers:
            return True
        end = path.find("/", end + 1)
    return False


def _changed(
    file: str, recorded: RecordedFile, hashed: HashedFile | OSError
) -> DigestDifference | None:
    expected = recorded.digests[-1]
    if isinstance(hashed, OversizedFileError):
        message = f"it has {hashed.nbytes} bytes instead of {recorded.nbytes}, and was not read"
        return DigestDifference(
            kind=DifferenceKind.CHANGED, file=file, message=message, expected=expected
        )
    if isinstance(hashed, OSError):
        message = quoted(hashed.strerror or hashed)
        return DigestDifference(
            kind=DifferenceKind.UNREADABLE, file=file, message=message, expected=expected
        )
    actual = hashed.digest
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
