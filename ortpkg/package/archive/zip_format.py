"""Records of the zip format as bytes: write them in one form, read only the unambiguous ones.

Source: PKWARE's APPNOTE.TXT 6.3.10; comments name its sections. The extra field 0xD935 (alignment)
is that of Android's zipalign. Nothing here reads a file; ``archive_reader.py`` checks offsets and
lengths.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.foundations.errors import quoted

STORED, DEFLATED = 0, 8
UTF8_NAME = 0x0800
_DEFLATE_LEVEL = 0x0006

_LOCAL = struct.Struct("<IHHHHHIIIHH")  # 4.3.7
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")  # 4.3.12
_END = struct.Struct("<IHHHHIIH")  # 4.3.16
_ZIP64_END = struct.Struct("<IQHHIIQQQQ")  # 4.3.14
_ZIP64_LOCATOR = struct.Struct("<IIQI")  # 4.3.15
LOCAL_NBYTES, CENTRAL_NBYTES, END_NBYTES = _LOCAL.size, _CENTRAL.size, _END.size
ZIP64_END_NBYTES, ZIP64_LOCATOR_NBYTES = _ZIP64_END.size, _ZIP64_LOCATOR.size

_LOCAL_SIGNATURE = 0x04034B50
_CENTRAL_SIGNATURE = 0x02014B50
_END_SIGNATURE = 0x06054B50
_ZIP64_END_SIGNATURE = 0x06064B50
_ZIP64_LOCATOR_SIGNATURE = 0x07064B50

_MOST_16, _MOST_32 = 0xFFFF, 0xFFFFFFFF
_VERSION, _ZIP64_VERSION = 20, 45
_UNIX = 3 << 8
_FILE_ATTRIBUTES = (stat.S_IFREG | 0o644) << 16
_DOS_DIRECTORY = 0x10
_FIRST_OF_1980 = (
    0x0021  # the earliest date that a zip file can state, so the same for every package
)

_ZIP64_EXTRA = 0x0001  # 4.5.3
_ALIGNMENT_EXTRA = 0xD935
#: Extra fields that give an entry another name, other bytes or another way to read them.
_REFUSED_EXTRAS = {
    0x7075: "another name (Unicode path)",
    0x6375: "another comment",
    0x9901: "encryption",
    0x0017: "encryption",
    0x0008: "another file list",
}
_FLAGS = {
    0x0001: "is encrypted",
    0x0008: "states its size after its data",
    0x0020: "is a patch",
    0x0040: "is encrypted",
    0x2000: "hides its header",
}

ALIGNMENT_NBYTES = 16 * 1024
"""Alignment of the data of large files, so that it can be mapped.

It is a multiple of the page size of every common machine.
"""
LEAST_ALIGNED_NBYTES = 64 * 1024


class ZipFormatError(ValueError):
    """A record without a meaning, or with more than one; the message names the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryHeader:
    """Fields that the local and the central header of an entry share.

    Attributes:
        name: the name as stored; a folder's ends with ``/``.
        crc32, compressed_nbytes, nbytes: of the data.
        offset: of the local header.
        is_folder: True for a folder.
    """

    name: str
    method: int = STORED
    crc32: int = 0
    compressed_nbytes: int = 0
    nbytes: int = 0
    offset: int = 0
    flags: int = UTF8_NAME
    is_folder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryExtent:
    """Offset and size of the central directory, and the number of its entries."""

    offset: int
    nbytes: int
    count: int


# --- writing --------------------------------------------------------------------------------------


