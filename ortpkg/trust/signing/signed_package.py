"""A package with its signatures, before anybody believes them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.documents.document_limits import DocumentLimits
from ortpkg.documents.json_documents import parse_document
from ortpkg.errors import PackageFormatError, SignatureError, StoreError, quoted
from ortpkg.host.directories import store_directory
from ortpkg.package.archive.archive_reader import open_archive
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digests import LIMITS
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import DIGESTS_FILE, has_digests, is_signature_file
from ortpkg.registry.references import place_of
from ortpkg.storage.hashing import hash_bytes
from ortpkg.store.receipts import read_receipt
from ortpkg.trust.signing.openssf_signature import FoundSignature
from ortpkg.trust.signing.signature_bundle import most_bundle_nbytes
from ortpkg.trust.signing.signature_files import MOST_SIGNATURES, read_signatures


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPackage:
    """What there is to judge a package by.

    Attributes:
        name, version: as its manifest.json has it; "" where it has none. A signature covers both.
        manifest_digest: SHA-256 of that manifest.json.
        record: the bytes of its digests.json.
        signatures: all that lie beside it.
        place: where it comes from, without a version; "" where that is not known.
    """

    name: str
    version: str
    manifest_digest: str
    record: bytes
    signatures: tuple[FoundSignature, ...]
    place: str

    @classmethod
    def of(
        cls,
        record: bytes,
        manifest: bytes,
        signatures: tuple[FoundSignature, ...],
        *,
        place: str,
    ) -> SignedPackage:
        """The package with that digests.json and manifest.json, which is b"" where it has none.

        SignatureError where the manifest.json is no JSON document.
        """
        try:
            document = parse_document(manifest or b"{}", document=MANIFEST)
        except PackageFormatError as error:
            raise SignatureError(f"the package does not say what it is called: {error}") from error
        return cls(
            name=_stated(document, "name"),
            version=_stated(document, "version"),
            manifest_digest=hash_bytes(manifest).sha256,
            record=record,
            signatures=signatures,
            place=place,
        )


def signed_package(package: PackageInfo) -> SignedPackage:
    """The package in a folder with its signatures. SignatureError where it has no digests.json.

    Its name is what its manifest.json states, and never that of its folder, which nobody signed.
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
    return SignedPackage.of(record, manifest, read_signatures(root), place=_place_of(root))


def signed_archive(path: Path) -> SignedPackage:
    """The packed package at ``path`` with its signatures; nothing is unpacked.

    ArchiveError where it is no sound archive, SignatureError where it has no digests.json.
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
        names = [each.name for each in archive.entries if is_signature_file(each.name)]
        if len(names) > MOST_SIGNATURES:
            raise SignatureError(f"{quoted(path)} has more than {MOST_SIGNATURES} signatures")
        most_nbytes = most_bundle_nbytes(len(record))
        signatures = tuple(
            FoundSignature(where=name, content=archive.read(name, most_nbytes=most_nbytes))
            for name in names
        )
    return SignedPackage.of(record, manifest, signatures, place="")


def _place_of(root: Path) -> str:
    """Where an installed package came from: nobody else is believed what he says of that."""
    store = Path(os.path.realpath(store_directory()))
    if not Path(os.path.realpath(root)).is_relative_to(store):
        return ""
    with contextlib.suppress(StoreError):
        receipt = read_receipt(root.parent)
        return "" if receipt is None else place_of(receipt.reference)
    return ""


def _stated(manifest: Mapping[str, Any], what: str) -> str:
    """What a manifest of either generation says of the package; "" where it does not."""
    stated = (manifest.get(f"{generation}_{what}") for generation in ("model", "package"))
    return next((text for text in stated if text and isinstance(text, str)), "")
