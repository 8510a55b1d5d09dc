"""Resize and Upsample of known sizes: axis by axis, by tables of positions and weights.

The tables are those of the engine's kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod

import numpy as np

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.elementwise_lowering import as_kind, widened
from ortpkg.codegen.lowering.gathering_lowering import gathered_place
from ortpkg.codegen.lowering.lowering_registry import lowers
from ortpkg.codegen.lowering.lowering_scope import (
    Array,
    LoweringScope,
    NotLoweredError,
    attribute,
    counted_axis,
)
from ortpkg.codegen.tensor_ir.elements import Call, Element, Function, Read, Tensor, along
from ortpkg.graph.graph import Node
from ortpkg.kernels.resampling import AxisPlan, Sampler, plans_from_scales, plans_from_sizes

_FLOATS = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})
#: A table of a longer axis is not kept in a context.
_MOST_OUTPUTS = 1 << 16
#: So many neighbours are summed for one element; those of shrinking images with antialias may be
#: more.
_MOST_TAPS = 16


@lowers("Resize", "Upsample")
def lower_resize(scope: LoweringScope, node: Node) -> None:
    """One map for each axis that changes, shrinking ones first."""
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
    if prod(each for each in source.shape if isinstance(each, int)) == 0:
        raise NotLoweredError("it resizes nothing")
    made = source
    for plan in sorted(plans, key=lambda plan: plan.output / plan.size):
        made = _resampled(scope, made, plan, sampler)
    scope.map(output, as_kind(Read(made, tuple(map(along, range(len(made.shape))))), output.scalar))


def _plans(scope: LoweringScope, node: Node, source: Tensor) -> Sequence[AxisPlan]:
    """What becomes of each axis; those that are known only when it runs stay as they are."""
    rank = len(source.shape)
    is_new = node.op_type == "Resize" and node.since_version >= 11
    given = [*node.inputs, "", "", ""]
    axes = [counted_axis(axis, rank) for axis in attribute(node, "axes", range(rank))]
    known = [size if isinstance(size, int) else 1 for size in source.shape]
    policy = str(attribute(node, "keep_aspect_ratio_policy", "stretch"))
    if is_new and given[3]:
        sizes = list(scope.sizes(given[3], "sizes"))
        for at, axis in enumerate(axes):
            if sizes[at] == source.shape[axis]:
                sizes[at] = known[axis]
        numbers = [size for size in sizes if isinstance(size, int)]
        changes = {axis for axis, size in zip(axes, sizes, strict=True) if size != known[axis]}
        is_open = {axis for axis in range(rank) if not isinstance(source.shape[axis], int)}
        if len(numbers) < len(sizes) or changes & is_open or (policy != "stretch" and is_open):
            raise NotLoweredError("its sizes are known only when it runs")
        return plans_from_sizes(known, numbers, axes, (), policy)
    scales = _scales(scope, node, given[2] if is_new else given[1])
    plans = plans_from_scales(known, scales, axes, ())
    if any(plan.changes and not isinstance(source.shape[plan.axis], int) for plan in plans):
        raise NotLoweredError("the sizes that it scales are known only when it runs")
    return plans


def _scales(scope: LoweringScope, node: Node, name: str) -> list[float]:
    if node.op_type == "Upsample" and node.since_version < 9:
        given = attribute(node, "scales", None)
        sides = [float(attribute(node, each, 1.0)) for each in ("height_scale", "width_scale")]
        return [1.0, 1.0, *sides] if given is None else [float(each) for each in given]
    scales = scope.constant(name)
    if scales is None:
        raise NotLoweredError("its scales are known only when it runs")
    return [float(each) for each in scales.reshape(-1)]


def _resampled(scope: LoweringScope, source: Tensor, plan: AxisPlan, sampler: Sampler) -> Tensor:
    """The tensor with one axis resampled, of float32 where elements are summed."""
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
        places = [along(dimension) for dimension in range(len(source.shape))]
        places[plan.axis] = gathered_place(index, plan.size)
        value: Element = Read(source, tuple(places))
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
