"""Transposes a square of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder


def transposed_square(builder: KernelBuilder, rows: Sequence[Value]) -> list[Value]:
    """Return the transpose of a square of vectors, whose number of lanes is a power of two."""
    count = len(rows)
    values = list(rows)
    half = count // 2
    while half:
        # exchange the upper half of each block's lanes with the lower half of its partner's
        low = [lane if not lane & half else lane - half + count for lane in range(count)]
        high = [lane + half if not lane & half else lane + count for lane in range(count)]
        made = list(values)
        for row in range(count):
            if not row & half:
                pair = (values[row], values[row + half])
                made[row] = builder.shuffle(*pair, low)
                made[row + half] = builder.shuffle(*pair, high)
        values, half = made, half // 2
    return values
