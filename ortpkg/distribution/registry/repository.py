"""Interface of repositories of artifacts: OCI registries over HTTP, and image layouts in folders.

A repository moves bytes without trusting them: a reader of a blob compares its digest, and nothing
is written under a digest that it does not have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

from ortpkg.distribution.registry.descriptors import Descriptor

MANIFEST_MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_MEDIA_TYPE = "application/vnd.oci.image.index.v1+json"
#: Registries need not accept larger manifests (OCI distribution specification, pushing manifests).
MOST_MANIFEST_NBYTES = 4 * 1024 * 1024


class Repository(ABC):
    """Repository with manifests by tag and digest, and blobs by digest.

    Its methods may be called by several threads at once.

    Raises:
        RegistryError: The repository does not answer or refuses.
        ArtifactNotFoundError: The repository has no such thing.
        RegistryAuthenticationError: The repository wants other credentials.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in messages: ``oci://host/repository`` or ``oci-layout:folder``."""

    @abstractmethod
    def resolve(self, tag_or_digest: str) -> Descriptor:
        """Return the descriptor of the manifest with that tag or digest."""

    @abstractmethod
    def read_manifest(self, descriptor: Descriptor) -> bytes:
        """Return the bytes of a manifest of at most MOST_MANIFEST_NBYTES.

        Raises:
            LayerMismatchError: The bytes do not have the digest and size of ``descriptor``.
        """

    @abstractmethod
    def read_blob(
        self, descriptor: Descriptor, *, offset: int = 0
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Return a context manager that yields the blob's bytes from ``offset`` on, in chunks.

        The bytes are not compared with the digest. There are never more than ``descriptor.nbytes -
        offset``.

        Raises:
            RangeNotSupportedError: The repository cannot begin in the middle.
        """

    @abstractmethod
    def has_blob(self, digest: str) -> bool:
        """Return True if the repository has that blob."""

    @abstractmethod
    def write_blob(
        self,
        descriptor: Descriptor,
        open_content: Callable[[], BinaryIO],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write a blob; nothing is stored if the content has another digest.

        Args:
            descriptor: Descriptor of the blob.
            open_content: Opens the seekable content at its beginning; called again for each new
                attempt.
            progress: Called with the number of bytes that were sent since the last call.
        """

    @abstractmethod
    def mount_blob(self, digest: str, source: str) -> bool:
        """Take over a blob from the repository ``source`` of the same registry without a transfer.

        Returns:
            False if that is not possible; then the blob must be written.
        """

    @abstractmethod
    def write_manifest(
        self, content: bytes, media_type: str, *, tag: str | None = None
    ) -> Descriptor:
        """Write a manifest under its digest and ``tag``; its blobs must exist already."""

    @abstractmethod
    def tags(self) -> tuple[str, ...]:
        """Return all tags, sorted."""

    @abstractmethod
    def referrers(self, digest: str, *, artifact_type: str = "") -> tuple[Descriptor, ...]:
        """Return the manifests whose ``subject`` is the manifest ``digest``.

        They come from the referrers API, or else from the fallback tag (OCI distribution
        specification).

        Args:
            digest: Digest of the subject.
            artifact_type: Type of the manifests to return; "" for all.
        """


class RangeNotSupportedError(Exception):
    """Error of a server that sends a blob from its beginning only."""
