"""``ortpkg sign`` and ``ortpkg verify --signature``: packages in folders and in registries."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortpkg.documents.findings import listed
from ortpkg.documents.json_documents import parse_document
from ortpkg.errors import ArtifactFormatError, AuthoringError, quoted
from ortpkg.package.changes.recovery import recover
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digests import list_files, parse_digests, read_digests
from ortpkg.package.integrity.verification import check_is_package
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.registry.artifact import PackageArtifact, parse_artifact
from ortpkg.registry.descriptors import Descriptor
from ortpkg.registry.document_layer import MOST_NBYTES, unpack_documents
from ortpkg.registry.repository import MANIFEST_MEDIA_TYPE, Repository
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import hash_bytes
from ortpkg.storage.package_lock import lock_package
from ortpkg.trust.signing.openssf_signature import is_over, sign_digests
from ortpkg.trust.signing.registry_signatures import attach_signature, attached_signatures
from ortpkg.trust.signing.signature_bundle import most_bundle_nbytes
from ortpkg.trust.signing.signature_files import read_signatures, write_signature
from ortpkg.trust.signing.signed_package import SignedPackage

if TYPE_CHECKING:
    from ortpkg.trust.signing.signing_keys import PrivateKey

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
    """Signs the package at ``root``, whole or sparse, as its digests.json records it.

    Returns the path of the signature in the package.

    Raises:
        AuthoringError: there is no digests.json, or it does not record every file that is there, or
            the signature cannot be written.
        SignatureError: it is damaged.
        PackageError: there is no package at ``root``.
    """
    check_is_package(root)
    with lock_package(root, on_wait=notify or logger.warning):
        recover(root, operations=operations or FileOperations())
        name = open_package(root).name
        content = sign_digests(_own_record(root), name=name, key=key, certificates=certificates)
        try:
            return write_signature(
                root, content, key_digest=key.public.digest, operations=operations
            )
        except OSError as error:
            raise AuthoringError(
                f"the signature of {quoted(root)} cannot be written: {error.strerror or error}"
            ) from error


def sign_artifact(
    repository: Repository,
    version: str,
    key: PrivateKey,
    *,
    certificates: Sequence[bytes] = (),
    is_rehearsal: bool = False,
) -> Descriptor:
    """Signs the package that a tag or digest of a repository names, by its documents alone.

    Only they are downloaded. digests.json is signed, once the layers' digests agree with it.

    Returns the manifest that was signed.
    """
    subject = repository.resolve(version)
    artifact, documents = _documents(repository, subject)
    content = sign_digests(
        documents[DIGESTS_FILE], name=artifact.name or "package", key=key, certificates=certificates
    )
    if not is_rehearsal:
        attach_signature(repository, subject, content)
    return subject


def attach_own_signatures(
    root: Path, record: bytes, repository: Repository, manifest: bytes
) -> int:
    """Publishes the signatures that lie in a package beside its ``manifest``; returns how many.

    Those over other files, as a change of the package leaves them, stay behind. With the first, the
    manifest is written, without a tag.
    """
    signatures = [each for each in read_signatures(root) if is_over(record, each)]
    if signatures:
        subject = repository.write_manifest(manifest, MANIFEST_MEDIA_TYPE)
        for signature in signatures:
            attach_signature(repository, subject, signature.content)
    return len(signatures)


def signed_artifact(repository: Repository, version: str) -> SignedPackage:
    """The package that a tag or digest names, with its signatures, without its files.

    ArtifactFormatError where the artifact's layers are not those that its digests.json records.
    """
    subject = repository.resolve(version)
    _, documents = _documents(repository, subject)
    record = documents[DIGESTS_FILE]
    manifest = parse_document(documents.get(MANIFEST, b"{}"), document=MANIFEST)
    return SignedPackage(
        name=_stated(manifest, "name"),
        version=_stated(manifest, "version"),
        manifest_digest=hash_bytes(documents.get(MANIFEST, b"")).sha256,
        record=record,
        signatures=attached_signatures(
            repository, subject.digest, most_nbytes=most_bundle_nbytes(len(record))
        ),
    )


def _stated(manifest: Mapping[str, Any], what: str) -> str:
    """What a manifest of either generation says of the package."""
    return str(manifest.get(f"model_{what}") or manifest.get(f"package_{what}") or "")


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
    return (root / DIGESTS_FILE).read_bytes()


def _documents(
    repository: Repository, subject: Descriptor
) -> tuple[PackageArtifact, dict[str, bytes]]:
    artifact = parse_artifact(repository.read_manifest(subject), registry=repository.name)
    layer = artifact.documents
    if layer.nbytes > 2 * MOST_NBYTES:
        raise ArtifactFormatError(
            f"the layer of documents of {repository.name} has {layer.nbytes} bytes; at most"
            f" {2 * MOST_NBYTES} are read",
            registry=repository.name,
            layer=layer.digest,
        )
    with repository.read_blob(layer) as chunks:
        content = b"".join(chunks)
    if f"sha256:{hash_bytes(content).sha256}" != layer.digest:
        raise _other_files(repository, "the layer of documents has other bytes", layer.digest)
    documents = unpack_documents(io.BytesIO(content), registry=repository.name, digest=layer.digest)
    if DIGESTS_FILE not in documents:
        raise _other_files(repository, f"there is no {DIGESTS_FILE}", layer.digest)
    found = {path: hash_bytes(each).sha256 for path, each in documents.items()}
    del found[DIGESTS_FILE]
    found |= {path: file.layer.sha256 for path, file in artifact.files.items()}
    recorded = {
        path: each.digests[-1]
        for path, each in parse_digests(documents[DIGESTS_FILE], Path(DIGESTS_FILE)).files.items()
    }
    for path in sorted({*found, *recorded}):
        if found.get(path) != recorded.get(path):
            raise _other_files(
                repository, f"{quoted(path)} is not as {DIGESTS_FILE} records it", path
            )
    return artifact, documents


def _other_files(repository: Repository, what: str, layer: str) -> ArtifactFormatError:
    return ArtifactFormatError(
        f"the package in {repository.name} is wrong: {what}",
        registry=repository.name,
        layer=layer,
    )
