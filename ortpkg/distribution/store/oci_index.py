"""The file ``index.json``, which tells tools that read OCI image layouts which packages are in use.

ortpkg itself never reads it, and writes it from the names after each change of what is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.repository import INDEX_MEDIA_TYPE, MANIFEST_MEDIA_TYPE
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.store_folder import StoreFolder
from ortpkg.foundations.errors import StoreError
from ortpkg.package.stored_documents import read_json

_INDEX = "index.json"
_NAME = "org.opencontainers.image.ref.name"
_VERSION = "org.opencontainers.image.version"


def write_index(folder: StoreFolder, current: Sequence[Generation]) -> bool:
    """Write an entry for each generation whose manifest is a blob; return True if one is new."""
    manifests = [
        descriptor.to_json() for entry in current if (descriptor := _descriptor_of(folder, entry))
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
