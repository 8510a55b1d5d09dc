"""Who owns values that no kernel made: from sequences, optionals and sub-graphs.

The executor may overwrite a buffer once the value in it has died, and may compute in place. So an
output must not share memory with an input, nor with another output. Sequences own their elements:
arrays in a list are never written to, lists may share them, and what goes in or comes out is
copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ortpkg.kernels.op_kernel import Value


def copied(value: Value) -> Value:
    """A value of one's own: arrays are copied, lists share elements, which nobody writes."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return list(value)
    return value


def owned(values: Iterable[Value], inputs: Sequence[Value]) -> list[Value]:
    """``values``, copied where they share memory with ``inputs`` or with each other."""
    taken = [value for value in inputs if isinstance(value, np.ndarray)]
    found: list[Value] = []
    for value in values:
        if not isinstance(value, np.ndarray):
            found.append(copied(value))
            continue
        own = value.copy() if any(np.may_share_memory(value, other) for other in taken) else value
        taken.append(own)
        found.append(own)
    return found
