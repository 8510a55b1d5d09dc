"""Log of runs of installed packages: one line for each run, in ``uses/<name>.jsonl``.

It informs people and the collection; nothing depends on it. So it is short, its writes are not
waited for, and if it cannot be written there is none.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.store_folder import StoreFolder
from ortpkg.foundations.storage.file_operations import open_unlinked

#: Size at which the log becomes the old log, which is replaced.
_MOST_NBYTES = 64 * 1024
_MOST_LINE_NBYTES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One run of a variant.

    Attributes:
        time: Time of the run, in seconds since 1970.
        generation: Number of the installation.
        variant: ``component/variant``.
    """

    time: float
    generation: int
    variant: str


def note_use(folder: StoreFolder, generation: Generation, variant: str) -> None:
    """Record that ``variant`` of an installation runs now."""
    record = {"time": round(time.time(), 3), "generation": generation.number, "variant": variant}
    line = (json.dumps(record) + "\n").encode()
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
    """Return the last runs of a name's installations, newest last."""
    path, old = _paths(folder, name)
    runs = [_use_of(line) for file in (old, path) for line in _lines(file)]
    return tuple(sorted((run for run in runs if run is not None), key=lambda run: run.time))


def forget_uses(folder: StoreFolder, name: str) -> None:
    """Remove the log of a name."""
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
    """Return the run of a line, or None for an incomplete line of a killed process."""
    try:
        record = json.loads(line)
        return Use(
            time=float(record["time"]),
            generation=int(record["generation"]),
            variant=str(record["variant"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
