"""Verify a package: compare every byte with digests.json and report the differences.

The package is not opened and no cache is used, so a package with damaged documents can be verified
too. It finds damage, not tampering: whoever changes a file can change its digest as well.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.documents.json_documents import dump_document
from ortpkg.foundations.errors import (
    DigestMismatchError,
    PackageFormatError,
    PackageNotFoundError,
    VerifyExitCode,
    quoted,
)
from ortpkg.foundations.names import did_you_mean_path
from ortpkg.foundations.storage.file_stamp import FileStamp
from ortpkg.foundations.storage.hashing import HashedFile, Progress, total_nbytes
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.absent_files import absent_files
from ortpkg.package.integrity.asset_verification import asset_differences, asset_folders
from ortpkg.package.integrity.digest_check import (
    DifferenceKind,
    DigestDifference,
    differences,
    hash_recorded,
    list_files,
)
from ortpkg.package.integrity.digests import (
    WRONG_SUM,
    PackageDigests,
    dump_digests,
    read_digests_document,
    read_entries,
)
from ortpkg.package.sidecar import DIGESTS_FILE

_KNOWN_VERSION = "1.0"
_OTHER_FORM = "it is not in the form that ortpkg writes: damaged, or written by another program"
#: How often a package is compared again because a command changed it meanwhile.
_MOST_ATTEMPTS = 50
_BITS = {
    DifferenceKind.CHANGED: VerifyExitCode.CHANGED,
    DifferenceKind.MISSING: VerifyExitCode.MISSING_OR_EXTRA,
    DifferenceKind.EXTRA: VerifyExitCode.MISSING_OR_EXTRA,
    DifferenceKind.UNREADABLE: VerifyExitCode.UNREADABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """Result of a verification.

    Attributes:
        root: the package.
        is_complete: True if everything was compared. False ("unverified") without a digests.json,
            if it cannot be read, or if it is of a newer version, which may record more than this
            ortpkg compares.
        differences: files that are not as recorded, sorted by path; after a repair, those that
            remain.
        file_count, nbytes: number and size of the files read.
        package_digest: SHA-256 over all recorded files; "" if nothing is recorded.
        notes: further remarks for the user.
        repaired: files that a repair put right.
        not_repaired: file → why a repair could not put it right.
        is_compared: False only if digests were recorded for the first time, or the earlier ones
            could not be read.
        absent_files: path → bytes, of files that a sparse package leaves out
            (:mod:`ortpkg.package.integrity.absent_files`); they are no differences.
    """

    root: Path
    is_complete: bool
    differences: tuple[DigestDifference, ...]
    file_count: int
    nbytes: int
    package_digest: str = ""
    notes: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    not_repaired: tuple[tuple[str, str], ...] = ()
    is_compared: bool = True
    absent_files: Mapping[str, int] = EMPTY

    @property
    def is_intact(self) -> bool:
        """True if every file that is not absent is as recorded, and there are no others."""
        return self.is_complete and not self.differences

    @property
    def exit_code(self) -> VerifyExitCode:
        """Sum of the bits of all findings; 0 if the package is intact."""
        code = VerifyExitCode(0) if self.is_complete else VerifyExitCode.UNVERIFIED
        for difference in self.differences:
            code |= _BITS[difference.kind]
        return code


def verify_package(
    root: Path, *, is_whole: bool = False, progress: Progress | None = None
) -> VerificationReport:
    """Hash all files of the package at ``root`` on all cores. Differences are no error.

    Args:
        root: the package.
        is_whole: absent files count as missing.
        progress: called with (file, bytes done, bytes in all).

    Raises:
        PackageNotFoundError: ``root`` is not a directory, or holds neither manifest.json nor
            digests.json.
        PackageFormatError: it holds more than 100,000 files.
    """
    check_is_package(root)
    for _ in range(_MOST_ATTEMPTS):
        before = _stamp(root / DIGESTS_FILE)
        report = _verify(root, progress, is_whole=is_whole)
        if report.is_intact or _stamp(root / DIGESTS_FILE) == before:
            # otherwise a command changed the package meanwhile, and old records met new files
            break
    return report


def _verify(root: Path, progress: Progress | None, *, is_whole: bool) -> VerificationReport:
    try:
        recorded = read_entries(root)
    except PackageFormatError as error:
        return _unreadable_record(root, error)
    if recorded is None:
        folders = list(asset_folders(root))
        wrong = asset_differences(root, folders, hashed={}, differing=(), progress=progress)
        return unrecorded_report(root, tuple(wrong), asset_count=len(folders))
    report, hashed = _hashed_report(root, recorded, progress)
    absent = {} if is_whole else absent_files(root, recorded)
    not_compared = {*(difference.file for difference in report.differences), *absent}
    wrong = asset_differences(
        root, asset_folders(root), hashed=hashed, differing=not_compared, progress=progress
    )
    remaining = [difference for difference in report.differences if difference.file not in absent]
    return replace(
        report,
        differences=_sorted([*remaining, *wrong]),
        absent_files={path: file.nbytes for path, file in absent.items()},
    )


def package_differences(
    root: Path, *, progress: Progress | None = None
) -> tuple[DigestDifference, ...]:
    """Return how the files of a package, and digests.json itself, differ from the record.

    Return () without a digests.json.

    Raises:
        PackageFormatError: digests.json cannot be read.
    """
    recorded = read_entries(root)
    return () if recorded is None else _hashed_report(root, recorded, progress)[0].differences


def _hashed_report(
    root: Path, recorded: PackageDigests, progress: Progress | None
) -> tuple[VerificationReport, Mapping[str, HashedFile | OSError]]:
    present = list_files(root)
    hashed = hash_recorded(root, recorded, present, progress=progress)
    record = Record(
        digests=recorded,
        document=read_digests_document(root),
        content=(root / DIGESTS_FILE).read_bytes(),
    )
    return report_of(root, record, present, hashed), hashed


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A digests.json: its values, its JSON, and its bytes."""

    digests: PackageDigests
    document: dict[str, Any]
    content: bytes


