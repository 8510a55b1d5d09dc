"""``ortpkg push``: a package into a registry or a layout, as one artifact (docs/registry.md)."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from ortpkg.distribution.package_signing import attach_own_signatures
from ortpkg.distribution.variant_needs import needs_of_variants
from ortpkg.errors import (
    ArtifactNotFoundError,
    LayerMismatchError,
    PackageFormatError,
    UsageError,
    quoted,
)
from ortpkg.package.changes.recovery import recover
from ortpkg.package.integrity.digests import (
    PackageDigests,
    compute_digests,
    dump_digests,
    list_files,
    read_digests,
)
from ortpkg.package.integrity.transferable_files import check_complete, check_digest, check_names
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.registry.artifact import (
    CONFIG_MEDIA_TYPE,
    PackageArtifact,
    PackageFile,
    documents_descriptor,
    dump_artifact,
    file_descriptor,
    model_config,
)
from ortpkg.registry.descriptors import Descriptor
from ortpkg.registry.document_layer import is_document, pack_documents, tar_of
from ortpkg.registry.references import DEFAULT_TAG, is_tag
from ortpkg.registry.repository import MANIFEST_MEDIA_TYPE, Repository
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import FileDigest, Progress, hash_bytes
from ortpkg.storage.package_lock import lock_package

logger = logging.getLogger(__name__)

Notify = Callable[[str], None]
_MOST_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """What was published, or would be.

    Attributes:
        repository: where.
        digest: of the manifest: what ``@sha256:...`` names.
        tags: which now name it; moved_tags: tag → digest of what it named before.
        files: of the package, digests.json included.
        nbytes: of all layers and the configuration.
        sent_nbytes: of those that were not there.
        is_verified: the package had a digests.json that its files were compared with.
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
    """Publishes the package at ``root``: missing files as layers, the manifest, tags, signatures.

    What is read of the repository meanwhile never lacks a layer.

    The same package gives the same artifact, whoever publishes it when.

    Args:
        root: the package's directory.
        repository: where.
        tags: what names it there; left out, the package's version, or else ``latest``.
        mount_from: another repository of the same registry that layers may be taken from.
        is_rehearsal: only asks what is there.
        progress: called with (file, bytes done, bytes in all), by several threads.
        notify: told when it has to wait for another command.

    Raises:
        DigestMismatchError: a file is not as recorded, missing, or not recorded.
        UsageError: a tag is none.
        PackageError: ``root`` is no valid package; RegistryError: the repository failed.
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
        source = _Source.of(root, progress)
        artifact, contents = _artifact_of(open_package(root), source)
        manifest = dump_artifact(artifact)
        push = _Push(repository, source, progress, mount_from=mount_from)
        moved = push.moved_tags(tags, f"sha256:{hash_bytes(manifest).sha256}")
        sent = push.send(artifact, contents, is_rehearsal=is_rehearsal)
        if not is_rehearsal:
            for tag in tags:
                repository.write_manifest(manifest, MANIFEST_MEDIA_TYPE, tag=tag)
            attach_own_signatures(root, source.record, repository, tags[0])
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The package's files as they are recorded."""

    root: Path
    digests: PackageDigests
    record: bytes
    is_verified: bool

    @classmethod
    def of(cls, root: Path, progress: Progress | None) -> _Source:
        """The files of the package at ``root`` with their digests: recorded ones, else computed."""
        names = list_files(root)
        check_names(names)
        recorded = read_digests(root)
        check_complete(root, names, recorded)
        if recorded is not None:
            record = (root / DIGESTS_FILE).read_bytes()
            return cls(root=root, digests=recorded, record=record, is_verified=True)
        computed = compute_digests(root, progress=progress)
        return cls(root=root, digests=computed, record=dump_digests(computed), is_verified=False)

    def documents(self) -> dict[str, bytes]:
        """The documents, each compared with its digest."""
        found = {DIGESTS_FILE: self.record}
        for path, recorded in self.digests.files.items():
            if is_document(path, recorded.nbytes):
                content = (self.root / path).read_bytes()
                check_digest(path, hash_bytes(content), self.digests, self.root)
                found[path] = content
        return found


def _artifact_of(package: PackageInfo, source: _Source) -> tuple[PackageArtifact, dict[str, bytes]]:
    """The artifact, and the contents of the layers that are no files: digest → bytes."""
    documents = source.documents()
    layer, tar = pack_documents(documents), tar_of(documents)
    tar_digest = f"sha256:{hash_bytes(tar).sha256}"
    documents_layer = documents_descriptor(
        digest=f"sha256:{hash_bytes(layer).sha256}", nbytes=len(layer), tar_digest=tar_digest
    )
    needs = needs_of_variants(package)
    files = {
        path: _package_file(path, recorded.digests[-1], recorded.nbytes, needs.get(path))
        for path, recorded in source.digests.files.items()
        if path not in documents
    }
    diff_ids = (tar_digest, *(each.layer.digest for _, each in sorted(files.items())))
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
        package_digest=source.digests.package_digest,
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


class _Push:
    """Sends what is not there yet."""

    def __init__(
        self,
        repository: Repository,
        source: _Source,
        progress: Progress | None,
        *,
        mount_from: str | None,
    ) -> None:
        self._repository = repository
        self._source = source
        self._progress = progress
        self._mount_from = mount_from

    def moved_tags(self, tags: Collection[str], digest: str) -> dict[str, str]:
        """Tag → the digest of what it names now, where that is something else."""
        found = {}
        for tag in tags:
            try:
                named = self._repository.resolve(tag).digest
            except ArtifactNotFoundError:
                continue
            if named != digest:
                found[tag] = named
        return found

    def send(
        self, artifact: PackageArtifact, contents: Mapping[str, bytes], *, is_rehearsal: bool
    ) -> int:
        """Sends the layers, several at once; the bytes of those that were not there."""
        files = {each.layer.digest: each for each in artifact.files.values()}

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

        layers = [artifact.documents, artifact.config, *(each.layer for each in files.values())]
        # The largest first: none is left to one connection at the end.
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
            check_digest(file.path, check, self._source.digests, self._source.root)
            raise


def _opened(path: Path, root: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise PackageFormatError(
            f"{quoted(path)} cannot be read: {error.strerror}", path=root
        ) from error
