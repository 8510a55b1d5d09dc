"""Ask a tool of the operating system: short, bounded, and never an error."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_MOST_CHARACTERS = 1 << 20


def output_of(command: Sequence[str], *, timeout_s: float) -> str | None:
    """Return the output of ``command``; None if it is missing, fails or hangs."""
    try:
        completed = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout[:_MOST_CHARACTERS]
