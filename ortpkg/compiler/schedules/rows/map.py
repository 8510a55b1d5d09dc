"""Schedules maps: elementwise work, broadcasts, transposes, pieces of tensors, gathers.

Contiguous axes are joined. The vector axis is one along which the output's elements are neighbours;
each position of the other axes together is a *row*. If an expression reads across the vector axis,
contiguously along another one, blocks are transposed in registers (:mod:`.transposed_map`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ortpkg.compiler.fusion.substitution import moved, moved_coordinate
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.schedules.element_cost import element_ns, elements_in_tile
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.linear_reads import flattened_coordinates
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.rows.axis_collapse import collapsed
from ortpkg.compiler.schedules.rows.map_body import FlatMap, MapBody
from ortpkg.compiler.schedules.rows.row_tiles import positions_of, product_of, row_tiles
from ortpkg.compiler.schedules.rows.transposed_map import schedule_transposed, transposed_read
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor, along
from ortpkg.compiler.tensor_ir.operations import Map

#: Below this cost of an element, several vectors are computed in one iteration.
_CHEAP_NS = 1.5
_UNROLLED = 4


def schedule_map(
    operation: Map, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernel of a map; ``constants`` are read like other tensors."""
    del constants
    operation = _in_order_of_output(operation)
    linear = flattened_coordinates(operation.output, operation.coordinates)
    if linear.values:
        raise ValueError(f"the map to {operation.output.name} writes where an element says")
    flat = collapsed(operation.axes, [operation.value], [linear])
    flat_map = FlatMap(output=operation.output, flat=flat, model=model)
    transposed = transposed_read(flat_map)
    if transposed is not None:
        return [schedule_transposed(flat_map, transposed)]
    return [_scheduled(flat_map)]


def _in_order_of_output(operation: Map) -> Map:
    """Return the map with axes sorted by the output's strides, largest first, if known."""
    linear = flattened_coordinates(operation.output, operation.coordinates)
    strides: list[int] = []
    for axis in range(len(operation.axes)):
        stride = linear.stride(axis)
        if not isinstance(stride, int):
            return operation
        strides.append(stride)
    order = sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))
    moved_axes = [along(order.index(axis)) for axis in range(len(order))]
    return replace(
        operation,
        axes=tuple(operation.axes[axis] for axis in order),
        value=moved(operation.value, moved_axes),
        coordinates=tuple(
            moved_coordinate(coordinate, moved_axes) for coordinate in operation.coordinates
        ),
    )


def _scheduled(flat_map: FlatMap) -> ScheduledKernel:
    axes, vector_axis = flat_map.flat.axes, flat_map.vector_axis
    maker = KernelMaker("map")
    body = MapBody(maker, flat_map)
    outer = [axis for axis in range(len(axes)) if axis != vector_axis]
    cost = element_ns(flat_map.value, flat_map.model, vector_axis)
    tiles = row_tiles(
        product_of([axes[axis] for axis in outer]),
        1 if vector_axis is None else axes[vector_axis],
        elements_in_tile(cost),
        may_split=True,
    )
    unroll = _UNROLLED if cost < _CHEAP_NS else 1
    sizes = [maker.size(axes[axis]) for axis in outer]
    with tiles.each_row(maker) as (row, start, stop):
        at: list[Operand] = [0] * len(axes)
        for axis, position in zip(outer, positions_of(maker.builder, row, sizes), strict=True):
            at[axis] = position
        body.along_vector_axis(at, start, stop, unroll=unroll)
    return maker.scheduled(tiles.count)
