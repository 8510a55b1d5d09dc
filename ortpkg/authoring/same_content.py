"""Compare files by their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ortpkg.storage.hashing import hash_file


def have_same_bytes(ours: Path, theirs: Path) -> bool:
    """Return True if both are regular files with the same content."""
    if not ours.is_file() or not theirs.is_file() or ours.stat().st_size != theirs.stat().st_size:
        return False
    return hash_file(ours.resolve()).sha256 == hash_file(theirs.resolve()).sha256


def have_same_files(ours: Mapping[str, Path], theirs: Mapping[str, Path]) -> bool:
    """Return True if both have the same names, and files of the same content under each."""
    return ours.keys() == theirs.keys() and all(
        have_same_bytes(path, theirs[name]) for name, path in ours.items()
    )
