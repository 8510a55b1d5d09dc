"""Memory that a kernel needs only while it computes: panels, tiles, sums. Each thread keeps its own between calls.

A kernel takes all the scratch it needs at once, and whoever takes next on the same thread gets the same bytes: so a
kernel must not use scratch across a call that takes some itself. Blocks beyond :data:`MOST_KEPT_NBYTES` are not kept.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from ortpkg.kernels.op_kernel import Tensor

#: More than the panels of usual models take; what a kernel asks beyond it is allocated for the call.
MOST_KEPT_NBYTES = 48 << 20
_ALIGNMENT = 64


class _Kept(threading.local):
    block: Tensor = np.empty(0, np.uint8)


_kept = _Kept()


def scratch_nbytes(*requests: tuple[tuple[int, ...], np.dtype[Any]]) -> int:
    """Bytes that :func:`take_scratch` needs for these arrays."""
    return sum(_rounded(math.prod(shape) * dtype.itemsize) for shape, dtype in requests)


def take_scratch(*requests: tuple[tuple[int, ...], np.dtype[Any]]) -> list[Tensor]:
    """One uninitialized array per (shape, dtype), until the next call on this thread."""
    nbytes = scratch_nbytes(*requests)
    block = _kept.block
    if block.size < nbytes:
        block = np.empty(nbytes, np.uint8)
        if nbytes <= MOST_KEPT_NBYTES:
            _kept.block = block
    arrays, offset = [], 0
    for shape, dtype in requests:
        arrays.append(np.ndarray(shape, dtype, buffer=block.data, offset=offset))
        offset += _rounded(math.prod(shape) * dtype.itemsize)
    return arrays


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
