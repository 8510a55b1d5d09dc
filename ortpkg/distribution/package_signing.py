"""``ortpkg sign`` and ``ortpkg verify --signature`` for packages in folders and in registries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.distribution.fetched_documents import read_documents
from ortpkg.distribution.package_sources import published_source
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.registry.repository import MANIFEST_MEDIA_TYPE, Repository
from ortpkg.distribution.registry_signatures import attach_signature
from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.package.changes.recovery import recover
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.derived_variants import verify_none_is_stale
from ortpkg.package.integrity.digest_check import DifferenceKind, list_files
from ortpkg.package.integrity.digests import read_digests
from ortpkg.package.integrity.verification import (
    check_is_package,
    package_differences,
    why_record_is_wrong,
)
from ortpkg.package.reader import open_package
from ortpkg.package.references.package_references import LayoutReference, OciReference
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.package.trust.signing.openssf_signature import is_over, sign_digests
from ortpkg.package.trust.signing.signature_files import read_signatures, write_signature
from ortpkg.package.trust.signing.signed_package import SignedPackage

if TYPE_CHECKING:
    from ortpkg.package.trust.signing.signing_keys import PrivateKey

logger = logging.getLogger(__name__)

Notify = Callable[[str], None]


def sign_package(
    root: Path,
    key: PrivateKey,
    *,
    certificates: Sequence[bytes] = (),
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> str:
    """Sign the package at ``root``, complete or sparse, as its digests.json records it.

    Returns:
        Path of the signature in the package.

    Raises:
        AuthoringError: digests.json is missing or does not record every file, a file differs from
            its record, or the signature cannot be written.
        SignatureError: digests.json is damaged.
        StalePackageError: A compiled variant was made from another model than the one beside it.
        PackageError: There is no package at ``root``.
    """
    check_is_package(root)
    check_is_not_installed(root)
    with lock_package(root, on_wait=notify or logger.warning):
        recover(root, operations=operations or FileOperations())
        package, record = open_package(root), _own_record(root)
        verify_none_is_stale(package)
        content = sign_digests(record, name=package.name, key=key, certificates=certificates)
        try:
            return write_signature(
                root, content, key_digest=key.public.digest, operations=operations
            )
        except OSError as error:
            raise AuthoringError(
                f"the signature of {quoted(root)} cannot be written: {error.strerror or error}"
            ) from error


def sign_artifact(
    reference: OciReference | LayoutReference,
    key: PrivateKey,
    *,
    certificates: Sequence[bytes] = (),
    is_rehearsal: bool = False,
) -> str:
    """Sign the package that a reference names; only its documents are downloaded.

    The layers' digests are compared with digests.json, which is signed.

    Returns:
        Digest of the manifest that was signed.
    """
    repository = repository_of(reference)
    fetched = read_documents(published_source(reference, repository))
    name = fetched.artifact.name or "package"
    content = sign_digests(fetched.record, name=name, key=key, certificates=certificates)
    digest = fetched.source.digest
    if not is_rehearsal:
        attach_signature(repository, repository.resolve(digest), content)
    return digest


def attach_own_signatures(
    root: Path, record: bytes, repository: Repository, manifest: bytes
) -> int:
    """Publish a package's own signatures next to its ``manifest``; return their number.

    Signatures over other files, left from before a change, are not published. The first signature
    also writes the manifest, without a tag.
    """
    signatures = [signature for signature in read_signatures(root) if is_over(record, signature)]
    if signatures:
        subject = repository.write_manifest(manifest, MANIFEST_MEDIA_TYPE)
        for signature in signatures:
            attach_signature(repository, subject, signature.content)
    return len(signatures)


def read_signed_artifact(reference: OciReference | LayoutReference) -> SignedPackage:
    """Return the package that a reference names, with signatures and without files.

    Raises:
        ArtifactFormatError: The artifact's layers differ from its digests.json.
    """
    return read_documents(published_source(reference, repository_of(reference))).signed()


def _own_record(root: Path) -> bytes:
    recorded = read_digests(root)
    if recorded is None:
        raise AuthoringError(
            f"{quoted(root)} has no {DIGESTS_FILE}, which is what is signed: ortpkg verify --record"
            " writes it"
        )
    if extra := [name for name in list_files(root) if name not in recorded.files]:
        raise AuthoringError(
            f"{DIGESTS_FILE} of {quoted(root)} does not record all files, so they would not be"
            f" signed: {listed(extra)}; ortpkg verify says what differs"
        )
    reason = why_record_is_wrong(root)
    if reason is not None:
        raise AuthoringError(
            f"{DIGESTS_FILE} of {quoted(root)} does not record its files, so they would not be"
            f" signed: {reason}; ortpkg verify says what differs"
        )
    differing = [
        difference.file
        for difference in package_differences(root)
        if difference.kind is DifferenceKind.CHANGED and difference.file != DIGESTS_FILE
    ]
    if differing:
        raise AuthoringError(
            f"files of {quoted(root)} are not as {DIGESTS_FILE} records them, so they would not be"
            f" signed: {listed(differing)}; ortpkg verify says what differs"
        )
    return (root / DIGESTS_FILE).read_bytes()
