"""The package that a tag names, also where it names an index that lists the package.

Some tools wrap each manifest that they publish into an index. An index inside of an index is not
followed, since one may contain itself.
"""

from __future__ import annotations

from ortpkg.documents.document_limits import DocumentLimits
from ortpkg.documents.json_documents import parse_document
from ortpkg.errors import ArtifactFormatError, PackageFormatError, quoted
from ortpkg.registry.artifact import ARTIFACT_TYPE
from ortpkg.registry.descriptors import Descriptor
from ortpkg.registry.referrers import parse_index
from ortpkg.registry.repository import (
    INDEX_MEDIA_TYPE,
    MANIFEST_MEDIA_TYPE,
    MOST_MANIFEST_NBYTES,
    Repository,
)

_INDEX_TYPES = (INDEX_MEDIA_TYPE, "application/vnd.docker.distribution.manifest.list.v2+json")
_LIMITS = DocumentLimits(nbytes=MOST_MANIFEST_NBYTES, depth=16, values=2_000_000)
_MOST_TOLD = 10


def resolve_package(repository: Repository, tag_or_digest: str) -> Descriptor:
    """The manifest of the package that a tag or digest names, or that the index of it lists.

    Raises as :meth:`Repository.resolve`; ArtifactFormatError for an index that lists no package, or
    several: it says how to name one.
    """
    found = repository.resolve(tag_or_digest)
    if found.media_type not in _INDEX_TYPES:
        return found
    what = f"{repository.name}, {quoted(tag_or_digest)}"
    content = repository.read_manifest(found)
    try:
        document = parse_document(content, document="the index", limits=_LIMITS)
    except PackageFormatError as error:
        raise ArtifactFormatError(f"{what}: {error}", registry=repository.name) from error
    listed = parse_index(document, registry=repository.name, what=what)
    # Copies that some tools make leave out of what type they are; then the manifest says it.
    kinds = {each.artifact_type for each in listed} & {ARTIFACT_TYPE} or {""}
    packages = {
        each.digest: each
        for each in listed
        if each.artifact_type in kinds and each.media_type == MANIFEST_MEDIA_TYPE
    }
    if len(packages) == 1:
        return next(iter(packages.values()))
    if not packages:
        raise ArtifactFormatError(
            f"{what} is an index of {len(listed)} manifests, none of which is a package's",
            registry=repository.name,
        )
    digests = ", ".join(list(packages)[:_MOST_TOLD])
    raise ArtifactFormatError(
        f"{what} is an index of {len(packages)} packages: name one by its digest (@{digests})",
        registry=repository.name,
    )
