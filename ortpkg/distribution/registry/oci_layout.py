"""Repository in a folder that is an OCI image layout, which other tools read and write too.

Source: OCI image specification 1.1, image-layout.md. A tag is the annotation
``org.opencontainers.image.ref.name`` of a manifest in ``index.json``.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from ortpkg.distribution.registry.descriptors import Descriptor, parse_descriptor
from ortpkg.distribution.registry.repository import (
    INDEX_MEDIA_TYPE,
    MANIFEST_MEDIA_TYPE,
    MOST_MANIFEST_NBYTES,
    Repository,
)
from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import dump_document, parse_document, read_document
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    ArtifactNotFoundError,
    LayerMismatchError,
    PackageFormatError,
    RegistryError,
    quoted,
)
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.foundations.storage.file_replacement import remove_leftovers, replace_file
from ortpkg.foundations.storage.hashing import Sha256Stream, hash_bytes
from ortpkg.foundations.storage.process_lock import hold_lock
from ortpkg.package.references.package_references import is_tag

_LAYOUT_FILE = "oci-layout"
_INDEX = "index.json"
_TAG = "org.opencontainers.image.ref.name"
_CHUNK_NBYTES = 1024 * 1024
_LOCK_TIMEOUT_S = 30.0
_INDEX_LIMITS = DocumentLimits(nbytes=64 * 1024 * 1024, depth=16, values=5_000_000)
#: Opens a pipe without waiting for a writer.
_READ_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MANIFEST_LIMITS = DocumentLimits(nbytes=MOST_MANIFEST_NBYTES, depth=16, values=2_000_000)


class OciLayout(Repository):
    """OCI image layout in a folder; several processes may read and write it at once.

    Args:
        directory: The folder; the first write creates it and its parents.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def name(self) -> str:
        return f"oci-layout:{self._directory}"

    def resolve(self, tag_or_digest: str) -> Descriptor:
        entries = self._entries()
        if is_digest(tag_or_digest):
            for entry in entries:
                if entry.digest == tag_or_digest:
                    return replace(entry, annotations=_without_tag(entry))
            with contextlib.suppress(OSError):
                nbytes = self._path(tag_or_digest).stat().st_size
                return Descriptor(
                    media_type=MANIFEST_MEDIA_TYPE, digest=tag_or_digest, nbytes=nbytes
                )
        for entry in entries:
            if entry.annotations.get(_TAG) == tag_or_digest:
                return replace(entry, annotations=_without_tag(entry))
        if not self._directory.exists():
            raise ArtifactNotFoundError(
                f"there is no folder {quoted(self._directory)}, and so no OCI image layout in it",
                registry=self.name,
            )
        tags = ", ".join(self.tags()[:10]) or "none"
        raise ArtifactNotFoundError(
            f"{self.name} has no manifest {quoted(tag_or_digest)}; it has the tags: {tags}",
            registry=self.name,
        )

    def read_manifest(self, descriptor: Descriptor) -> bytes:
        if descriptor.nbytes > MOST_MANIFEST_NBYTES:
            raise ArtifactFormatError(
                f"the manifest {descriptor.digest} of {self.name} has {descriptor.nbytes} bytes;"
                f" at most {MOST_MANIFEST_NBYTES} are read",
                registry=self.name,
                layer=descriptor.digest,
            )
        with self.read_blob(descriptor) as chunks:
            content = b"".join(chunks)
        actual = f"sha256:{hash_bytes(content).sha256}"
        if actual != descriptor.digest:
            raise self._mismatch(descriptor, actual)
        return content

    @contextlib.contextmanager
    def read_blob(self, descriptor: Descriptor, *, offset: int = 0) -> Iterator[Iterator[bytes]]:
        path = self._path(descriptor.digest)
        try:
            stream = os.fdopen(os.open(path, _READ_AT_ONCE), "rb")
        except FileNotFoundError as error:
            raise ArtifactNotFoundError(
                f"{self.name} has no blob {descriptor.digest}", registry=self.name
            ) from error
        except OSError as error:
            raise self._failed("read", error) from error
        with stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ArtifactFormatError(
                    f"the blob {descriptor.digest} of {self.name} is no file",
                    registry=self.name,
                    layer=descriptor.digest,
                )
            stream.seek(offset)
            yield self._chunks(stream, descriptor.nbytes - offset)

    def _chunks(self, stream: BinaryIO, nbytes: int) -> Iterator[bytes]:
        while nbytes > 0:
            try:
                chunk = stream.read(min(nbytes, _CHUNK_NBYTES))
            except OSError as error:
                raise self._failed("read", error) from error
            if not chunk:
                return
            nbytes -= len(chunk)
            yield chunk

    def has_blob(self, digest: str) -> bool:
        return self._path(digest).is_file()

    def write_blob(
        self,
        descriptor: Descriptor,
        open_content: Callable[[], BinaryIO],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        def write(target: BinaryIO) -> None:
            hashing = Sha256Stream()
            with open_content() as source:
                while chunk := source.read(_CHUNK_NBYTES):
                    hashing.update(chunk)
                    target.write(chunk)
                    if progress is not None:
                        progress(len(chunk))
            actual = hashing.digest()
            if (actual.sha256, actual.nbytes) != (descriptor.sha256, descriptor.nbytes):
                raise self._mismatch(descriptor, f"sha256:{actual.sha256}")

        try:
            self._make()
            replace_file(self._path(descriptor.digest), write, mode=0o444)
        except OSError as error:
            raise self._failed("written", error) from error

    def mount_blob(self, digest: str, source: str) -> bool:  # noqa: ARG002 - a layout is one folder
        return False

    def write_manifest(
        self, content: bytes, media_type: str, *, tag: str | None = None
    ) -> Descriptor:
        digest = hash_bytes(content)
        document = parse_document(content, document="the manifest", limits=_MANIFEST_LIMITS)
        descriptor = Descriptor(
            media_type=media_type,
            digest=f"sha256:{digest.sha256}",
            nbytes=digest.nbytes,
            artifact_type=str(document.get("artifactType", "")),
        )
        self.write_blob(descriptor, lambda: io.BytesIO(content))
        tags = {_TAG: tag} if tag is not None else {}
        entry = replace(descriptor, annotations=tags)

        def with_entry(entries: list[Descriptor]) -> list[Descriptor]:
            others = [
                other
                for other in entries
                if other.digest != entry.digest or other.annotations.get(_TAG) not in (None, tag)
            ]
            return [*(other for other in others if tag is None or not _has_tag(other, tag)), entry]

        self._change_index(with_entry)
        return descriptor

    def tags(self) -> tuple[str, ...]:
        tags = {entry.annotations.get(_TAG) for entry in self._entries()}
        return tuple(sorted(tag for tag in tags if tag is not None and is_tag(tag)))

    def referrers(self, digest: str, *, artifact_type: str = "") -> tuple[Descriptor, ...]:
        manifests: dict[str, Descriptor] = {}
        for entry in self._entries():
            if entry.digest in manifests or entry.nbytes > MOST_MANIFEST_NBYTES:
                continue
            document = self._document_of(entry)
            subject = document.get("subject")
            kind = str(document.get("artifactType", ""))
            is_about_it = isinstance(subject, Mapping) and subject.get("digest") == digest
            if is_about_it and artifact_type in ("", kind):
                annotations = _without_tag(entry)
                manifests[entry.digest] = replace(
                    entry, annotations=annotations, artifact_type=kind
                )
        return tuple(manifests.values())

    def _document_of(self, entry: Descriptor) -> Mapping[str, Any]:
        """Return a manifest, or {} if it is absent or invalid.

        Who reads that manifest gets the error.
        """
        try:
            content = self.read_manifest(entry)
            return parse_document(content, document="a manifest", limits=_MANIFEST_LIMITS)
        except (
            ArtifactFormatError,
            ArtifactNotFoundError,
            LayerMismatchError,
            PackageFormatError,
        ):
            return {}

    def _make(self) -> None:
        (self._directory / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        layout = self._directory / _LAYOUT_FILE
        if not layout.exists():
            replace_file(layout, lambda file: file.write(b'{"imageLayoutVersion":"1.0.0"}'))

    def _entries(self) -> list[Descriptor]:
        path = self._directory / _INDEX
        if not path.exists():
            if not (self._directory / _LAYOUT_FILE).exists() and self._directory.exists():
                raise ArtifactNotFoundError(
                    f"{quoted(self._directory)} is no OCI image layout: it has no {_LAYOUT_FILE}",
                    registry=self.name,
                )
            return []
        try:
            document = read_document(path, document=_INDEX, limits=_INDEX_LIMITS)
            manifests = document.get("manifests")
            if not isinstance(manifests, list):
                raise ValueError("manifests is not a list")  # noqa: TRY004
            return [parse_descriptor(manifest) for manifest in manifests]
        except (PackageFormatError, ValueError) as error:
            raise ArtifactFormatError(
                f"{_INDEX} of {self.name} is wrong: {error}", registry=self.name
            ) from error

    def _change_index(self, change: Callable[[list[Descriptor]], list[Descriptor]]) -> None:
        try:
            self._make()
            for folder in (self._directory, self._directory / "blobs" / "sha256"):
                remove_leftovers(folder)
            with hold_lock(self._directory / f".{_INDEX}.lock", timeout_s=_LOCK_TIMEOUT_S):
                entries = change(self._entries())
                document: dict[str, Any] = {
                    "schemaVersion": 2,
                    "mediaType": INDEX_MEDIA_TYPE,
                    "manifests": [entry.to_json() for entry in entries],
                }
                content = dump_document(document)
                replace_file(self._directory / _INDEX, lambda file: file.write(content))
        except TimeoutError as error:
            raise RegistryError(
                f"another process has been changing {self.name} for {_LOCK_TIMEOUT_S:.0f} s",
                registry=self.name,
            ) from error
        except OSError as error:
            raise self._failed("written", error) from error

    def _path(self, digest: str) -> Path:
        if not is_digest(digest):
            raise ArtifactNotFoundError(
                f"{quoted(digest[:80])} is not a digest: sha256: and 64 lower-case hex digits",
                registry=self.name,
            )
        return self._directory / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _mismatch(self, descriptor: Descriptor, actual: str) -> LayerMismatchError:
        return LayerMismatchError(
            f"the bytes of {descriptor.digest} in {self.name} are others: they have the digest"
            f" {actual}",
            registry=self.name,
            layer=descriptor.digest,
            expected=descriptor.digest,
            actual=actual,
        )

    def _failed(self, what: str, error: OSError) -> RegistryError:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return RegistryError(f"{self.name} cannot be {what}: {quoted(reason)}", registry=self.name)


def _has_tag(entry: Descriptor, tag: str) -> bool:
    return entry.annotations.get(_TAG) == tag


def _without_tag(entry: Descriptor) -> dict[str, str]:
    return {key: text for key, text in entry.annotations.items() if key != _TAG}
