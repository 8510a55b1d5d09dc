"""OCI content descriptors: type, digest and size of a piece of content.

Source: OCI image specification 1.1, descriptor.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.storage.digest_text import is_digest

_MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
)
_MOST_NBYTES = 1 << 50
_MOST_ANNOTATIONS = 256
_MOST_ANNOTATION_CHARACTERS = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """Descriptor of one piece of content in a registry or layout.

    Attributes:
        media_type: Media type of the content.
        digest: ``sha256:<64 lower-case hex digits>`` of its bytes.
        nbytes: Size in bytes.
        annotations: Annotations by key.
        artifact_type: Artifact type, if the content is the manifest of an artifact; else "".
    """

    media_type: str
    digest: str
    nbytes: int
    annotations: Mapping[str, str] = EMPTY
    artifact_type: str = ""

    @property
    def sha256(self) -> str:
        """The digest's 64 hex digits, as in ``digests.json``."""
        return self.digest.removeprefix("sha256:")

    def to_json(self) -> dict[str, Any]:
        """Return the descriptor as the JSON object of the specification."""
        document: dict[str, Any] = {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": self.nbytes,
        }
        if self.annotations:
            document["annotations"] = dict(self.annotations)
        if self.artifact_type:
            document["artifactType"] = self.artifact_type
        return document


def parse_descriptor(value: Any) -> Descriptor:
    """Parse a descriptor from an untrusted document.

    Raises:
        ValueError: The value is not a descriptor; the message says what is wrong and what is
            expected.
    """
    if not isinstance(value, Mapping):
        raise ValueError("a descriptor is an object with mediaType, digest and size")  # noqa: TRY004
    media_type, digest, nbytes = value.get("mediaType"), value.get("digest"), value.get("size")
    if not isinstance(media_type, str) or _MEDIA_TYPE.fullmatch(media_type) is None:
        raise ValueError("mediaType is not a media type such as application/json")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ValueError("digest is not sha256: and 64 lower-case hex digits")
    if type(nbytes) is not int or not 0 <= nbytes <= _MOST_NBYTES:
        raise ValueError(f"size is not a number of bytes from 0 to {_MOST_NBYTES}")
    artifact_type = value.get("artifactType", "")
    if not isinstance(artifact_type, str) or len(artifact_type) > 255:
        raise ValueError("artifactType is not a media type")
    return Descriptor(
        media_type=media_type,
        digest=digest,
        nbytes=nbytes,
        annotations=parse_annotations(value.get("annotations")),
        artifact_type=artifact_type,
    )


def parse_annotations(value: Any) -> Mapping[str, str]:
    """Parse the annotations of a descriptor or manifest.

    Raises:
        ValueError: See :func:`parse_descriptor`.
    """
    if value is None:
        return EMPTY
    if not isinstance(value, Mapping) or len(value) > _MOST_ANNOTATIONS:
        raise ValueError(f"annotations are not an object of at most {_MOST_ANNOTATIONS} texts")
    for key, text in value.items():
        if not isinstance(text, str) or len(key) + len(text) > _MOST_ANNOTATION_CHARACTERS:
            raise ValueError(
                "an annotation is not a text of at most"
                f" {_MOST_ANNOTATION_CHARACTERS} characters with its key"
            )
    return dict(value)
