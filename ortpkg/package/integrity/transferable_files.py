"""Check that a package may be packed or sent to a registry.

Every file must be recorded, unchanged, and have a name that every operating system can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.errors import (
    ArchiveError,
    AuthoringError,
    DigestMismatchError,
    PackageFormatError,
    quoted,
)
from ortpkg.foundations.storage.hashing import FileDigest
from ortpkg.package.integrity.absent_files import AbsentFiles, absent_files
from ortpkg.package.integrity.digests import STAGING_PREFIX, PackageDigests
from ortpkg.package.paths.portable_names import find_collision, why_not_portable_file
from ortpkg.package.sidecar import DIGESTS_FILE


def verify_names(names: Sequence[str]) -> None:
    """Raise AuthoringError for a name that some system cannot hold, or for two equal ones."""
    for name in names:
        if reason := why_not_portable_file(name):
            raise AuthoringError(f"{quoted(name)} {reason}: rename it")
    if collision := find_collision([*names, DIGESTS_FILE]):
        first, second = map(quoted, collision)
        raise AuthoringError(f"{first} and {second} are the same file on some systems: rename one")


def check_complete(where: Path, names: Sequence[str], recorded: PackageDigests | None) -> None:
    """Raise DigestMismatchError if the files ``names`` of ``where`` are not those recorded."""
    if hidden := [name for name in names if name.startswith(STAGING_PREFIX)]:
        raise ArchiveError(f"{quoted(where)}: entry {quoted(hidden[0])} has a name of ortpkg's own")
    if recorded is None:
        return
    missing = sorted(set(recorded.files) - set(names))
    verify_whole(where, recorded)
    extra = sorted(set(names) - set(recorded.files))
    for files, problem in (
        (missing, "records files that are not there"),
        (extra, "does not record all files"),
    ):
        if files:
            entry = recorded.files.get(files[0])
            raise DigestMismatchError(
                f"{DIGESTS_FILE} of {quoted(where)} {problem}: {listed(files)}",
                file=files[0],
                expected=entry.digests[-1] if entry else "",
                actual="",
                path=where,
            )


def verify_whole(root: Path, recorded: PackageDigests | None = None) -> None:
    """Raise AuthoringError if the package at ``root`` is sparse: some of its files are absent.

    Args:
        root: its folder; a bare model passes.
        recorded: its ``digests.json``, if the caller has read it. Otherwise it is read here, and
            one that cannot be read passes.
    """
    if not root.is_dir():
        return
    absent = AbsentFiles(root).files if recorded is None else absent_files(root, recorded)
    if absent:
        raise AuthoringError(
            f"{quoted(root)} is a part of its package, and this needs all of it: absent are"
            f" {listed(sorted(absent))};"
            " ortpkg pull REF -o FOLDER --all-variants --samples fetches all"
        )


def verify_digest(
    name: str, digest: FileDigest, recorded: PackageDigests | None, where: Path
) -> None:
    """Raise DigestMismatchError if the recorded file ``name`` has another digest.

    Raises:
        PackageFormatError: the record has the same digest with another size.
    """
    if recorded is None:
        return
    entry = recorded.files[name]
    if entry.has_other_size(digest):
        raise PackageFormatError(
            f"{DIGESTS_FILE} of {quoted(where)} is damaged: it gives {quoted(name)} {entry.nbytes}"
            f" bytes, and a file with that digest has {digest.nbytes}",
            path=where,
        )
    if digest.sha256 in entry.digests:
        return
    expected = entry.digests[-1]
    raise DigestMismatchError(
        f"{quoted(name)} of {quoted(where)} is not as recorded in {DIGESTS_FILE}: expected"
        f" {expected}, found {digest.sha256}",
        file=name,
        expected=expected,
        actual=digest.sha256,
        path=where,
    )
