"""Zip files built field by field, wrong ones too.

Shares no code with ortpkg's own writer and reader.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RawEntry:
    """One entry.

    What is None follows from the data; ``local_*`` is what the local header says instead.
    """

    name: bytes
    data: bytes = b""
    method: int = 0
    flags: int = 0x0800
    crc32: int | None = None
    compressed_nbytes: int | None = None
    nbytes: int | None = None
    attributes: int = 0o100644 << 16
    extra: bytes = b""
    comment: bytes = b""
    disk: int = 0
    offset: int | None = None
    before: bytes = b""
    local_name: bytes | None = None
    local_extra: bytes = b""
    local: dict[str, int] = field(default_factory=dict)

    @property
    def stored(self) -> bytes:
        return deflate(self.data) if self.method == 8 else self.data

    def fields(self) -> dict[str, int]:
        return {
            "flags": self.flags,
            "method": self.method,
            "crc32": zlib.crc32(self.data) if self.crc32 is None else self.crc32,
            "compressed_nbytes": len(self.stored)
            if self.compressed_nbytes is None
            else self.compressed_nbytes,
            "nbytes": len(self.data) if self.nbytes is None else self.nbytes,
        }


def deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


def raw_zip(
    entries: Sequence[RawEntry],
    *,
    prefix: bytes = b"",
    before_directory: bytes = b"",
    after_directory: bytes = b"",
    comment: bytes = b"",
    trailer: bytes = b"",
    **end: int,
) -> bytes:
    """The bytes of an archive.

    ``end`` overrides fields of its last record (count, count_here, disk, ...).
    """
    archive = bytearray(prefix)
    directory = bytearray()
    for entry in entries:
        archive += entry.before
        offset = len(archive) if entry.offset is None else entry.offset
        archive += _local(entry) + entry.stored
        directory += _central(entry, offset)
    archive += before_directory
    values: dict[str, Any] = {
        "disk": 0,
        "first_disk": 0,
        "count_here": len(entries),
        "count": len(entries),
    }
    values |= {"nbytes": len(directory), "offset": len(archive)} | end
    archive += directory + after_directory
    archive += struct.pack(
        "<IHHHHIIH",
        0x06054B50,
        *(
            values[name]
            for name in ("disk", "first_disk", "count_here", "count", "nbytes", "offset")
        ),
        len(comment),
    )
    return bytes(archive + comment + trailer)


def zip64_end(
    count: int, nbytes: int, offset: int, *, place: int | None = None, size: int = 44
) -> bytes:
    """The 64-bit end record and its locator, which says that the record is at ``place``."""
    record = struct.pack(
        "<IQHHIIQQQQ", 0x06064B50, size, 45, 45, 0, 0, count, count, nbytes, offset
    )
    return record + struct.pack(
        "<IIQI", 0x07064B50, 0, offset + nbytes if place is None else place, 1
    )


def changed(entry: RawEntry, **values: Any) -> RawEntry:
    return replace(entry, **values)


def _local(entry: RawEntry) -> bytes:
    name = entry.name if entry.local_name is None else entry.local_name
    values = entry.fields() | entry.local
    head = struct.pack("<IHHHHH", 0x04034B50, 20, values["flags"], values["method"], 0, 33)
    sizes = struct.pack("<III", values["crc32"], values["compressed_nbytes"], values["nbytes"])
    return (
        head
        + sizes
        + struct.pack("<HH", len(name), len(entry.local_extra))
        + name
        + entry.local_extra
    )


def _central(entry: RawEntry, offset: int) -> bytes:
    values = entry.fields()
    head = struct.pack(
        "<IHHHHHH", 0x02014B50, 3 << 8 | 20, 20, values["flags"], values["method"], 0, 33
    )
    sizes = struct.pack("<III", values["crc32"], values["compressed_nbytes"], values["nbytes"])
    lengths = struct.pack(
        "<HHHHH", len(entry.name), len(entry.extra), len(entry.comment), entry.disk, 0
    )
    return (
        head
        + sizes
        + lengths
        + struct.pack("<II", entry.attributes, offset)
        + entry.name
        + entry.extra
        + entry.comment
    )