def unrecorded_report(
    root: Path, wrong: tuple[DigestDifference, ...] = (), *, asset_count: int = 0
) -> VerificationReport:
    """Report on a package without digests.json.

    ``wrong`` are differences of its ``asset_count`` shared assets, which name their digests and so
    are all that can be compared.
    """
    what = "nothing can be compared"
    if asset_count:
        assets, digests = f"{asset_count} shared assets", "the digests say that name them"
        if asset_count == 1:
            assets, digests = "1 shared asset", "the digest says that names it"
        what = (
            f"nothing but {assets} can be compared: {f'{len(wrong)} not ' if wrong else ''}as"
            f" {digests}"
        )
    note = f"unverified: there is no {DIGESTS_FILE}, so {what}"
    return VerificationReport(
        root=root, is_complete=False, differences=wrong, file_count=0, nbytes=0, notes=(note,)
    )


def _sorted(differences: Iterable[DigestDifference]) -> tuple[DigestDifference, ...]:
    return tuple(sorted(differences, key=lambda difference: os.fsencode(difference.file)))


def report_of(
    root: Path, record: Record, present: Collection[str], hashed: Mapping[str, HashedFile | OSError]
) -> VerificationReport:
    """Report how the files ``present`` differ from the record; ``hashed`` has the recorded ones."""
    recorded, document = record.digests, record.document
    problems = [
        *record_differences(record.content, document, recorded, hashed),
        *differences(recorded, present, hashed),
    ]
    return VerificationReport(
        root=root,
        is_complete=document["schema_version"] == _KNOWN_VERSION,
        differences=_sorted(problems),
        file_count=len(hashed),
        nbytes=total_nbytes(hashed.values()),
        package_digest=recorded.package_digest,
        notes=_notes(document, recorded),
    )


def check_is_package(root: Path) -> None:
    """Raise PackageNotFoundError if there is nothing at ``root`` that could be verified."""
    if not root.is_dir():
        is_there = os.path.lexists(root)
        problem = "is not a directory" if is_there else f"does not exist{did_you_mean_path(root)}"
        raise PackageNotFoundError(
            f"{quoted(root)} {problem}: a model package is a directory", path=root
        )
    if not any(os.path.lexists(root / name) for name in (MANIFEST, DIGESTS_FILE)):
        raise PackageNotFoundError(
            f"{quoted(root)} is not a model package: there is neither {MANIFEST} nor"
            f" {DIGESTS_FILE}",
            path=root,
        )


def _stamp(path: Path) -> FileStamp | None:
    try:
        return FileStamp.of(path.lstat())
    except OSError:
        return None


