"""What ran when, of what is installed: one line for each run, in ``uses/<name>.jsonl``.

It helps people and gc; nothing depends on it. So it is short, is not waited for until it is on the
disk, and where it cannot be written there is none.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from ortpkg.storage.file_operations import open_unlinked
from ortpkg.store.generations import Generation
from ortpkg.store.store_folder import StoreFolder

#: Then the file becomes the old one, and what was the old one goes.
_MOST_NBYTES = 64 * 1024
_MOST_LINE_NBYTES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One run of a variant.

    Attributes:
        time: when, in seconds since 1970.
        generation: number of the installation.
        variant: ``component/variant``.
    """

    time: float
    generation: int
    variant: str


def note_use(folder: StoreFolder, generation: Generation, variant: str) -> None:
    """Writes down that ``variant`` of an installation runs now."""
    said = {"time": round(time.time(), 3), "generation": generation.number, "variant": variant}
    line = (json.dumps(said) + "\n").encode()
    path, old = _paths(folder, generation.name)
    if len(line) > _MOST_LINE_NBYTES:
        return
    with contextlib.suppress(OSError):
        try:
            folder.operations.append_line(path, line)
        except FileNotFoundError:
            if not folder.root.is_dir():
                return
            folder.operations.make_directory(folder.uses)
            folder.operations.append_line(path, line)
        if path.stat().st_size > _MOST_NBYTES:
            folder.operations.replace(path, old)


def uses(folder: StoreFolder, name: str) -> tuple[Use, ...]:
    """The last runs of a name's installations, the newest last."""
    path, old = _paths(folder, name)
    found = [_use_of(line) for file in (old, path) for line in _lines(file)]
    return tuple(sorted((each for each in found if each is not None), key=lambda each: each.time))


def forget_uses(folder: StoreFolder, name: str) -> None:
    """Removes what is known of a name."""
    for path in _paths(folder, name):
        folder.operations.unlink(path)


def _paths(folder: StoreFolder, name: str) -> tuple[Path, Path]:
    return folder.uses / f"{name}.jsonl", folder.uses / f"{name}.jsonl.old"


def _lines(path: Path) -> list[bytes]:
    try:
        with open_unlinked(path, "rb") as file:
            return file.read(2 * _MOST_NBYTES).splitlines()
    except OSError:
        return []


def _use_of(line: bytes) -> Use | None:
    """None for half a line of a process that was killed."""
    try:
        said = json.loads(line)
        return Use(
            time=float(said["time"]),
            generation=int(said["generation"]),
            variant=str(said["variant"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
