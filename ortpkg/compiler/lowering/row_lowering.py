"""Lowers operators over whole rows: normalizations, softmax, reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind, widened
from ortpkg.compiler.lowering.lowering_registry import MICROSOFT_DOMAIN, lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    counted_axis,
    identity_read,
    number,
)
from ortpkg.compiler.lowering.moving_lowering import axis_of
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Read,
    SizeValue,
    Tensor,
    along,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Combiner, Reduce, RowFunction, RowNormalize
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size

_FLOATS = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})


def _check_float(tensor: Tensor) -> None:
    if tensor.scalar not in _FLOATS:
        raise NotLoweredError("it is compiled for float32 and narrower floats alone")


@lowers("Softmax", "LogSoftmax")
def lower_softmax(scope: LoweringScope, node: Node) -> None:
    """Lower to a softmax along one axis; before opset 13, along all axes from it on."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    _check_float(source)
    rank = len(source.shape)
    is_flat = node.since_version < 13
    axis = axis_of(node, rank, default=1 if is_flat else -1)
    if axis != rank - 1 and not (is_flat and prod(source.shape[axis + 1 :], start=1) == 1):
        _softmax_elsewhere(scope, node, axis, is_flat=is_flat)
        return
    _normalize(scope, node, output, widened(identity_read(source)))


def _softmax_elsewhere(scope: LoweringScope, node: Node, axis: int, *, is_flat: bool) -> None:
    """Lower a softmax along another axis than the last, which is moved there and back."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    rank = len(source.shape)
    if is_flat:
        shape = (prod(source.shape[:axis], start=1), prod(source.shape[axis:], start=1))
        rows, made = (scope.temporary(source.scalar, shape, hint) for hint in ("rows", "made"))
        scope.alias(rows, source)
        _normalize(scope, node, made, widened(identity_read(rows)))
        scope.alias(output, made)
        return
    order = [*(dimension for dimension in range(rank) if dimension != axis), axis]
    made = scope.temporary(source.scalar, [source.shape[dimension] for dimension in order], "rows")
    read = Read(source, tuple(along(order.index(dimension)) for dimension in range(rank)))
    _normalize(scope, node, made, widened(read))
    scope.map(output, Read(made, tuple(along(dimension) for dimension in order)))


def _normalize(scope: LoweringScope, node: Node, output: Tensor, value: Element) -> None:
    is_log = node.op_type == "LogSoftmax"
    scope.emit(
        RowNormalize(
            output=output,
            function=RowFunction.LOG_SOFTMAX if is_log else RowFunction.SOFTMAX,
            axes=output.shape,
            value=value,
            epilogue=narrowed(Made(Scalar.F32), output),
        )
    )


def narrowed(value: Element, output: Tensor) -> Element | None:
    """Return the epilogue that converts to the output's type; None if it would change nothing."""
    if scalar_of(value) is output.scalar:
        return None if isinstance(value, Made) else value
    return as_kind(value, output.scalar)


@lowers("LayerNormalization", "RMSNormalization")
@lowers("SimplifiedLayerNormalization", domain=MICROSOFT_DOMAIN)
@lowers("SimplifiedLayerNormalization")
def lower_layer_normalization(scope: LoweringScope, node: Node) -> None:
    """Lower to standardized rows from ``axis`` on, times a scale, plus a bias."""
    source = scope.tensor(node.inputs[0])
    axis = axis_of(node, len(source.shape), default=-1)
    _layer_norm(scope, node, widened(identity_read(source)), axis, (1, 2))


