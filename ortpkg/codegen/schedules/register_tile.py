"""The inner loop of a product: the sums of some rows and vectors of columns, in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.codegen.loop_ir.kernel import Buffer, Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.loop_ir.loop_types import LoopType, Scalar


def add_products(
    builder: KernelBuilder,
    sums: Sequence[Value],
    left: Buffer,
    rows: Sequence[Value],
    right: Buffer,
    panel: Value,
    steps: Operand,
) -> tuple[Value, ...]:
    """f32 sums with the products of all steps added, in order: row by row, vector by vector.

    Args:
        builder: of the kernel.
        sums: one vector for each row and vector of columns.
        left: read at ``rows``, one number a step.
        rows: where each row begins.
        right: a panel: for each step the vectors of its columns, from ``panel`` on.
        panel: where it begins.
        steps: how many there are.
    """
    b, vectors, lanes = builder, len(sums) // len(rows), sums[0].type.lanes
    with b.loop(0, steps, carried=sums, hint="step") as step:
        place = b.add(panel, b.mul(step.index, vectors * lanes))
        columns = [b.load(right, b.add(place, each * lanes), lanes) for each in range(vectors)]
        made: list[Value] = []
        for number, row in enumerate(rows):
            times = b.splat(b.load(left, b.add(row, step.index)), lanes)
            own = step.carried[number * vectors : (number + 1) * vectors]
            made += [b.fma(times, each, sum_) for each, sum_ in zip(columns, own, strict=True)]
        step.hand_on(*made)
    return step.results


def zero_sums(builder: KernelBuilder, count: int, lanes: int) -> list[Value]:
    """So many sums of nothing."""
    return [builder.constant(0, LoopType(Scalar.F32, lanes))] * count
