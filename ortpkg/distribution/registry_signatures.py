"""Signatures of a package in a registry: an artifact that refers to it, and a tag that keeps it.

A signature is a layer, a sigstore bundle, of an artifact whose ``subject`` is the package's
manifest, so that the registry lists it as a referrer. The tag ``sha256-<hex>.sig`` names the
artifact too, because garbage collectors of registries delete what only the list of referrers names.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from ortpkg.distribution.registry.descriptors import Descriptor, parse_descriptor
from ortpkg.distribution.registry.referrers import fallback_tag
from ortpkg.distribution.registry.repository import (
    MANIFEST_MEDIA_TYPE,
    MOST_MANIFEST_NBYTES,
    Repository,
)
from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import ArtifactFormatError, ArtifactNotFoundError, PackageFormatError
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.trust.signing.openssf_signature import FoundSignature
from ortpkg.package.trust.signing.signature_bundle import BUNDLE_MEDIA_TYPE
from ortpkg.package.trust.signing.signature_files import MOST_SIGNATURES

logger = logging.getLogger(__name__)

_EMPTY = b"{}"
_EMPTY_CONFIG = Descriptor(
    media_type="application/vnd.oci.empty.v1+json",
    digest=f"sha256:{hash_bytes(_EMPTY).sha256}",
    nbytes=len(_EMPTY),
)
_LIMITS = DocumentLimits(nbytes=MOST_MANIFEST_NBYTES, depth=16, values=10_000)
_MOST_ATTEMPTS = 5
_MOST_ARTIFACTS = 64


def signature_tag(digest: str) -> str:
    """Return the tag of the signatures of a manifest.

    >>> signature_tag("sha256:12ab")
    'sha256-12ab.sig'
    """
    return f"{fallback_tag(digest)}.sig"


def attach_signature(repository: Repository, subject: Descriptor, content: bytes) -> Descriptor:
    """Publish a signature of the package with the manifest ``subject``, next to existing ones.

    Returns:
        Descriptor of the artifact that holds all of them.
    """
    layer = Descriptor(
        media_type=BUNDLE_MEDIA_TYPE,
        digest=f"sha256:{hash_bytes(content).sha256}",
        nbytes=len(content),
    )
    for blob, blob_content in ((_EMPTY_CONFIG, _EMPTY), (layer, content)):
        if not repository.has_blob(blob.digest):
            repository.write_blob(blob, lambda held=blob_content: io.BytesIO(held))  # type: ignore[misc]
    tag = signature_tag(subject.digest)
    for _ in range(_MOST_ATTEMPTS):
        layers = {tagged.digest: tagged for tagged in _tagged_layers(repository, tag)}
        if layer.digest in layers:
            return repository.resolve(tag)
        layers[layer.digest] = layer
        manifest = _manifest(subject, layers)
        written = repository.write_manifest(manifest, MANIFEST_MEDIA_TYPE, tag=tag)
        # Another writer may have written the tag between reading and writing it here.
        if repository.resolve(tag).digest == written.digest:
            return written
    return written


def attached_signatures(
    repository: Repository, digest: str, *, most_nbytes: int
) -> tuple[FoundSignature, ...]:
    """Return the unverified signatures of the manifest ``digest``, each once.

    Larger ones are skipped.

    Args:
        repository: Repository of the package.
        digest: Digest of its manifest.
        most_nbytes: Largest size of a signature.

    Raises:
        ArtifactFormatError: An artifact of signatures is invalid, or there are more than 16.
        RegistryError: The registry failed.
    """
    layers: dict[str, Descriptor] = {}
    for artifact in _artifacts(repository, digest):
        for layer in _layers(repository, artifact):
            layers.setdefault(layer.digest, layer)
    if len(layers) > MOST_SIGNATURES:
        raise ArtifactFormatError(
            f"{repository.name} has more than {MOST_SIGNATURES} signatures of {digest}",
            registry=repository.name,
        )
    too_large = [layer for layer in layers.values() if layer.nbytes > most_nbytes]
    for layer in too_large:
        logger.warning(
            "signature %s... in %s has %d bytes, more than any over this package (%d): it is not"
            " fetched",
            layer.digest[:19],
            repository.name,
            layer.nbytes,
            most_nbytes,
        )
    return tuple(
        FoundSignature(
            where=f"signature {layer.digest[:19]}... in {repository.name}",
            content=_content(repository, layer),
        )
        for layer in layers.values()
        if layer not in too_large
    )


def _artifacts(repository: Repository, digest: str) -> Iterator[Descriptor]:
    with contextlib.suppress(ArtifactNotFoundError):
        yield repository.resolve(signature_tag(digest))
    yield from repository.referrers(digest, artifact_type=BUNDLE_MEDIA_TYPE)[:_MOST_ARTIFACTS]


def _tagged_layers(repository: Repository, tag: str) -> list[Descriptor]:
    try:
        artifact = repository.resolve(tag)
    except ArtifactNotFoundError:
        return []
    return _layers(repository, artifact)


def _layers(repository: Repository, artifact: Descriptor) -> list[Descriptor]:
    """Return the signatures of one artifact; none if it is of another kind."""
    content = repository.read_manifest(artifact)
    try:
        document = parse_document(content, document="the manifest", limits=_LIMITS)
        layers = document.get("layers")
        if not isinstance(layers, list) or len(layers) > MOST_SIGNATURES:
            raise ValueError(f"layers is not a list of at most {MOST_SIGNATURES} descriptors")
        descriptors = [parse_descriptor(descriptor) for descriptor in layers]
    except (PackageFormatError, ValueError) as error:
        raise ArtifactFormatError(
            f"the signatures {artifact.digest} in {repository.name} are wrong: {error}",
            registry=repository.name,
            layer=artifact.digest,
        ) from error
    return [descriptor for descriptor in descriptors if descriptor.media_type == BUNDLE_MEDIA_TYPE]


def _manifest(subject: Descriptor, layers: Mapping[str, Descriptor]) -> bytes:
    subject_entry = Descriptor(
        media_type=subject.media_type, digest=subject.digest, nbytes=subject.nbytes
    )
    document: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_MEDIA_TYPE,
        "artifactType": BUNDLE_MEDIA_TYPE,
        "config": _EMPTY_CONFIG.to_json(),
        "layers": [layers[digest].to_json() for digest in sorted(layers)],
        "subject": subject_entry.to_json(),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _content(repository: Repository, layer: Descriptor) -> bytes:
    with repository.read_blob(layer) as chunks:
        content = b"".join(chunks)
    if f"sha256:{hash_bytes(content).sha256}" != layer.digest:
        raise ArtifactFormatError(
            f"the bytes of signature {layer.digest} in {repository.name} are others",
            registry=repository.name,
            layer=layer.digest,
        )
    return content
