"""Find the package that a folder belongs to: the folder itself, or one above it."""

from __future__ import annotations

import os
from pathlib import Path

from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import PackageFormatError
from ortpkg.package.document_names import MANIFEST, METADATA

_SUFFIX = ".ortpackage"
#: Keys of which a model package's manifest has at least one. Web applications have a
#: manifest.json, too.
_MANIFEST_KEYS = ("component_models", "components", "model_name", "package_name")
#: Keys of a component model's metadata.json, which may be the only document of a package.
_METADATA_KEYS = ("model_variants", "component_model_name")


def enclosing_package(start: Path) -> Path | None:
    """Return the nearest package among ``start`` and the folders above it; None if none is one.

    In a folder named ``*.ortpackage`` the document alone is enough, so that a damaged package is
    found as well. A component model's folder counts only if it lies in no package.
    """
    folders = (start, *start.parents)
    for name, keys in ((MANIFEST, _MANIFEST_KEYS), (METADATA, _METADATA_KEYS)):
        for folder in folders:
            document = folder / name
            # Path.is_file would raise in a folder without permission to read.
            if os.path.isfile(document) and (  # noqa: PTH113
                folder.name.endswith(_SUFFIX) or _has_a_key(document, keys)
            ):
                return folder
    return None


def _has_a_key(document: Path, keys: tuple[str, ...]) -> bool:
    try:
        value = read_document(document)
    except (PackageFormatError, OSError):
        return False
    return any(key in value for key in keys)
