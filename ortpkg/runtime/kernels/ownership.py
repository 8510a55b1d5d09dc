"""Ownership of values from sequences, optionals and sub-graphs, which no kernel made.

The executor may overwrite a buffer once its value is no longer used, and may compute in place. So
an output must not share memory with an input, nor with another output. Sequences own their
elements: arrays in a list are never written to, lists may share them, and elements that go in or
come out are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ortpkg.runtime.kernels.op_kernel import Value


def copied(value: Value) -> Value:
    """Return a copy of a value; a copied list shares its elements, which nobody writes to."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return list(value)
    return value


def owned(values: Iterable[Value], inputs: Sequence[Value]) -> list[Value]:
    """Return ``values``, copied if they share memory with ``inputs`` or with each other."""
    used_arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    owned_values: list[Value] = []
    for value in values:
        if not isinstance(value, np.ndarray):
            owned_values.append(copied(value))
            continue
        array = (
            value.copy()
            if any(np.may_share_memory(value, other) for other in used_arrays)
            else value
        )
        used_arrays.append(array)
        owned_values.append(array)
    return owned_values
