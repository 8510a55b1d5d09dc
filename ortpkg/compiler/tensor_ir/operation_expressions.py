"""The expressions of operations, with the axes that each is computed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import Element, Made, Tensor, scalar_of
from ortpkg.compiler.tensor_ir.operations import (
    Alias,
    Attention,
    Convolution,
    Map,
    Operation,
    Pool,
    Product,
    Recurrence,
    Reduce,
    RowNormalize,
)
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True)
class Expression:
    """An element and what it may refer to.

    Attributes:
        element: the expression.
        axes: sizes of the axes; None if unknown.
        made: scalar type of ``Made`` in it; None if it may not have one.
        wanted: scalar type that the expression must have; None for any.
    """

    element: Element
    axes: tuple[Size, ...] | None
    made: Scalar | None
    wanted: Scalar | None


def expressions_of(operation: Operation) -> Iterator[Expression]:
    """Yield every expression of an operation, with its axes."""
    output = operation.output
    match operation:
        case Map(axes=axes, value=value):
            yield Expression(value, axes, None, output.scalar)
        case Reduce(axes=axes, reduced=reduced, value=value, epilogue=epilogue):
            yield Expression(value, (*axes, *reduced), None, None)
            made = scalar_of(value)
            yield Expression(epilogue or Made(made), axes, made, output.scalar)
        case RowNormalize(axes=axes, value=value, epilogue=epilogue):
            yield Expression(value, axes, None, Scalar.F32)
            yield Expression(epilogue or Made(Scalar.F32), axes, Scalar.F32, output.scalar)
        case Product():
            yield from _product_expressions(operation)
        case Attention():
            yield from _attention_expressions(operation)
        case Convolution():
            yield from _convolution_expressions(operation)
        case Pool(epilogue=epilogue):
            windows = _window_axes(output, len(operation.window.kernel))
            yield Expression(epilogue or Made(Scalar.F32), windows, Scalar.F32, output.scalar)
        case Recurrence():
            yield from _recurrence_expressions(operation)
        case Alias():
            pass


def _product_expressions(operation: Product) -> Iterator[Expression]:
    batch, m, n, k = operation.batch, operation.m, operation.n, operation.k
    for element, axes in (
        (operation.left, (*batch, m, k)), (operation.right, (*batch, k, n)),
        (operation.left_zero, (*batch, m, k)), (operation.right_zero, (*batch, k, n)),
    ):  # fmt: skip
        if element is not None:
            yield Expression(element, axes, None, None)
    made = Scalar.F32 if scalar_of(operation.left).is_float else Scalar.I32
    yield Expression(
        operation.epilogue or Made(made), (*batch, m, n), made, operation.output.scalar
    )


def _attention_expressions(operation: Attention) -> Iterator[Expression]:
    batch, queries, keys = operation.batch, operation.queries, operation.keys
    yield Expression(operation.query, (*batch, queries, operation.width), None, None)
    yield Expression(operation.key, (*batch, keys, operation.width), None, None)
    yield Expression(operation.value, (*batch, keys, operation.value_width), None, None)
    if operation.score is not None:
        yield Expression(operation.score, (*batch, queries, keys), Scalar.F32, Scalar.F32)


def _convolution_expressions(operation: Convolution) -> Iterator[Expression]:
    spatial_rank = len(operation.window.kernel)
    axes = _window_axes(operation.output, spatial_rank)
    made = Scalar.F32 if operation.source.scalar.is_float else Scalar.I32
    yield Expression(operation.epilogue or Made(made), axes, made, operation.output.scalar)
    if operation.source_zero is not None:
        yield Expression(operation.source_zero, (), None, None)
    if operation.weights_zero is not None:
        channels = (1, operation.weights.shape[0], *(1,) * spatial_rank)
        yield Expression(operation.weights_zero, axes and channels, None, None)


def _window_axes(output: Tensor, spatial_rank: int) -> tuple[Size, ...] | None:
    """Return the axes of an output of windows; None if its channels are in blocks.

    Some lanes of a block may stand for no channel; elements read for them are ignored.
    """
    return output.shape if len(output.shape) == spatial_rank + 2 else None


def _recurrence_expressions(operation: Recurrence) -> Iterator[Expression]:
    directions, hidden = len(operation.backward), operation.hidden
    units, states = (directions, hidden), (directions, operation.batch, hidden)
    gates = (directions, operation.cell.gate_count, hidden, hidden)
    for peephole, axes in (
        (operation.recurrence, gates), (operation.late_bias, units), (operation.initial, states),
        (operation.initial_cell, states), *((element, units) for element in operation.peepholes),
    ):  # fmt: skip
        if peephole is not None:
            yield Expression(peephole, axes, None, Scalar.F32)
    for element in operation.activations:
        yield Expression(element, (), Scalar.F32, Scalar.F32)
    if operation.lengths is not None:
        yield Expression(operation.lengths, (operation.batch,), None, None)
