"""The inner loop of a product: sums of some rows and vectors of columns, in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.compiler.loop_ir.kernel import Buffer, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar


def add_products(
    builder: KernelBuilder,
    sums: Sequence[Value],
    left: Buffer,
    rows: Sequence[Value],
    right: Buffer,
    panel: Value,
    steps: Operand,
) -> tuple[Value, ...]:
    """Return f32 sums plus the products of all steps, in order: row by row, vector by vector.

    Args:
        builder: builder of the kernel.
        sums: one vector for each row and vector of columns.
        left: buffer of the rows, one number a step.
        rows: offset of each row.
        right: buffer of a panel: for each step the vectors of its columns.
        panel: offset of the panel.
        steps: number of steps.
    """
    b, vectors, lanes = builder, len(sums) // len(rows), sums[0].type.lanes
    with b.loop(0, steps, carried=sums, hint="step") as step:
        step_start = b.add(panel, b.mul(step.index, vectors * lanes))
        columns = [
            b.load(right, b.add(step_start, vector * lanes), lanes) for vector in range(vectors)
        ]
        made: list[Value] = []
        for number, row in enumerate(rows):
            times = b.splat(b.load(left, b.add(row, step.index)), lanes)
            row_sums = step.carried[number * vectors : (number + 1) * vectors]
            made += [
                b.fma(times, column, total) for column, total in zip(columns, row_sums, strict=True)
            ]
        step.hand_on(*made)
    return step.results


def zero_sums(builder: KernelBuilder, count: int, lanes: int) -> list[Value]:
    """Return ``count`` vectors of zeros."""
    return [builder.constant(0, LoopType(Scalar.F32, lanes))] * count
