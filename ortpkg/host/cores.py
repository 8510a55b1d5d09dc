"""How many cores there are for this process."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux only; psutil says the same, and takes loading
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
