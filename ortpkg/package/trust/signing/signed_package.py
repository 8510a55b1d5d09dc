"""Package with its signatures, none of them verified yet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import PackageFormatError, SignatureError, StoreError, quoted
from ortpkg.foundations.host.directories import store_directory
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.archive.archive_reader import open_archive
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digests import LIMITS
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.receipts import read_receipt
from ortpkg.package.references.package_references import unversioned_reference
from ortpkg.package.sidecar import DIGESTS_FILE, has_digests, is_signature_file
from ortpkg.package.trust.signing.openssf_signature import FoundSignature
from ortpkg.package.trust.signing.signature_bundle import most_bundle_nbytes
from ortpkg.package.trust.signing.signature_files import MOST_SIGNATURES, read_signatures


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPackage:
    """Facts by which a package is judged.

    Attributes:
        name, version: As in manifest.json; "" if it has none. A signature covers both.
        manifest_digest: SHA-256 of that manifest.json.
        record: Bytes of digests.json.
        signatures: All signatures next to the package.
        origin: Source of the package without a version, or "" if unknown.
    """

    name: str
    version: str
    manifest_digest: str
    record: bytes
    signatures: tuple[FoundSignature, ...]
    origin: str

    @classmethod
    def of(
        cls,
        record: bytes,
        manifest: bytes,
        signatures: tuple[FoundSignature, ...],
        *,
        origin: str,
    ) -> SignedPackage:
        """Return the package with these digests.json and manifest.json bytes.

        Args:
            record: Bytes of digests.json.
            manifest: Bytes of manifest.json, or b"".
            signatures: Signatures next to the package.
            origin: Source of the package without a version, or "".

        Raises:
            SignatureError: manifest.json is not a JSON document.
        """
        try:
            document = parse_document(manifest or b"{}", document=MANIFEST)
        except PackageFormatError as error:
            raise SignatureError(f"the package does not say what it is called: {error}") from error
        return cls(
            name=_text_in_manifest(document, "name"),
            version=_text_in_manifest(document, "version"),
            manifest_digest=hash_bytes(manifest).sha256,
            record=record,
            signatures=signatures,
            origin=origin,
        )


def read_signed_package(package: PackageInfo) -> SignedPackage:
    """Return the package in a folder with its signatures.

    Its name is the one in manifest.json, never that of its folder, which nobody signed.

    Raises:
        SignatureError: There is no digests.json.
    """
    root = Path(package.root)
    if not has_digests(root):
        raise SignatureError(
            f"{quoted(root)} has no {DIGESTS_FILE}: no signature says anything about its files"
        )
    try:
        record, manifest = (root / DIGESTS_FILE).read_bytes(), (root / MANIFEST).read_bytes()
    except OSError as error:
        raise SignatureError(f"{quoted(root)} cannot be read: {error.strerror}") from error
    return SignedPackage.of(record, manifest, read_signatures(root), origin=_origin_of(root))


def signed_archive(path: Path) -> SignedPackage:
    """Return the packed package at ``path`` with its signatures, without unpacking it.

    Raises:
        ArchiveError: It is not a sound archive.
        SignatureError: It has no digests.json.
    """
    with open_archive(path) as archive:
        if DIGESTS_FILE not in archive:
            raise SignatureError(
                f"{quoted(path)} has no {DIGESTS_FILE}: no signature says anything about its files"
            )
        record = archive.read(DIGESTS_FILE, most_nbytes=LIMITS.nbytes)
        manifest = b""
        if MANIFEST in archive:
            manifest = archive.read(MANIFEST, most_nbytes=DocumentLimits().nbytes)
        names = [entry.name for entry in archive.entries if is_signature_file(entry.name)]
        if len(names) > MOST_SIGNATURES:
            raise SignatureError(f"{quoted(path)} has more than {MOST_SIGNATURES} signatures")
        most_nbytes = most_bundle_nbytes(len(record))
        signatures = tuple(
            FoundSignature(where=name, content=archive.read(name, most_nbytes=most_nbytes))
            for name in names
        )
    return SignedPackage.of(record, manifest, signatures, origin="")


def _origin_of(root: Path) -> str:
    """Return where an installed package came from; only the store's own record is believed."""
    store = Path(os.path.realpath(store_directory()))
    if not Path(os.path.realpath(root)).is_relative_to(store):
        return ""
    with contextlib.suppress(StoreError):
        receipt = read_receipt(root.parent)
        return "" if receipt is None else unversioned_reference(receipt.reference)
    return ""


def _text_in_manifest(manifest: Mapping[str, Any], what: str) -> str:
    """Return a text of a manifest of either generation, or ""."""
    texts = (manifest.get(f"{generation}_{what}") for generation in ("model", "package"))
    return next((text for text in texts if text and isinstance(text, str)), "")
