"""Schedules convolutions: which kernel computes one, and how it is cut.

The output is blocked, with as many lanes as a vector has numbers of f32; the source is blocked or
plain. Channels, groups and the window are numbers; the batch and the spatial sizes may be formulas.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.convolution_tiling import convolution_tiling, register_group
from ortpkg.codegen.schedules.convolution_weights import packed_weights, weight_layout
from ortpkg.codegen.schedules.depthwise_kernel import depthwise_convolution
from ortpkg.codegen.schedules.direct_convolution import direct_convolution
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.schedules.window_axes import flat_axis, window_axes
from ortpkg.codegen.tensor_ir.channel_blocks import channel_blocks
from ortpkg.codegen.tensor_ir.elements import Place, Position, Read, Tensor, along, parts_of
from ortpkg.codegen.tensor_ir.operations import Convolution


def schedule_convolution(
    operation: Convolution, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """The kernels of a convolution of floats, weights packed ahead where they are constants."""
    spatial_rank = len(operation.window.kernel)
    source = channel_blocks(operation.source, spatial_rank)
    output = channel_blocks(operation.output, spatial_rank)
    lanes = model.lanes(Scalar.F32)
    if output.lanes != lanes:
        raise ValueError(
            f"{operation.output.name}: blocks of {output.lanes} channels, not of {lanes}"
        )
    if not isinstance(source.blocks, int):
        raise TypeError(f"{operation.source.name}: the number of channels is a formula")
    layout = weight_layout(
        operation, source_blocks=source.blocks, source_lanes=source.lanes, lanes=lanes
    )
    weights = packed_weights(operation.weights, layout, constants)
    if layout.is_depthwise:
        return [*weights.kernels, depthwise_convolution(operation, model, weights)]
    axes = window_axes(source.spatial, output.spatial, operation.window)
    if all(each.is_pointwise for each in axes) and _is_flat(operation):
        axes = [flat_axis(axes)]
    nbytes = weights.tensor.scalar.nbytes
    rows = prod((each.output for each in axes[:-1]), start=1)
    last = axes[-1]
    group = register_group(model, width=last.output, sharing=layout.sharing, nbytes=nbytes)
    tiling = convolution_tiling(
        model,
        group=group,
        output_blocks=layout.blocks,
        rows=rows,
        width=last.output,
        cuts_rows=last.is_known or not last.is_padded,
        sums=prod(layout.shape[1:-1]),
        weight_nbytes=prod(layout.shape[1:]) * nbytes,
    )
    return [*weights.kernels, direct_convolution(operation, model, weights, tiling, axes)]


def _is_flat(operation: Convolution) -> bool:
    """Whether the epilogue is the same where pixels are counted in one row.

    It reads a tensor then at the place of the pixel along all spatial axes, or along none.
    """
    rank = len(operation.window.kernel)
    spatial = range(2, 2 + rank)
    pixels = tuple(along(axis) for axis in spatial)
    if operation.epilogue is None:
        return True
    for part in parts_of(operation.epilogue):
        if isinstance(part, Position) and part.axis in spatial:
            return False
        if not isinstance(part, Read):
            continue
        moving = [axis for axis, place in enumerate(part.places) if _moves_with(place, spatial)]
        found = slice(moving[0], moving[0] + rank) if moving else slice(0)
        if moving and (
            part.places[found] != pixels
            or part.tensor.shape[found] != operation.output.shape[2 : 2 + rank]
            or len(moving) != rank
        ):
            return False
    return True


def _moves_with(place: Place, axes: Collection[int]) -> bool:
    return any(axis in axes for axis, _ in place.terms)
