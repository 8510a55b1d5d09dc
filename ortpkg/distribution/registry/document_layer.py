"""Layer that holds all documents of a package: enough for selection, verification and signatures.

A machine downloads this small layer first and decides by it which other layers it needs.

The layer is a tar archive in a gzip frame. Equal documents give equal bytes on every machine:
entries are sorted and have no times and owners, and the gzip frame holds stored blocks, because
compressed output differs between versions of zlib.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Self

from ortpkg.foundations.errors import ArtifactFormatError, PackageError, PackageFormatError, quoted
from ortpkg.package.document_names import COMPONENT, MANIFEST, METADATA
from ortpkg.package.integrity.digests import check_recordable
from ortpkg.package.paths.path_text import why_not_portable
from ortpkg.package.sidecar import DIGESTS_FILE, PIPELINE, SAMPLES

#: Documents that readers of packages look for, of any size; other JSON files up to a limit.
_DOCUMENT_NAMES = frozenset({MANIFEST, METADATA, COMPONENT})
_MOST_OTHER_NBYTES = 64 * 1024
MOST_DOCUMENTS = 100_000
MOST_NBYTES = 256 * 1024 * 1024
"""Largest size of all documents together, unpacked, for packing and unpacking."""

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
    """Return True if the file at ``path`` in a package belongs to the layer of documents."""
    name = path.rpartition("/")[2]
    if path in (DIGESTS_FILE, PIPELINE, SAMPLES) or name in _DOCUMENT_NAMES:
        return True
    return name.endswith(".json") and nbytes <= _MOST_OTHER_NBYTES


def pack_documents(documents: Mapping[str, bytes]) -> bytes:
    """Return the layer that holds ``documents``, which maps paths in the package to contents.

    Raises:
        PackageError: The documents exceed the limits of a layer.
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
    """Return the tar archive inside the layer; its digest is in the artifact's config (diffIds)."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(documents, key=str.encode):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(documents[path]), 0o644
            archive.addfile(entry, io.BytesIO(documents[path]))
    return target.getvalue()


def unpack_documents(layer: BinaryIO, *, registry: str, digest: str) -> dict[str, bytes]:
    """Return the documents of an untrusted layer, by path.

    Raises:
        ArtifactFormatError: The layer contains something other than plain files with plain relative
            names, a name twice, or more than the limits allow, whatever its headers say.
    """
    documents: dict[str, bytes] = {}
    names: set[str] = set()
    try:
        with tarfile.open(fileobj=_Inflated(layer), mode="r|", tarinfo=_Header) as archive:
            for entry in archive:
                if entry.isdir():
                    continue
                _check_entry(entry, names, len(documents))
                content = archive.extractfile(entry)
                assert content is not None  # a regular file
                documents[entry.name] = content.read()
    except _WrongLayerError as error:
        raise _refused(registry, digest, str(error)) from error
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError) as error:
        what = f"is not a tar archive in a gzip frame ({quoted(error)})"
        raise _refused(registry, digest, what) from error
    return documents


def _check_entry(entry: tarfile.TarInfo, names: set[str], count: int) -> None:
    if not entry.isreg() or entry.issparse():  # a sparse file can be any size
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
    if (key := entry.name.casefold()) in names:
        raise _WrongLayerError(f"holds {quoted(entry.name)} twice")
    names.add(key)


class _Header(tarfile.TarInfo):
    """Header of an entry; an extended header is read whole, so a large one is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type in _EXTENSIONS and header.size > _MOST_EXTENSION_NBYTES:
            raise _WrongLayerError(
                f"extends the header of an entry by {header.size} bytes; at most"
                f" {_MOST_EXTENSION_NBYTES} are read"
            )
        return header


class _WrongLayerError(Exception):
    """Problem of a layer, as the end of a sentence."""


class _Inflated(io.RawIOBase):
    """Content of a gzip frame, read in pieces up to MOST_NBYTES and the overhead of the archive."""

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
                # Each entry may need two header blocks and the padding of its last block.
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
