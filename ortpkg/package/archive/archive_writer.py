"""Write packed packages: stored entries in the order they are added, byte-for-byte reproducible."""

from __future__ import annotations

import zlib
from dataclasses import replace

from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import CHUNK_NBYTES, NewFile, Readable
from ortpkg.foundations.storage.hashing import FileDigest, Progress, Sha256Stream
from ortpkg.package.archive.zip_format import (
    DirectoryExtent,
    EntryHeader,
    dump_central,
    dump_end,
    dump_local,
)


class ArchiveWriter:
    """Writer that appends entries and fills in each local header once its data is written."""

    def __init__(self, target: NewFile) -> None:
        self._target = target
        self._entries: list[EntryHeader] = []

    def add(
        self, name: str, stream: Readable, *, nbytes: int, progress: Progress | None = None
    ) -> FileDigest:
        """Copy a file of exactly ``nbytes`` into the archive and return its digest.

        Raises:
            AuthoringError: the stream has another size.
        """
        entry = EntryHeader(
            name=name, nbytes=nbytes, compressed_nbytes=nbytes, offset=self._target.tell()
        )
        self._target.write(dump_local(entry))
        hashing, crc32 = Sha256Stream(), 0
        while hashing.nbytes <= nbytes and (chunk := stream.read(CHUNK_NBYTES)):
            self._target.write(chunk)
            crc32 = zlib.crc32(chunk, crc32)
            hashing.update(chunk)
            if progress is not None:
                progress(name, hashing.nbytes, max(nbytes, hashing.nbytes))
        if hashing.nbytes != nbytes:
            raise AuthoringError(f"{quoted(name)} was changed while it was being packed; try again")
        entry = replace(entry, crc32=crc32)
        self._target.write_at(entry.offset, dump_local(entry))
        self._entries.append(entry)
        return hashing.digest()

    def add_bytes(self, name: str, content: bytes) -> None:
        """Write a small file."""
        header = EntryHeader(
            name=name,
            nbytes=len(content),
            compressed_nbytes=len(content),
            crc32=zlib.crc32(content),
            offset=self._target.tell(),
        )
        self._target.write(dump_local(header) + content)
        self._entries.append(header)

    def finish(self) -> None:
        """Write the central directory."""
        offset = self._target.tell()
        directory = b"".join(map(dump_central, self._entries))
        directory_end = DirectoryExtent(
            offset=offset, nbytes=len(directory), count=len(self._entries)
        )
        self._target.write(directory + dump_end(directory_end))
