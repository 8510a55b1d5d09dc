"""Where records of this user and machine lie.

Kept apart so that a selection finds out in microseconds that none do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

STATE_ENVIRONMENT = "ORTPKG_STATE_DIR"


def state_directory() -> str:
    """``ORTPKG_STATE_DIR``, else the platform's directory for what programs remember of a user.

    May not exist yet.

    The same as ``platformdirs.user_state_dir``, which on Linux is one variable, and there is not
    worth its import.
    """
    chosen = os.environ.get(STATE_ENVIRONMENT)
    if chosen:
        return chosen
    if sys.platform.startswith("linux") and "ANDROID_ROOT" not in os.environ:
        stated = os.environ.get("XDG_STATE_HOME", "").strip()
        base = stated or os.path.expanduser("~/.local/state")  # noqa: PTH111 - Path.home raises without a home
        return os.path.join(base, "ortpkg")  # noqa: PTH118 - a Path takes as long as all the rest
    import platformdirs  # see above

    return platformdirs.user_state_dir("ortpkg", appauthor=False)


def records_directory() -> str:
    """One file per package that was measured here or failed here."""
    return os.path.join(state_directory(), "records")  # noqa: PTH118


def has_records() -> bool:
    """Whether anything may be recorded on this machine; costs one look at a directory."""
    return os.path.isdir(records_directory())  # noqa: PTH112 - a Path takes as long again


def bench_lock_path() -> Path:
    """Held while something is measured, so that two benchmarks do not measure each other."""
    return Path(state_directory()) / "bench.lock"
