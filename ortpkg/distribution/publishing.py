"""``ortpkg push``: publishes a package to a registry or layout as an artifact, docs/registry.md."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from ortpkg.distribution.package_artifact import RecordedFiles, artifact_of
from ortpkg.distribution.package_signing import attach_own_signatures
from ortpkg.distribution.registry.artifact import (
    PackageArtifact,
    PackageFile,
    dump_artifact,
)
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.repository import MANIFEST_MEDIA_TYPE, Repository
from ortpkg.foundations.errors import (
    ArtifactNotFoundError,
    LayerMismatchError,
    PackageFormatError,
    UsageError,
    quoted,
)
from ortpkg.foundations.storage.file_operations import FileOperations, open_unlinked
from ortpkg.foundations.storage.hashing import FileDigest, Progress, hash_bytes
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.package.changes.recovery import recover
from ortpkg.package.derived_variants import verify_none_is_stale
from ortpkg.package.integrity.transferable_files import verify_digest
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package
from ortpkg.package.references.package_references import DEFAULT_TAG, is_tag

logger = logging.getLogger(__name__)

Notify = Callable[[str], None]
_MOST_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """Result of publishing or of a rehearsal.

    Attributes:
        repository: Name of the repository.
        digest: Digest of the manifest, as in ``@sha256:...``.
        tags: Tags that now name it.
        moved_tags: Digests that the tags named before, by tag.
        files: Number of files, including digests.json.
        nbytes: Size of all layers and the configuration.
        sent_nbytes: Size of those that were not there yet.
        is_verified: True if the files were compared with the package's digests.json.
    """

    repository: str
    digest: str
    tags: tuple[str, ...]
    moved_tags: Mapping[str, str]
    files: int
    nbytes: int
    sent_nbytes: int
    is_verified: bool


def publish(
    root: str | PathLike[str],
    repository: Repository,
    *,
    tags: Sequence[str] = (),
    mount_from: str | None = None,
    is_rehearsal: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
) -> PublishReport:
    """Publish the package at ``root``: missing files as layers, the manifest, tags and signatures.

    Readers of the repository never find a manifest without its layers. Equal packages give equal
    artifacts.

    Args:
        root: Folder of the package.
        repository: Target.
        tags: Tags; default: the package's version, or else ``latest``.
        mount_from: Another repository of the same registry from which layers may be taken.
        is_rehearsal: True to only check what is there.
        progress: Called by several threads with (file, bytes done, bytes in all).
        notify: Called when it has to wait for another command.

    Raises:
        DigestMismatchError: A file differs from its record, is missing or not recorded.
        StalePackageError: A compiled variant was made from another model than the one beside it.
        UsageError: A tag is invalid.
        PackageError: ``root`` is not a valid package.
        RegistryError: The repository failed.
    """
    notify = notify or logger.warning
    root = Path(root).absolute()
    package = open_package(root)
    tags = tuple(dict.fromkeys(tags)) or (_version_tag(package),)
    if wrong := [tag for tag in tags if not is_tag(tag)]:
        raise UsageError(
            f"{quoted(wrong[0])} is not a tag: at most 128 letters, digits, . _ - and no . or - in"
            " front"
        )
    with lock_package(root, on_wait=notify):
        recover(root, operations=FileOperations())
        source, package = RecordedFiles.of(root, progress), open_package(root)
        verify_none_is_stale(package)
        artifact, contents = artifact_of(package, source)
        manifest = dump_artifact(artifact)
        push = _Push(repository, source, progress, mount_from=mount_from)
        moved = push.moved_tags(tags, f"sha256:{hash_bytes(manifest).sha256}")
        sent = push.send(artifact, contents, is_rehearsal=is_rehearsal)
        if not is_rehearsal:
            # Signatures first, so that a tag never names an unsigned package; they need a manifest.
            attach_own_signatures(root, source.record, repository, manifest)
            for tag in tags:
                repository.write_manifest(manifest, MANIFEST_MEDIA_TYPE, tag=tag)
    return PublishReport(
        repository=repository.name,
        digest=f"sha256:{hash_bytes(manifest).sha256}",
        tags=tags,
        moved_tags=moved,
        files=len(source.digests.files) + 1,
        nbytes=artifact.nbytes + artifact.config.nbytes,
        sent_nbytes=sent,
        is_verified=source.is_verified,
    )


def _version_tag(package: PackageInfo) -> str:
    version = package.version
    return version if version is not None and is_tag(version) else DEFAULT_TAG


class _Push:
    """Sender of the missing parts of an artifact."""

    def __init__(
        self,
        repository: Repository,
        source: RecordedFiles,
        progress: Progress | None,
        *,
        mount_from: str | None,
    ) -> None:
        self._repository = repository
        self._source = source
        self._progress = progress
        self._mount_from = mount_from

    def moved_tags(self, tags: Collection[str], digest: str) -> dict[str, str]:
        """Return the digests that tags name now, by tag, if they differ from ``digest``."""
        moved = {}
        for tag in tags:
            try:
                named = self._repository.resolve(tag).digest
            except ArtifactNotFoundError:
                continue
            if named != digest:
                moved[tag] = named
        return moved

    def send(
        self, artifact: PackageArtifact, contents: Mapping[str, bytes], *, is_rehearsal: bool
    ) -> int:
        """Send the missing layers, several at once; return the size of what was missing."""
        files = {file.layer.digest: file for file in artifact.files.values()}

        def send_one(layer: Descriptor) -> int:
            if self._repository.has_blob(layer.digest):
                return 0
            if is_rehearsal or self._is_mounted(layer):
                return layer.nbytes if is_rehearsal else 0
            if layer.digest in contents:
                content = contents[layer.digest]
                self._repository.write_blob(layer, lambda: io.BytesIO(content))
            else:
                self._send_file(files[layer.digest])
            return layer.nbytes

        layers = [artifact.documents, artifact.config, *(file.layer for file in files.values())]
        # Largest first, so that none is left to one connection at the end.
        layers.sort(key=lambda layer: -layer.nbytes)
        pool = ThreadPoolExecutor(min(_MOST_AT_ONCE, len(layers)), thread_name_prefix="ortpkg-push")
        try:
            return sum(pool.map(send_one, layers))
        finally:
            pool.shutdown(cancel_futures=True)

    def _is_mounted(self, layer: Descriptor) -> bool:
        return self._mount_from is not None and self._repository.mount_blob(
            layer.digest, self._mount_from
        )

    def _send_file(self, file: PackageFile) -> None:
        path, done = self._source.root / file.path, 0

        def advance(nbytes: int) -> None:
            nonlocal done
            done += nbytes
            if self._progress is not None:
                self._progress(file.path, done, max(done, file.layer.nbytes))

        try:
            self._repository.write_blob(
                file.layer, lambda: _opened(path, self._source.root), progress=advance
            )
        except LayerMismatchError as error:
            check = FileDigest(sha256=error.actual.removeprefix("sha256:"), nbytes=0)
            verify_digest(file.path, check, self._source.digests, self._source.root)
            raise


def _opened(path: Path, root: Path) -> BinaryIO:
    """Open a regular file of the package, without following links or waiting for pipes."""
    try:
        return open_unlinked(path, "rb")
    except OSError as error:
        raise PackageFormatError(
            f"{quoted(path)} cannot be read: {error.strerror}", path=root
        ) from error
