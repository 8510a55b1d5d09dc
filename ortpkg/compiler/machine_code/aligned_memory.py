"""Memory whose alignment lets compiled code load whole vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.machine_code.program import ALIGNMENT

Bytes = npt.NDArray[np.uint8]


def aligned_block(nbytes: int) -> tuple[Bytes, int]:
    """Return ``nbytes`` or more of memory, and the address of its first aligned byte."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    address = int(memory.ctypes.data)
    return memory, address + -address % ALIGNMENT


def aligned_bytes(held: npt.NDArray[Any]) -> Bytes:
    """Return the bytes of a contiguous array: the array's own if aligned, else a copy."""
    raw = held.reshape(-1).view(np.uint8) if held.size else np.empty(0, np.uint8)
    if int(raw.ctypes.data) % ALIGNMENT == 0:
        return raw
    memory, address = aligned_block(raw.nbytes)
    start = address - int(memory.ctypes.data)
    aligned = memory[start : start + raw.nbytes]
    aligned[:] = raw
    return aligned
