"""Folders of files whose digests are recorded, as those of a package are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests


def write_files(root: Path, files: Mapping[str, bytes]) -> Path:
    """Writes files (path → content) to the folder ``root``, which is returned."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write_recorded(root: Path, files: Mapping[str, bytes]) -> Path:
    """The same with a digests.json of them."""
    write_files(root, files)
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))
    return root
