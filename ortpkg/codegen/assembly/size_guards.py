"""What sizes must satisfy for the operations of a program to stay within their tensors.

Sizes that a model declares equal may differ when it runs, and a stranger's model declares what it
likes. What is wrong for every size is refused when it is compiled; what depends on sizes becomes a
guard of the program, which is asked before each new shape runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ortpkg.codegen.lowering.lowering_scope import NotLoweredError
from ortpkg.codegen.tensor_ir.elements import Place, Read, Tensor, parts_of
from ortpkg.codegen.tensor_ir.operation_expressions import expressions_of
from ortpkg.codegen.tensor_ir.operations import Alias, Attention, Map, Operation
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram
from ortpkg.codegen.tensor_ir.tensor_verifier import OperationFaultError, verify_operations
from ortpkg.machine_code.program import Guard
from ortpkg.shapes.expressions import Size

Axes = tuple[Size, ...]


def size_guards(program: TensorProgram) -> tuple[Guard, ...]:
    """The guards of a program, each once.

    Raises NotLoweredError where an operation leaves a tensor for every size.
    """
    try:
        verify_operations(program.operations)
    except OperationFaultError as error:
        raise NotLoweredError(str(error)) from error
    found: dict[tuple[Axes, Size], Guard] = {}
    differences = [
        margin for left, right in program.equal_sizes for margin in (left - right, right - left)
    ]
    for margin in (*differences, *program.margins):
        found[(), margin] = Guard(axes=(), margin=margin)
    for operation in program.operations:
        for axes, margin in _margins(operation):
            if isinstance(margin, int):
                if margin < 0 and all(isinstance(each, int) and each > 0 for each in axes):
                    raise NotLoweredError(f"what makes {operation.output.name} leaves a tensor")
                if margin >= 0:
                    continue
            found[axes, margin] = Guard(axes=axes, margin=margin)
    return tuple(found.values())


def _margins(operation: Operation) -> Iterator[tuple[Axes, Size]]:
    """Numbers that must not be below 0, with the axes that must count for them to matter."""
    match operation:
        case Alias():
            counts = [prod(each.shape, start=1) for each in (operation.output, operation.source)]
            yield (), counts[1] - counts[0]
            yield (), counts[0] - counts[1]
        case Map():
            yield from _of_places(operation.output, operation.places, operation.axes)
        case Attention():
            axes = (*operation.batch, operation.queries, operation.value_width)
            yield from _of_places(operation.output, operation.places, axes)
        case _:
            pass
    for expression in expressions_of(operation):
        if expression.axes is None:
            continue
        for part in parts_of(expression.element):
            if isinstance(part, Read):
                yield from _of_places(part.tensor, part.places, expression.axes)


def _of_places(tensor: Tensor, places: Sequence[Place], axes: Axes) -> Iterator[tuple[Axes, Size]]:
    for place, size in zip(places, tensor.shape, strict=True):
        if place.value is not None:  # it is clamped to the dimension, which must not be empty
            yield axes, size - 1
            continue
        least = most = place.offset
        for axis, times in place.terms:
            far = times * (axes[axis] - 1)
            if isinstance(times, int) and times < 0:
                least = least + far
            else:
                most = most + far
        yield axes, least
        yield axes, size - 1 - most
