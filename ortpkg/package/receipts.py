"""Receipts: records beside package trees of the files that exist and where to get the others.

They lie outside the package, whose documents stay byte for byte those of its publisher.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.package.changes.store_guard import RECEIPT
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.stored_documents import damaged, read_json


class FileMode(StrEnum):
    """Way in which files of a tree are made from blobs."""

    REFLINK = "reflink"  # separate files that share blocks with the blobs
    HARD_LINK = "hard link"  # further names of the blobs
    COPY = "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """File of a package, with the digest and size that its manifest states."""

    digest: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Record of a tree.

    Attributes:
        manifest: Digest of the package's manifest.
        reference: Source of the package, with tag or digest.
        folder: Name of the package's folder, ``NAME.ortpackage``.
        files: Existing files by path in the package, including documents.
        absent: Files of the manifest that are not in this tree, by path.
        blobs: Digests of all blobs that belong to it: manifest, config, layers, signatures.
        mode: Way in which most of its files were made.
    """

    manifest: str
    reference: str
    folder: str
    files: Mapping[str, StoredFile]
    absent: Mapping[str, StoredFile] = EMPTY
    blobs: tuple[str, ...] = ()
    mode: FileMode = FileMode.COPY

    @property
    def nbytes(self) -> int:
        """Size of all existing files in bytes."""
        return sum(file.nbytes for file in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``receipt.json``."""
        return {
            "schema_version": "1.0",
            "manifest": self.manifest,
            "reference": self.reference,
            "folder": self.folder,
            "mode": self.mode.value,
            "files": _files_to_json(self.files),
            "absent": _files_to_json(self.absent),
            "blobs": list(self.blobs),
        }


def read_receipt(folder: Path) -> Receipt | None:
    """Return the receipt in a tree's folder, or None if there is none.

    Raises:
        StoreError: The receipt is damaged.
    """
    path = folder / RECEIPT
    document = read_json(path)
    if document is None:
        return None
    try:
        receipt = Receipt(
            manifest=document["manifest"],
            reference=document["reference"],
            folder=document["folder"],
            mode=FileMode(document["mode"]),
            files=_files_of(document["files"]),
            absent=_files_of(document["absent"]),
            blobs=tuple(document["blobs"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path) from error
    texts = (receipt.reference, receipt.folder)
    if not all(isinstance(text, str) for text in texts) or why_not_a_name(receipt.folder):
        raise damaged(path)
    if not all(is_digest(digest) for digest in (receipt.manifest, *receipt.blobs)):
        raise damaged(path)
    return receipt


def _files_to_json(files: Mapping[str, StoredFile]) -> dict[str, Any]:
    return {
        path: {"digest": files[path].digest, "nbytes": files[path].nbytes} for path in sorted(files)
    }


def _files_of(value: Any) -> dict[str, StoredFile]:
    files = {
        path: StoredFile(digest=entry["digest"], nbytes=entry["nbytes"])
        for path, entry in value.items()
    }
    if not all(is_digest(file.digest) and type(file.nbytes) is int for file in files.values()):
        raise ValueError
    return files
