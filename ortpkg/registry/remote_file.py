"""One file that lies elsewhere, and is read in parts: behind a URL, in a bucket, on a hub."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager


class RemoteFile(ABC):
    """One file elsewhere; where it changes while it is read, an error says so.

    Its methods may be called by several threads at once. They raise RegistryError where the place
    does not answer or refuses, ArtifactNotFoundError where it has no such file,
    RegistryAuthenticationError where it wants other credentials.
    """

    @property
    @abstractmethod
    def where(self) -> str:
        """What messages call it; no secret is in it."""

    @property
    @abstractmethod
    def nbytes(self) -> int | None:
        """How many bytes it has; None where the place does not say before they have come."""

    @property
    def has_parts(self) -> bool:
        """Whether parts of it can be had; else it is read from its beginning to its end."""
        return True

    @abstractmethod
    def read(
        self, start: int = 0, end: int | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """The bytes from ``start`` up to ``end``, by default the file's end, in chunks.

        :class:`~ortpkg.registry.repository.RangeNotSupportedError` for a part of a file that comes
        as a whole only.
        """
