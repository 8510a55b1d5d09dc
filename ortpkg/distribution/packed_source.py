"""Remote packed package (``name.ortpkg``), of which only the needed parts are read.

First its directory and documents are read, then requested files. The reader compares each file with
``digests.json``, which is one of the documents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.downloaded_file import in_parts
from ortpkg.distribution.opened_documents import opened_documents
from ortpkg.distribution.package_artifact import artifact_of_documents
from ortpkg.distribution.registry.artifact import dump_artifact
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.document_layer import MOST_DOCUMENTS, MOST_NBYTES, is_document
from ortpkg.distribution.registry.remote_file import RemoteFile
from ortpkg.distribution.registry.remote_opening import open_remote_file
from ortpkg.distribution.registry.repository import RangeNotSupportedError
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import (
    ArchiveError,
    ArtifactFormatError,
    OrtpkgError,
    PackageFormatError,
    quoted,
)
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.archive.archive_directory import ArchiveMember, read_members, unpacked
from ortpkg.package.integrity.digests import PackageDigests, parse_digests
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.references.url_references import ARCHIVE_SUFFIX, UrlReference
from ortpkg.package.sidecar import DIGESTS_FILE, is_signature_file
from ortpkg.package.trust.signing.openssf_signature import FoundSignature
from ortpkg.package.trust.signing.signature_files import MOST_SIGNATURES

#: Size of the end of the file, which has the directory and before it digests.json.
_TAIL_NBYTES = 32 * 1024
#: Largest gap between two documents that are read with one request.
_MOST_GAP_NBYTES = 16 * 1024
_MOST_SPAN_NBYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPackage:
    """Remote packed package.

    Attributes:
        file: The file.
        version: Version of the package, or "".
        manifest: Manifest of its artifact; folders decide which variants need a file.
        contents: Contents of the layers that are not files in it, by digest.
        members: Position of its files, by digest.
        signatures: Its signatures, which are not files of the package.
    """

    file: RemoteFile
    version: str
    manifest: bytes
    contents: Mapping[str, bytes]
    members: Mapping[str, ArchiveMember]
    signatures: tuple[ArchiveMember, ...]

    def read_signatures(self, most_nbytes: int) -> tuple[FoundSignature, ...]:
        """Return the signatures of at most ``most_nbytes``.

        Raises:
            ArtifactFormatError: A signature is damaged.
        """
        signatures = []
        for member in self.signatures:
            if max(member.nbytes, member.packed_nbytes) > most_nbytes:
                continue
            with self.file.read(member.start, member.start + member.packed_nbytes) as packed:
                try:
                    content = _whole(member, b"".join(packed))
                except ArchiveError as error:
                    raise _wrong(self.file, error, member.name) from error
            where = f"{member.name} of {self.file.where}"
            signatures.append(FoundSignature(where=where, content=content))
        return tuple(signatures)

    @contextlib.contextmanager
    def read(self, layer: Descriptor, offset: int) -> Iterator[Iterator[bytes]]:
        """Yield a layer's bytes from ``offset`` on."""
        if layer.digest in self.contents:
            yield iter([self.contents[layer.digest][offset:]])
            return
        member = self.members[layer.digest]
        if member.is_deflated and offset:
            raise RangeNotSupportedError(f"{member.name} is compressed")
        end = member.start + member.packed_nbytes
        with self.file.read(member.start + offset, end) as packed:
            yield _unpacked(member, packed, self.file)


@contextlib.contextmanager
def opened_packed_package(
    reference: UrlReference, store: PackageStore, progress: Progress | None
) -> Iterator[PackedPackage]:
    """Open the packed package at an address.

    If its server does not send parts, the whole file is on the store's disk in this context.

    Raises:
        ArtifactFormatError: It is not a packed package, or its digests.json is missing or wrong.
        RegistryError: The server failed.
        UsageError: The library that reads the address is not installed.
    """
    with in_parts(open_remote_file(reference), store, progress) as file:
        try:
            packed = _package_in(file, _folder_of(reference))
        except (ArchiveError, PackageFormatError) as error:
            raise _wrong(file, error) from error
        yield packed


def _package_in(file: RemoteFile, folder: str) -> PackedPackage:
    tail = _Tail(file)
    archive_members = list(read_members(tail, tail.nbytes, where=file.where))
    signatures = tuple(member for member in archive_members if is_signature_file(member.name))
    if len(signatures) > MOST_SIGNATURES:
        raise ArchiveError(f"it has more than {MOST_SIGNATURES} signatures")
    members = {
        member.name: member for member in archive_members if not is_signature_file(member.name)
    }
    documents = _documents(tail, [member for member in members.values() if _is_document(member)])
    if DIGESTS_FILE not in documents:
        raise ArchiveError(
            f"it has no {DIGESTS_FILE}, which says what its files are: pack it with ortpkg pack"
        )
    digests = parse_digests(documents[DIGESTS_FILE], Path(file.where))
    _check(members, digests)
    with opened_documents(documents, folder) as package:
        artifact, contents = artifact_of_documents(package, documents, digests, EMPTY)
        return PackedPackage(
            file=file,
            version=package.version or "",
            manifest=dump_artifact(artifact),
            contents=contents,
            members={member.layer.digest: members[path] for path, member in artifact.files.items()},
            signatures=signatures,
        )


