"""Content by its SHA-256, as an OCI image layout keeps it: whole and verified, or not there.

A blob is read-only and never changes. Its file may be linked from package trees.
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

from ortpkg.errors import LayerMismatchError, StoreError, quoted
from ortpkg.registry.descriptors import Descriptor, is_digest
from ortpkg.registry.repository import RangeNotSupportedError
from ortpkg.storage.digest_cache import content_sha256
from ortpkg.storage.file_operations import open_unlinked
from ortpkg.storage.hashing import hash_bytes, hash_file, hashed_beside
from ortpkg.store.partial_blobs import ClaimedPart, claimed_part, free_parts, nbytes_on_the_way
from ortpkg.store.store_folder import StoreFolder

_CHUNK_NBYTES = 1024 * 1024
_PAUSE_S = 0.02
_STALLED_S = 5.0

#: Gives the content from an offset on, in chunks: ``Repository.read_blob`` of one descriptor.
Read = Callable[[int], AbstractContextManager[Iterator[bytes]]]
Progress = Callable[[int], None]


class BlobStore:
    """The blobs of a store. Its methods may be called by several threads and processes at once.

    All raise StoreError where the store cannot be used.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        """Where the blob is, or would be. ValueError for what is no digest."""
        if not is_digest(digest):
            raise ValueError(f"{quoted(digest)} is not sha256: and 64 lower-case hex digits")
        return self._folder.blobs / digest.removeprefix("sha256:")

    def has(self, digest: str) -> bool:
        """Whether the blob is there. It stays there for who has a lease on it."""
        return self.path(digest).is_file()

    def is_sound(self, digest: str) -> bool:
        """Whether the blob is there and has its digest; hashed once while its file stays."""
        with self._folder.errors("check a blob"):
            try:
                return f"sha256:{content_sha256(self.path(digest))}" == digest
            except FileNotFoundError:
                return False

    @contextlib.contextmanager
    def open(self, digest: str) -> Iterator[BinaryIO]:
        """The blob's content. StoreError where it is not there."""
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
        """A small blob, verified. StoreError where it is larger, damaged or not there."""
        with self._folder.errors("read a blob"), self.open(digest) as file:
            content = file.read(most_nbytes + 1)
        if len(content) > most_nbytes:
            raise StoreError(f"blob {digest} has more than {most_nbytes} bytes")
        if f"sha256:{hash_bytes(content).sha256}" != digest:
            raise StoreError(f"blob {digest} of {quoted(self._folder.root)} is damaged")
        return content

    def add_bytes(self, content: bytes) -> str:
        """Puts small content into the store; returns its digest."""
        sha256 = hash_bytes(content).sha256
        digest = f"sha256:{sha256}"
        if not self._has_sound(digest):
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
        """Puts a blob that comes from elsewhere into the store, verified while it arrives.

        What arrived before a break is kept; the next call, of another process too, hashes it and
        goes on from there. Where another one brings the blob already, it is waited for.

        Args:
            descriptor: what it is.
            read: gives its content from an offset on. What it raises is raised.
            source: where it comes from, for messages.
            progress: called with the number of bytes that are there more than at the last call;
                fewer (a number below 0) where it begins anew.

        Returns:
            How many bytes ``read`` gave; 0 where the blob was there.

        Raises:
            LayerMismatchError: what came is something else; nothing of it is kept.
        """
        tell = progress or (lambda _: None)
        if self._has_sound(descriptor.digest) or self._is_brought(descriptor):
            tell(descriptor.nbytes)
            return 0
        with self._folder.errors("receive a blob"):
            self._folder.prepare()
            with claimed_part(self._folder, descriptor.sha256) as part:
                transfer = _Transfer(self._folder, descriptor, source, tell)
                self._take(transfer, part.path, read)
                self._publish(part, descriptor.sha256)
        return transfer.nbytes_read

    def forget_partial(self, digest: str) -> None:
        """Removes what broken transfers left of a blob, as far as nobody goes on with it."""
        with self._folder.errors("remove a partial blob"):
            for path in free_parts(self._folder, digest.removeprefix("sha256:")):
                self._folder.discard(path)

    def check(self, digest: str) -> bool:
        """Hashes a blob that is there, and takes it out of the store where it is damaged."""
        path = self.path(digest)
        with self._folder.errors("check a blob"):
            if f"sha256:{hash_file(path).sha256}" == digest:
                return True
            self._folder.discard(path)
            return False

    def digests(self) -> Iterator[str]:
        """All blobs that are there."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder.blobs) as entries:
            for entry in entries:
                if is_digest(digest := f"sha256:{entry.name}"):
                    yield digest

    def _has_sound(self, digest: str) -> bool:
        """Whether the blob is there; one that is damaged is taken out, to come anew."""
        if not self.has(digest):
            return False
        if self.is_sound(digest):
            return True
        with self._folder.errors("take out a damaged blob"):
            self._folder.discard(self.path(digest))
        return False

    def _is_brought(self, descriptor: Descriptor) -> bool:
        """Waits while another process or thread brings the blob; returns whether it is there.

        Workers of one service start at once, and want the same. Who brings nothing more for a while
        is no longer waited for.
        """
        most_nbytes, last_s = -1, time.monotonic()
        while (nbytes := nbytes_on_the_way(self._folder, descriptor.sha256)) is not None:
            if nbytes > most_nbytes:
                most_nbytes, last_s = nbytes, time.monotonic()
            elif time.monotonic() - last_s > _STALLED_S:
                return False
            time.sleep(_PAUSE_S)
        return self.has(descriptor.digest)

    def _take(self, transfer: _Transfer, part: Path, read: Read) -> None:
        """Takes what ``part`` lacks; where the whole is not right then, all of it anew, once."""
        kept_nbytes = transfer.hash_what_is_there(part)
        try:
            transfer.take(part, read)
        except (LayerMismatchError, RangeNotSupportedError):
            self._folder.operations.make_empty(part)
            if not kept_nbytes:
                raise
        else:
            return
        transfer.begin_anew()  # what was there before may have been what is wrong
        try:
            transfer.take(part, read)
        except LayerMismatchError:
            self._folder.operations.make_empty(part)
            raise

    def _publish(self, part: ClaimedPart, sha256: str) -> None:
        """Gives a part that is whole, verified and durable its name.

        A second one of that name changes nothing: trees may be linked to the first.
        """
        folder = self._folder
        folder.make_folder(folder.blobs)
        part.let_go()
        if not (folder.blobs / sha256).exists():
            folder.operations.make_read_only(part.path)
            folder.operations.replace(part.path, folder.blobs / sha256)
            folder.operations.fsync_directory(folder.blobs)
        else:
            folder.operations.unlink(part.path)


class _Transfer:
    """One blob that arrives: its hash so far, and how much of it came."""

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

    def begin_anew(self) -> None:
        """Forgets what has come."""
        self._tell(-self._nbytes)
        self._sha256 = hashlib.sha256()
        self._nbytes = 0

    def hash_what_is_there(self, part: Path) -> int:
        """Hashes what a broken transfer left in ``part``; returns how many bytes that are."""
        with open_unlinked(part, "rb") as file:
            while chunk := file.read(_CHUNK_NBYTES):
                self._sha256.update(chunk)
                self._nbytes += len(chunk)
        self._tell(self._nbytes)
        return self._nbytes

    def take(self, part: Path, read: Read) -> None:
        """Writes the rest behind what is there. LayerMismatchError where the whole is not right."""
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
