"""Lowers Resize and Upsample, axis by axis, with tables of positions and weights.

The engine's kernel computes the tables. Axes of unknown size can only be repeated by whole factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod

import numpy as np

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind, widened
from ortpkg.compiler.lowering.gathering_lowering import gathered_coordinate
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    Array,
    LoweringScope,
    NotLoweredError,
    attribute,
    counted_axis,
)
from ortpkg.compiler.tensor_ir.elements import Call, Element, Function, Read, Tensor, along
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size, terms_of
from ortpkg.graph.shapes.resampling import AxisPlan, Sampler, plans_from_scales, plans_from_sizes

_FLOATS = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})
#: Longest output axis, since a context contains the axis's table.
_MOST_OUTPUTS = 1 << 16
#: Most neighbours summed for one element; shrinking with antialias may need more.
_MOST_TAPS = 16
#: Largest factor for an axis of unknown size.
_MOST_FACTOR = 64
_OPEN_SIZES = "the sizes that it scales are known only when it runs"
_TRIED_SIZES = (1, 2, 3, 7, 640)


@lowers("Resize", "Upsample")
def lower_resize(scope: LoweringScope, node: Node) -> None:
    """Lower to one map for each axis that changes, shrinking axes first."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    try:
        sampler = Sampler.of(node, partial(attribute, node))
        plans = [plan for plan in _plans(scope, node, source) if plan.changes]
    except ValueError as error:
        raise NotLoweredError(str(error)) from error
    if sampler.coordinates == "tf_crop_and_resize":
        raise NotLoweredError("it crops")
    if sampler.mode != "nearest" and source.scalar not in _FLOATS:
        raise NotLoweredError("what lies between integers is not compiled")
    if prod(size for size in source.shape if isinstance(size, int)) == 0:
        raise NotLoweredError("it resizes nothing")
    resized = _repeated(scope, node, source, output, sampler)
    for plan in sorted(plans, key=lambda plan: plan.output / plan.size):
        resized = _resampled(scope, resized, plan, sampler)
    scope.map(
        output, as_kind(Read(resized, tuple(map(along, range(len(resized.shape))))), output.scalar)
    )


def _plans(scope: LoweringScope, node: Node, source: Tensor) -> Sequence[AxisPlan]:
    """Return the plans of the axes; axes of unknown size stay as they are."""
    rank = len(source.shape)
    sizes_name, scales_name = _size_inputs(node)
    axes = _axes(node, rank)
    assumed_sizes = [size if isinstance(size, int) else 1 for size in source.shape]
    if not sizes_name:
        plans = plans_from_scales(assumed_sizes, _scales(scope, node, scales_name), axes, ())
        return [plan for plan in plans if isinstance(source.shape[plan.axis], int)]
    policy = str(attribute(node, "keep_aspect_ratio_policy", "stretch"))
    if policy != "stretch" and not all(isinstance(size, int) for size in source.shape):
        raise NotLoweredError("its sizes are known only when it runs")
    sizes = list(scope.sizes(sizes_name, "sizes"))
    for at, axis in enumerate(axes):
        if not isinstance(source.shape[axis], int):
            sizes[at] = assumed_sizes[axis]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes):
        raise NotLoweredError("its sizes are known only when it runs")
    return plans_from_sizes(assumed_sizes, numbers, axes, (), policy)


def _size_inputs(node: Node) -> tuple[str, str]:
    """Return the names of the inputs with sizes and scales; "" for a missing one."""
    inputs = [*node.inputs, "", "", ""]
    is_new = node.op_type == "Resize" and node.since_version >= 11
    return (inputs[3], inputs[2]) if is_new else ("", inputs[1])


def _axes(node: Node, rank: int) -> list[int]:
    return [counted_axis(axis, rank) for axis in attribute(node, "axes", range(rank))]


def _repeated(
    scope: LoweringScope, node: Node, source: Tensor, output: Tensor, sampler: Sampler
) -> Tensor:
    """Return the tensor with each axis of unknown size repeated by its factor.

    Raises:
        NotLoweredError: if elements are not simply repeated.
    """
    factors = _open_factors(scope, node, source)
    if all(factor == 1 for factor in factors):
        return source
    for axis, factor in enumerate(factors):
        if not _repeats(sampler, factor):
            raise NotLoweredError(_OPEN_SIZES)
        scope.require_equal(
            factor * source.shape[axis],
            output.shape[axis] if factor > 1 else source.shape[axis],
        )
    # as (size, factor) pairs: a broadcast, then an alias
    paired = [part for pair in zip(source.shape, factors, strict=True) for part in pair]
    spread = scope.temporary(source.scalar, paired, "repeats")
    scope.map(spread, Read(source, tuple(along(2 * axis) for axis in range(len(factors)))))
    shape = [factor * size for size, factor in zip(source.shape, factors, strict=True)]
    repeated = scope.temporary(source.scalar, shape, "repeated")
    scope.alias(repeated, spread)
    return repeated


