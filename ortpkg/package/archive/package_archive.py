"""Pack a package into one file (``name.ortpkg``, a zip file of one fixed form) and unpack it.

Files are stored, not compressed, sorted by the bytes of their paths, with one date and one mode.
digests.json is the last entry, so that the end of the file holds both indexes. Large files begin at
multiples of 16 KiB. Signatures are packed beside the files and are not recorded in digests.json.
Reasons for this form: docs/adr/0006-packed-packages.md.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.errors import (
    ArchiveError,
    AuthoringError,
    DigestMismatchError,
    PackageError,
    PackageFormatError,
    quoted,
)
from ortpkg.foundations.storage.file_operations import FileOperations, make_parents, open_regular
from ortpkg.foundations.storage.hashing import HashedFile, Progress
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.package.archive.archive_directory import DEFAULT_LIMITS, ArchiveLimits
from ortpkg.package.archive.archive_reader import ArchiveReader, EntryStream, open_archive
from ortpkg.package.archive.archive_writer import ArchiveWriter
from ortpkg.package.changes.recovery import recover
from ortpkg.package.changes.staging import check_is_free, is_replaceable, planned_contents, staged
from ortpkg.package.derived_variants import verify_none_is_stale
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digest_check import digests_of, list_files
from ortpkg.package.integrity.digests import (
    LIMITS,
    PackageDigests,
    dump_digests,
    parse_digests,
    read_digests,
    read_digests_document,
)
from ortpkg.package.integrity.transferable_files import (
    check_complete,
    verify_digest,
    verify_names,
)
from ortpkg.package.integrity.verification import check_is_package, record_differences
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import DIGESTS_FILE, is_signature_file, signature_names

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReport:
    """Result of packing or unpacking.

    Attributes:
        path: the new archive, or the new package.
        file_count, nbytes: of the package's files, without digests.json and signatures.
        package_digest: SHA-256 over all of them.
        is_verified: True if the files were compared with a digests.json. Otherwise a new one was
            written for the files as they were; earlier damage goes unnoticed.
    """

    path: Path
    file_count: int
    nbytes: int
    package_digest: str
    is_verified: bool


def pack_package(
    root: Path,
    output: Path,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackReport:
    """Write the package at ``root`` to the file ``output``.

    Every byte is compared with digests.json while it is copied.

    Raises:
        DigestMismatchError: a file is not as recorded, missing, or not recorded.
        StalePackageError: a compiled variant was made from another model than the one beside it.
        AuthoringError: ``output`` exists (unless it is a file, with ``overwrite``), a file is a
            link or has a name that is not portable, or the disk is full.
        PackageNotFoundError, PackageFormatError, PackageBusyError: ``root`` is not a package that
            can be packed.
    """
    operations = operations or FileOperations()
    check_is_package(root)
    _check_output(output, root, overwrite=overwrite)
    with lock_package(root, on_wait=notify), lock_package(output, on_wait=notify):
        recover(root, operations=operations)
        recorded = read_digests(root)
        names, signatures = list_files(root), signature_names(root)
        verify_names([*names, *signatures])
        check_complete(root, names, recorded)
        _verify_sources(root)
        packed = sorted([*names, *signatures], key=os.fsencode)
        nbytes = sum((root / name).lstat().st_size for name in packed)
        _announce_file(output, nbytes, operations)
        with (
            staged(output, nbytes=nbytes, operations=operations, overwrite=overwrite) as staging,
            operations.new_file(staging) as target,
        ):
            writer = ArchiveWriter(target)
            hashed: dict[str, HashedFile | OSError] = {}
            for name in packed:
                with open_regular(root / name) as (stream, size):
                    digest = writer.add(name, stream, nbytes=size, progress=progress)
                if name not in signatures:
                    verify_digest(name, digest, recorded, root)
                    hashed[name] = HashedFile(digest=digest, stamp=None)
            writer.add_bytes(DIGESTS_FILE, _record(root, recorded, hashed))
            writer.finish()
    digests = digests_of(root, hashed)
    return PackReport(
        path=output,
        file_count=len(names),
        nbytes=sum(entry.nbytes for entry in digests.files.values()),
        package_digest=digests.package_digest,
        is_verified=recorded is not None,
    )


def _verify_sources(root: Path) -> None:
    """Raise StalePackageError for stale variants; let an unreadable package pass."""
    try:
        package = open_package(root)
    except PackageError:
        return
    verify_none_is_stale(package)


def _check_output(output: Path, root: Path, *, overwrite: bool) -> None:
    if not (overwrite and is_replaceable(output, is_package=False)):
        check_is_free(output)
    elif not _is_archive(output):
        raise AuthoringError(f"{quoted(output)} is no packed package: it is not overwritten")
    if output.is_dir():
        raise AuthoringError(f"{quoted(output)} is a folder; choose the name of a file")
    if output.resolve().is_relative_to(root.resolve()):
        raise AuthoringError(f"{quoted(output)} lies in the package itself; choose a place outside")


def _is_archive(path: Path) -> bool:
    """Return True if a file begins like an archive."""
    with path.open("rb") as stream:
        return stream.read(4) == b"PK\3\4"


def unpack_package(
    path: Path,
    root: Path,
    *,
    overwrite: bool = False,
    limits: ArchiveLimits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackReport:
    """Unpack the archive at ``path`` to ``root``, which appears once everything is verified.

    Raises:
        ArchiveError: the archive is damaged, exceeds a limit or holds no package.
        DigestMismatchError: a file is not as the archive's digests.json records, missing, or not
            recorded.
        AuthoringError: ``root`` exists and is not empty (unless it is a package, with
            ``overwrite``), or the disk is full.
        PackageFormatError: the archive's digests.json is not valid.
    """
    operations = operations or FileOperations()
    is_replaced = overwrite and is_replaceable(root, is_package=True)
    if not is_replaced:
        check_is_free(root)
    with lock_package(root, on_wait=notify), open_archive(path, limits=limits) as archive:
        recorded = recorded_in(archive)
        names = [entry.name for entry in archive.entries if is_part(entry.name)]
        check_complete(path, names, recorded)
        adds = {entry.name: entry.nbytes for entry in archive.entries}
        operations.announce(planned_contents(root, adds, is_replaced=is_replaced))
        with staged(
            root, nbytes=archive.nbytes, operations=operations, overwrite=overwrite
        ) as staging:
            digests = _extract(archive, staging, recorded, operations, progress)
    return PackReport(
        path=root,
        file_count=len(names),
        nbytes=sum(entry.nbytes for entry in digests.files.values()),
        package_digest=digests.package_digest,
        is_verified=recorded is not None,
    )


class ArchiveSource:
    """Packed package as a source for a repair."""

    def __init__(self, archive: ArchiveReader) -> None:
        self._archive = archive

    @property
    def name(self) -> str:
        return str(self._archive.path)

    def digests(self) -> PackageDigests | None:
        """Return the archive's digests.json; None if it is damaged or missing."""
        with contextlib.suppress(PackageFormatError, ArchiveError):
            return recorded_in(self._archive, needs_manifest=False)
        return None

    @contextlib.contextmanager
    def open(self, file: str) -> Iterator[tuple[EntryStream, int]]:
        yield (
            self._archive.open(file),
            next(entry.nbytes for entry in self._archive.entries if entry.name == file),
        )


