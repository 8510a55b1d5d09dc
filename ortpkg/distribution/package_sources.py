"""Sources of packages: one version that does not change while it is fetched.

A reference is resolved once. After that everything goes by the manifest's digest.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from ortpkg.distribution.registry.artifact import dump_artifact
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.package_index import resolve_package
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.registry.repository import MOST_MANIFEST_NBYTES, Repository
from ortpkg.distribution.registry_signatures import attached_signatures
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ArtifactNotFoundError, quoted
from ortpkg.foundations.storage.hashing import Progress, hash_bytes
from ortpkg.package.reader import open_package
from ortpkg.package.references.package_references import (
    DEFAULT_TAG,
    LayoutReference,
    OciReference,
    PathReference,
    Reference,
    StoreReference,
    is_tag,
    parse_reference,
    unversioned_reference,
)
from ortpkg.package.trust.signing.openssf_signature import FoundSignature
from ortpkg.package.trust.signing.signature_files import read_signatures

_CHUNK_NBYTES = 1024 * 1024

#: Returns a blob's content from an offset on, in chunks that are not verified.
ReadBlob = Callable[[Descriptor, int], AbstractContextManager[Iterator[bytes]]]
#: Returns the signatures of at most so many bytes, which are not verified.
ReadSignatures = Callable[[int], tuple[FoundSignature, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSource:
    """One version of a package at its source.

    Attributes:
        where: Name of the source in messages.
        reference: Reference to record, by which newer versions are looked up.
        origin: The reference without a version, which a trust policy may match.
        tag: Tag of the version, or "" if it was named by digest.
        digest: Digest of the manifest.
        manifest: Bytes of the manifest, which have that digest.
        name: Name for the store, or "" to use the package's own.
        read_blob: Reads a layer.
        read_signatures: Reads the signatures.
    """

    where: str
    reference: str
    origin: str
    tag: str
    digest: str
    manifest: bytes
    name: str
    read_blob: ReadBlob
    read_signatures: ReadSignatures


@contextlib.contextmanager
def opened_source(
    reference: Reference, store: PackageStore, *, progress: Progress | None = None
) -> Iterator[PackageSource]:
    """Open the package that a reference names, while the context lasts.

    Raises:
        RegistryError: The registry failed, or has no such package.
        PackageNotInstalledError: No package of that name is in ``store``.
        PackageError: The folder or packed file is not a valid package.
        UsageError: The library that reads the source is not installed.
    """
    if isinstance(reference, OciReference | LayoutReference):
        yield published_source(reference, repository_of(reference))
    elif isinstance(reference, PathReference):
        # The code for each kind of reference is loaded on demand.
        from ortpkg.authoring.opening import package_folder

        path = reference.path.absolute()
        with package_folder(path, progress=progress) as root:
            yield _in_folder(root, path)
    elif isinstance(reference, StoreReference):
        generation = store.find(reference.name, tag=reference.tag, digest=reference.digest)
        with _Origin(generation, store) as origin:
            yield PackageSource(
                where=generation.reference,
                reference=generation.reference,
                origin=unversioned_reference(generation.reference),
                tag=generation.tag,
                digest=generation.digest,
                manifest=store.blobs.read_bytes(
                    generation.digest, most_nbytes=MOST_MANIFEST_NBYTES
                ),
                name=generation.name,
                read_blob=origin.read,
                read_signatures=origin.read_signatures,
            )
    else:
        from ortpkg.distribution.packed_source import opened_packed_package

        with opened_packed_package(reference, store, progress) as packed:
            yield PackageSource(
                where=packed.file.where,
                reference=str(reference),
                origin=str(reference),
                tag=packed.version if is_tag(packed.version) else "",
                digest=f"sha256:{hash_bytes(packed.manifest).sha256}",
                manifest=packed.manifest,
                name="",
                read_blob=packed.read,
                read_signatures=packed.read_signatures,
            )


def published_source(
    reference: OciReference | LayoutReference, repository: Repository
) -> PackageSource:
    """Return the package that a reference names, in its repository."""
    descriptor = resolve_package(repository, reference.version)
    manifest = repository.read_manifest(descriptor)
    origin = unversioned_reference(str(reference))
    name = reference.repository.rpartition("/")[2] if isinstance(reference, OciReference) else ""
    tag = "" if reference.digest and not reference.tag else reference.tag or DEFAULT_TAG
    return PackageSource(
        where=repository.name,
        reference=f"{origin}:{tag}" if tag else f"{origin}@{reference.digest}",
        origin=origin,
        tag=tag,
        digest=descriptor.digest,
        manifest=manifest,
        name=name,
        read_blob=lambda layer, offset: repository.read_blob(layer, offset=offset),
        read_signatures=lambda most_nbytes: attached_signatures(
            repository, descriptor.digest, most_nbytes=most_nbytes
        ),
    )


def _in_folder(root: Path, named: Path) -> PackageSource:
    """Return a package's folder as ``push`` would publish it; messages call it ``named``."""
    from ortpkg.distribution.package_artifact import RecordedFiles, artifact_of

    package = open_package(root)
    artifact, contents = artifact_of(package, RecordedFiles.of(root, None))
    manifest = dump_artifact(artifact)
    files = {file.layer.digest: root / file.path for file in artifact.files.values()}
    return PackageSource(
        where=str(named),
        reference=str(named),
        origin=str(named),
        tag=package.version if package.version is not None and is_tag(package.version) else "",
        digest=f"sha256:{hash_bytes(manifest).sha256}",
        manifest=manifest,
        name="",
        read_blob=_FolderBlobs(str(named), contents, files).read,
        read_signatures=lambda _: read_signatures(root),
    )