def dump_local(entry: EntryHeader) -> bytes:
    """Return the local header of a stored file, padded so that data of large files is aligned."""
    name = entry.name.encode()
    extra = b""
    nbytes = entry.nbytes
    if nbytes >= _MOST_32:
        extra = struct.pack("<HHQQ", _ZIP64_EXTRA, 16, nbytes, nbytes)
    if nbytes >= LEAST_ALIGNED_NBYTES:
        start = entry.offset + LOCAL_NBYTES + len(name) + len(extra) + 6
        padding = -start % ALIGNMENT_NBYTES
        extra += struct.pack("<HHH", _ALIGNMENT_EXTRA, 2 + padding, ALIGNMENT_NBYTES) + bytes(
            padding
        )
    version = _ZIP64_VERSION if nbytes >= _MOST_32 else _VERSION
    size = min(nbytes, _MOST_32)
    fixed = (
        _LOCAL_SIGNATURE,
        version,
        UTF8_NAME,
        STORED,
        0,
        _FIRST_OF_1980,
        entry.crc32,
        size,
        size,
    )
    return _LOCAL.pack(*fixed, len(name), len(extra)) + name + extra


def dump_central(entry: EntryHeader) -> bytes:
    """Return the central header of a stored file."""
    name = entry.name.encode()
    sizes = [entry.nbytes, entry.nbytes] if entry.nbytes >= _MOST_32 else []
    large = [*sizes, *([entry.offset] if entry.offset >= _MOST_32 else [])]
    extra = struct.pack(f"<HH{len(large)}Q", _ZIP64_EXTRA, 8 * len(large), *large) if large else b""
    version = _ZIP64_VERSION if large else _VERSION
    size = min(entry.nbytes, _MOST_32)
    fixed = (_CENTRAL_SIGNATURE, _UNIX | version, version, UTF8_NAME, STORED, 0, _FIRST_OF_1980)
    position = (0, 0, 0, _FILE_ATTRIBUTES, min(entry.offset, _MOST_32))
    return (
        _CENTRAL.pack(*fixed, entry.crc32, size, size, len(name), len(extra), *position)
        + name
        + extra
    )


def dump_end(directory: DirectoryExtent) -> bytes:
    """Return the end records, with the 64-bit ones if a value needs more than its field."""
    count, nbytes, offset = directory.count, directory.nbytes, directory.offset
    end = b""
    if count >= _MOST_16 or nbytes >= _MOST_32 or offset >= _MOST_32:
        fixed = (
            _ZIP64_END_SIGNATURE,
            ZIP64_END_NBYTES - 12,
            _UNIX | _ZIP64_VERSION,
            _ZIP64_VERSION,
            0,
            0,
        )
        end += _ZIP64_END.pack(*fixed, count, count, nbytes, offset)
        end += _ZIP64_LOCATOR.pack(_ZIP64_LOCATOR_SIGNATURE, 0, offset + nbytes, 1)
    count, nbytes, offset = min(count, _MOST_16), min(nbytes, _MOST_32), min(offset, _MOST_32)
    return end + _END.pack(_END_SIGNATURE, 0, 0, count, count, nbytes, offset, 0)


# --- reading --------------------------------------------------------------------------------------


def parse_end(tail: bytes, file_nbytes: int) -> DirectoryExtent:
    """Return the extent of the central directory from ``tail``, the last bytes of the file.

    ``tail`` holds 98 bytes, or the whole of a shorter file. The records must be the very last bytes
    and agree, so that no other reader finds another directory.

    Raises:
        ZipFormatError: the end records are missing, damaged or contradict each other.
    """
    if len(tail) < END_NBYTES:
        raise ZipFormatError("is too short to be an archive")
    signature, disk, first_disk, count_here, count, nbytes, offset, comment = _END.unpack(
        tail[-END_NBYTES:]
    )
    if signature != _END_SIGNATURE or comment:
        raise ZipFormatError(
            "does not end with the end of an archive: truncated, or something follows it"
        )
    if disk or first_disk or count_here != count:
        raise ZipFormatError("is a part of an archive of several files")
    directory = DirectoryExtent(offset=offset, nbytes=nbytes, count=count)
    end_offset = file_nbytes - END_NBYTES
    locator = tail[-END_NBYTES - ZIP64_LOCATOR_NBYTES : -END_NBYTES]
    if locator[:4] == struct.pack("<I", _ZIP64_LOCATOR_SIGNATURE):
        end_offset -= ZIP64_LOCATOR_NBYTES + ZIP64_END_NBYTES
        directory = _parse_zip64_end(tail, locator, end_offset, directory)
    elif count == _MOST_16 or _MOST_32 in (nbytes, offset):
        raise ZipFormatError("lacks the 64-bit record that its last record refers to")
    if directory.offset + directory.nbytes != end_offset:
        raise ZipFormatError("has bytes between its directory and its end, or before its beginning")
    return directory