def _open_factors(scope: LoweringScope, node: Node, source: Tensor) -> list[int]:
    """Return the factor by which each axis of unknown size grows; 1 for axes of known size.

    Raises:
        NotLoweredError: if a factor is not a whole number.
    """
    rank = len(source.shape)
    sizes_name, scales_name = _size_inputs(node)
    factors = [1] * rank
    targets: Sequence[Size | float] = (
        scope.sizes(sizes_name, "sizes") if sizes_name else _scales(scope, node, scales_name)
    )
    for axis, wanted in zip(_axes(node, rank), targets, strict=True):
        size = source.shape[axis]
        if isinstance(size, int):
            continue
        factor = wanted if isinstance(wanted, float) else _ratio(wanted, size)
        if factor < 1 or factor != int(factor):
            raise NotLoweredError(_OPEN_SIZES)
        factors[axis] = int(factor)
    return factors


def _ratio(size: Size, unit: Size) -> int:
    """Return the whole number n with ``n * unit == size``; 0 if there is none."""
    monomial, count = terms_of(unit)[0]
    factor = dict(terms_of(size)).get(monomial, 0) // count
    return factor if factor * unit == size else 0


def _repeats(sampler: Sampler, factor: int) -> bool:
    """Return True if a whole factor repeats each element that many times, for every size.

    It compares the engine's tables for some sizes; positions depend only on the position within a
    repeat.
    """
    if factor == 1 or sampler.mode != "nearest" or factor > _MOST_FACTOR:
        return factor == 1
    for size in _TRIED_SIZES:
        (plan,) = plans_from_scales([size], [float(factor)], [0], ())
        positions = sampler.nearest_positions(sampler.origins(plan), size)
        if not np.array_equal(positions, np.arange(size * factor) // factor):
            return False
    return True


def _scales(scope: LoweringScope, node: Node, name: str) -> list[float]:
    if node.op_type == "Upsample" and node.since_version < 9:
        scales_attribute = attribute(node, "scales", None)
        sides = [float(attribute(node, side, 1.0)) for side in ("height_scale", "width_scale")]
        return (
            [1.0, 1.0, *sides]
            if scales_attribute is None
            else [float(scale) for scale in scales_attribute]
        )
    scales = scope.constant(name)
    if scales is None:
        raise NotLoweredError("its scales are known only when it runs")
    return [float(scale) for scale in scales.reshape(-1)]


def _resampled(scope: LoweringScope, source: Tensor, plan: AxisPlan, sampler: Sampler) -> Tensor:
    """Return the tensor with one axis resampled; as float32 if elements are summed."""
    if plan.output > _MOST_OUTPUTS:
        raise NotLoweredError(f"it makes {plan.output} elements on an axis")
    origins = sampler.origins(plan)
    if sampler.mode == "nearest":
        positions = sampler.nearest_positions(origins, plan.size)[:, None]
        weights: Array | None = None
    else:
        positions, weights = sampler.taps(origins, plan.size, plan.scale)
    if positions.shape[1] > _MOST_TAPS:
        raise NotLoweredError(f"it sums {positions.shape[1]} elements for each")
    terms = []
    for tap in range(positions.shape[1]):
        table = scope.constant_tensor("positions", positions[:, tap].astype(np.int64))
        index = Read(table, (along(plan.axis),))
        coordinates = [along(dimension) for dimension in range(len(source.shape))]
        coordinates[plan.axis] = gathered_coordinate(index, plan.size)
        value: Element = Read(source, tuple(coordinates))
        if weights is not None:
            column = scope.constant_tensor("weights", weights[:, tap].astype(np.float32))
            value = Call(Function.MUL, (widened(value), Read(column, (along(plan.axis),))))
        terms.append(value)
    total = reduce(lambda left, right: Call(Function.ADD, (left, right)), terms)
    shape = [*source.shape]
    shape[plan.axis] = plan.output
    kind = source.scalar if weights is None else Scalar.F32
    made = scope.temporary(kind, shape, f"axis{plan.axis}")
    scope.map(made, total)
    return made