def _announce_file(output: Path, nbytes: int, operations: FileOperations) -> None:
    exists = output.exists()
    files = PlannedFiles(
        root=output.parent,
        adds={} if exists else {output.name: nbytes},
        changes=(output.name,) if exists else (),
    )
    operations.announce(files)


def is_part(name: str) -> bool:
    """Return True if an entry is recorded in digests.json: not that file, not a signature."""
    return name != DIGESTS_FILE and not is_signature_file(name)


def _extract(
    archive: ArchiveReader,
    staging: Path,
    recorded: PackageDigests | None,
    operations: FileOperations,
    progress: Progress | None,
) -> PackageDigests:
    operations.make_directory(staging)
    hashed: dict[str, HashedFile | OSError] = {}
    folders = {staging}
    for entry in archive.entries:
        make_parents(staging, entry.name, operations)
        target = staging / entry.name
        stream = archive.open(entry.name)
        digest = operations.copy_stream(
            stream, target, nbytes=entry.nbytes, name=entry.name, progress=progress
        )
        folders.add(target.parent)
        if is_part(entry.name):
            verify_digest(entry.name, digest, recorded, archive.path)
            hashed[entry.name] = HashedFile(digest=digest, stamp=None)
    digests = digests_of(staging, hashed)
    if recorded is None:
        operations.write_file(staging / DIGESTS_FILE, dump_digests(digests))
    else:
        _check_record(staging, recorded, hashed, archive.path)
    for folder in sorted(folders):
        operations.fsync_directory(folder)
    return digests


def recorded_in(archive: ArchiveReader, *, needs_manifest: bool = True) -> PackageDigests | None:
    """Return the content of the archive's digests.json; None if the archive has none.

    Raises:
        ArchiveError: the archive holds no package (unless ``needs_manifest`` is False), or was
            packed in the middle of a change.
    """
    if needs_manifest and MANIFEST not in archive:
        raise ArchiveError(
            f"{quoted(archive.path)} holds no model package: there is no {MANIFEST} at its top"
        )
    if DIGESTS_FILE not in archive:
        return None
    recorded = parse_digests(archive.read(DIGESTS_FILE, most_nbytes=LIMITS.nbytes), archive.path)
    if recorded.pending is not None:
        raise ArchiveError(
            f"{quoted(archive.path)}: {DIGESTS_FILE} says that the package was being changed"
        )
    return recorded


def _check_record(
    root: Path, recorded: PackageDigests, hashed: Mapping[str, HashedFile | OSError], where: Path
) -> None:
    """Raise DigestMismatchError if digests.json is damaged: its sum or its form is wrong."""
    content = (root / DIGESTS_FILE).read_bytes()
    for difference in record_differences(content, read_digests_document(root), recorded, hashed):
        raise DigestMismatchError(
            f"{DIGESTS_FILE} of {quoted(where)} is damaged: {difference.message}",
            file=DIGESTS_FILE,
            expected=difference.expected,
            actual=difference.actual,
            path=where,
        )


def _record(
    root: Path, recorded: PackageDigests | None, hashed: Mapping[str, HashedFile | OSError]
) -> bytes:
    if recorded is None:
        return dump_digests(digests_of(root, hashed))
    _check_record(root, recorded, hashed, root)
    return (root / DIGESTS_FILE).read_bytes()
