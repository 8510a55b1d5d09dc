"""Pulls an artifact by oras for Python into a folder, by what ModelPack says of its layers alone.

Run by the interpreter that has oras: ``pull_with_oras.py host/repository:tag FOLDER``. It knows
nothing of ortpkg: a layer is the file at its path, and a tar archive is unpacked.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

from oras.provider import Registry  # type: ignore[import-not-found, unused-ignore]

PATH = "org.cncf.model.filepath"


def main(reference: str, folder: Path) -> None:
    """Pulls all layers of ``reference``."""
    registry = Registry(insecure=True)
    container = registry.get_container(reference)
    for layer in registry.get_manifest(container)["layers"]:
        target = folder / layer["annotations"][PATH]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not layer["mediaType"].endswith(".tar+gzip"):
            registry.download_blob(container, layer["digest"], str(target))
            continue
        packed = folder.with_suffix(".tar.gz")
        registry.download_blob(container, layer["digest"], str(packed))
        with tarfile.open(packed) as archive:
            archive.extractall(target, filter="data")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
