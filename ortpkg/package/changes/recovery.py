"""Finish or undo an interrupted change, as the ``pending`` entry of digests.json says.

This is the counterpart of :mod:`ortpkg.package.changes.transaction`, which also calls
:func:`finish` at the end of each change: there is one way to tidy up, not two.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations, make_parents
from ortpkg.foundations.storage.hashing import hash_file
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

_MOST_DOCUMENT_NBYTES = 128 * 1024 * 1024

logger = logging.getLogger(__name__)


def recover(root: Path, *, operations: FileOperations | None = None) -> None:
    """Finish or undo the change that an interrupted command left; touch nothing if there is none.

    The pending entry may come from a stranger, so only files that the package cannot need are
    deleted (``garbage.py``). The caller holds the package's lock.

    Raises:
        AuthoringError: the disk is full or the package cannot be written.
        PackageFormatError: digests.json is not valid, or calls files garbage that are in use.
            Nothing was deleted.
        DigestMismatchError: the entries of digests.json do not match its sum. Nothing was changed.
    """
    verify_sum(root)
    with explained(root):
        finish(root, operations or FileOperations(), is_ours=False)


def write_digests(root: Path, digests: PackageDigests, operations: FileOperations) -> None:
    """Replace digests.json with one rename; the caller holds the package's lock."""
    temporary = root / f"{STAGING_PREFIX}{secrets.token_hex(TOKEN_NBYTES)}.json"
    operations.write_file(temporary, dump_digests(digests))
    operations.replace(temporary, root / DIGESTS_FILE)
    operations.fsync_directory(root)


def finish(root: Path, operations: FileOperations, *, is_ours: bool) -> None:
    """Complete the pending change (step 5), or undo it if its commit point was not reached.

    Args:
        root: the package.
        operations: change the disk.
        is_ours: this process wrote the pending entry; otherwise it is checked first.
    """
    recorded = read_digests(root)
    if recorded is not None and recorded.pending is not None:
        pending = recorded.pending
        is_committed = _is_committed(root, recorded, pending)
        if is_committed:
            _replace_remaining(root, pending, operations)
        garbage = pending.removes if is_committed else pending.adds
        if is_ours:
            _remove_paths(root, garbage, operations)
        else:
            _remove_files(root, garbage, recorded, operations)
        write_digests(root, _without_pending(root, recorded, garbage), operations)
    _remove_staging(root, operations)


def _is_committed(root: Path, recorded: PackageDigests, pending: PendingChange) -> bool:
    """Return True if the pending change was committed.

    Raises:
        AuthoringError: the commit document is neither the old nor the new one. It was damaged or
            edited by hand, and tidying up either way could delete files in use.
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
    """Complete step 4 with the staged documents.

    Raises:
        AuthoringError: a staged document is missing, or a folder is a symbolic link.
    """
    missing = {
        path: sha256
        for path, sha256 in pending.documents.items()
        if not has_sha256(root / path, sha256)
    }
    staged_documents = _staged_documents(root) if missing else {}
    for path, sha256 in missing.items():
        staged_path = staged_documents.pop(sha256, None)
        folders = list((root / path).relative_to(root).parents)
        if staged_path is None or any((root / folder).is_symlink() for folder in folders[:-1]):
            raise AuthoringError(
                f"a change of {quoted(root)} was interrupted, and the new {quoted(path)} is lost:"
                " repair the package (ortpkg verify --repair-from), or accept it as it is by"
                f" deleting {DIGESTS_FILE}"
            )
        make_parents(root, path, operations)
        operations.replace(staged_path, root / path)
        operations.fsync_directory((root / path).parent)


def _staged_documents(root: Path) -> dict[str, Path]:
    """Map SHA-256 → path of each document that an interrupted change staged."""
    documents: dict[str, Path] = {}
    for path in sorted(root.glob(f"{STAGING_PREFIX}*/document*")):
        status = path.lstat()
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_size <= _MOST_DOCUMENT_NBYTES
            and not path.parent.is_symlink()
        ):
            documents.setdefault(hash_file(path).sha256, path)
    return documents


def _without_pending(
    root: Path, recorded: PackageDigests, garbage: tuple[str, ...]
) -> PackageDigests:
    """Return ``recorded`` without the pending change: one digest per file, and no garbage."""
    garbage_paths = frozenset(garbage)
    files = {
        path: entry for path, entry in recorded.files.items() if not is_within(path, garbage_paths)
    }
    for path, entry in files.items():
        if len(entry.digests) > 1 and (root / path).is_file():
            actual = hash_file(root / path)
            files[path] = RecordedFile.of(actual) if actual.sha256 in entry.digests else entry
    return PackageDigests(files=files)


def _remove_paths(root: Path, paths: tuple[str, ...], operations: FileOperations) -> None:
    """Delete files and folders, then the parent folders that are now empty.

    Nothing is deleted through a symbolic link.
    """
    for path in paths:
        folders = _folders_above(root, path)
        if any(folder.is_symlink() for folder in folders):
            logger.warning("%s is not deleted: it is reached through a symbolic link", quoted(path))
            continue
        if os.path.lexists(root / path):
            operations.remove_tree(root / path)
        _remove_empty(folders, operations)


def _remove_files(
    root: Path, paths: tuple[str, ...], recorded: PackageDigests, operations: FileOperations
) -> None:
    """Delete only files that are unused and as recorded, then folders that are now empty."""
    files, changed = files_to_delete(root, paths, recorded)
    if changed:
        listed = ", ".join(map(quoted, changed[:5])) + (
            f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        )
        logger.warning(
            "not deleted, though an interrupted change left it, since it was changed meanwhile: %s",
            listed,
        )
    for path in files:
        operations.unlink(root / path)
    for path in paths:
        for folder in (
            sorted((root / path).glob("**/"), reverse=True) if (root / path).is_dir() else ()
        ):
            if not any(folder.iterdir()):
                operations.remove_directory(folder)
        _remove_empty(_folders_above(root, path), operations)


def _remove_empty(folders: list[Path], operations: FileOperations) -> None:
    """Delete the empty ones of ``folders``, the last first, and sync their parents."""
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


def has_sha256(path: Path, sha256: str) -> bool:
    """Return True if a regular file with that SHA-256 is at ``path``."""
    return path.is_file() and not path.is_symlink() and hash_file(path).sha256 == sha256


@contextlib.contextmanager
def explained(root: Path) -> Iterator[None]:
    """Turn OSError into our errors; only for steps that leave nothing behind when they fail."""
    try:
        yield
    except OSError as error:
        raise explanation(error, root) from error
