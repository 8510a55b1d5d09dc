"""Integers of few bits, several to a byte, as com.microsoft's weights are stored."""

from __future__ import annotations

import numpy as np

from ortpkg.runtime.kernels.op_kernel import Tensor


def bits_apart(packed: Tensor, bits: int) -> Tensor:
    """Unpack bytes to codes of ``bits`` (2, 4 or 8) bits, low bits first, along the last axis."""
    if bits == 8:
        return packed
    codes = (packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8((1 << bits) - 1)
    return codes.reshape(*packed.shape[:-1], -1)
