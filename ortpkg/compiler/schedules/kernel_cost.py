"""Estimates the time of a kernel on one thread, as a formula of a run's sizes.

It counts products of vectors, a cycle each, and the cost of elements (:mod:`.element_cost`). The
launch plan uses it to decide which steps are worth sharing, where a factor of 2 or 3 matters
little.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.kernel import Role
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.machine_code.program import LONG_PS
from ortpkg.compiler.schedules.element_cost import element_ns
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Element, Tensor, scalar_of
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
from ortpkg.graph.shapes.expressions import Size, TooLargeError

_PS_PER_CYCLE = 300
#: Time per byte moved from and to the second-level cache or further.
_PS_PER_BYTE = 100
#: Time per element of a row in a softmax or a normalization, which passes over it several times.
_NORMALIZED_NS = 0.5
_BYTES = frozenset({Scalar.U8, Scalar.I8})


def kernel_cost_ps(operation: Operation, kernel: ScheduledKernel, model: MachineModel) -> Size:
    """Return the picoseconds that all tiles of a kernel of the operation take."""
    written = [
        tensor
        for tensor, buffer in zip(kernel.buffers, kernel.kernel.buffers, strict=True)
        if buffer.role is Role.OUTPUT
    ]
    try:
        if operation.output in written:
            return _operation_ps(operation, model)
        return sum((_moved_ps(tensor) for tensor in written), start=0)
    except TooLargeError:
        return LONG_PS


def _operation_ps(operation: Operation, model: MachineModel) -> Size:
    match operation:
        case Map():
            return _elements_ps(operation.value, operation.axes, model)
        case Reduce():
            axes = (*operation.axes, *operation.reduced)
            return _elements_ps(operation.value, axes, model)
        case RowNormalize():
            return prod(operation.axes, start=1) * round(
                1000 * (_NORMALIZED_NS + _element_ns(operation.value, operation.axes, model))
            )
        case Product():
            matrices = prod(operation.batch, start=1)
            terms = matrices * operation.m * operation.n * operation.k
            return _terms_ps(terms, scalar_of(operation.right), model) + _finished_ps(
                operation.epilogue, (*operation.batch, operation.m, operation.n), model
            )
        case Convolution():
            terms = _count(operation.output) * prod(operation.weights.shape[1:], start=1)
            return _terms_ps(terms, operation.weights.scalar, model) + _finished_ps(
                operation.epilogue, operation.output.shape, model
            )
        case Pool():
            terms = _count(operation.output) * prod(operation.window.kernel)
            return _terms_ps(terms, Scalar.F32, model) + _moved_ps(operation.output)
        case Attention():
            pairs = prod(operation.batch, start=1) * operation.queries * operation.keys
            width = operation.width + operation.value_width
            return _terms_ps(pairs * width, Scalar.F32, model) + pairs * round(
                1000 * _NORMALIZED_NS
            )
        case Recurrence():
            states = operation.steps * operation.batch * len(operation.backward)
            weights = operation.hidden * operation.hidden * operation.cell.gate_count
            return _terms_ps(states * weights, Scalar.F32, model)
        case Alias():
            return 0


def _terms_ps(terms: Size, scalar: Scalar, model: MachineModel) -> Size:
    """Return the picoseconds of this many products, each added to a sum."""
    at_once = model.lanes(Scalar.F32) * (4 if scalar in _BYTES else 1)
    return terms * max(1, _PS_PER_CYCLE // at_once)


def _finished_ps(epilogue: Element | None, axes: Sequence[Size], model: MachineModel) -> Size:
    return 0 if epilogue is None else _elements_ps(epilogue, axes, model)


def _elements_ps(element: Element, axes: Sequence[Size], model: MachineModel) -> Size:
    return prod(axes, start=1) * max(1, round(1000 * _element_ns(element, axes, model)))


def _element_ns(element: Element, axes: Sequence[Size], model: MachineModel) -> float:
    return element_ns(element, model, len(axes) - 1 if axes else None)


def _moved_ps(tensor: Tensor) -> Size:
    return _count(tensor) * tensor.scalar.nbytes * _PS_PER_BYTE


def _count(tensor: Tensor) -> Size:
    return prod(tensor.shape, start=1)
