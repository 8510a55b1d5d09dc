"""Finishes or undoes an interrupted change by what digests.json says is pending.

The mirror image of :mod:`ortpkg.package.changes.transaction`, which calls :func:`finish` at the end
of each change as well, so that there is one way back, not two.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from ortpkg.errors import AuthoringError, quoted
from ortpkg.package.changes.garbage import files_to_delete
from ortpkg.package.changes.staging import TOKEN_NBYTES, explanation
from ortpkg.package.integrity.digest_check import is_within
from ortpkg.package.integrity.digests import (
    STAGING_PREFIX,
    PackageDigests,
    PendingChange,
    RecordedFile,
    dump_digests,
    read_digests,
)
from ortpkg.package.integrity.verification import verify_sum
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.storage.file_operations import FileOperations, make_parents
from ortpkg.storage.hashing import hash_file

_MOST_DOCUMENT_NBYTES = 128 * 1024 * 1024

logger = logging.getLogger(__name__)


def recover(root: Path, *, operations: FileOperations | None = None) -> None:
    """Finishes or undoes what an interrupted command left.

    Where nothing was left, nothing is touched.

    What digests.json says was left may be a stranger's word: only what the package cannot need is
    deleted (``garbage.py``). The caller holds the package's lock.

    Raises:
        AuthoringError: the disk is full or the package cannot be written.
        PackageFormatError: digests.json is not valid, or calls garbage what is in use. Nothing was
            deleted.
        DigestMismatchError: digests.json does not add up. Nothing was changed.
    """
    verify_sum(root)
    with explained(root):
        finish(root, operations or FileOperations(), is_ours=False)


def write_digests(root: Path, digests: PackageDigests, operations: FileOperations) -> None:
    """Replaces digests.json in one rename; the caller holds the package's lock."""
    temporary = root / f"{STAGING_PREFIX}{secrets.token_hex(TOKEN_NBYTES)}.json"
    operations.write_file(temporary, dump_digests(digests))
    operations.replace(temporary, root / DIGESTS_FILE)
    operations.fsync_directory(root)


def finish(root: Path, operations: FileOperations, *, is_ours: bool) -> None:
    """Step 5, or its mirror image when the commit point was not reached: what is pending decides.

    ``is_ours``: this process wrote what is pending; otherwise it is looked at first.
    """
    recorded = read_digests(root)
    if recorded is not None and recorded.pending is not None:
        pending = recorded.pending
        is_committed = _has_happened(root, recorded, pending)
        if is_committed:
            _replace_remaining(root, pending, operations)
        garbage = pending.removes if is_committed else pending.adds
        if is_ours:
            _remove_places(root, garbage, operations)
        else:
            _remove_files(root, garbage, recorded, operations)
        write_digests(root, _settled(root, recorded, garbage), operations)
    _remove_staging(root, operations)


def _has_happened(root: Path, recorded: PackageDigests, pending: PendingChange) -> bool:
    """Whether the pending change was committed.

    AuthoringError where its document is neither the old nor the new one.

    Then it was damaged, or edited by hand since, and either way of tidying up could delete what is
    in use.
    """
    path = root / pending.commit_document
    if not os.path.lexists(path) and pending.commit_document in pending.adds:
        return False
    actual = hash_file(path).sha256 if path.is_file() and not path.is_symlink() else ""
    if actual == pending.committed_digest:
        return True
    entry = recorded.files.get(pending.commit_document)
    if entry is None or actual in entry.digests:
        return False
    raise AuthoringError(
        f"a change of {quoted(root)} was interrupted, and {quoted(pending.commit_document)}, which"
        " says whether it happened, has neither its old nor its new bytes: repair it (ortpkg"
        f" verify --repair-from), or accept the package as it is by deleting {DIGESTS_FILE}"
    )