@lowers("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT_DOMAIN)
def lower_skip_layer_normalization(scope: LoweringScope, node: Node) -> None:
    """Lower to the normalization of a sum, which may be an output too."""
    source = scope.tensor(node.inputs[0])
    rank = len(source.shape)
    is_simplified = node.op_type != "SkipLayerNormalization"
    inputs = [*node.inputs, "", "", ""]
    value: Element = widened(identity_read(source))
    for name in (inputs[1], inputs[3 if is_simplified else 4]):
        if name:
            value = Call(Function.ADD, (value, widened(scope.broadcast(name, source.shape))))
    if len(node.outputs) > 3 and node.outputs[3]:
        total = scope.tensor(node.outputs[3])
        scope.map(total, as_kind(value, total.scalar))
        value = widened(identity_read(total))
    slots = (2, 9) if is_simplified else (2, 3)
    _layer_norm(scope, node, value, rank - 1, slots)


def _layer_norm(
    scope: LoweringScope, node: Node, value: Element, axis: int, slots: tuple[int, int]
) -> None:
    """Emit a layer normalization; ``slots`` are the inputs with the scale and the bias."""
    output = scope.tensor(node.outputs[0])
    if any(node.outputs[1:3]):
        raise NotLoweredError("its outputs of mean and variance are used")
    if axis != len(output.shape) - 1:
        raise NotLoweredError("it normalizes over several axes")
    if scalar_of(value) is not Scalar.F32:
        raise NotLoweredError("it is compiled for float32 and narrower floats alone")
    made: Element = Made(Scalar.F32)
    for slot, function in zip(slots, (Function.MUL, Function.ADD), strict=True):
        if slot < len(node.inputs) and node.inputs[slot]:
            factor = widened(scope.broadcast(node.inputs[slot], output.shape))
            made = Call(function, (made, factor))
    has_mean = node.op_type in {"LayerNormalization", "SkipLayerNormalization"}
    scope.emit(
        RowNormalize(
            output=output,
            function=RowFunction.STANDARDIZE if has_mean else RowFunction.RMS,
            axes=output.shape,
            value=value,
            epsilon=float(attribute(node, "epsilon", _default_epsilon(node))),
            epilogue=narrowed(made, output),
        )
    )


def _default_epsilon(node: Node) -> float:
    """Return the schemas' default, which is smaller for com.microsoft's operators."""
    return 1e-12 if node.op_type.startswith("Skip") else 1e-5


_COMBINERS = {
    "ReduceSum": Combiner.SUM,
    "ReduceMean": Combiner.SUM,
    "ReduceSumSquare": Combiner.SUM,
    "ReduceL1": Combiner.SUM,
    "ReduceL2": Combiner.SUM,
    "ReduceLogSum": Combiner.SUM,
    "ReduceProd": Combiner.PRODUCT,
    "ReduceMax": Combiner.MAX,
    "ReduceMin": Combiner.MIN,
}


@lowers(*_COMBINERS)
def lower_reduction(scope: LoweringScope, node: Node) -> None:
    """Lower to a reduction along axes."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    axes = _reduced_axes(scope, node, len(source.shape))
    if not axes:
        raise NotLoweredError("it reduces no axis")
    reduce_axes(scope, node.op_type, source, output, axes)


def reduce_axes(
    scope: LoweringScope, operator: str, source: Tensor, output: Tensor, axes: Sequence[int]
) -> None:
    """Reduce elements along axes as a reducing operator does.

    Raises:
        NotLoweredError: if the operator is not compiled for such elements.
    """
    read, shape = _read_reduced(source, axes)
    combiner = _COMBINERS[operator]
    made = scope.temporary(output.scalar, shape, "reduced")
    value = _before(operator, widened(read))
    if scalar_of(value) not in {Scalar.F32, Scalar.I32, Scalar.I64}:
        raise NotLoweredError(f"reductions of {source.scalar.value} are not compiled")
    total = _after(operator, Made(scalar_of(value)), [source.shape[axis] for axis in axes])
    scope.emit(
        Reduce(
            output=made,
            axes=shape,
            reduced=tuple(source.shape[axis] for axis in axes),
            combiner=combiner,
            value=value,
            epilogue=narrowed(total, made),
        )
    )
    scope.alias(output, made)


@lowers("ReduceLogSumExp")
def lower_log_sum_exp(scope: LoweringScope, node: Node) -> None:
    """Lower to log(sum(exp(x - largest))) + largest, so that no exponential overflows."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    _check_float(source)
    axes = _reduced_axes(scope, node, len(source.shape))
    if not axes:
        raise NotLoweredError("it reduces no axis")
    read, shape = _read_reduced(source, axes)
    value, reduced = widened(read), tuple(source.shape[axis] for axis in axes)
    largest = scope.temporary(Scalar.F32, shape, "largest")
    made = scope.temporary(output.scalar, shape, "reduced")
    scope.emit(
        Reduce(output=largest, axes=shape, reduced=reduced, combiner=Combiner.MAX, value=value)
    )
    maximum = identity_read(largest)
    is_far = Call(Function.EQ, (Call(Function.ABS, (maximum,)), number(math.inf, Scalar.F32)))
    moved = Call(Function.SELECT, (is_far, number(0, Scalar.F32), maximum))
    total = Call(Function.ADD, (Call(Function.LOG, (Made(Scalar.F32),)), moved))
    scope.emit(
        Reduce(
            output=made,
            axes=shape,
            reduced=reduced,
            combiner=Combiner.SUM,
            value=Call(Function.EXP, (Call(Function.SUB, (value, moved)),)),
            epilogue=narrowed(total, made),
        )
    )
    scope.alias(output, made)


def _read_reduced(source: Tensor, axes: Sequence[int]) -> tuple[Read, tuple[Size, ...]]:
    """Return the element over the other axes, then the reduced ones, and the others' sizes."""
    outer = [axis for axis in range(len(source.shape)) if axis not in axes]
    order = [*outer, *axes]
    coordinates = tuple(along(order.index(axis)) for axis in range(len(order)))
    return Read(source, coordinates), tuple(source.shape[axis] for axis in outer)


def _reduced_axes(scope: LoweringScope, node: Node, rank: int) -> list[int]:
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = scope.numbers(node.inputs[1], "axes")
    else:
        axes = tuple(attribute(node, "axes", ()))
    if not axes and not attribute(node, "noop_with_empty_axes", 0):
        axes = tuple(range(rank))
    counted_axes = sorted({counted_axis(axis, rank) for axis in axes})
    if len(counted_axes) != len(axes):
        raise NotLoweredError("its axes name an axis twice")
    return counted_axes


def _before(operator: str, value: Element) -> Element:
    if operator in {"ReduceSumSquare", "ReduceL2"}:
        return Call(Function.MUL, (value, value))
    if operator == "ReduceL1":
        return Call(Function.ABS, (value,))
    return value


def _after(operator: str, reduced: Element, sizes: Sequence[Size]) -> Element:
    if operator == "ReduceMean":
        if scalar_of(reduced) is not Scalar.F32:
            raise NotLoweredError("means of integers are not compiled")
        count = prod(sizes, start=1)
        divisor = (
            number(count, Scalar.F32)
            if isinstance(count, int)
            else Convert(SizeValue(count), Scalar.F32)
        )
        return Call(Function.DIV, (reduced, divisor))
    if operator == "ReduceL2":
        if scalar_of(reduced) is not Scalar.F32:
            raise NotLoweredError("roots of integers are not compiled")
        return Call(Function.SQRT, (reduced,))
    if operator == "ReduceLogSum":
        return Call(Function.LOG, (reduced,))
    return reduced


@lowers("BatchNormalization")
def lower_batch_normalization(scope: LoweringScope, node: Node) -> None:
    """Lower to a factor and an offset for each channel, from constant statistics."""
    if len([name for name in node.outputs if name]) > 1 or attribute(node, "training_mode", 0):
        raise NotLoweredError("it is in training mode")
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    _check_float(source)
    statistics = [scope.constant(name) for name in node.inputs[1:5]]
    if any(constant is None for constant in statistics):
        raise NotLoweredError("its statistics are no constants")
    scale, offset, mean, variance = (
        constant.astype("float64") for constant in statistics if constant is not None
    )
    factor = scale / (variance + float(attribute(node, "epsilon", 1e-5))) ** 0.5
    shape = (-1, *[1] * (len(source.shape) - 2))
    parts = [
        scope.broadcast_tensor(
            scope.constant_tensor(f"{node.name}.{what}", value.astype("float32").reshape(shape)),
            source.shape,
        )
        for what, value in (("factor", factor), ("offset", offset - mean * factor))
    ]
    value = widened(identity_read(source))
    made = Call(Function.ADD, (Call(Function.MUL, (value, parts[0])), parts[1]))
    scope.map(output, as_kind(made, output.scalar))
