"""Outputs that a command writes again at each call: they replace what such a command wrote, and nothing else."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from ortpkg.errors import UsageError, quoted

_MOST_LOOKED_AT = 1 << 16


class OutputKind(Enum):
    """What a command writes, in words."""

    ARRAYS = "an npz file"
    PICTURE = "an SVG picture"
    PROFILE = "a machine profile"


def verify_replaceable(path: Path, flag: str, kind: OutputKind) -> None:
    """Raises UsageError where ``path`` holds something that is no such output: it is somebody's, and stays."""
    try:
        is_kind = not path.exists() or _is_of(path, kind)
    except OSError:
        return  # writing there says why it cannot
    if not is_kind:
        raise UsageError(
            f"{flag} {quoted(path)} is there already and is not {kind.value}: name another file, or delete it first"
        )


def verify_reads_no(path: Path, flag: str, read: Iterable[Path]) -> None:
    """Raises UsageError where ``path`` is one of the files that the command reads."""
    try:
        is_read = path.exists() and any(each.exists() and path.samefile(each) for each in read)
    except OSError:
        return  # reading it says why it cannot be read
    if is_read:
        raise UsageError(f"{flag} {quoted(path)} would replace what the command reads: name another file")


def _is_of(path: Path, kind: OutputKind) -> bool:
    if not path.is_file():
        return path.is_char_device()  # such as /dev/null
    if path.stat().st_size == 0:
        return True
    if kind is OutputKind.ARRAYS:
        return _is_npz(path)
    with path.open("rb") as file:
        start = file.read(_MOST_LOOKED_AT)
    return b"<svg" in start if kind is OutputKind.PICTURE else b'"machine_profile"' in start


def _is_npz(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
