"""Loops over neighbours: whole vectors, several at once, then the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel

#: (index of the first, lanes, number of valid lanes or None for all)
Body = Callable[[Value, int, Operand | None], None]


def for_vectors(
    b: KernelBuilder,
    start: Operand,
    stop: Operand,
    body: Body,
    *,
    lanes: int,
    unroll: int = 1,
    is_masked: bool,
) -> None:
    """Emit the loop from start up to stop.

    Args:
        b: builder of the kernel.
        start, stop: i64 numbers.
        body: emits the statements for some neighbours.
        lanes: lanes of one vector.
        unroll: number of vectors in an iteration.
        is_masked: True if a masked vector takes the rest; otherwise it is done one by one.
    """
    position = start
    for step in [lanes * unroll, lanes] if unroll > 1 else [lanes]:
        end = whole_end(b, position, stop, step)
        if _count(b, position, end) != 0:
            with b.loop(position, end, step) as loop:
                _do_vectors(b, loop.index, body, lanes=lanes, step=step)
        position = end
    if _count(b, position, stop) == 0:
        return
    if not is_masked or lanes == 1:
        if lanes > 1:
            with b.loop(position, stop) as loop:
                body(loop.index, 1, None)
        return
    rest = b.sub(b.index(stop), position)
    if b.number_of(rest) is not None:
        body(b.index(position), lanes, rest)
        return
    with b.when(b.compute(Op.GT, rest, 0)):
        body(b.index(position), lanes, rest)


def _do_vectors(b: KernelBuilder, first: Value, body: Body, *, lanes: int, step: int) -> None:
    if step == lanes:
        body(first, lanes, None)
        return
    with b.loop(0, step, lanes, unroll=True) as loop:
        body(b.add(first, loop.index), lanes, None)


def whole_end(b: KernelBuilder, start: Operand, stop: Operand, step: int) -> Operand:
    """Return the end of the last whole step from start."""
    if step == 1:
        return stop
    first, last = b.number_of(start), b.number_of(stop)
    if first is not None and last is not None:
        return int(first) + max(int(last - first), 0) // step * step
    length = b.sub(b.index(stop), start)
    return b.sub(b.index(stop), b.rem(length, step))


def has_masks(model: MachineModel, scalars: Iterable[Scalar]) -> bool:
    """Return True if the CPU has masked loads and stores for all of these types."""
    if model.vector_nbytes >= 64:
        return True
    return model.vector_nbytes >= 32 and all(scalar.nbytes >= 4 for scalar in scalars)


def _count(b: KernelBuilder, start: Operand, stop: Operand) -> int | None:
    first, last = b.number_of(start), b.number_of(stop)
    return int(last) - int(first) if first is not None and last is not None else None