def _parse_zip64_end(
    tail: bytes, locator: bytes, end_offset: int, short: DirectoryExtent
) -> DirectoryExtent:
    record = tail[
        -END_NBYTES - ZIP64_LOCATOR_NBYTES - ZIP64_END_NBYTES : -END_NBYTES - ZIP64_LOCATOR_NBYTES
    ]
    _, disk, record_offset, disks = _ZIP64_LOCATOR.unpack(locator)
    if disk or disks != 1 or record_offset != end_offset or len(record) < ZIP64_END_NBYTES:
        raise ZipFormatError("has a 64-bit end record in another place than right before its end")
    signature, size, _, _, disk, first_disk, count_here, count, nbytes, offset = _ZIP64_END.unpack(
        record
    )
    if signature != _ZIP64_END_SIGNATURE or size != ZIP64_END_NBYTES - 12:
        raise ZipFormatError("has a damaged 64-bit end record")
    if disk or first_disk or count_here != count:
        raise ZipFormatError("is a part of an archive of several files")
    for full, shortened, most in (
        (count, short.count, _MOST_16),
        (nbytes, short.nbytes, _MOST_32),
        (offset, short.offset, _MOST_32),
    ):
        if shortened not in (full, most):
            raise ZipFormatError("has two end records that differ")
    return DirectoryExtent(offset=offset, nbytes=nbytes, count=count)


def parse_central(directory: bytes, count: int) -> Iterator[EntryHeader]:
    """Yield the entries of a central directory, which must fill it exactly."""
    position = 0
    for _ in range(count):
        fixed = directory[position : position + CENTRAL_NBYTES]
        if len(fixed) < CENTRAL_NBYTES or fixed[:4] != struct.pack("<I", _CENTRAL_SIGNATURE):
            raise ZipFormatError("has a damaged directory")
        (_, _, _, flags, method, _, _, crc32, compressed, nbytes, name_nbytes, extra_nbytes,
         comment_nbytes, disk, _, attributes, offset) = _CENTRAL.unpack(fixed)  # fmt: skip
        body = directory[
            position + CENTRAL_NBYTES : position + CENTRAL_NBYTES + name_nbytes + extra_nbytes
        ]
        if len(body) < name_nbytes + extra_nbytes:
            raise ZipFormatError("has a damaged directory")
        name = parse_name(body[:name_nbytes], flags)
        try:
            if comment_nbytes or disk:
                raise ZipFormatError("has a comment or is on another disk")
            size, packed, start = _full_sizes(body[name_nbytes:], (nbytes, compressed, offset))
            entry = EntryHeader(
                name=name,
                method=method,
                crc32=crc32,
                compressed_nbytes=packed,
                nbytes=size,
                offset=start,
                flags=flags,
                is_folder=name.endswith("/"),
            )
            _check_kind(entry, attributes)
        except ZipFormatError as error:
            raise ZipFormatError(f"entry {quoted(name)} {error}") from None
        yield entry
        position += CENTRAL_NBYTES + name_nbytes + extra_nbytes
    if position != len(directory):
        raise ZipFormatError("has more in its directory than it says")


def local_variable_nbytes(fixed: bytes) -> tuple[int, int]:
    """Return the lengths of name and extra fields behind the 30 fixed bytes of a local header."""
    if len(fixed) < LOCAL_NBYTES or fixed[:4] != struct.pack("<I", _LOCAL_SIGNATURE):
        raise ZipFormatError("has no header where the directory says")
    *_, name_nbytes, extra_nbytes = _LOCAL.unpack(fixed)
    return name_nbytes, extra_nbytes


