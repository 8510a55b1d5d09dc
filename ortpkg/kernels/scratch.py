"""Memory that a kernel needs only while it computes: panels, tiles, sums.

Each thread keeps its own between calls.

Whoever takes the same slot next on the same thread gets the same bytes. So a kernel takes all it
needs in a slot at once, and what is used while another slot's memory is in use has a slot of its
own. Blocks beyond :data:`MOST_KEPT_NBYTES` are not kept.
"""

from __future__ import annotations

import math
import threading
from enum import Enum
from typing import Any

import numpy as np

from ortpkg.kernels.op_kernel import Tensor

#: Smaller requests are simply allocated: the allocator has such blocks at hand, and finding scratch
#: takes longer.
_LEAST_KEPT_NBYTES = 1 << 15
#: More than the panels of usual models take; what a kernel asks beyond it is allocated for the
#: call.
MOST_KEPT_NBYTES = 48 << 20
_ALIGNMENT = 64


class Slot(Enum):
    """What scratch is for, outside in: SHARED by a node's steps, a PANEL, a TASK, a BLOCK."""

    SHARED = 0
    PANEL = 1
    TASK = 2
    BLOCK = 3


class _Kept(threading.local):
    def __init__(self) -> None:
        self.blocks = [np.empty(0, np.uint8) for _ in Slot]


_kept = _Kept()


def take_scratch(slot: Slot, *requests: tuple[tuple[int, ...], np.dtype[Any]]) -> list[Tensor]:
    """An uninitialized array per shape and dtype, until this thread's next call for the slot."""
    nbytes = sum([_rounded(math.prod(shape) * dtype.itemsize) for shape, dtype in requests])
    if nbytes <= _LEAST_KEPT_NBYTES:
        return [np.empty(shape, dtype) for shape, dtype in requests]
    block = _kept.blocks[slot.value]
    if block.size < nbytes:
        block = np.empty(nbytes, np.uint8)
        if nbytes <= MOST_KEPT_NBYTES:
            _kept.blocks[slot.value] = block
    arrays, offset = [], 0
    for shape, dtype in requests:
        arrays.append(np.ndarray(shape, dtype, buffer=block.data, offset=offset))
        offset += _rounded(math.prod(shape) * dtype.itemsize)
    return arrays


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
