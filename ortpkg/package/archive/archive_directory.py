"""Central directory of a packed package: the files in it and their offsets, without their data.

This is enough to read single files of a remote archive, whose bytes are then compared with
digests.json. ``archive_reader`` checks a whole archive against its directory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ortpkg.foundations.errors import ArchiveError, quoted
from ortpkg.package.archive.zip_format import (
    DEFLATED,
    END_NBYTES,
    LOCAL_NBYTES,
    ZIP64_END_NBYTES,
    ZIP64_LOCATOR_NBYTES,
    EntryHeader,
    ZipFormatError,
    parse_central,
    parse_end,
)
from ortpkg.package.paths.portable_names import find_collision, why_not_portable_file

_TAIL_NBYTES = END_NBYTES + ZIP64_LOCATOR_NBYTES + ZIP64_END_NBYTES
_FREE_NBYTES = 1024 * 1024  # files up to this size may have any ratio
_INFLATED_NBYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """Upper limits for the content of an archive.

    Attributes:
        entries: number of files and folders.
        nbytes: size of all files together, unpacked.
        ratio: bytes unpacked per byte packed, of each file and of all together.
        directory_nbytes: size of the central directory, which is read as a whole.
    """

    entries: int = 100_001
    nbytes: int = 1 << 40
    ratio: int = 100
    directory_nbytes: int = 64 * 1024 * 1024


DEFAULT_LIMITS = ArchiveLimits()


class Seekable(Protocol):
    """Stream that a directory is read from."""

    def seek(self, offset: int, /) -> int:
        """Go to a byte offset and return it."""

    def read(self, nbytes: int, /) -> bytes:
        """Return the next bytes: at most ``nbytes``, fewer at the end of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveMember:
    """Position and size of one file's data in an archive.

    Attributes:
        name: the file's path in the package.
        start: offset of the first byte of its data.
        packed_nbytes: size of the data in the archive.
        nbytes: size of the file.
        is_deflated: True if the data is compressed.
    """

    name: str
    start: int
    packed_nbytes: int
    nbytes: int
    is_deflated: bool


def read_members(
    stream: Seekable, file_nbytes: int, *, where: str, limits: ArchiveLimits = DEFAULT_LIMITS
) -> tuple[ArchiveMember, ...]:
    """Return the files of an archive in file order, from its central directory alone.

    Local headers are not read: compare the data with a digest.

    Args:
        stream: the archive.
        file_nbytes: its size.
        where: name of the archive, for messages.
        limits: of the archive.

    Raises:
        ArchiveError: the directory contradicts itself, entries overlap, or a limit is exceeded.
    """
    try:
        entries, end = read_directory(stream, file_nbytes, limits)
        ordered = sorted(entries, key=lambda entry: entry.offset)
        ends = [*(entry.offset for entry in ordered[1:]), end]
        for entry, entry_end in zip(ordered, ends, strict=True):
            least = LOCAL_NBYTES + len(entry.name.encode()) + entry.compressed_nbytes
            if entry.offset + least > entry_end:
                raise ZipFormatError(f"entry {quoted(entry.name)} overlaps what follows it")
    except ZipFormatError as error:
        raise ArchiveError(f"{quoted(where)} {error}") from None
    return tuple(
        ArchiveMember(
            name=entry.name,
            start=entry_end - entry.compressed_nbytes,
            packed_nbytes=entry.compressed_nbytes,
            nbytes=entry.nbytes,
            is_deflated=entry.method == DEFLATED,
        )
        for entry, entry_end in zip(ordered, ends, strict=True)
        if not entry.is_folder
    )


def unpacked(member: ArchiveMember, packed: Iterable[bytes], *, where: str) -> Iterator[bytes]:
    """Yield the content of a member, in bounded pieces, from its ``packed`` data.

    The content is not compared with a digest.

    Raises:
        ArchiveError: the data cannot be inflated.
    """
    if not member.is_deflated:
        yield from packed
        return
    try:
        yield from inflated(packed)
    except (ZipFormatError, zlib.error) as error:
        raise ArchiveError(f"{quoted(where)}: entry {quoted(member.name)} {error}") from None


def inflated(packed: Iterable[bytes]) -> Iterator[bytes]:
    """Inflate raw deflate data in bounded pieces.

    Raises:
        ZipFormatError: the data is incomplete, or bytes follow its end.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in packed:
        data = piece
        while data:
            if chunk := inflater.decompress(data, _INFLATED_NBYTES):
                yield chunk
            data = inflater.unconsumed_tail
            if inflater.eof and (data or inflater.unused_data):
                raise ZipFormatError("has foreign bytes after its data")
    while not inflater.eof:
        chunk = inflater.decompress(b"", _INFLATED_NBYTES)
        if not chunk:
            raise ZipFormatError("has data that do not end")
        yield chunk


def read_directory(
    stream: Seekable, file_nbytes: int, limits: ArchiveLimits
) -> tuple[list[EntryHeader], int]:
    """Return the header of every entry and the offset of the central directory.

    Raises:
        ZipFormatError: the directory is damaged, a name is not portable, or a limit is exceeded.
    """
    tail_nbytes = min(file_nbytes, _TAIL_NBYTES)
    end = parse_end(read_at(stream, file_nbytes - tail_nbytes, tail_nbytes), file_nbytes)
    if end.count > limits.entries:
        raise ZipFormatError(f"has {end.count} entries; at most {limits.entries} are read")
    if end.nbytes > limits.directory_nbytes:
        raise ZipFormatError(f"has a directory of more than {limits.directory_nbytes} bytes")
    entries = list(parse_central(read_at(stream, end.offset, end.nbytes), end.count))
    _check_names(entries)
    _check_sizes(entries, file_nbytes, limits)
    return entries, end.offset


def read_at(stream: Seekable, offset: int, nbytes: int) -> bytes:
    """Return exactly ``nbytes`` bytes at ``offset``; ZipFormatError if the stream is shorter."""
    stream.seek(offset)
    data = stream.read(nbytes)
    if len(data) != nbytes:
        raise ZipFormatError("is truncated")
    return data


def _check_names(entries: list[EntryHeader]) -> None:
    for entry in entries:
        if reason := why_not_portable_file(
            entry.name.removesuffix("/") if entry.is_folder else entry.name
        ):
            raise ZipFormatError(f"entry {quoted(entry.name)} {reason}")
    if collision := find_collision(entry.name for entry in entries):
        first, second = map(quoted, collision)
        raise ZipFormatError(
            f"entries {first} and {second} are the same file on some systems, or file and folder"
        )
    folders = [entry.name for entry in entries if entry.is_folder]
    if len(set(folders)) < len(folders):
        raise ZipFormatError("has an entry for a folder twice")


def _check_sizes(entries: list[EntryHeader], file_nbytes: int, limits: ArchiveLimits) -> None:
    for entry in entries:
        if entry.nbytes > max(_FREE_NBYTES, entry.compressed_nbytes * limits.ratio):
            raise ZipFormatError(
                f"entry {quoted(entry.name)} would grow from {entry.compressed_nbytes} to"
                f" {entry.nbytes} bytes, more than {limits.ratio} times as many"
            )
    total = sum(entry.nbytes for entry in entries)
    if total > limits.nbytes:
        raise ZipFormatError(f"would grow to {total} bytes; at most {limits.nbytes} are unpacked")
    if total > max(_FREE_NBYTES, file_nbytes * limits.ratio):
        raise ZipFormatError(
            f"would grow from {file_nbytes} to {total} bytes, more than {limits.ratio} times as"
            " many"
        )
