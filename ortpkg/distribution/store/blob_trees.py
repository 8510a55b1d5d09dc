"""Package trees: folders made of blobs, which appear complete, with a receipt, and never change.

``packages/<manifest>/<key>/`` holds ``NAME.ortpackage`` and ``receipt.json``. The key is a digest
of which files exist and how they were made. Other files of the same package are another tree, so
that an open package does not change.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.distribution.store.store_folder import StoreFolder, names_in
from ortpkg.distribution.store.tree_files import FileMaker
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import StoreError, quoted
from ortpkg.foundations.storage.digest_cache import content_sha256
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.changes.store_guard import RECEIPT
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.paths.portable_names import find_collision, why_not_portable_file
from ortpkg.package.receipts import FileMode, Receipt, StoredFile, read_receipt
from ortpkg.package.stored_documents import dump_json

_KEY_CHARACTERS = 16
_KEY = re.compile("[0-9a-f]{64}/[0-9a-f]{16}")
_MOST_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeContent:
    """Content of a tree to make.

    Attributes:
        manifest: Digest of the package's manifest.
        reference: Source of the package.
        folder: Name of the package's folder, ``NAME.ortpackage``.
        documents: Bytes of the documents by path in the package.
        signatures: Bytes of signature files by path; they are not part of the package.
        files: Stored blobs by path.
        absent: Other files of the manifest by path.
        blobs: Digests of further blobs that belong to the tree: manifest, config, layer of
            documents. They must be stored.
        is_linked: True if files may be hard links to blobs where reflinks are not supported.
            ``onnx.load`` refuses hard-linked external data.
    """

    manifest: str
    reference: str
    folder: str
    documents: Mapping[str, bytes]
    files: Mapping[str, StoredFile] = EMPTY
    absent: Mapping[str, StoredFile] = EMPTY
    signatures: Mapping[str, bytes] = EMPTY
    blobs: tuple[str, ...] = ()
    is_linked: bool = True

    @property
    def written(self) -> dict[str, bytes]:
        """Bytes of the files that are written, not made of blobs, by path."""
        return {**self.documents, **self.signatures}

    @property
    def all_blobs(self) -> tuple[str, ...]:
        """Digests of all blobs that the tree needs, sorted."""
        return tuple(sorted({*self.blobs, *(file.digest for file in self.files.values())}))

    @property
    def key(self) -> str:
        """Key of the tree, which is its path below ``packages``."""
        files = sorted((path, item.digest) for path, item in self.files.items())
        facts: list[Any] = [self.folder, self.is_linked, sorted(self.documents), files]
        if self.signatures:
            facts.append(sorted(hash_bytes(item).sha256 for item in self.signatures.values()))
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return f"{self.manifest.removeprefix('sha256:')}/{digest[:_KEY_CHARACTERS]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageTree:
    """Folder of a package in the store.

    Attributes:
        key: Path below ``packages``.
        root: Folder of the package, which ``ModelPackage`` opens.
        receipt: Record of the files that exist.
    """

    key: str
    root: Path
    receipt: Receipt


def make_tree(folder: StoreFolder, content: TreeContent) -> PackageTree:
    """Make a tree, or return the existing one with that key.

    The caller has a lease on its key and blobs.

    Raises:
        StoreError: A blob is not in the store, or a path is not allowed in a package.
        OSError: The tree cannot be written; nothing of it is left.
    """
    _check(folder, content)
    target = folder.packages / content.key
    if target.is_dir():
        tree = read_tree(folder, content.key)
        if tree is not None and _is_whole(folder, tree):
            return tree
        folder.discard(target)  # files were removed or are damaged
    folder.prepare()
    staging = folder.new_staging()
    try:
        _build(folder, content, staging)
        _publish(folder, staging, target)
    except OSError:
        folder.remove_quietly(staging)
        raise
    made_tree = read_tree(folder, content.key)
    if made_tree is None:
        raise StoreError(f"{quoted(folder.packages / content.key)} was removed while it was made")
    return made_tree


def read_tree(folder: StoreFolder, key: str) -> PackageTree | None:
    """Return the tree with that key, or None if it does not exist.

    Raises:
        StoreError: Its receipt is damaged.
    """
    receipt = read_receipt(folder.packages / key)
    if receipt is None:
        return None
    return PackageTree(key=key, root=folder.packages / key / receipt.folder, receipt=receipt)


def tree_keys(folder: StoreFolder) -> Iterator[str]:
    """Yield the keys of all trees, sorted."""
    for manifest in names_in(folder.packages):
        for key in names_in(folder.packages / manifest):
            if _KEY.fullmatch(tree_key := f"{manifest}/{key}"):
                yield tree_key


def _check(folder: StoreFolder, content: TreeContent) -> None:
    if not is_digest(content.manifest):
        raise StoreError(f"{quoted(content.manifest)} is not the digest of a manifest")
    if reason := why_not_a_name(content.folder):
        raise StoreError(f"{quoted(content.folder)} cannot be a package's folder: it {reason}")
    paths = (*content.documents, *content.signatures, *content.files)
    for path in paths:
        if reason := why_not_portable_file(path):
            raise StoreError(f"{quoted(path)} may not be a file of a package: it {reason}")
    if (collision := find_collision(paths)) or len(set(paths)) < len(paths):
        first, second = collision or (paths[0], paths[0])
        raise StoreError(f"{quoted(first)} and {quoted(second)} cannot lie in one package")
    for digest in content.all_blobs:
        if not is_digest(digest) or not (folder.blobs / digest.removeprefix("sha256:")).is_file():
            raise StoreError(
                f"blob {quoted(digest)} of {quoted(content.folder)} is not in the store"
                f" {quoted(folder.root)}"
            )


def _is_whole(folder: StoreFolder, tree: PackageTree) -> bool:
    """Return True if all files are as the receipt says.

    A file that is a link to its blob is as sound as the blob, which was checked before.
    """
    try:
        return all(
            (tree.root / path).stat().st_size == file.nbytes
            and (
                _is_blob(folder, tree.root / path, file)
                or f"sha256:{content_sha256(tree.root / path)}" == file.digest
            )
            for path, file in tree.receipt.files.items()
        )
    except OSError:
        return False


def _is_blob(folder: StoreFolder, path: Path, file: StoredFile) -> bool:
    try:
        return path.samefile(folder.blobs / file.digest.removeprefix("sha256:"))
    except OSError:
        return False


def _build(folder: StoreFolder, content: TreeContent, staging: Path) -> None:
    operations = folder.operations
    operations.make_directory(staging)
    root, written = staging / content.folder, content.written
    directories = sorted(_directories(root, (*written, *content.files)))
    for directory in directories:
        operations.make_directory(directory)
    for path in sorted(written):
        operations.write_file(root / path, written[path])
        operations.make_read_only(root / path)
    maker = FileMaker(operations, is_linked=content.is_linked)
    for path in sorted(content.files):
        blob = folder.blobs / content.files[path].digest.removeprefix("sha256:")
        maker.make(blob, root / path)
    for directory in directories:
        operations.fsync_directory(directory)
    receipt = _receipt_of(content, maker.mode if content.files else FileMode.COPY)
    operations.write_file(staging / RECEIPT, dump_json(receipt.to_json()))
    operations.make_read_only(staging / RECEIPT)
    operations.fsync_directory(staging)


def _publish(folder: StoreFolder, staging: Path, target: Path) -> None:
    for _ in range(_MOST_ATTEMPTS):
        folder.make_folder(target.parent)
        try:
            folder.operations.place(staging, target)
        except FileExistsError:
            folder.operations.remove_tree(staging)  # another process was faster
            return
        except FileNotFoundError:
            continue  # gc removed the empty parent folder
        folder.operations.fsync_directory(target.parent)
        return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))


def _receipt_of(content: TreeContent, mode: FileMode) -> Receipt:
    written = {
        path: StoredFile(digest=f"sha256:{hash_bytes(data).sha256}", nbytes=len(data))
        for path, data in content.written.items()
    }
    receipt = Receipt(
        manifest=content.manifest,
        reference=content.reference,
        folder=content.folder,
        files={**written, **content.files},
        absent=content.absent,
        blobs=content.all_blobs,
    )
    return replace(receipt, mode=mode)


def _directories(root: Path, paths: Collection[str]) -> set[Path]:
    directories = {root}
    for path in paths:
        directories.update(
            parent for parent in (root / path).parents if parent.is_relative_to(root)
        )
    return directories
