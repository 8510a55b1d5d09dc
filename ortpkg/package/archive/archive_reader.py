"""Reads packed packages: zip files of which every byte has one meaning, from strangers.

Everything is checked before the first entry is handed out: the entries fill the file without a gap
or an overlap, both headers of each agree, names are plain and portable, and sizes stay within
limits. So what is listed is what is extracted, by this reader and by any other. Data are checked
(size, CRC-32) while they are read.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from ortpkg.errors import ArchiveError, AuthoringError, quoted
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
from ortpkg.storage.file_operations import open_regular

_INPUT_NBYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """One file: its path in the package, and its size."""

    name: str
    nbytes: int


class EntryStream(Protocol):
    """The data of one entry.

    ArchiveError, at the latest with the last byte, where they are damaged.
    """

    def read(self, nbytes: int, /) -> bytes:
        """The next bytes, at most ``nbytes``; none at the end.

        ArchiveError where the entry is damaged.
        """


class ArchiveReader:
    """An archive that passed every check. :func:`open_archive` makes it.

    Attributes:
        path: the archive.
        entries: its files, in the order of its directory.
        nbytes: of all files, unpacked.
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
            ArchiveEntry(name=each.name, nbytes=each.nbytes) for each, _ in self._headers.values()
        )
        self.nbytes = sum(entry.nbytes for entry in self.entries)

    def __contains__(self, name: str) -> bool:
        return name in self._headers

    def open(self, name: str) -> EntryStream:
        """The data of the file ``name``.

        FileNotFoundError where there is none; one stream at a time is read.
        """
        if name not in self._headers:
            raise FileNotFoundError(name)
        header, start = self._headers[name]
        reader = _inflated if header.method == DEFLATED else _stored
        return _CheckedStream(self.path, header, reader(self._stream, header, start))

    def read(self, name: str, *, most_nbytes: int) -> bytes:
        """The content of a small file. ArchiveError where it is larger than ``most_nbytes``."""
        stream = self.open(name)
        if self._headers[name][0].nbytes > most_nbytes:
            raise ArchiveError(
                f"{quoted(self.path)}: entry {quoted(name)} has more than {most_nbytes} bytes"
            )
        return b"".join(iter(lambda: stream.read(_INPUT_NBYTES), b""))


@contextlib.contextmanager
def open_archive(path: Path, *, limits: ArchiveLimits = DEFAULT_LIMITS) -> Iterator[ArchiveReader]:
    """Opens an archive and checks all of it but the data.

    Raises:
        ArchiveError: it cannot be opened, is no sound zip file, or breaks a limit; says what and
            which entry.
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
    """Every entry and where its data begin, in the order of the directory."""
    entries, end = read_directory(stream, file_nbytes, limits)
    return _check_layout(stream, entries, end)


def _check_layout(
    stream: BinaryIO, entries: list[EntryHeader], end: int
) -> list[tuple[EntryHeader, int]]:
    """The entries lie one after another up to the directory, each under a header that agrees."""
    starts: dict[int, int] = {}
    position = 0
    for index in sorted(range(len(entries)), key=lambda index: entries[index].offset):
        entry = entries[index]
        if entry.offset != position:
            what = (
                "overlaps another one" if entry.offset < position else "has foreign bytes before it"
            )
            raise ZipFormatError(f"entry {quoted(entry.name)} {what}")
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
    """Hands out what ``chunks`` yields, and compares size and CRC-32 at its end."""

    def __init__(self, path: Path, header: EntryHeader, chunks: Iterator[bytes]) -> None:
        self._where = f"{quoted(path)}: entry {quoted(header.name)}"
        self._header = header
        self._chunks = chunks
        self._pending = memoryview(b"")
        self._crc32 = 0
        self._done = 0

    def read(self, nbytes: int, /) -> bytes:
        """At most ``nbytes``, at least one until the end."""
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
