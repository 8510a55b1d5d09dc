"""The documents of a package as one small layer, by which machines decide what else they want.

It is all that selection, verification and signatures need, in one piece.

A tar archive in a gzip frame. The same documents give the same bytes on every machine: entries are
sorted, have no times and no owners, and gzip only frames them (stored blocks), since compressors
differ from one version of zlib to the next.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Self

from ortpkg.errors import ArtifactFormatError, PackageError, PackageFormatError, quoted
from ortpkg.package.document_names import COMPONENT, MANIFEST, METADATA
from ortpkg.package.integrity.digests import check_recordable
from ortpkg.package.paths.path_text import why_not_portable
from ortpkg.package.sidecar import DIGESTS_FILE, PIPELINE, SAMPLES

#: Documents that readers of packages look for, however large; any other JSON up to a limit.
_DOCUMENT_NAMES = frozenset({MANIFEST, METADATA, COMPONENT})
_MOST_OTHER_NBYTES = 64 * 1024
MOST_DOCUMENTS = 100_000
MOST_NBYTES = 256 * 1024 * 1024
"""Of all documents together, unpacked; more is refused on both ways."""

_MOST_EXTENSION_NBYTES = 64 * 1024
_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # deflate, no name, no time, unknown system
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_CHUNK_NBYTES = 1024 * 1024


def is_document(path: str, nbytes: int) -> bool:
    """Whether the file of a package at ``path`` travels in the layer of documents."""
    name = path.rpartition("/")[2]
    if path in (DIGESTS_FILE, PIPELINE, SAMPLES) or name in _DOCUMENT_NAMES:
        return True
    return name.endswith(".json") and nbytes <= _MOST_OTHER_NBYTES


def pack_documents(documents: Mapping[str, bytes]) -> bytes:
    """The layer that holds ``documents``: path in the package → content.

    PackageError where they are more than a layer may hold.
    """
    if len(documents) > MOST_DOCUMENTS or sum(map(len, documents.values())) > MOST_NBYTES:
        raise PackageError(
            f"the package has more than {MOST_DOCUMENTS} documents, or {MOST_NBYTES >> 20} MiB of"
            " them: no registry is sent that much before the first choice"
        )
    tar = tar_of(documents)
    compressor = zlib.compressobj(0, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = compressor.compress(tar) + compressor.flush()
    return _GZIP_HEADER + body + struct.pack("<II", zlib.crc32(tar), len(tar) & 0xFFFFFFFF)


def tar_of(documents: Mapping[str, bytes]) -> bytes:
    """The archive inside of the layer, whose digest the artifact's config has (diffIds)."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(documents, key=str.encode):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(documents[path]), 0o644
            archive.addfile(entry, io.BytesIO(documents[path]))
    return target.getvalue()


def unpack_documents(layer: BinaryIO, *, registry: str, digest: str) -> dict[str, bytes]:
    """The documents in a layer of a stranger: path → content.

    ArtifactFormatError for anything but plain files with plain relative names, each once, within
    the limits, whatever the layer's headers say.
    """
    documents: dict[str, bytes] = {}
    taken: set[str] = set()
    try:
        with tarfile.open(fileobj=_Inflated(layer), mode="r|", tarinfo=_Header) as archive:
            for entry in archive:
                if entry.isdir():
                    continue
                _check_entry(entry, taken, len(documents))
                content = archive.extractfile(entry)
                assert content is not None  # a regular file
                documents[entry.name] = content.read()
    except _WrongLayerError as error:
        raise _refused(registry, digest, str(error)) from error
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError) as error:
        what = f"is not a tar archive in a gzip frame ({quoted(error)})"
        raise _refused(registry, digest, what) from error
    return documents


def _check_entry(entry: tarfile.TarInfo, taken: set[str], count: int) -> None:
    if not entry.isreg() or entry.issparse():  # a sparse one is as large as it says
        raise _WrongLayerError(f"holds {quoted(entry.name)}, which is not a plain file")
    if count >= MOST_DOCUMENTS:
        raise _WrongLayerError(f"holds more than {MOST_DOCUMENTS} documents")
    try:
        check_recordable(Path(), [entry.name])
        reason = why_not_portable(entry.name)
    except PackageFormatError:
        reason = "is not a plain relative path"
    if reason:
        raise _WrongLayerError(f"holds {quoted(entry.name)}, which {reason}")
    if (key := entry.name.casefold()) in taken:
        raise _WrongLayerError(f"holds {quoted(entry.name)} twice")
    taken.add(key)


class _Header(tarfile.TarInfo):
    """The header of an entry; what extends it is read whole, and so refused where that is much."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENSIONS and found.size > _MOST_EXTENSION_NBYTES:
            raise _WrongLayerError(
                f"extends the header of an entry by {found.size} bytes; at most"
                f" {_MOST_EXTENSION_NBYTES} are read"
            )
        return found


class _WrongLayerError(Exception):
    """What is wrong with a layer, as the end of a sentence."""


class _Inflated(io.RawIOBase):
    """What a gzip frame holds, piece by piece, at most MOST_NBYTES and what an archive adds."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._chunks = self._inflate()
        self._left = b""
        self._nbytes = 0

    def readable(self) -> bool:
        return True

    def read(self, nbytes: int = -1) -> bytes:
        wanted = nbytes if nbytes >= 0 else 2 * MOST_NBYTES
        parts, have = [self._left], len(self._left)
        while have < wanted and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            have += len(chunk)
        content = b"".join(parts)
        self._left = content[wanted:]
        return content[:wanted]

    def _inflate(self) -> Iterator[bytes]:
        decompressor = zlib.decompressobj(_GZIP_WBITS)
        while packed := self._source.read(_CHUNK_NBYTES):
            while packed and not decompressor.eof:
                content = decompressor.decompress(packed, _CHUNK_NBYTES)
                packed = decompressor.unconsumed_tail
                self._nbytes += len(content)
                # Each entry may take two blocks of headers and what fills its last block.
                if self._nbytes > MOST_NBYTES + 4096 * MOST_DOCUMENTS:
                    raise _WrongLayerError(f"holds more than {MOST_NBYTES >> 20} MiB of documents")
                if content:
                    yield content
        if not decompressor.eof:
            raise EOFError("it ends in the middle")


def _refused(registry: str, digest: str, what: str) -> ArtifactFormatError:
    return ArtifactFormatError(
        f"the layer of documents {digest} of {registry} {what}", registry=registry, layer=digest
    )
