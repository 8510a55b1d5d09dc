"""Manifests that refer to another one, by the registry's referrers API or an index under a tag.

Source: OCI distribution specification 1.1, "Listing Referrers", "Referrers Tag Schema".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ortpkg.distribution.registry.descriptors import Descriptor, parse_annotations, parse_descriptor
from ortpkg.distribution.registry.repository import INDEX_MEDIA_TYPE
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import ArtifactFormatError

MOST_REFERRERS = 10_000
_ABOUT_A_MANIFEST = re.compile(r"sha256-[0-9a-f]{64}(?:\..*)?")


def fallback_tag(digest: str) -> str:
    """Return the tag whose index lists the referrers of a manifest.

    >>> fallback_tag("sha256:12ab")
    'sha256-12ab'
    """
    return digest.replace(":", "-")


def version_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that name packages, not signatures or lists of referrers.

    >>> version_tags(["1.0", f"sha256-{'0' * 64}", f"sha256-{'0' * 64}.sig"])
    ('1.0',)
    """
    return tuple(tag for tag in tags if _ABOUT_A_MANIFEST.fullmatch(tag) is None)


def parse_index(document: Mapping[str, Any], *, registry: str, what: str) -> list[Descriptor]:
    """Return the descriptors that an index lists.

    Raises:
        ArtifactFormatError: The document is not an index.
    """
    manifests = document.get("manifests")
    try:
        if not isinstance(manifests, list):
            raise ValueError("manifests is no array")  # noqa: TRY004
        if len(manifests) > MOST_REFERRERS:
            raise ValueError(f"it lists more than {MOST_REFERRERS} manifests")
        return [parse_descriptor(manifest) for manifest in manifests]
    except ValueError as error:
        raise ArtifactFormatError(
            f"{what}: the list of what refers to it is wrong: {error}", registry=registry
        ) from None


def index_content(manifests: Iterable[Descriptor]) -> bytes:
    """Return the bytes of an index of manifests."""
    document = {
        "schemaVersion": 2,
        "mediaType": INDEX_MEDIA_TYPE,
        "manifests": [manifest.to_json() for manifest in manifests],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def of_type(manifests: Iterable[Descriptor], artifact_type: str) -> tuple[Descriptor, ...]:
    """Return the manifests of one artifact type ("" for all), each once."""
    by_digest = {manifest.digest: manifest for manifest in manifests}
    return tuple(
        manifest
        for manifest in by_digest.values()
        if not artifact_type or manifest.artifact_type == artifact_type
    )


def referrer(content: bytes, written: Descriptor) -> tuple[str, Descriptor] | None:
    """Return the subject's digest and the list entry of a manifest; None without a subject."""
    manifest = json.loads(content)
    subject = manifest.get("subject") if isinstance(manifest, dict) else None
    if subject is None:
        return None
    config = manifest.get("config")
    fallback_type = config.get("mediaType", "") if isinstance(config, Mapping) else ""
    entry = Descriptor(
        media_type=written.media_type,
        digest=written.digest,
        nbytes=written.nbytes,
        annotations=parse_annotations(manifest.get("annotations")) or EMPTY,
        artifact_type=manifest.get("artifactType") or fallback_type,
    )
    return parse_descriptor(subject).digest, entry
