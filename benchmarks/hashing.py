"""Hashing a package's files: ours against hashlib on all cores, in turns.

    python -m benchmarks.hashing [FILES [MIB_EACH]]

The goal is 0.9 of hashlib's speed. Files lie in the page cache, so that no disk is measured.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.paired import time_in_turns
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.storage.hashing import hash_files


def main() -> None:
    """Prints MiB/s of both and their ratio."""
    arguments = [int(argument) for argument in sys.argv[1:]]
    count, mib = (*arguments, *(8, 64)[len(arguments) :])
    with tempfile.TemporaryDirectory() as folder:
        paths = {str(index): Path(folder, str(index)) for index in range(count)}
        for path in paths.values():
            path.write_bytes(os.urandom(mib << 20))
        timings = time_in_turns(
            {
                "hashlib": lambda: _by_hashlib(list(paths.values())),
                "ortpkg": lambda: hash_files(paths),
            },
            baseline="hashlib",
            budget_s=10.0,
        )
    for name, timing in timings.items():
        speed = count * mib / timing.median_s
        print(
            f"{name:>8}  {speed:7.0f} MiB/s  {1 / timing.ratio:5.2f} x hashlib's speed on"
            f" {usable_cores()} cores"
        )


def _by_hashlib(paths: list[Path]) -> None:
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(_file_digest, paths))


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    main()