def _unpacked(member: ArchiveMember, packed: Iterator[bytes], file: RemoteFile) -> Iterator[bytes]:
    try:
        yield from unpacked(member, packed, where=file.where)
    except ArchiveError as error:
        raise _wrong(file, error, member.name) from error


def _wrong(file: RemoteFile, error: OrtpkgError, layer: str = "") -> ArtifactFormatError:
    return ArtifactFormatError(
        f"{file.where} is no packed package that can be used: {error}",
        registry=file.where,
        layer=layer,
    )


class _Tail:
    """File whose end is in memory; earlier parts are requested."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self.nbytes = file.nbytes or 0
        self._start = max(0, self.nbytes - _TAIL_NBYTES)
        self._position = 0
        self._content = self._request(self._start, self.nbytes)

    def seek(self, offset: int, /) -> int:
        self._position = offset
        return offset

    def read(self, nbytes: int, /) -> bytes:
        """Return bytes from the position on and move the position behind them."""
        start, end = self._position, min(self._position + nbytes, self.nbytes)
        self._position = end
        if start >= self._start:
            return self._content[start - self._start : end - self._start]
        return self._request(start, end)

    def _request(self, start: int, end: int) -> bytes:
        with self._file.read(start, end) as chunks:
            return b"".join(chunks)


def _is_document(member: ArchiveMember) -> bool:
    return is_document(member.name, member.nbytes)


def _documents(tail: _Tail, members: Sequence[ArchiveMember]) -> dict[str, bytes]:
    """Return the documents by path, read with as few requests as possible."""
    most_nbytes = max(
        sum(member.nbytes for member in members), sum(member.packed_nbytes for member in members)
    )
    if len(members) > MOST_DOCUMENTS or most_nbytes > MOST_NBYTES:
        raise ArchiveError(
            f"it has more than {MOST_DOCUMENTS} documents, or {MOST_NBYTES >> 20} MiB of them"
        )
    contents = {}
    for span in _spans(members):
        start = span[0].start
        tail.seek(start)
        content = memoryview(tail.read(span[-1].start + span[-1].packed_nbytes - start))
        for member in span:
            packed = bytes(content[member.start - start :][: member.packed_nbytes])
            contents[member.name] = _whole(member, packed)
    return contents


def _whole(member: ArchiveMember, packed: bytes) -> bytes:
    """Return a small file; it is not inflated beyond the size that it states."""
    pieces, nbytes = [], 0
    for piece in unpacked(member, [packed], where=member.name):
        pieces.append(piece)
        nbytes += len(piece)
        if nbytes > member.nbytes:
            break
    if nbytes != member.nbytes:
        raise ArchiveError(f"{quoted(member.name)} does not have the bytes that it states")
    return b"".join(pieces)


def _spans(members: Sequence[ArchiveMember]) -> Iterator[list[ArchiveMember]]:
    """Yield the members in the order of the file, grouped by request."""
    span: list[ArchiveMember] = []
    for member in members:
        if span:
            end = span[-1].start + span[-1].packed_nbytes
            is_far = member.start - end > _MOST_GAP_NBYTES
            if is_far or member.start - span[0].start > _MOST_SPAN_NBYTES:
                yield span
                span = []
        span.append(member)
    if span:
        yield span


def _check(members: Mapping[str, ArchiveMember], digests: PackageDigests) -> None:
    """Raise ArchiveError unless the archive has exactly the recorded files in their sizes."""
    for path in sorted({*members, *digests.files} - {DIGESTS_FILE}):
        if path not in digests.files:
            raise ArchiveError(f"{DIGESTS_FILE} does not record {quoted(path)}")
        if path not in members:
            raise ArchiveError(f"{quoted(path)}, which {DIGESTS_FILE} records, is missing")
        if members[path].nbytes != digests.files[path].nbytes:
            raise ArchiveError(
                f"{quoted(path)} has {members[path].nbytes} bytes, and {DIGESTS_FILE} records"
                f" {digests.files[path].nbytes}"
            )


def _folder_of(reference: UrlReference) -> str:
    """Return the folder name of a package that does not state its name."""
    name = str(reference).rpartition("/")[2].removesuffix(ARCHIVE_SUFFIX)
    return f"{'package' if why_not_a_name(name) else name}.ortpackage"
