"""Interface of a remote file that is read in parts: behind a URL, in a bucket, on a hub."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager


class RemoteFile(ABC):
    """Remote file; if it changes while it is read, an error is raised.

    Its methods may be called by several threads at once.

    Raises:
        RegistryError: The server does not answer or refuses.
        ArtifactNotFoundError: The server has no such file.
        RegistryAuthenticationError: The server wants other credentials.
    """

    @property
    @abstractmethod
    def where(self) -> str:
        """Name of the file in messages, without secrets."""

    @property
    @abstractmethod
    def nbytes(self) -> int | None:
        """Size of the file in bytes, or None if the server does not say before sending it."""

    @property
    def has_parts(self) -> bool:
        """True if parts can be read; otherwise the file is read from beginning to end."""
        return True

    @abstractmethod
    def read(
        self, start: int = 0, end: int | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Return a context manager that yields the bytes from ``start`` to ``end`` in chunks.

        ``end`` is the end of the file by default.

        Raises:
            RangeNotSupportedError: A part is asked for, and the file comes only as a whole.
        """
