"""Verify a packed package: compare every byte with its digests.json, without unpacking."""

from __future__ import annotations

from pathlib import Path

from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import ArchiveError
from ortpkg.foundations.storage.hashing import HashedFile, Progress, Sha256Stream
from ortpkg.package.archive.archive_directory import DEFAULT_LIMITS, ArchiveLimits
from ortpkg.package.archive.archive_reader import ArchiveEntry, ArchiveReader, open_archive
from ortpkg.package.archive.package_archive import is_part, recorded_in
from ortpkg.package.integrity.digests import LIMITS
from ortpkg.package.integrity.verification import (
    Record,
    VerificationReport,
    report_of,
    unrecorded_report,
)
from ortpkg.package.sidecar import DIGESTS_FILE

_CHUNK_NBYTES = 1024 * 1024


def verify_packed(
    path: Path, *, limits: ArchiveLimits = DEFAULT_LIMITS, progress: Progress | None = None
) -> VerificationReport:
    """Hash every file in the archive at ``path`` and report the differences.

    Raises:
        ArchiveError: the archive is damaged, exceeds a limit, or holds no package.
        PackageFormatError: its digests.json is not valid.
    """
    with open_archive(path, limits=limits) as archive:
        recorded = recorded_in(archive)
        if recorded is None:
            return unrecorded_report(path)
        content = archive.read(DIGESTS_FILE, most_nbytes=LIMITS.nbytes)
        present = [entry.name for entry in archive.entries if is_part(entry.name)]
        hashed = {
            entry.name: _hashed(archive, entry, progress)
            for entry in archive.entries
            if entry.name in recorded.files
        }
    document = parse_document(content, document=DIGESTS_FILE, limits=LIMITS)
    return report_of(
        path, Record(digests=recorded, document=document, content=content), present, hashed
    )


def _hashed(
    archive: ArchiveReader, entry: ArchiveEntry, progress: Progress | None
) -> HashedFile | OSError:
    hashing = Sha256Stream()
    stream = archive.open(entry.name)
    try:
        while chunk := stream.read(_CHUNK_NBYTES):
            hashing.update(chunk)
            if progress is not None:
                progress(entry.name, hashing.nbytes, entry.nbytes)
    except ArchiveError as error:
        return OSError(0, str(error))
    return HashedFile(digest=hashing.digest(), stamp=None)
