"""What every place of artifacts can do: an OCI registry over HTTP, an image layout in a folder.

A repository moves bytes and does not believe them: whoever reads a blob compares its digest, and
nothing is written under a digest that it does not have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

from ortpkg.registry.descriptors import Descriptor

MANIFEST_MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_MEDIA_TYPE = "application/vnd.oci.image.index.v1+json"
#: A registry need not take a larger manifest (OCI distribution specification, pushing manifests).
MOST_MANIFEST_NBYTES = 4 * 1024 * 1024


class Repository(ABC):
    """One repository: manifests by tag and digest, blobs by digest.

    Its methods may be called by several threads at once. All raise RegistryError where the place
    does not answer or refuses, ArtifactNotFoundError where it has no such thing,
    RegistryAuthenticationError where it wants other credentials.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call it: ``oci://host/repository``, ``oci-layout:folder``."""

    @abstractmethod
    def resolve(self, tag_or_digest: str) -> Descriptor:
        """The descriptor of the manifest of that tag, or of that digest."""

    @abstractmethod
    def read_manifest(self, descriptor: Descriptor) -> bytes:
        """The bytes of a manifest, which have the digest and the size that ``descriptor`` states.

        Raises LayerMismatchError where the place gives other bytes; none of more than
        MOST_MANIFEST_NBYTES is read.
        """

    @abstractmethod
    def read_blob(
        self, descriptor: Descriptor, *, offset: int = 0
    ) -> AbstractContextManager[Iterator[bytes]]:
        """The blob's bytes from ``offset`` on, in chunks; not compared with the digest.

        Never more than ``descriptor.nbytes - offset`` bytes. A place that cannot begin in the
        middle raises :class:`RangeNotSupportedError`.
        """

    @abstractmethod
    def has_blob(self, digest: str) -> bool:
        """Whether the repository has that blob."""

    @abstractmethod
    def write_blob(
        self,
        descriptor: Descriptor,
        open_content: Callable[[], BinaryIO],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Writes a blob; nothing appears where the content has another digest.

        Args:
            descriptor: what it is.
            open_content: opens the content at its beginning, seekable; called again where the way
                there failed and it begins anew.
            progress: called with the number of bytes that have gone since the last call.
        """

    @abstractmethod
    def mount_blob(self, digest: str, source: str) -> bool:
        """Takes a blob from the repository ``source`` of the same registry, without moving it.

        False where that cannot be done; then it is written.
        """

    @abstractmethod
    def write_manifest(
        self, content: bytes, media_type: str, *, tag: str | None = None
    ) -> Descriptor:
        """Writes a manifest, whose blobs are there, under its digest, and under ``tag``."""

    @abstractmethod
    def tags(self) -> tuple[str, ...]:
        """All tags, sorted."""

    @abstractmethod
    def referrers(self, digest: str, *, artifact_type: str = "") -> tuple[Descriptor, ...]:
        """Manifests whose ``subject`` is the manifest ``digest``.

        Only those of ``artifact_type`` where that is given. By the referrers API, or else by the
        fallback tag (OCI distribution specification).
        """


class RangeNotSupportedError(Exception):
    """The place sends a blob from its beginning only."""
