"""Documents of a remote package: fetched, compared with each other, and opened.

A selection needs nothing else. Digest and size of every other file are in ``digests.json``, and the
manifest must not contradict it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ortpkg.distribution.fetching import fetch_layers
from ortpkg.distribution.opened_documents import opened_documents
from ortpkg.distribution.package_sources import PackageSource
from ortpkg.distribution.registry.artifact import PackageArtifact, parse_artifact
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.document_layer import MOST_NBYTES, unpack_documents
from ortpkg.distribution.registry.repository import MOST_MANIFEST_NBYTES
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    LayerMismatchError,
    PackageFormatError,
    quoted,
)
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digests import PackageDigests, parse_digests
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.paths.portable_names import find_collision, why_not_portable_file
from ortpkg.package.sidecar import DIGESTS_FILE, SIGNATURE_FILE, is_signature_file
from ortpkg.package.trust.signing.signature_bundle import most_bundle_nbytes
from ortpkg.package.trust.signing.signed_package import SignedPackage

#: Largest layer of documents: its content and the overhead of the archive.
_MOST_LAYER_NBYTES = 2 * MOST_NBYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedDocuments:
    """Package whose documents have been fetched.

    Attributes:
        source: Source of the package.
        artifact: Content of its manifest.
        documents: Documents by path, as ``digests.json``, one of them, records them.
        digests: Digests and sizes of all files.
    """

    source: PackageSource
    artifact: PackageArtifact
    documents: Mapping[str, bytes]
    digests: PackageDigests

    @property
    def record(self) -> bytes:
        """Bytes of ``digests.json``, which a signature covers."""
        return self.documents[DIGESTS_FILE]

    def signed(self) -> SignedPackage:
        """Return the package with its fetched signatures, which are not verified.

        Raises:
            SignatureError: The package does not state its name.
            RegistryError: The source failed, or its signatures are invalid.
        """
        signatures = self.source.read_signatures(most_bundle_nbytes(len(self.record)))
        manifest = self.documents.get(MANIFEST, b"")
        return SignedPackage.of(self.record, manifest, signatures, origin=self.source.origin)

    @property
    def folder(self) -> str:
        """Name of the package's folder, ``NAME.ortpackage``."""
        name = self.artifact.name
        return f"{'package' if why_not_a_name(name) else name}.ortpackage"

    def opened(self) -> AbstractContextManager[PackageInfo]:
        """Return a context with the package, which has only its documents.

        Raises:
            PackageFormatError: The package is invalid.
        """
        return opened_documents(self.documents, self.folder)


@contextlib.contextmanager
def fetched_documents(source: PackageSource, store: PackageStore) -> Iterator[FetchedDocuments]:
    """Fetch manifest, configuration and documents of a package.

    The store holds them in this context.

    Raises:
        ArtifactFormatError: The source has no valid package, or its manifest contradicts its
            digests.json; ``layer`` says where.
        RegistryError: The source failed.
        StoreError: The store cannot be used.
    """
    artifact = _artifact_of(source)
    layers = (artifact.config, artifact.documents)
    with store.hold(digests=[source.digest, *(layer.digest for layer in layers)]):
        store.blobs.add_bytes(source.manifest)
        fetch_layers(layers, source, store)
        with store.blobs.open(artifact.documents.digest) as stream:
            fetched = _unpacked(artifact, stream, source)
        yield fetched


def read_documents(source: PackageSource) -> FetchedDocuments:
    """Read the documents of a remote package without storing them."""
    artifact = _artifact_of(source)
    layer = artifact.documents
    with source.read_blob(layer, 0) as chunks:
        content = b"".join(chunks)
    if (actual := f"sha256:{hash_bytes(content).sha256}") != layer.digest:
        raise LayerMismatchError(
            f"what {source.where} sent of {layer.digest}, the layer of documents, has the digest"
            f" {actual}",
            registry=source.where,
            layer=layer.digest,
            expected=layer.digest,
            actual=actual,
        )
    return _unpacked(artifact, io.BytesIO(content), source)


