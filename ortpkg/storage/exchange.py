"""Exchanges two names of a file system in one step: renameat2 on Linux, renamex_np on macOS; the
standard library has neither.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_HERE = -100  # AT_FDCWD of Linux: relative paths start in the current folder
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def exchange_names(first: Path, second: Path) -> bool:
    """Whether the two were exchanged; False where the system cannot, with nothing changed."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None)
        if hasattr(library, "renameat2"):
            return bool(library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
        return bool(library.renamex_np(names[0], names[1], _EXCHANGE) == 0)
    except (OSError, AttributeError, TypeError):  # another system, or an old C library
        return False
