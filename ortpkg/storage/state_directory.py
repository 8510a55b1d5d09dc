"""Where records of this user and machine lie.

Kept apart so that a selection finds out in microseconds that none do.
"""

from __future__ import annotations

import os
from pathlib import Path

from ortpkg.host.directories import state_directory


def records_directory() -> str:
    """One file per package that was measured here or failed here."""
    return os.path.join(state_directory(), "records")  # noqa: PTH118


def has_records() -> bool:
    """Whether anything may be recorded on this machine; costs one look at a directory."""
    return os.path.isdir(records_directory())  # noqa: PTH112 - a Path takes as long again


def bench_lock_path() -> Path:
    """Held while something is measured, so that two benchmarks do not measure each other."""
    return Path(state_directory()) / "bench.lock"