class _Origin:
    """Origin of an installed package, which is opened only for layers that the store lacks."""

    def __init__(self, generation: Generation, store: PackageStore) -> None:
        self._generation = generation
        self._store = store
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, layer: Descriptor, offset: int) -> AbstractContextManager[Iterator[bytes]]:
        """Return a layer that is not in the store."""
        with self._lock:
            source = self._source
        return source.read_blob(layer, offset)

    def read_signatures(self, _most_nbytes: int) -> tuple[FoundSignature, ...]:
        """Return the signatures that were installed with the package."""
        named = self._generation
        with self._store.open(named.name, digest=named.digest) as opened:
            return read_signatures(opened.root)

    @cached_property
    def _source(self) -> PackageSource:
        reference = parse_reference(self._generation.reference)
        if isinstance(reference, OciReference | LayoutReference):
            reference = replace(reference, digest=self._generation.digest)
        source = self._stack.enter_context(opened_source(reference, self._store))
        if source.digest != self._generation.digest:
            raise ArtifactNotFoundError(
                f"{quoted(self._generation.reference)} is another package by now than the one that"
                " was installed",
                registry=self._generation.reference,
            )
        return source


@dataclass(frozen=True, slots=True)
class _FolderBlobs:
    """Layers of a folder's artifact: some in memory, the files on disk."""

    where: str
    contents: Mapping[str, bytes]
    files: Mapping[str, Path]

    @contextlib.contextmanager
    def read(self, layer: Descriptor, offset: int) -> Iterator[Iterator[bytes]]:
        """Yield the layer's bytes from ``offset`` on."""
        if layer.digest in self.contents:
            yield iter([self.contents[layer.digest][offset:]])
            return
        try:
            stream = self.files[layer.digest].open("rb")
        except OSError as error:
            raise ArtifactNotFoundError(
                f"{quoted(self.files[layer.digest])} cannot be read: {error.strerror}",
                registry=self.where,
            ) from error
        with stream:
            stream.seek(offset)
            yield iter(lambda: stream.read(_CHUNK_NBYTES), b"")
