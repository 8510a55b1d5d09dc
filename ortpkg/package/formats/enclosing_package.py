"""Finds the package that a folder belongs to: the folder itself, or one above it."""

from __future__ import annotations

import os
from pathlib import Path

from ortpkg.documents.json_documents import read_document
from ortpkg.errors import PackageFormatError
from ortpkg.package.document_names import MANIFEST, METADATA

_SUFFIX = ".ortpackage"
#: Keys that a model package's manifest has, one of them at least. Web applications have a
#: manifest.json, too.
_MANIFEST_KEYS = ("component_models", "components", "model_name", "package_name")
#: Keys of a component model's metadata.json, which may be all that a package has.
_METADATA_KEYS = ("model_variants", "component_model_name")


def enclosing_package(start: Path) -> Path | None:
    """The nearest of ``start`` and the folders above it that is a package; None where none is.

    A folder named ``*.ortpackage`` needs no more than its document, so that a damaged package is
    found as well. A component model's folder counts only where it lies in no package.
    """
    folders = (start, *start.parents)
    for name, keys in ((MANIFEST, _MANIFEST_KEYS), (METADATA, _METADATA_KEYS)):
        for folder in folders:
            document = folder / name
            # Of a folder that may not be read, Path.is_file would raise.
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
