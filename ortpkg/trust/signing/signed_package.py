"""A package with its signatures, before anybody believes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ortpkg.errors import SignatureError, quoted
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import DIGESTS_FILE, has_digests
from ortpkg.storage.hashing import hash_bytes
from ortpkg.trust.signing.openssf_signature import FoundSignature
from ortpkg.trust.signing.signature_files import read_signatures


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPackage:
    """What there is to judge a package by.

    Attributes:
        name, version: as its manifest.json has it; "" where it has none. A signature covers both.
        manifest_digest: SHA-256 of that manifest.json.
        record: the bytes of its digests.json.
        signatures: all that lie beside it.
    """

    name: str
    version: str
    manifest_digest: str
    record: bytes
    signatures: tuple[FoundSignature, ...]


def signed_package(package: PackageInfo) -> SignedPackage:
    """The package in a folder with its signatures. SignatureError where it has no digests.json."""
    root = Path(package.root)
    if not has_digests(root):
        raise SignatureError(
            f"{quoted(root)} has no {DIGESTS_FILE}: no signature says anything about its files"
        )
    try:
        record, manifest = (root / DIGESTS_FILE).read_bytes(), (root / MANIFEST).read_bytes()
    except OSError as error:
        raise SignatureError(f"{quoted(root)} cannot be read: {error.strerror}") from error
    return SignedPackage(
        name=package.name,
        version=package.version or "",
        manifest_digest=hash_bytes(manifest).sha256,
        record=record,
        signatures=read_signatures(root),
    )
