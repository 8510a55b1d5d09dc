"""The expressions of operations, with the axes over which each is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import Element, Made, Tensor, scalar_of
from ortpkg.codegen.tensor_ir.operations import (
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
from ortpkg.shapes.expressions import Size


@dataclass(frozen=True, slots=True)
class Expression:
    """An element with what it may refer to; ``axes`` None: they are not known."""

    element: Element
    axes: tuple[Size, ...] | None
    made: Scalar | None
    wanted: Scalar | None


def expressions_of(operation: Operation) -> Iterator[Expression]:
    """Every expression of an operation, with its axes."""
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
            yield from _of_product(operation)
        case Attention():
            yield from _of_attention(operation)
        case Convolution():
            yield from _of_convolution(operation)
        case Pool(epilogue=epilogue):
            windows = _axes_of_windows(output, len(operation.window.kernel))
            yield Expression(epilogue or Made(Scalar.F32), windows, Scalar.F32, output.scalar)
        case Recurrence():
            yield from _of_recurrence(operation)
        case Alias():
            pass


def _of_product(operation: Product) -> Iterator[Expression]:
    batch, m, n, k = operation.batch, operation.m, operation.n, operation.k
    for each, axes in (
        (operation.left, (*batch, m, k)), (operation.right, (*batch, k, n)),
        (operation.left_zero, (*batch, m, k)), (operation.right_zero, (*batch, k, n)),
    ):  # fmt: skip
        if each is not None:
            yield Expression(each, axes, None, None)
    made = Scalar.F32 if scalar_of(operation.left).is_float else Scalar.I32
    yield Expression(
        operation.epilogue or Made(made), (*batch, m, n), made, operation.output.scalar
    )


def _of_attention(operation: Attention) -> Iterator[Expression]:
    batch, queries, keys = operation.batch, operation.queries, operation.keys
    yield Expression(operation.query, (*batch, queries, operation.width), None, None)
    yield Expression(operation.key, (*batch, keys, operation.width), None, None)
    yield Expression(operation.value, (*batch, keys, operation.value_width), None, None)
    if operation.score is not None:
        yield Expression(operation.score, (*batch, queries, keys), Scalar.F32, Scalar.F32)


def _of_convolution(operation: Convolution) -> Iterator[Expression]:
    spatial_rank = len(operation.window.kernel)
    axes = _axes_of_windows(operation.output, spatial_rank)
    made = Scalar.F32 if operation.source.scalar.is_float else Scalar.I32
    yield Expression(operation.epilogue or Made(made), axes, made, operation.output.scalar)
    if operation.source_zero is not None:
        yield Expression(operation.source_zero, (), None, None)
    if operation.weights_zero is not None:
        channels = (1, operation.weights.shape[0], *(1,) * spatial_rank)
        yield Expression(operation.weights_zero, axes and channels, None, None)


def _axes_of_windows(output: Tensor, spatial_rank: int) -> tuple[Size, ...] | None:
    """The axes of the output of windows, where its channels are plain.

    Of lanes in blocks some may stand for no channel, and what is read for them is left out.
    """
    return output.shape if len(output.shape) == spatial_rank + 2 else None


def _of_recurrence(operation: Recurrence) -> Iterator[Expression]:
    directions, hidden = len(operation.backward), operation.hidden
    units, states = (directions, hidden), (directions, operation.batch, hidden)
    gates = (directions, operation.cell.gate_count, hidden, hidden)
    for each, axes in (
        (operation.recurrence, gates), (operation.late_bias, units), (operation.initial, states),
        (operation.initial_cell, states), *((each, units) for each in operation.peepholes),
    ):  # fmt: skip
        if each is not None:
            yield Expression(each, axes, None, Scalar.F32)
    for each in operation.activations:
        yield Expression(each, (), Scalar.F32, Scalar.F32)
    if operation.lengths is not None:
        yield Expression(operation.lengths, (operation.batch,), None, None)