def _artifact_of(source: PackageSource) -> PackageArtifact:
    artifact = parse_artifact(source.manifest, registry=source.where)
    _check_size(artifact.config, MOST_MANIFEST_NBYTES, source)
    _check_size(artifact.documents, _MOST_LAYER_NBYTES, source)
    return artifact


def _unpacked(
    artifact: PackageArtifact, stream: BinaryIO, source: PackageSource
) -> FetchedDocuments:
    documents = unpack_documents(stream, registry=source.where, digest=artifact.documents.digest)
    digests = _digests_in(documents, artifact, source)
    fetched = FetchedDocuments(
        source=source, artifact=artifact, documents=documents, digests=digests
    )
    _check(fetched)
    return fetched


def _check_size(layer: Descriptor, most_nbytes: int, source: PackageSource) -> None:
    if layer.nbytes > most_nbytes:
        raise ArtifactFormatError(
            f"layer {layer.digest} of {source.where}, {layer.media_type}, has {layer.nbytes}"
            f" bytes; at most {most_nbytes} are read",
            registry=source.where,
            layer=layer.digest,
        )


def _digests_in(
    documents: Mapping[str, bytes], artifact: PackageArtifact, source: PackageSource
) -> PackageDigests:
    layer = artifact.documents.digest
    if DIGESTS_FILE not in documents:
        raise _wrong(f"the layer of documents has no {DIGESTS_FILE}", source, layer)
    try:
        digests = parse_digests(documents[DIGESTS_FILE], Path(source.where))
    except PackageFormatError as error:
        raise _wrong(f"its {DIGESTS_FILE} is wrong: {error}", source, layer) from error
    if digests.pending is not None or any(len(file.digests) > 1 for file in digests.files.values()):
        raise _wrong(f"its {DIGESTS_FILE} is that of an interrupted change", source, layer)
    return digests


def _check(fetched: FetchedDocuments) -> None:
    """Raise if manifest and documents disagree about a file, or the files cannot be one package."""
    source, artifact = fetched.source, fetched.artifact
    layers = {path: (file.layer.sha256, file.layer.nbytes) for path, file in artifact.files.items()}
    for path, content in fetched.documents.items():
        if path in layers:
            raise _wrong(f"{quoted(path)} is a layer and a document", source, path)
        layers[path] = (hash_bytes(content).sha256, len(content))
    del layers[DIGESTS_FILE]
    recorded = {
        path: (file.digests[0], file.nbytes) for path, file in fetched.digests.files.items()
    }
    for path in sorted({*layers, *recorded}):
        if path not in recorded:
            raise _wrong(f"{DIGESTS_FILE} does not record {quoted(path)}", source, path)
        if path not in layers:
            raise _wrong(f"there is no layer for {quoted(path)}", source, path)
        if layers[path] != recorded[path]:
            raise _wrong(
                f"{quoted(path)} has sha256:{layers[path][0]} and {layers[path][1]} bytes, and"
                f" {DIGESTS_FILE} records sha256:{recorded[path][0]} and {recorded[path][1]}",
                source,
                path,
            )
        if reason := why_not_portable_file(path):
            raise _wrong(f"{quoted(path)} {reason}", source, path)
        if is_signature_file(path):
            raise _wrong(f"{quoted(path)} is the name of a signature, not of a file", source, path)
    if collision := find_collision([*recorded, DIGESTS_FILE, SIGNATURE_FILE]):
        first, second = map(quoted, collision)
        raise _wrong(f"{first} and {second} are one file on some systems", source, collision[0])
    if artifact.package_digest not in ("", fetched.digests.package_digest):
        raise _wrong("it states another digest of the package", source, "")


def _wrong(what: str, source: PackageSource, layer: str) -> ArtifactFormatError:
    return ArtifactFormatError(
        f"the package {source.digest} of {source.where} is wrong: {what}; nothing was installed",
        registry=source.where,
        layer=layer,
    )