def _unreadable_record(root: Path, error: PackageFormatError) -> VerificationReport:
    reasons = "; ".join(finding.message for finding in error.findings) or str(error)
    difference = DigestDifference(
        kind=DifferenceKind.UNREADABLE, file=DIGESTS_FILE, message=reasons
    )
    note = f"unverified: {DIGESTS_FILE} cannot be read, so nothing can be compared"
    return VerificationReport(
        root=root,
        is_complete=False,
        differences=(difference,),
        file_count=0,
        nbytes=0,
        notes=(note,),
    )


def is_other_form(difference: DigestDifference) -> bool:
    """Return True if a digests.json has the right entries in the form of another program."""
    return difference.file == DIGESTS_FILE and difference.message == _OTHER_FORM


def record_differences(
    content: bytes,
    document: dict[str, Any],
    recorded: PackageDigests,
    hashed: Mapping[str, HashedFile | OSError],
) -> list[DigestDifference]:
    """Return the damage to digests.json itself (``content`` is its bytes): sum, size or form."""
    expected = actual = ""
    message = _wrong_size(recorded, hashed)
    if recorded.wrong_sum:
        message = WRONG_SUM
        expected, actual = document["package"], recorded.package_digest
    elif message is None and content != _its_form(document, recorded):
        message = _OTHER_FORM
    if message is None:
        return []
    kind = DifferenceKind.CHANGED
    return [
        DigestDifference(
            kind=kind, file=DIGESTS_FILE, message=message, expected=expected, actual=actual
        )
    ]


def check_own_record(root: Path) -> DigestDifference | None:
    """Return the damage to digests.json that shows without reading other files; None for none.

    Raises:
        PackageFormatError: it cannot be read.
    """
    recorded = read_entries(root)
    if recorded is None:
        return None
    content, document = (root / DIGESTS_FILE).read_bytes(), read_digests_document(root)
    return next(iter(record_differences(content, document, recorded, hashed={})), None)


def verify_sum(root: Path) -> None:
    """Check that the entries of digests.json match its sum, before a command rewrites it.

    Rewriting a damaged one would give it a right sum, which hides the damage.

    Raises:
        DigestMismatchError: they do not match.
        PackageFormatError: digests.json cannot be read.
    """
    recorded = read_entries(root)
    if recorded is None:
        return
    if recorded.wrong_sum:
        raise DigestMismatchError(
            f"{DIGESTS_FILE} of {quoted(root)} is damaged, and nothing was changed: {WRONG_SUM};"
            f" repair it with ortpkg verify --repair-from, or delete {DIGESTS_FILE} to accept the"
            " package as it is",
            file=DIGESTS_FILE,
            expected=recorded.declared_digest or "",
            actual=recorded.package_digest,
            path=root,
        )


def why_record_is_wrong(root: Path) -> str | None:
    """Return what is wrong with digests.json, without hashing any file; None for nothing.

    It is a wrong sum, or a size that differs from the file's. Another form alone may come from
    another program.

    Raises:
        PackageFormatError: it cannot be read.
    """
    recorded, damage = read_entries(root), check_own_record(root)
    if damage is not None and not is_other_form(damage):
        return damage.message
    for file, entry in (recorded.files if recorded is not None else {}).items():
        path = root / file
        if path.is_symlink() or not path.is_file() or len(entry.digests) > 1:
            continue  # other checks cover these
        nbytes = path.stat().st_size
        if nbytes != entry.nbytes:
            return f"it gives {quoted(file)} {entry.nbytes} bytes, and there are {nbytes}"
    return None


def _its_form(document: dict[str, Any], recorded: PackageDigests) -> bytes:
    return (
        dump_digests(recorded)
        if document["schema_version"] == _KNOWN_VERSION
        else dump_document(document)
    )


def _wrong_size(recorded: PackageDigests, hashed: Mapping[str, HashedFile | OSError]) -> str | None:
    for file, result in hashed.items():
        entry = recorded.files[file]
        if isinstance(result, HashedFile) and entry.has_other_size(result.digest):
            return (
                f"it gives {quoted(file)} {entry.nbytes} bytes; a file with that digest has"
                f" {result.digest.nbytes}"
            )
    return None


def _notes(document: dict[str, Any], recorded: PackageDigests) -> tuple[str, ...]:
    notes = []
    if document["schema_version"] != _KNOWN_VERSION:
        notes.append(
            f"{DIGESTS_FILE} is of version {quoted(document['schema_version'])}; this ortpkg"
            f" verifies all that version {_KNOWN_VERSION} records, and no more"
        )
    if recorded.pending is not None:
        notes.append(
            "a change was interrupted; the next command that changes the package finishes or"
            " undoes it"
        )
    return tuple(notes)
