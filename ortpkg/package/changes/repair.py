"""Repair damaged files of a package from another copy, and record a package anew.

A repair accepts a file only if its bytes have the digest that the damaged package records, so the
other copy need not be trusted. Each file is written beside the package's files and renamed into
place: a killed repair leaves each file either as it was or right, and running it again completes
it. No single commit point is needed: every intermediate state is the same package with less damage.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ortpkg.foundations.errors import AuthoringError, OrtpkgError, PackageFormatError, quoted
from ortpkg.foundations.storage.file_operations import (
    FileOperations,
    Readable,
    make_parents,
    open_regular,
)
from ortpkg.foundations.storage.hashing import FileDigest, Progress, hash_files, total_nbytes
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.package.changes.broken_signatures import report_broken_signatures
from ortpkg.package.changes.recovery import recover, write_digests
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.integrity.digest_check import (
    DifferenceKind,
    differences,
    digests_of,
    list_files,
)
from ortpkg.package.integrity.digests import (
    STAGING_PREFIX,
    PackageDigests,
    dump_digests,
    read_entries,
)
from ortpkg.package.integrity.verification import (
    VerificationReport,
    check_is_package,
    verify_package,
)
from ortpkg.package.sidecar import DIGESTS_FILE

Notify = Callable[[str], None]


class RepairSource(Protocol):
    """Another copy of a package; nothing it says is believed without a hash."""

    @property
    def name(self) -> str:
        """Name of the copy in messages."""
        ...

    def digests(self) -> PackageDigests | None:
        """Return its digests.json; None if it has none that can be read."""
        ...

    def open(self, file: str) -> contextlib.AbstractContextManager[tuple[Readable, int]]:
        """Open a file by its path in the package; the context gives the stream and its size.

        Raises:
            OSError, OrtpkgError: the file cannot be had.
        """
        ...


class DirectorySource:
    """Package directory as a source for a repair."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def name(self) -> str:
        return str(self._root)

    def digests(self) -> PackageDigests | None:
        return _readable(self._root)[0]

    @contextlib.contextmanager
    def open(self, file: str) -> Iterator[tuple[Readable, int]]:
        with open_regular(self._root / file) as opened:
            yield opened


