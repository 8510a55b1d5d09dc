"""``index.json``: what is in use, for tools that read OCI image layouts.

ortpkg itself never reads it: it is made from the names, anew after each change of what is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortpkg.errors import StoreError
from ortpkg.registry.descriptors import Descriptor
from ortpkg.registry.repository import INDEX_MEDIA_TYPE, MANIFEST_MEDIA_TYPE
from ortpkg.store.generations import Generation
from ortpkg.store.store_folder import StoreFolder, read_json

_INDEX = "index.json"
_NAME = "org.opencontainers.image.ref.name"
_VERSION = "org.opencontainers.image.version"


def write_index(folder: StoreFolder, current: Sequence[Generation]) -> bool:
    """Writes an entry for each generation whose manifest is a blob here; returns if any is new."""
    manifests = [
        descriptor.to_json() for each in current if (descriptor := _descriptor_of(folder, each))
    ]
    document: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": INDEX_MEDIA_TYPE,
        "manifests": manifests,
    }
    if _read(folder) == document:
        return False
    folder.write_json(folder.root / _INDEX, document)
    return True


def _read(folder: StoreFolder) -> dict[str, Any] | None:
    try:
        return read_json(folder.root / _INDEX)
    except StoreError:  # damaged
        return None


def _descriptor_of(folder: StoreFolder, generation: Generation) -> Descriptor | None:
    try:
        nbytes = (folder.blobs / generation.digest.removeprefix("sha256:")).stat().st_size
    except OSError:
        return None
    annotations = {_NAME: generation.name}
    if generation.tag:
        annotations[_VERSION] = generation.tag
    return Descriptor(
        media_type=MANIFEST_MEDIA_TYPE,
        digest=generation.digest,
        nbytes=nbytes,
        annotations=annotations,
    )
