"""Conditions on sizes under which the operations of a program stay within their tensors.

Sizes that a model declares equal may differ when it runs, and an untrusted model may declare
anything. A fault for every size is refused at compile time; a condition that depends on sizes
becomes a guard of the program, checked before each new shape runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.machine_code.program import Guard
from ortpkg.compiler.tensor_ir.elements import Coordinate, Read, Tensor, parts_of
from ortpkg.compiler.tensor_ir.operation_expressions import expressions_of
from ortpkg.compiler.tensor_ir.operations import Alias, Attention, Map, Operation
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.compiler.tensor_ir.tensor_verifier import OperationFaultError, verify_operations
from ortpkg.graph.shapes.expressions import Size

Axes = tuple[Size, ...]


def size_guards(program: TensorProgram) -> tuple[Guard, ...]:
    """Return the guards of a program, each once.

    Raises:
        NotLoweredError: if an operation leaves a tensor for every size.
    """
    try:
        verify_operations(program.operations)
    except OperationFaultError as error:
        raise NotLoweredError(str(error)) from error
    guards: dict[tuple[Axes, Size], Guard] = {}
    differences = [
        margin for left, right in program.equal_sizes for margin in (left - right, right - left)
    ]
    for margin in (*differences, *program.margins):
        guards[(), margin] = Guard(axes=(), margin=margin)
    for operation in program.operations:
        for axes, margin in _margins(operation):
            if isinstance(margin, int):
                if margin < 0 and all(isinstance(size, int) and size > 0 for size in axes):
                    raise NotLoweredError(f"what makes {operation.output.name} leaves a tensor")
                if margin >= 0:
                    continue
            guards[axes, margin] = Guard(axes=axes, margin=margin)
    return tuple(guards.values())


def _margins(operation: Operation) -> Iterator[tuple[Axes, Size]]:
    """Yield numbers that must not be negative, each with the axes that must not be empty for it."""
    match operation:
        case Alias():
            counts = [
                prod(tensor.shape, start=1) for tensor in (operation.output, operation.source)
            ]
            yield (), counts[1] - counts[0]
            yield (), counts[0] - counts[1]
        case Map():
            yield from _coordinate_margins(operation.output, operation.coordinates, operation.axes)
        case Attention():
            axes = (*operation.batch, operation.queries, operation.value_width)
            yield from _coordinate_margins(operation.output, operation.coordinates, axes)
        case _:
            pass
    for expression in expressions_of(operation):
        if expression.axes is None:
            continue
        for part in parts_of(expression.element):
            if isinstance(part, Read):
                yield from _coordinate_margins(part.tensor, part.coordinates, expression.axes)


def _coordinate_margins(
    tensor: Tensor, coordinates: Sequence[Coordinate], axes: Axes
) -> Iterator[tuple[Axes, Size]]:
    for coordinate, size in zip(coordinates, tensor.shape, strict=True):
        if coordinate.value is not None:  # clamped to the dimension, which must not be empty
            yield axes, size - 1
            continue
        least = most = coordinate.offset
        for axis, times in coordinate.terms:
            far = times * (axes[axis] - 1)
            if isinstance(times, int) and times < 0:
                least = least + far
            else:
                most = most + far
        yield axes, least
        yield axes, size - 1 - most
