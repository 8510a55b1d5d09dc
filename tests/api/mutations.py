"""Damage to files, as storage, networks and strangers do it."""

from __future__ import annotations

import numpy as np


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """``data`` with some bytes changed, or cut, doubled or moved pieces.

    Never the same length of damage twice.
    """
    changed = bytearray(data)
    kind = random.integers(5)
    start, end = sorted(int(each) for each in random.integers(0, len(data) + 1, 2))
    if kind <= 1:
        for _ in range(int(random.integers(1, 9))):
            changed[int(random.integers(len(changed)))] = int(random.integers(256))
    elif kind == 2:
        del changed[start:end]
    elif kind == 3:
        changed[start:start] = data[start:end]
    else:
        changed[start:end] = random.bytes(end - start)
    return bytes(changed)