def repair_package(
    root: Path,
    source: RepairSource,
    *,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> VerificationReport:
    """Verify the package at ``root`` and replace damaged or missing files from ``source``.

    digests.json itself is replaced if the copy's yields the same package digest. Extra files stay:
    they may be somebody's work. The report lists what was repaired, and why the rest could not be.

    Raises:
        AuthoringError: the package cannot be written, or the disk is full; files repaired until
            then stay repaired.
        PackageNotFoundError, PackageBusyError: as when verifying or changing it.
    """
    with lock_package(root, on_wait=notify):
        report = verify_package(root, is_whole=True, progress=progress)
        if not report.package_digest or not report.differences:
            return report
        repair = _Repair(root, source, operations or FileOperations(), progress)
        if operations is not None:
            operations.announce(repair.planned(report))
        if repair.put_record_right(report):
            report = verify_package(root, is_whole=True, progress=progress)
        report = repair.put_files_right(report)
        if not report.differences:
            recover(root, operations=operations)  # an interrupted change can be finished now
            report = replace(
                report, package_digest=(read_entries(root) or PackageDigests()).package_digest
            )
        return report


def _planned_record(root: Path) -> PlannedFiles:
    if os.path.lexists(root / DIGESTS_FILE):
        return PlannedFiles(root=root, changes=(DIGESTS_FILE,))
    return PlannedFiles(root=root, adds={DIGESTS_FILE: None})


def record_digests(
    root: Path,
    *,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> VerificationReport:
    """Write digests.json for the files as they are, and report how they differ from the old one.

    Meant for documents edited by hand. It accepts everything: damage that nobody has noticed is
    recorded as right, and no later verification finds it.

    Raises:
        AuthoringError: a file cannot be read, is a link or has a name that cannot be recorded, or
            the package cannot be written, or is an installed one. Nothing was changed.
        PackageNotFoundError, PackageBusyError: as when verifying or changing it.
    """
    check_is_not_installed(root)
    with lock_package(root, on_wait=notify), report_broken_signatures(root, notify):
        check_is_package(root)
        recorded, why_not = _readable(root)
        if recorded is not None:
            recover(root, operations=operations)
            recorded = read_entries(root)
        try:
            hashed = hash_files({name: root / name for name in list_files(root)}, progress=progress)
            digests = digests_of(root, hashed)
            if recorded is None or dump_digests(digests) != (root / DIGESTS_FILE).read_bytes():
                (operations or FileOperations()).announce(_planned_record(root))
                write_digests(root, digests, operations or FileOperations())
        except OSError as error:
            raise AuthoringError(
                f"cannot record {quoted(root)}; nothing was changed: {_explained(error)}"
            ) from error
    recorded_files = {
        file: result
        for file, result in hashed.items()
        if recorded is not None and file in recorded.files
    }
    return VerificationReport(
        root=root,
        is_complete=True,
        differences=()
        if recorded is None
        else differences(recorded, tuple(hashed), recorded_files),
        file_count=len(hashed),
        nbytes=total_nbytes(hashed.values()),
        package_digest=digests.package_digest,
        notes=(
            ()
            if recorded is not None
            else (f"nothing could be compared with what was recorded before: {why_not}",)
        ),
        is_compared=recorded is not None,
    )


def _readable(root: Path) -> tuple[PackageDigests | None, str]:
    """Return the content of digests.json and ""; None and the reason if there is none to read."""
    try:
        return read_entries(root), f"there was no {DIGESTS_FILE}"
    except PackageFormatError as error:
        reasons = "; ".join(finding.message for finding in error.findings) or str(error)
        return None, f"{DIGESTS_FILE} could not be read: {reasons}"


class _Repair:
    """One repair: the files it replaced, and why it left the others."""

    def __init__(
        self,
        root: Path,
        source: RepairSource,
        operations: FileOperations,
        progress: Progress | None,
    ) -> None:
        self._root = root
        self._source = source
        self._operations = operations
        self._progress = progress
        self._copy = source.digests()
        self._repaired: list[str] = []
        self._not_repaired: list[tuple[str, str]] = []

    def planned(self, report: VerificationReport) -> PlannedFiles:
        """Return the files that would be written, as far as the copy's own record tells."""
        recorded, damaged = read_entries(self._root) or PackageDigests(), report.differences
        adds: dict[str, int | None] = {}
        changes: list[str] = []
        if self._copy is not None and self._has_right_record(report):
            changes.append(DIGESTS_FILE)
            hashed = hash_files(
                {name: self._root / name for name in list_files(self._root)},
                progress=self._progress,
            )
            recorded, damaged = self._copy, differences(self._copy, tuple(hashed), hashed)
        for difference in damaged:
            entry = recorded.files.get(difference.file)
            if (
                difference.kind is DifferenceKind.EXTRA
                or entry is None
                or _obstacle(self._root, difference.file)
            ):
                continue
            if not self._is_offered(difference.file, entry.digests):
                continue
            if os.path.lexists(self._root / difference.file):
                changes.append(difference.file)
            else:
                adds[difference.file] = entry.nbytes
        return PlannedFiles(root=self._root, adds=adds, changes=tuple(changes))

    def _has_right_record(self, report: VerificationReport) -> bool:
        """Return True if digests.json is damaged and the copy's is proven to be the original."""
        difference = next(
            (candidate for candidate in report.differences if candidate.file == DIGESTS_FILE), None
        )
        if difference is None or self._copy is None:
            return False
        # The stated sum proves the entries; where the sum itself is damaged, the entries prove it.
        return self._copy.package_digest in (difference.expected, report.package_digest)

    def _is_offered(self, file: str, digests: tuple[str, ...]) -> bool:
        """Return True if the copy claims to have a file with one of those digests.

        A copy without a record is asked for a file of that name.
        """
        if self._copy is not None:
            return any(set(entry.digests) & set(digests) for entry in self._copy.files.values())
        try:
            with self._source.open(file):
                return True
        except (OSError, OrtpkgError):
            return False

    def put_record_right(self, report: VerificationReport) -> bool:
        """Replace a damaged digests.json by the copy's if that is proven to be the original."""
        if all(difference.file != DIGESTS_FILE for difference in report.differences):
            return False
        if self._copy is None or not self._has_right_record(report):
            reason = f"{quoted(self._source.name)} has no {DIGESTS_FILE} of the same package"
            self._not_repaired.append((DIGESTS_FILE, reason))
            return False
        with self._explained():
            write_digests(self._root, self._copy, self._operations)
        self._repaired.append(DIGESTS_FILE)
        return True

    def put_files_right(self, report: VerificationReport) -> VerificationReport:
        """Replace files where possible; return the report without the repaired differences."""
        recorded = read_entries(self._root) or PackageDigests()
        remaining = []
        for difference in report.differences:
            # Nothing that is not recorded can be replaced: extra files, and assets that
            # were recorded as they are.
            if difference.kind is DifferenceKind.EXTRA or difference.file not in recorded.files:
                remaining.append(difference)
                continue
            with self._explained():
                reason = self._put_right(difference.file, recorded.files[difference.file].digests)
            if reason is None:
                self._repaired.append(difference.file)
            else:
                self._not_repaired.append((difference.file, reason))
                remaining.append(difference)
        return replace(
            report,
            differences=tuple(remaining),
            repaired=tuple(self._repaired),
            not_repaired=tuple(self._not_repaired),
        )

    def _put_right(self, file: str, digests: tuple[str, ...]) -> str | None:
        """Replace one file; return the reason if that is impossible, else None."""
        if reason := _obstacle(self._root, file):
            return reason
        temporary = self._root / f"{STAGING_PREFIX}{secrets.token_hex(8)}"
        try:
            reason = self._fetch(file, digests, temporary)
            if reason is None:
                make_parents(self._root, file, self._operations)
                self._operations.replace(temporary, self._root / file)
                self._operations.fsync_directory((self._root / file).parent)
        except BaseException:
            with contextlib.suppress(OSError):
                self._operations.unlink(temporary)
            raise
        return reason

    def _fetch(self, file: str, digests: tuple[str, ...], temporary: Path) -> str | None:
        """Copy a file with one of ``digests``, from its own path or from an equal file."""
        entries = self._copy.files.items() if self._copy else ()
        others = [
            other for other, entry in entries if other != file and set(entry.digests) & set(digests)
        ]
        reason = None
        for candidate in (file, *others):
            copied = self._copy_of(candidate, temporary)
            if isinstance(copied, FileDigest) and copied.sha256 in digests:
                return None
            damaged = f"it is not as recorded in {quoted(self._source.name)} either"
            reason = reason or (damaged if isinstance(copied, FileDigest) else copied)
            self._operations.unlink(temporary)
        return reason

    def _copy_of(self, file: str, temporary: Path) -> FileDigest | str:
        """Copy ``file`` from the copy; return its digest, or the reason why it cannot be had."""
        name = quoted(self._source.name)
        try:
            with contextlib.ExitStack() as stack:
                try:
                    stream, nbytes = stack.enter_context(self._source.open(file))
                except FileNotFoundError:
                    return f"{name} does not have it"
                except OSError as error:
                    raise _SourceFailure(_explained(error)) from error
                return self._operations.copy_stream(
                    _Guarded(stream), temporary, nbytes=nbytes, name=file, progress=self._progress
                )
        except (_SourceFailure, OrtpkgError) as error:
            return f"{name} cannot give it: {error}"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise AuthoringError(
                f"cannot repair {quoted(self._root)}: {_explained(error)}; {len(self._repaired)}"
                " files were put right, run it again for the rest"
            ) from error


class _SourceFailure(Exception):
    """The copy could not be read; the message says why."""


class _Guarded:
    """Stream of the copy whose failures are told apart from those of our own disk."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def read(self, nbytes: int, /) -> bytes:
        """Read from the copy; its OSError becomes _SourceFailure."""
        try:
            return self._stream.read(nbytes)
        except OSError as error:
            raise _SourceFailure(_explained(error)) from error


def _obstacle(root: Path, file: str) -> str | None:
    """Return why ``file`` cannot be written; links and folders are never overwritten."""
    names = file.split("/")
    for depth in range(1, len(names)):
        folder = root.joinpath(*names[:depth])
        # The real path also follows Windows' junctions, which is_symlink does not see.
        leads_elsewhere = Path(os.path.realpath(folder)) != Path(
            os.path.realpath(root), *names[:depth]
        )
        if leads_elsewhere or (os.path.lexists(folder) and not folder.is_dir()):
            return f"{quoted('/'.join(names[:depth]))} is no folder; remove it, then repair again"
    if (root / file).is_dir() and not (root / file).is_symlink():
        return "a folder is in its place; remove it, then repair again"
    return None


def _explained(error: OSError) -> str:
    where = f": {quoted(error.filename)}" if error.filename else ""
    return f"{error.strerror or error}{where}"
