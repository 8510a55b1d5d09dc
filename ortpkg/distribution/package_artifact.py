"""Artifact of a package's folder, with always the same manifest and layers.

``push`` sends it; ``install`` of a folder takes its layers from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.registry.artifact import (
    CONFIG_MEDIA_TYPE,
    PackageArtifact,
    PackageFile,
    documents_descriptor,
    file_descriptor,
    model_config,
)
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.document_layer import is_document, pack_documents, tar_of
from ortpkg.foundations.errors import DigestMismatchError, PackageFormatError, quoted
from ortpkg.foundations.storage.hashing import Progress, hash_bytes, open_unfollowed
from ortpkg.package.integrity.digest_check import compute_digests, list_files
from ortpkg.package.integrity.digests import PackageDigests, dump_digests, read_digests
from ortpkg.package.integrity.transferable_files import check_complete, verify_digest, verify_names
from ortpkg.package.integrity.verification import why_record_is_wrong
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import DIGESTS_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFiles:
    """Files of a package as they are recorded."""

    root: Path
    digests: PackageDigests
    record: bytes
    is_verified: bool

    @classmethod
    def of(cls, root: Path, progress: Progress | None) -> RecordedFiles:
        """Return the files of the package at ``root`` with their recorded or computed digests."""
        names = list_files(root)
        verify_names(names)
        recorded = read_digests(root)
        check_complete(root, names, recorded)
        if recorded is not None:
            record = (root / DIGESTS_FILE).read_bytes()
            if reason := why_record_is_wrong(root):
                raise DigestMismatchError(
                    f"{DIGESTS_FILE} of {quoted(root)} is damaged: {reason}",
                    file=DIGESTS_FILE,
                    expected="",
                    actual="",
                    path=root,
                )
            return cls(root=root, digests=recorded, record=record, is_verified=True)
        computed = compute_digests(root, progress=progress)
        return cls(root=root, digests=computed, record=dump_digests(computed), is_verified=False)

    def documents(self) -> dict[str, bytes]:
        """Return the documents by path, each compared with its digest."""
        contents = {DIGESTS_FILE: self.record}
        for path, recorded in self.digests.files.items():
            if is_document(path, recorded.nbytes):
                content = self._read(path, recorded.nbytes)
                verify_digest(path, hash_bytes(content), self.digests, self.root)
                contents[path] = content
        return contents

    def _read(self, path: str, nbytes: int) -> bytes:
        """Return a document of ``nbytes``, or one byte more if it has grown."""
        try:
            with open_unfollowed(self.root / path) as stream:
                return stream.read(nbytes + 1)
        except OSError as error:
            raise PackageFormatError(
                f"{quoted(self.root / path)} cannot be read: {error.strerror or error}",
                path=self.root,
            ) from error


def artifact_of(
    package: PackageInfo, source: RecordedFiles
) -> tuple[PackageArtifact, dict[str, bytes]]:
    """Return the artifact of a package's folder, and the layers that are not files, by digest."""
    # This import opens models; taking an artifact apart does not need it.
    from ortpkg.distribution.variant_needs import needs_of_variants

    return artifact_of_documents(
        package, source.documents(), source.digests, needs_of_variants(package)
    )


def artifact_of_documents(
    package: PackageInfo,
    documents: Mapping[str, bytes],
    digests: PackageDigests,
    needs: Mapping[str, tuple[str, ...]],
) -> tuple[PackageArtifact, dict[str, bytes]]:
    """Return the artifact of a package by its documents; see :func:`artifact_of`.

    ``needs`` maps files to the variants that need them; for other files, their folder decides.
    """
    layer, tar = pack_documents(documents), tar_of(documents)
    tar_digest = f"sha256:{hash_bytes(tar).sha256}"
    documents_layer = documents_descriptor(
        digest=f"sha256:{hash_bytes(layer).sha256}", nbytes=len(layer), tar_digest=tar_digest
    )
    files = {
        path: _package_file(path, recorded.digests[-1], recorded.nbytes, needs.get(path))
        for path, recorded in digests.files.items()
        if path not in documents
    }
    diff_ids = (tar_digest, *(file.layer.digest for _, file in sorted(files.items())))
    config = model_config(
        name=package.name,
        version=package.version or "",
        description=package.description or "",
        precision="",
        diff_ids=diff_ids,
    )
    config_layer = Descriptor(
        media_type=CONFIG_MEDIA_TYPE,
        digest=f"sha256:{hash_bytes(config).sha256}",
        nbytes=len(config),
    )
    artifact = PackageArtifact(
        name=package.name,
        version=package.version or "",
        description=package.description or "",
        package_digest=digests.package_digest,
        config=config_layer,
        documents=documents_layer,
        files=files,
    )
    return artifact, {documents_layer.digest: layer, config_layer.digest: config}


def _package_file(
    path: str, sha256: str, nbytes: int, variants: tuple[str, ...] | None
) -> PackageFile:
    layer = file_descriptor(path, sha256=sha256, nbytes=nbytes, variants=variants)
    return PackageFile(path=path, layer=layer, variants=variants)
