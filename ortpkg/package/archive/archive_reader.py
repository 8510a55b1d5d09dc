"""Read packed packages of unknown origin: zip files in which every byte has exactly one meaning.

All of the structure is checked before the first entry is returned: entries fill the file without
gaps or overlaps, both headers of each entry agree, names are portable, and sizes stay within
limits. Any other zip reader therefore extracts the same files. The data is checked (size, CRC-32)
while it is read.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from ortpkg.foundations.errors import ArchiveError, AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import open_regular
from ortpkg.package.archive.archive_directory import (
    DEFAULT_LIMITS,
    ArchiveLimits,
    inflated,
    read_at,
    read_directory,
)
from ortpkg.package.archive.zip_format import (
    DEFLATED,
    LOCAL_NBYTES,
    EntryHeader,
    ZipFormatError,
    check_local,
    local_variable_nbytes,
)

_INPUT_NBYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """One file: its path in the package, and its size."""

    name: str
    nbytes: int


class EntryStream(Protocol):
    """Stream of one entry's data.

    Damage raises ArchiveError, with the last byte at the latest.
    """

    def read(self, nbytes: int, /) -> bytes:
        """Return the next bytes, at most ``nbytes``; b"" at the end.

        Raises:
            ArchiveError: the entry is damaged.
        """


class ArchiveReader:
    """Checked archive, made by :func:`open_archive`.

    Attributes:
        path: path to the archive.
        entries: its files, in the order of its directory.
        nbytes: size of all files together, unpacked.
    """

    def __init__(
        self, path: Path, stream: BinaryIO, headers: list[tuple[EntryHeader, int]]
    ) -> None:
        self.path = path
        self._stream = stream
        self._headers = {
            header.name: (header, start) for header, start in headers if not header.is_folder
        }
        self.entries = tuple(
            ArchiveEntry(name=header.name, nbytes=header.nbytes)
            for header, _ in self._headers.values()
        )
        self.nbytes = sum(entry.nbytes for entry in self.entries)

    def __contains__(self, name: str) -> bool:
        return name in self._headers

    def open(self, name: str) -> EntryStream:
        """Open the data of the file ``name``; read one stream at a time.

        Raises:
            FileNotFoundError: the archive has no such file.
        """
        if name not in self._headers:
            raise FileNotFoundError(name)
        header, start = self._headers[name]
        reader = _inflated if header.method == DEFLATED else _stored
        return _CheckedStream(self.path, header, reader(self._stream, header, start))

    def read(self, name: str, *, most_nbytes: int) -> bytes:
        """Return the content of a small file; ArchiveError if larger than ``most_nbytes``."""
        stream = self.open(name)
        if self._headers[name][0].nbytes > most_nbytes:
            raise ArchiveError(
                f"{quoted(self.path)}: entry {quoted(name)} has more than {most_nbytes} bytes"
            )
        return b"".join(iter(lambda: stream.read(_INPUT_NBYTES), b""))


@contextlib.contextmanager
def open_archive(path: Path, *, limits: ArchiveLimits = DEFAULT_LIMITS) -> Iterator[ArchiveReader]:
    """Open an archive and check everything but the data of its entries.

    Raises:
        ArchiveError: the file cannot be opened, is not a valid zip file, or exceeds a limit. The
            message names the problem and the entry.
    """
    with contextlib.ExitStack() as stack:
        try:
            stream, nbytes = stack.enter_context(open_regular(path))
            headers = _read_headers(stream, nbytes, limits)
        except ZipFormatError as error:
            raise ArchiveError(f"{quoted(path)} {error}") from None
        except AuthoringError as error:
            raise ArchiveError(str(error)) from None
        except OSError as error:
            raise ArchiveError(
                f"{quoted(path)} cannot be read: {error.strerror or error}"
            ) from error
        yield ArchiveReader(path, stream, headers)


def _read_headers(
    stream: BinaryIO, file_nbytes: int, limits: ArchiveLimits
) -> list[tuple[EntryHeader, int]]:
    """Return each entry with the offset of its data, in the order of the directory."""
    entries, end = read_directory(stream, file_nbytes, limits)
    return _check_layout(stream, entries, end)


def _check_layout(
    stream: BinaryIO, entries: list[EntryHeader], end: int
) -> list[tuple[EntryHeader, int]]:
    """Check that entries fill the file up to the directory, each under a header that agrees."""
    starts: dict[int, int] = {}
    position = 0
    for index in sorted(range(len(entries)), key=lambda index: entries[index].offset):
        entry = entries[index]
        if entry.offset != position:
            problem = (
                "overlaps another one" if entry.offset < position else "has foreign bytes before it"
            )
            raise ZipFormatError(f"entry {quoted(entry.name)} {problem}")
        fixed = read_at(stream, position, LOCAL_NBYTES)
        try:
            name_nbytes, extra_nbytes = local_variable_nbytes(fixed)
            variable = read_at(stream, position + LOCAL_NBYTES, name_nbytes + extra_nbytes)
            check_local(entry, fixed, variable[:name_nbytes], variable[name_nbytes:])
        except ZipFormatError as error:
            raise ZipFormatError(f"entry {quoted(entry.name)} {error}") from None
        starts[index] = position + LOCAL_NBYTES + name_nbytes + extra_nbytes
        position = starts[index] + entry.compressed_nbytes
        if position > end:
            raise ZipFormatError(f"entry {quoted(entry.name)} reaches into the directory")
    if position != end:
        raise ZipFormatError("has foreign bytes before its directory")
    return [(entry, starts[index]) for index, entry in enumerate(entries)]


class _CheckedStream:
    """Stream over ``chunks`` that checks size and CRC-32 at the end."""

    def __init__(self, path: Path, header: EntryHeader, chunks: Iterator[bytes]) -> None:
        self._where = f"{quoted(path)}: entry {quoted(header.name)}"
        self._header = header
        self._chunks = chunks
        self._pending = memoryview(b"")
        self._crc32 = 0
        self._done = 0

    def read(self, nbytes: int, /) -> bytes:
        """Return at most ``nbytes`` bytes, and at least one before the end."""
        if not self._pending:
            self._pending = memoryview(self._next())
        data, self._pending = bytes(self._pending[:nbytes]), self._pending[nbytes:]
        return data

    def _next(self) -> bytes:
        try:
            chunk = next(self._chunks, b"")
        except zlib.error as error:
            raise ArchiveError(f"{self._where} is damaged: {error}") from None
        except ZipFormatError as error:
            raise ArchiveError(f"{self._where} {error}") from None
        self._done += len(chunk)
        self._crc32 = zlib.crc32(chunk, self._crc32)
        if self._done > self._header.nbytes or (not chunk and self._done < self._header.nbytes):
            raise ArchiveError(
                f"{self._where} does not have the {self._header.nbytes} bytes that it states"
            )
        if self._done == self._header.nbytes and self._crc32 != self._header.crc32:
            raise ArchiveError(f"{self._where} is damaged: its CRC-32 is not the one stated")
        return chunk


def _stored(stream: BinaryIO, header: EntryHeader, start: int) -> Iterator[bytes]:
    for offset in range(0, header.nbytes, _INPUT_NBYTES):
        yield read_at(stream, start + offset, min(_INPUT_NBYTES, header.nbytes - offset))


def _inflated(stream: BinaryIO, header: EntryHeader, start: int) -> Iterator[bytes]:
    packed = (
        read_at(stream, start + offset, min(_INPUT_NBYTES, header.compressed_nbytes - offset))
        for offset in range(0, header.compressed_nbytes, _INPUT_NBYTES)
    )
    return inflated(packed)