def check_local(entry: EntryHeader, fixed: bytes, name: bytes, extra: bytes) -> None:
    """Check that a local header agrees with the central one; readers use either."""
    _, _, flags, method, _, _, crc32, compressed, nbytes, _, _ = _LOCAL.unpack(fixed)
    sizes = _full_sizes(extra, (nbytes, compressed))
    ours = (flags, method, crc32, sizes[0], sizes[1], name)
    theirs = (
        entry.flags,
        entry.method,
        entry.crc32,
        entry.nbytes,
        entry.compressed_nbytes,
        entry.name.encode(),
    )
    if ours != theirs:
        raise ZipFormatError("has two headers that differ")


def parse_name(raw: bytes, flags: int) -> str:
    """Decode a name: UTF-8 if the flag says so, otherwise ASCII, on which all readers agree."""
    try:
        return raw.decode("utf-8" if flags & UTF8_NAME else "ascii")
    except UnicodeDecodeError:
        raise ZipFormatError(
            f"has an entry whose name is not marked as UTF-8 or is none: {quoted(raw)}"
        ) from None


def _check_kind(entry: EntryHeader, attributes: int) -> None:
    for flag, meaning in _FLAGS.items():
        if entry.flags & flag:
            raise ZipFormatError(meaning)
    if entry.flags & ~(UTF8_NAME | _DEFLATE_LEVEL):
        raise ZipFormatError(f"has unknown flags ({entry.flags:#06x})")
    if entry.method not in (STORED, DEFLATED):
        raise ZipFormatError(
            f"is compressed by method {entry.method}; stored and deflated are read"
        )
    if entry.method == STORED and entry.compressed_nbytes != entry.nbytes:
        raise ZipFormatError("is stored, but has two sizes")
    # checked for every "made by" system: some readers look at nothing else
    kind = stat.S_IFMT(attributes >> 16)
    if kind not in (0, stat.S_IFDIR if entry.is_folder else stat.S_IFREG):
        raise ZipFormatError("is a link, a device or something else that is no plain file")
    if entry.is_folder and entry.nbytes:
        raise ZipFormatError("is a folder with data")
    if attributes & _DOS_DIRECTORY and not entry.is_folder:
        raise ZipFormatError("is a file by its name and a folder by its attributes")


def _full_sizes(extra: bytes, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``sizes`` with those beyond 32 bits taken from the 64-bit extra field (4.5.3).

    The field must then exist and hold exactly these values.
    """
    fields = dict(_parse_extra(extra))
    wanted = [index for index, size in enumerate(sizes) if size == _MOST_32]
    values = fields.get(_ZIP64_EXTRA)
    if values is None:
        if wanted:
            raise ZipFormatError("lacks the 64-bit sizes that it refers to")
        return sizes
    if len(values) != 8 * len(wanted):
        raise ZipFormatError("has 64-bit sizes beside others")
    full = list(sizes)
    for index, value in zip(wanted, struct.unpack(f"<{len(wanted)}Q", values), strict=True):
        full[index] = value
    return tuple(full)


def _parse_extra(extra: bytes) -> Iterator[tuple[int, bytes]]:
    position, numbers = 0, set()
    while position < len(extra):
        if position + 4 > len(extra):
            raise ZipFormatError("has a damaged extra field")
        number, nbytes = struct.unpack_from("<HH", extra, position)
        end = position + 4 + nbytes
        if end > len(extra) or number in numbers:
            raise ZipFormatError("has a damaged or repeated extra field")
        if number in _REFUSED_EXTRAS:
            raise ZipFormatError(f"has an extra field with {_REFUSED_EXTRAS[number]}")
        numbers.add(number)
        yield number, extra[position + 4 : end]
        position = end
