"""A packed package (``name.ortpkg``) that lies elsewhere, of which only what is wanted comes.

Its directory and its documents first, then the files that somebody asks for; whoever takes them
compares each with ``digests.json``, which is one of the documents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.downloaded_file import in_parts
from ortpkg.distribution.opened_documents import opened_documents
from ortpkg.distribution.package_artifact import artifact_of_documents
from ortpkg.documents.frozen import EMPTY
from ortpkg.errors import ArchiveError, ArtifactFormatError, OrtpkgError, PackageFormatError, quoted
from ortpkg.package.archive.archive_directory import ArchiveMember, read_members, unpacked
from ortpkg.package.integrity.digests import PackageDigests, parse_digests
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.sidecar import DIGESTS_FILE, is_signature_file
from ortpkg.registry.artifact import dump_artifact
from ortpkg.registry.descriptors import Descriptor
from ortpkg.registry.document_layer import MOST_DOCUMENTS, MOST_NBYTES, is_document
from ortpkg.registry.remote_file import RemoteFile
from ortpkg.registry.remote_files import open_remote_file
from ortpkg.registry.repository import RangeNotSupportedError
from ortpkg.registry.url_references import ARCHIVE_SUFFIX, UrlReference
from ortpkg.storage.hashing import Progress
from ortpkg.store.package_store import PackageStore
from ortpkg.trust.signing.openssf_signature import FoundSignature
from ortpkg.trust.signing.signature_files import MOST_SIGNATURES

#: Of the file's end, which has the directory, and digests.json before it.
_TAIL_NBYTES = 32 * 1024
#: What lies between two documents comes along where it is as little as that.
_MOST_GAP_NBYTES = 16 * 1024
_MOST_SPAN_NBYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPackage:
    """A packed package elsewhere.

    Attributes:
        file: where it is read.
        version: its own, "" where it has none.
        manifest: of the artifact that it makes; which variants need a file is told by folders.
        contents: digest → content of the layers that are no files of it.
        members: digest → where the file lies.
        signatures: of the package, which are no files of it.
    """

    file: RemoteFile
    version: str
    manifest: bytes
    contents: Mapping[str, bytes]
    members: Mapping[str, ArchiveMember]
    signatures: tuple[ArchiveMember, ...]

    def read_signatures(self, most_nbytes: int) -> tuple[FoundSignature, ...]:
        """The signatures that have no more bytes; ArtifactFormatError where one is damaged."""
        found = []
        for each in self.signatures:
            if max(each.nbytes, each.packed_nbytes) > most_nbytes:
                continue
            with self.file.read(each.start, each.start + each.packed_nbytes) as packed:
                try:
                    content = _whole(each, b"".join(packed))
                except ArchiveError as error:
                    raise _wrong(self.file, error, each.name) from error
            where = f"{each.name} of {self.file.where}"
            found.append(FoundSignature(where=where, content=content))
        return tuple(found)

    @contextlib.contextmanager
    def read(self, layer: Descriptor, offset: int) -> Iterator[Iterator[bytes]]:
        """A layer's bytes from ``offset`` on."""
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
    """The packed package behind an address.

    Where its server sends no parts, the whole file lies on the store's disk as long as this lasts.

    Raises:
        ArtifactFormatError: it is no packed package, or has no digests.json, or another than its
            files; RegistryError: its place failed.
        UsageError: the library that reads that place is not installed.
    """
    with in_parts(open_remote_file(reference), store, progress) as file:
        try:
            packed = _package_in(file, _folder_of(reference))
        except (ArchiveError, PackageFormatError) as error:
            raise _wrong(file, error) from error
        yield packed


def _package_in(file: RemoteFile, folder: str) -> PackedPackage:
    tail = _Tail(file)
    found = list(read_members(tail, tail.nbytes, where=file.where))
    signatures = tuple(each for each in found if is_signature_file(each.name))
    if len(signatures) > MOST_SIGNATURES:
        raise ArchiveError(f"it has more than {MOST_SIGNATURES} signatures")
    members = {each.name: each for each in found if not is_signature_file(each.name)}
    documents = _documents(tail, [each for each in members.values() if _is_document(each)])
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
            members={each.layer.digest: members[path] for path, each in artifact.files.items()},
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
    """A file whose end is here; what lies before it is asked for."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self.nbytes = file.nbytes or 0
        self._start = max(0, self.nbytes - _TAIL_NBYTES)
        self._position = 0
        self._content = self._asked(self._start, self.nbytes)

    def seek(self, offset: int, /) -> int:
        self._position = offset
        return offset

    def read(self, nbytes: int, /) -> bytes:
        """What there is from the position on, which then lies behind it."""
        start, end = self._position, min(self._position + nbytes, self.nbytes)
        self._position = end
        if start >= self._start:
            return self._content[start - self._start : end - self._start]
        return self._asked(start, end)

    def _asked(self, start: int, end: int) -> bytes:
        with self._file.read(start, end) as chunks:
            return b"".join(chunks)


def _is_document(member: ArchiveMember) -> bool:
    return is_document(member.name, member.nbytes)


def _documents(tail: _Tail, members: Sequence[ArchiveMember]) -> dict[str, bytes]:
    """Path → content, asked for in as few requests as possible."""
    most_nbytes = max(sum(each.nbytes for each in members), sum(e.packed_nbytes for e in members))
    if len(members) > MOST_DOCUMENTS or most_nbytes > MOST_NBYTES:
        raise ArchiveError(
            f"it has more than {MOST_DOCUMENTS} documents, or {MOST_NBYTES >> 20} MiB of them"
        )
    found = {}
    for span in _spans(members):
        start = span[0].start
        tail.seek(start)
        content = memoryview(tail.read(span[-1].start + span[-1].packed_nbytes - start))
        for each in span:
            packed = bytes(content[each.start - start :][: each.packed_nbytes])
            found[each.name] = _whole(each, packed)
    return found


def _whole(member: ArchiveMember, packed: bytes) -> bytes:
    """A small file; what would inflate to more than it states is not inflated any further."""
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
    """The members, in the order of the file, in groups that are asked for at once."""
    span: list[ArchiveMember] = []
    for each in members:
        if span:
            end = span[-1].start + span[-1].packed_nbytes
            is_far = each.start - end > _MOST_GAP_NBYTES
            if is_far or each.start - span[0].start > _MOST_SPAN_NBYTES:
                yield span
                span = []
        span.append(each)
    if span:
        yield span


def _check(members: Mapping[str, ArchiveMember], digests: PackageDigests) -> None:
    """ArtifactFormatError unless the archive has just the recorded files, in their sizes."""
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
    """What the package's folder is called where the package does not say."""
    name = str(reference).rpartition("/")[2].removesuffix(ARCHIVE_SUFFIX)
    return f"{'package' if why_not_a_name(name) else name}.ortpackage"
