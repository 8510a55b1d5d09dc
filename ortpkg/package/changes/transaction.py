"""Change a package with one commit point: a killed process leaves it either old or new.

The steps (docs/adr/0002-commit-protocol.md):

1. Write new files and documents to a unique staging folder in the root, and sync them.
2. Make digests.json a superset: old and new digest of each document that changes, the new files,
   and the ``pending`` change.
3. Rename staged folders into place, where nothing refers to them yet.
4. Replace documents, each by one rename. The rename of one of them is the commit point; the others
   follow, if need be when the next command finds them staged.
5. Delete what nothing refers to any more, trim digests.json to the new state, remove the staging
   folder.

A process killed before step 4 leaves the old package and some garbage, one killed after it the new
package and some garbage. :func:`~ortpkg.package.changes.recovery.recover`, which every change calls
first, cleans up either. A failure that the process survives (a full disk, an interrupt) is cleaned
up the same way at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import AuthoringError, OrtpkgError, quoted
from ortpkg.foundations.storage.composed_file import ComposedFile
from ortpkg.foundations.storage.file_operations import FileOperations, make_parents
from ortpkg.foundations.storage.hashing import FileDigest, Progress, hash_bytes
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.package.changes.recovery import explained, finish, has_sha256, write_digests
from ortpkg.package.changes.staging import (
    TOKEN_NBYTES,
    check_space,
    explanation,
    is_occupied,
    is_replaceable,
    planned_contents,
    staged,
)
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import (
    STAGING_PREFIX,
    PackageDigests,
    PendingChange,
    RecordedFile,
    check_recordable,
    dump_digests,
    read_digests,
)
from ortpkg.package.sidecar import DIGESTS_FILE

_MOST_STAGED_FILES = 10_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """Replacement of one document.

    Attributes:
        path: of the document, relative to the package root.
        after: its new bytes.
        before: the bytes that the plan was made from; None for a new document.
    """

    path: str
    after: bytes
    before: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageChange:
    """Planned change of a package; all paths are relative to the package root, with ``/``.

    Attributes:
        new_directories: new directory → path inside it → file to copy from.
        documents: at least one, in order; the package must be valid after each. See
            :attr:`commit_document`.
        removes: files and directories that nothing refers to once the change is committed.
        new_files: new file, in a directory that may exist → its content.
        commit: path of the document whose replacement commits; None for the default of
            :attr:`commit_document`.
    """

    documents: tuple[DocumentChange, ...]
    new_directories: Mapping[str, Mapping[str, Path]]
    removes: tuple[str, ...] = ()
    new_files: Mapping[str, ComposedFile] = EMPTY
    commit: str | None = None

    def __post_init__(self) -> None:
        assert self.documents, "a change without a document has no commit point"
        assert self.commit_document.after != self.commit_document.before, (
            "nothing would show whether it happened"
        )

    @property
    def commit_document(self) -> DocumentChange:
        """Document whose replacement commits the change.

        It is ``commit`` if set, else the first document that replaces an existing one. New
        documents mean nothing until another one names them; if all are new, the last one commits.
        """
        if self.commit is not None:
            return next(document for document in self.documents if document.path == self.commit)
        new = [index for index, document in enumerate(self.documents) if document.before is None]
        after_new = new[-1] + 1 if new else 0
        return self.documents[min(after_new, len(self.documents) - 1)]


def commit_change(
    root: Path,
    change: PackageChange,
    *,
    operations: FileOperations | None = None,
    progress: Progress | None = None,
) -> None:
    """Carry out ``change`` on the package at ``root``.

    The caller holds its lock and has called :func:`~ortpkg.package.changes.recovery.recover`.

    Raises:
        AuthoringError: a document was changed by somebody else meanwhile, a new directory exists
            already, a file to copy cannot be read or is not a regular file, the disk is full, or
            the package is an installed one. Nothing was changed.
    """
    operations = operations or FileOperations()
    check_is_not_installed(root)
    check_recordable(root, _new_files(change))
    with explained(root):
        _check_unchanged(root, change)
        _check_targets_are_free(root, change)
        if change.new_directories or change.new_files:
            # a change that only removes must work on a full disk too
            check_space(root, _nbytes_to_write(change), operations)
    operations.announce(planned_files(root, change))
    staging = root / f"{STAGING_PREFIX}{secrets.token_hex(TOKEN_NBYTES)}"
    is_done = False
    try:
        _ensure_digests(root, operations, progress)
        folders = _new_folders(root, change)
        digests = _stage(staging, change, folders, operations, progress)
        _check_unchanged(root, change)  # checked again: copying may have taken minutes
        _publish_files(root, staging, change, folders, digests, operations)
        for replaced in _replace_documents(root, staging, change, operations):
            is_done = is_done or replaced is change.commit_document
        finish(root, operations, is_ours=True)
    except BaseException as error:
        _tidy_up(root, operations)
        if not isinstance(error, OSError | OrtpkgError):
            raise
        if not (is_done or is_committed(root, change)):
            if isinstance(error, OSError):
                raise explanation(error, root) from error
            raise
        logger.warning(
            "%s was changed, but not tidied up: the next command does it: %s", quoted(root), error
        )


def create_package(
    root: Path,
    change: PackageChange,
    *,
    overwrite: bool = False,
    operations: FileOperations | None = None,
    progress: Progress | None = None,
) -> None:
    """Create a whole new package at ``root``: all of it, or nothing.

    Args:
        root: the new package.
        change: its content.
        overwrite: replace an existing package, in one step.
        operations: change the disk.
        progress: called while files are copied.

    Raises:
        AuthoringError: something is at ``root`` already (an empty directory is fine), a file to
            copy cannot be read or is not a regular file, or the disk is full. Nothing was changed.
    """
    operations = operations or FileOperations()
    is_replaced = overwrite and is_replaceable(root, is_package=True)
    if not is_replaced:
        _check_target_is_free(root)
    check_recordable(root, _new_files(change))
    with explained(root):
        nbytes = _nbytes_to_write(change)
        operations.announce(planned_contents(root, _new_files(change), is_replaced=is_replaced))
    with staged(root, nbytes=nbytes, operations=operations, overwrite=overwrite) as staging:
        _build(staging, change, operations, progress)


def _ensure_digests(root: Path, operations: FileOperations, progress: Progress | None) -> None:
    """Write a digests.json for the present files if there is none: recovery needs it."""
    if read_digests(root) is None:
        write_digests(root, compute_digests(root, progress=progress), operations)


def _new_folders(root: Path, change: PackageChange) -> list[str]:
    """Return the new folders that new files need, the outer ones first.

    Each folder appears together with all of its files.
    """
    folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in change.new_files)
    new = [folder for folder in folders if not os.path.lexists(root / folder)]
    return sorted(new, key=lambda folder: (folder.count("/"), folder))


def _staged_file(path: str, index: int, folders: Sequence[str]) -> str:
    """Return the path of a new file within the staging folder."""
    target = PurePosixPath(path)
    folder = str(target.parent)
    return f"folder{folders.index(folder)}/{target.name}" if folder in folders else f"file{index}"


def _stage(
    staging: Path,
    change: PackageChange,
    folders: Sequence[str],
    operations: FileOperations,
    progress: Progress | None,
) -> dict[str, FileDigest]:
    """Write everything new to the staging folder and sync it (step 1).

    Returns:
        Path → digest of each new file and document.
    """
    operations.make_directory(staging)
    digests: dict[str, FileDigest] = {}
    for index, (directory, files) in enumerate(change.new_directories.items()):
        copied = _copy_tree(staging / str(index), files, operations, progress)
        digests |= {f"{directory}/{path}": digest for path, digest in copied.items()}
    for index in range(len(folders)):
        operations.make_directory(staging / f"folder{index}")
    for index, (path, content) in enumerate(change.new_files.items()):
        target = staging / _staged_file(path, index, folders)
        digests[path] = _write_composed(target, path, content, operations, progress)
    for index in range(len(folders)):
        operations.fsync_directory(staging / f"folder{index}")
    for index, document in enumerate(change.documents):
        operations.write_file(staging / f"document{index}", document.after)
        digests[document.path] = hash_bytes(document.after)
    operations.fsync_directory(staging)
    return digests


def _publish_files(
    root: Path,
    staging: Path,
    change: PackageChange,
    folders: Sequence[str],
    digests: Mapping[str, FileDigest],
    operations: FileOperations,
) -> None:
    """Record the superset of digests and rename new files into place (steps 2 and 3)."""
    write_digests(root, _superset(root, change, digests), operations)
    for index, directory in enumerate(change.new_directories):
        target = root / directory
        make_parents(root, directory, operations)
        operations.replace(staging / str(index), target)
        operations.fsync_directory(target.parent)
    for index, folder_name in enumerate(folders):
        make_parents(root, folder_name, operations)
        operations.replace(staging / f"folder{index}", root / folder_name)
        operations.fsync_directory((root / folder_name).parent)
    for index, path in enumerate(change.new_files):
        if str(PurePosixPath(path).parent) not in folders:
            operations.replace(staging / f"file{index}", root / path)
    for folder in sorted({(root / path).parent for path in change.new_files}):
        operations.fsync_directory(folder)


def _replace_documents(
    root: Path, staging: Path, change: PackageChange, operations: FileOperations
) -> Iterator[DocumentChange]:
    """Replace the documents (step 4), yielding each one right after its rename."""
    for index, document in enumerate(change.documents):
        make_parents(root, document.path, operations)
        operations.replace(staging / f"document{index}", root / document.path)
        yield document
        operations.fsync_directory((root / document.path).parent)


def _superset(root: Path, change: PackageChange, new: Mapping[str, FileDigest]) -> PackageDigests:
    recorded = read_digests(root) or PackageDigests()
    files = dict(recorded.files) | {path: RecordedFile.of(digest) for path, digest in new.items()}
    for document in change.documents:
        if document.before is not None:
            old, digest = hash_bytes(document.before), new[document.path]
            files[document.path] = RecordedFile(
                digests=tuple(dict.fromkeys((old.sha256, digest.sha256))), nbytes=digest.nbytes
            )
    commit = change.commit_document
    others = change.documents[change.documents.index(commit) + 1 :]
    created = [document.path for document in change.documents if document.before is None]
    pending = PendingChange(
        commit_document=commit.path,
        committed_digest=new[commit.path].sha256,
        adds=(*change.new_directories, *change.new_files, *created),
        removes=change.removes,
        documents={document.path: new[document.path].sha256 for document in others},
    )
    return PackageDigests(files=files, pending=pending)


def _build(
    staging: Path, change: PackageChange, operations: FileOperations, progress: Progress | None
) -> None:
    operations.make_directory(staging)
    files: dict[str, FileDigest] = {}
    for directory, sources in change.new_directories.items():
        make_parents(staging, directory, operations)
        copied = _copy_tree(staging / directory, sources, operations, progress)
        files |= {f"{directory}/{path}": digest for path, digest in copied.items()}
    for path, content in change.new_files.items():
        make_parents(staging, path, operations)
        files[path] = _write_composed(staging / path, path, content, operations, progress)
        operations.fsync_directory((staging / path).parent)
    for document in change.documents:
        make_parents(staging, document.path, operations)
        operations.write_file(staging / document.path, document.after)
        operations.fsync_directory((staging / document.path).parent)
        files[document.path] = hash_bytes(document.after)
    digests = PackageDigests(
        files={path: RecordedFile.of(digest) for path, digest in files.items()}
    )
    operations.write_file(staging / DIGESTS_FILE, dump_digests(digests))
    operations.fsync_directory(staging)


def _copy_tree(
    target: Path, files: Mapping[str, Path], operations: FileOperations, progress: Progress | None
) -> dict[str, FileDigest]:
    operations.make_directory(target)
    digests = {}
    directories = {target}
    for path, source in files.items():
        make_parents(target, path, operations)
        digests[path] = operations.copy_file(source, target / path, name=path, progress=progress)
        directories.update(
            folder for folder in (target / path).parents if folder.is_relative_to(target)
        )
    for folder in sorted(directories):
        operations.fsync_directory(folder)
    return digests


def _write_composed(
    target: Path,
    path: str,
    content: ComposedFile,
    operations: FileOperations,
    progress: Progress | None,
) -> FileDigest:
    with content.open() as stream:
        return operations.copy_stream(
            stream, target, nbytes=content.nbytes, name=path, progress=progress
        )


def _tidy_up(root: Path, operations: FileOperations) -> None:
    """Recover at once; if that fails too, leave it to the next command."""
    with contextlib.suppress(OSError, OrtpkgError):
        finish(root, operations, is_ours=True)


def is_committed(root: Path, change: PackageChange) -> bool:
    """Return True if the package is as ``change`` makes it, though commit_change raised.

    Return False if the commit document cannot be read.
    """
    commit = change.commit_document
    try:
        return has_sha256(root / commit.path, hash_bytes(commit.after).sha256)
    except OSError:
        return False


def _check_unchanged(root: Path, change: PackageChange) -> None:
    """Raise AuthoringError if a document changed after the plan, by a process without the lock."""
    for document in change.documents:
        path = root / document.path
        now = path.read_bytes() if path.is_file() else None
        if now != document.before:
            raise AuthoringError(
                f"{quoted(document.path)} was changed by somebody else meanwhile; run the command"
                " again"
            )


def _check_targets_are_free(root: Path, change: PackageChange) -> None:
    for directory in (*change.new_directories, *change.new_files):
        if os.path.lexists(root / directory):
            raise AuthoringError(
                f"{quoted(directory)} is in the package already, though no document names it; move"
                " it away"
            )


def _nbytes_to_write(change: PackageChange) -> int:
    """Return the size of all new files; AuthoringError if there are too many."""
    files = [source for sources in change.new_directories.values() for source in sources.values()]
    count = len(files) + len(change.new_files)
    if count > _MOST_STAGED_FILES:
        raise AuthoringError(
            f"{count} files are to be copied; more than {_MOST_STAGED_FILES} are refused"
        )
    composed_nbytes = sum(content.nbytes for content in change.new_files.values())
    return composed_nbytes + sum(path.lstat().st_size for path in files)


def planned_files(root: Path, change: PackageChange) -> PlannedFiles:
    """Return the files that the change adds, changes and removes, digests.json included."""
    has_digests = os.path.lexists(root / DIGESTS_FILE)
    changes = tuple(document.path for document in change.documents if document.before is not None)
    return PlannedFiles(
        root=root,
        adds={**_new_files(change), **({} if has_digests else {DIGESTS_FILE: None})},
        changes=(*changes, DIGESTS_FILE) if has_digests else changes,
        removes=change.removes,
    )


def _new_files(change: PackageChange) -> dict[str, int]:
    """Map the path of every new file to its size."""
    adds = {
        f"{directory}/{path}": source.lstat().st_size
        for directory, files in change.new_directories.items()
        for path, source in files.items()
    }
    adds |= {path: content.nbytes for path, content in change.new_files.items()}
    return adds | {
        document.path: len(document.after)
        for document in change.documents
        if document.before is None
    }


def _check_target_is_free(root: Path) -> None:
    """Raise AuthoringError if the target is in use, and say what to do instead."""
    if root.is_dir() and not root.is_symlink() and is_occupied(root):
        raise AuthoringError(
            f"{quoted(root)} exists already and is not empty; add to a package with add-variant,"
            " choose another name, or replace it with --overwrite"
        )
