"""Blobs by SHA-256 in the layout of an OCI image: complete and verified, or absent.

A blob is read-only and never changes. Package trees may link to its file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.repository import RangeNotSupportedError
from ortpkg.distribution.store.partial_blobs import (
    ClaimedPart,
    claimed_part,
    free_parts,
    nbytes_on_the_way,
)
from ortpkg.distribution.store.store_folder import StoreFolder
from ortpkg.foundations.errors import LayerMismatchError, StoreError, quoted
from ortpkg.foundations.storage.digest_cache import content_sha256
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.foundations.storage.file_operations import open_unlinked
from ortpkg.foundations.storage.hashing import hash_bytes, hash_file, hashed_beside

_CHUNK_NBYTES = 1024 * 1024
_PAUSE_S = 0.02
_STALLED_S = 5.0

#: Returns the content from an offset on, in chunks: ``Repository.read_blob`` of one descriptor.
Read = Callable[[int], AbstractContextManager[Iterator[bytes]]]
Progress = Callable[[int], None]


class BlobStore:
    """The blobs of a store; methods may be called by several threads and processes at once.

    Raises:
        StoreError: The store cannot be used; all methods raise it.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        """Return the path of a blob, which need not exist.

        Raises:
            ValueError: ``digest`` is not a SHA-256 digest.
        """
        if not is_digest(digest):
            raise ValueError(f"{quoted(digest)} is not sha256: and 64 lower-case hex digits")
        return self._folder.blobs / digest.removeprefix("sha256:")

    def has(self, digest: str) -> bool:
        """Return True if the blob exists; a lease on it keeps it."""
        return self.path(digest).is_file()

    def is_sound(self, digest: str) -> bool:
        """Return True if the blob exists and has its digest; an unchanged file is hashed once."""
        path = self.path(digest)
        with self._folder.errors(f"check the blob {quoted(path)}"):
            try:
                return f"sha256:{content_sha256(path)}" == digest
            except FileNotFoundError:
                return False

    @contextlib.contextmanager
    def open(self, digest: str) -> Iterator[BinaryIO]:
        """Open a blob for reading.

        Raises:
            StoreError: The blob does not exist.
        """
        path = self.path(digest)
        try:
            file = path.open("rb")
        except FileNotFoundError as error:
            raise StoreError(
                f"the store {quoted(self._folder.root)} has no blob {digest}: install the package"
                " again"
            ) from error
        with file:
            yield file

    def read_bytes(self, digest: str, *, most_nbytes: int) -> bytes:
        """Return the verified content of a small blob.

        Raises:
            StoreError: The blob has more than ``most_nbytes``, is damaged or does not exist.
        """
        with self._folder.errors("read a blob"), self.open(digest) as file:
            content = file.read(most_nbytes + 1)
        if len(content) > most_nbytes:
            raise StoreError(f"blob {digest} has more than {most_nbytes} bytes")
        if f"sha256:{hash_bytes(content).sha256}" != digest:
            raise StoreError(f"blob {digest} of {quoted(self._folder.root)} is damaged")
        return content

    def add_bytes(self, content: bytes) -> str:
        """Store small content and return its digest."""
        sha256 = hash_bytes(content).sha256
        digest = f"sha256:{sha256}"
        if not self._has_undamaged(digest):
            with self._folder.errors("add a blob"):
                self._folder.prepare()
                with claimed_part(self._folder, sha256) as part:
                    self._folder.operations.make_empty(part.path)
                    with self._folder.operations.longer_file(part.path) as file:
                        file.write(content)
                    self._publish(part, sha256)
        return digest

    def receive(
        self, descriptor: Descriptor, read: Read, *, source: str, progress: Progress | None = None
    ) -> int:
        """Store a blob from elsewhere and verify it while it arrives.

        What arrived before a break is kept; the next call, in any process, hashes it and continues
        from there. If another call is receiving the same blob, this one waits for it.

        Args:
            descriptor: Descriptor of the blob.
            read: Returns the content from an offset on. Its exceptions are passed on.
            source: Source of the blob, for messages.
            progress: Called with the number of bytes that are new since the last call; the number
                is negative if the transfer starts again.

        Returns:
            Number of bytes that ``read`` returned; 0 if the blob existed.

        Raises:
            LayerMismatchError: The content has another digest; nothing of it is kept.
        """
        tell = progress or (lambda _: None)
        if self._has_undamaged(descriptor.digest) or self._wait_for_other_transfer(descriptor):
            tell(descriptor.nbytes)
            return 0
        with self._folder.errors("receive a blob"):
            self._folder.prepare()
            with claimed_part(self._folder, descriptor.sha256) as part:
                transfer = _Transfer(self._folder, descriptor, source, tell)
                self._complete(transfer, part.path, read)
                self._publish(part, descriptor.sha256)
        return transfer.nbytes_read

    def forget_partial(self, digest: str) -> None:
        """Remove what interrupted transfers left of a blob, unless another call continues it."""
        with self._folder.errors("remove a partial blob"):
            for path in free_parts(self._folder, digest.removeprefix("sha256:")):
                self._folder.discard(path)

    def check(self, digest: str) -> bool:
        """Hash an existing blob; remove it and return False if it is damaged."""
        path = self.path(digest)
        with self._folder.errors(f"check the blob {quoted(path)}"):
            if f"sha256:{hash_file(path).sha256}" == digest:
                return True
            self._folder.discard(path)
            return False

    def digests(self) -> Iterator[str]:
        """Yield the digests of all blobs."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder.blobs) as entries:
            for entry in entries:
                if is_digest(digest := f"sha256:{entry.name}"):
                    yield digest

    def _has_undamaged(self, digest: str) -> bool:
        """Return True if the blob exists and is sound; a damaged one is removed."""
        if not self.has(digest):
            return False
        if self.is_sound(digest):
            return True
        with self._folder.errors("take out a damaged blob"):
            self._folder.discard(self.path(digest))
        return False

    def _wait_for_other_transfer(self, descriptor: Descriptor) -> bool:
        """Wait while another process or thread receives the blob.

        Return True if the blob exists then.

        Workers of one service start at once and want the same blobs. A transfer that stalls is not
        waited for any longer.
        """
        most_nbytes, last_s = -1, time.monotonic()
        while (nbytes := nbytes_on_the_way(self._folder, descriptor.sha256)) is not None:
            if nbytes > most_nbytes:
                most_nbytes, last_s = nbytes, time.monotonic()
            elif time.monotonic() - last_s > _STALLED_S:
                return False
            time.sleep(_PAUSE_S)
        return self.has(descriptor.digest)

    def _complete(self, transfer: _Transfer, part: Path, read: Read) -> None:
        """Complete ``part``; if the result is wrong, start again once."""
        hashed_nbytes = transfer.hash_existing(part)
        try:
            transfer.take(part, read)
        except (LayerMismatchError, RangeNotSupportedError):
            self._folder.operations.make_empty(part)
            if not hashed_nbytes:
                raise
        else:
            return
        transfer.restart()  # the bytes that were there before may be the wrong ones
        try:
            transfer.take(part, read)
        except LayerMismatchError:
            self._folder.operations.make_empty(part)
            raise

    def _publish(self, part: ClaimedPart, sha256: str) -> None:
        """Move a complete, verified and durable part to its blob's path.

        If the blob exists by now, it stays, since trees may be linked to it.
        """
        folder = self._folder
        folder.make_folder(folder.blobs)
        part.close()
        if not (folder.blobs / sha256).exists():
            folder.operations.make_read_only(part.path)
            folder.operations.replace(part.path, folder.blobs / sha256)
            folder.operations.fsync_directory(folder.blobs)
        else:
            folder.operations.unlink(part.path)


class _Transfer:
    """Transfer of one blob: its hash so far, and the number of bytes that arrived."""

    def __init__(
        self, folder: StoreFolder, descriptor: Descriptor, source: str, tell: Progress
    ) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self._source = source
        self._tell = tell
        self._sha256 = hashlib.sha256()
        self._nbytes = 0
        self.nbytes_read = 0

    def restart(self) -> None:
        """Forget the bytes that arrived."""
        self._tell(-self._nbytes)
        self._sha256 = hashlib.sha256()
        self._nbytes = 0

    def hash_existing(self, part: Path) -> int:
        """Hash what an interrupted transfer left in ``part`` and return its size in bytes."""
        with open_unlinked(part, "rb") as file:
            while chunk := file.read(_CHUNK_NBYTES):
                self._sha256.update(chunk)
                self._nbytes += len(chunk)
        self._tell(self._nbytes)
        return self._nbytes

    def take(self, part: Path, read: Read) -> None:
        """Append the missing bytes to ``part``.

        Raises:
            LayerMismatchError: The content has another size or digest.
        """
        expected = self._descriptor
        missing_nbytes = expected.nbytes - self._nbytes
        with self._folder.operations.longer_file(part) as file:
            if missing_nbytes > 0:
                with (
                    read(self._nbytes) as chunks,
                    hashed_beside(self._sha256.update, nbytes=missing_nbytes) as update,
                ):
                    for chunk in chunks:
                        self.nbytes_read += len(chunk)
                        if self._nbytes + len(chunk) > expected.nbytes:
                            raise self._mismatch(f"more than {expected.nbytes} bytes arrived")
                        update(chunk)
                        file.write(chunk)
                        self._nbytes += len(chunk)
                        self._tell(len(chunk))
        if self._nbytes != expected.nbytes:
            raise self._mismatch(f"{self._nbytes} bytes arrived instead of {expected.nbytes}")
        if self._sha256.hexdigest() != expected.sha256:
            raise self._mismatch("its bytes have another digest")

    def _mismatch(self, why: str) -> LayerMismatchError:
        expected = self._descriptor.digest
        return LayerMismatchError(
            f"{quoted(self._source)} gave something else as {expected}: {why}; nothing of it"
            " is kept",
            registry=self._source,
            layer=expected,
            expected=expected,
            actual=f"sha256:{self._sha256.hexdigest()}",
        )
