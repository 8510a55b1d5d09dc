"""Lookup of the package that a tag names, also if the tag names an index that lists the package.

Some tools wrap each manifest that they publish in an index. An index inside an index is not
followed, since it could contain itself.
"""

from __future__ import annotations

from ortpkg.distribution.registry.artifact import ARTIFACT_TYPE
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.referrers import parse_index
from ortpkg.distribution.registry.repository import (
    INDEX_MEDIA_TYPE,
    MANIFEST_MEDIA_TYPE,
    MOST_MANIFEST_NBYTES,
    Repository,
)
from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import ArtifactFormatError, PackageFormatError, quoted

_INDEX_TYPES = (INDEX_MEDIA_TYPE, "application/vnd.docker.distribution.manifest.list.v2+json")
_LIMITS = DocumentLimits(nbytes=MOST_MANIFEST_NBYTES, depth=16, values=2_000_000)
_MOST_SHOWN = 10


def resolve_package(repository: Repository, tag_or_digest: str) -> Descriptor:
    """Return the descriptor of the package that a tag or digest names, directly or by an index.

    Raises:
        ArtifactFormatError: The index lists no package, or several; the message says how to name
            one.
        RegistryError: See :meth:`Repository.resolve`.
    """
    descriptor = repository.resolve(tag_or_digest)
    if descriptor.media_type not in _INDEX_TYPES:
        return descriptor
    what = f"{repository.name}, {quoted(tag_or_digest)}"
    content = repository.read_manifest(descriptor)
    try:
        document = parse_document(content, document="the index", limits=_LIMITS)
    except PackageFormatError as error:
        raise ArtifactFormatError(f"{what}: {error}", registry=repository.name) from error
    listed = parse_index(document, registry=repository.name, what=what)
    # Some tools drop artifact types when they copy an index; then the manifest has it.
    kinds = {manifest.artifact_type for manifest in listed} & {ARTIFACT_TYPE} or {""}
    packages = {
        manifest.digest: manifest
        for manifest in listed
        if manifest.artifact_type in kinds and manifest.media_type == MANIFEST_MEDIA_TYPE
    }
    if len(packages) == 1:
        return next(iter(packages.values()))
    if not packages:
        raise ArtifactFormatError(
            f"{what} is an index of {len(listed)} manifests, none of which is a package's",
            registry=repository.name,
        )
    digests = ", ".join(list(packages)[:_MOST_SHOWN])
    raise ArtifactFormatError(
        f"{what} is an index of {len(packages)} packages: name one by its digest (@{digests})",
        registry=repository.name,
    )