def _replace_remaining(root: Path, pending: PendingChange, operations: FileOperations) -> None:
    """The rest of step 4, by what is staged.

    AuthoringError where that is gone, or a folder is a symbolic link.
    """
    missing = {
        path: sha256
        for path, sha256 in pending.documents.items()
        if not has_digest(root / path, sha256)
    }
    staged_documents = _staged_documents(root) if missing else {}
    for path, sha256 in missing.items():
        found = staged_documents.pop(sha256, None)
        folders = list((root / path).relative_to(root).parents)
        if found is None or any((root / folder).is_symlink() for folder in folders[:-1]):
            raise AuthoringError(
                f"a change of {quoted(root)} was interrupted, and the new {quoted(path)} is lost:"
                " repair the package (ortpkg verify --repair-from), or accept it as it is by"
                f" deleting {DIGESTS_FILE}"
            )
        make_parents(root, path, operations)
        operations.replace(found, root / path)
        operations.fsync_directory((root / path).parent)


def _staged_documents(root: Path) -> dict[str, Path]:
    """SHA-256 → a document that an interrupted change has staged."""
    found: dict[str, Path] = {}
    for path in sorted(root.glob(f"{STAGING_PREFIX}*/document*")):
        status = path.lstat()
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_size <= _MOST_DOCUMENT_NBYTES
            and not path.parent.is_symlink()
        ):
            found.setdefault(hash_file(path).sha256, path)
    return found


def _settled(root: Path, recorded: PackageDigests, garbage: tuple[str, ...]) -> PackageDigests:
    """``recorded`` with nothing pending: each file's one actual digest, and no garbage."""
    places = frozenset(garbage)
    files = {path: entry for path, entry in recorded.files.items() if not is_within(path, places)}
    for path, entry in files.items():
        if len(entry.digests) > 1 and (root / path).is_file():
            actual = hash_file(root / path)
            files[path] = RecordedFile.of(actual) if actual.sha256 in entry.digests else entry
    return PackageDigests(files=files)


def _remove_places(root: Path, places: tuple[str, ...], operations: FileOperations) -> None:
    """Deletes files and folders, and then the folders that this leaves empty.

    It deletes nothing through a symbolic link.
    """
    for path in places:
        folders = _folders_above(root, path)
        if any(folder.is_symlink() for folder in folders):
            logger.warning("%s is not deleted: it is reached through a symbolic link", quoted(path))
            continue
        if os.path.lexists(root / path):
            operations.remove_tree(root / path)
        _remove_empty(folders, operations)


def _remove_files(
    root: Path, places: tuple[str, ...], recorded: PackageDigests, operations: FileOperations
) -> None:
    """As :func:`_remove_places`, but only what the package cannot need and what is as recorded."""
    files, kept = files_to_delete(root, places, recorded)
    if kept:
        listed = ", ".join(map(quoted, kept[:5])) + (
            f" and {len(kept) - 5} more" if len(kept) > 5 else ""
        )
        logger.warning(
            "not deleted, though an interrupted change left it, since it was changed meanwhile: %s",
            listed,
        )
    for path in files:
        operations.unlink(root / path)
    for path in places:
        for folder in (
            sorted((root / path).glob("**/"), reverse=True) if (root / path).is_dir() else ()
        ):
            if not any(folder.iterdir()):
                operations.remove_directory(folder)
        _remove_empty(_folders_above(root, path), operations)


def _remove_empty(folders: list[Path], operations: FileOperations) -> None:
    """Deletes those of ``folders`` that are empty, each in the one before it, and syncs that."""
    for folder in reversed(folders):
        if folder.is_dir() and not any(folder.iterdir()):
            operations.remove_directory(folder)
        if folder.parent.is_dir():
            operations.fsync_directory(folder.parent)


def _folders_above(root: Path, path: str) -> list[Path]:
    parts = Path(path).parts
    return [root.joinpath(*parts[:depth]) for depth in range(1, len(parts))]


def _remove_staging(root: Path, operations: FileOperations) -> None:
    for leftover in sorted(path for path in root.iterdir() if path.name.startswith(STAGING_PREFIX)):
        operations.remove_tree(leftover)


def has_digest(path: Path, sha256: str) -> bool:
    """Whether there is a plain file at ``path`` with that SHA-256."""
    return path.is_file() and not path.is_symlink() and hash_file(path).sha256 == sha256


@contextlib.contextmanager
def explained(root: Path) -> Iterator[None]:
    """Turns errors of the operating system into ours; only where they leave nothing."""
    try:
        yield
    except OSError as error:
        raise explanation(error, root) from error
