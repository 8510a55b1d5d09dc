"""Schedules convolutions: chooses the kernel and its tiling.

The output is blocked, with as many lanes as an f32 vector has; the source is blocked or plain.
Channels, groups and the window are numbers; the batch and the spatial sizes may be formulas.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_steps import BYTE_SHIFT, has_byte_dots, steps_of
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.windows.convolution_tiling import (
    ConvolutionTiling,
    convolution_tiling,
    register_group,
)
from ortpkg.compiler.schedules.windows.convolution_weights import (
    WeightLayout,
    packed_weights,
    weight_layouts,
)
from ortpkg.compiler.schedules.windows.depthwise_kernel import depthwise_convolution
from ortpkg.compiler.schedules.windows.direct_convolution import direct_convolution
from ortpkg.compiler.schedules.windows.transposed_phases import (
    Phases,
    phase_count,
    phase_weights,
    phases_of,
)
from ortpkg.compiler.schedules.windows.window_axes import WindowAxis, flat_axis, window_axes
from ortpkg.compiler.schedules.windows.winograd_convolution import winograd_convolution
from ortpkg.compiler.schedules.windows.winograd_tiling import winograd_tiling
from ortpkg.compiler.tensor_ir.channel_blocks import channel_blocks
from ortpkg.compiler.tensor_ir.elements import (
    Coordinate,
    Number,
    Position,
    Read,
    Tensor,
    along,
    parts_of,
)
from ortpkg.compiler.tensor_ir.operations import Convolution


def schedule_convolution(
    operation: Convolution, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernels of a convolution; constant weights are packed at compile time.

    Weights of bytes must be i8 without a zero point, with a source in blocks: u8 without a zero
    point, or i8 with the zero point -128. A depthwise convolution may have any zero points.

    Raises:
        ValueError: if bytes or blocks differ from that.
        TypeError: if the number of channels is a formula.
    """
    window = operation.window
    source = channel_blocks(operation.source, len(window.kernel))
    output = channel_blocks(operation.output, len(window.kernel))
    lanes = model.lanes(Scalar.F32)
    if output.lanes != lanes:
        raise ValueError(
            f"{operation.output.name}: blocks of {output.lanes} channels, not of {lanes}"
        )
    if not isinstance(source.blocks, int):
        raise TypeError(f"{operation.source.name}: the number of channels is a formula")
    if operation.spread is not None:
        return [
            kernel
            for phases in phases_of(operation, source.spatial, output.spatial)
            for kernel in _phases_kernels(operation, model, constants, phases)
        ]
    winograd = winograd_tiling(operation, model, constants)
    if winograd is not None:
        return [winograd_convolution(operation, model, winograd)]
    layouts = weight_layouts(operation, window.kernel, source_lanes=source.lanes, lanes=lanes)
    if layouts[0].is_depthwise:
        weights = packed_weights(operation.weights, layouts[0], constants)
        return [*weights.kernels, depthwise_convolution(operation, model, weights)]
    if layouts[0].scalar is Scalar.I8:
        _check_zeros(operation)
    axes = window_axes(source.spatial, output.spatial, window)
    if all(axis.is_pointwise for axis in axes) and _is_flat(operation):
        axes = [flat_axis(axes)]
    layout, tiling = _cheapest_tiling(model, layouts, axes, 1)
    weights = packed_weights(operation.weights, layout, constants)
    return [*weights.kernels, direct_convolution(operation, model, weights, tiling, axes)]


def _phases_kernels(
    operation: Convolution, model: MachineModel, constants: Collection[Tensor], phases: Phases
) -> list[ScheduledKernel]:
    """Return the kernels of phases of a transposed convolution: weight packing first, if any."""
    axes = [phase.axis for phase in phases]
    layouts = weight_layouts(
        operation,
        [axis.kernel for axis in axes],
        source_lanes=channel_blocks(operation.source, len(axes)).lanes,
        lanes=model.lanes(Scalar.F32),
    )
    layout, tiling = _cheapest_tiling(model, layouts, axes, phase_count(phases))
    weights = phase_weights(operation, layout, phases, constants)
    return [*weights.kernels, direct_convolution(operation, model, weights, tiling, axes, phases)]


def _cheapest_tiling(
    model: MachineModel,
    layouts: Sequence[WeightLayout],
    axes: Sequence[WindowAxis],
    phases: int,
) -> tuple[WeightLayout, ConvolutionTiling]:
    """Return the cheapest layout and the tiling of a kernel with this many phases."""
    last, packed = axes[-1], layouts[0].scalar
    steps = steps_of(packed)
    has_pairs = packed is Scalar.I8 and not has_byte_dots(model)
    candidates = (
        (
            layout,
            register_group(
                model,
                width=last.output,
                sharing=layout.sharing,
                nbytes=steps.sums.nbytes,
                loaded=2 if has_pairs else 1,
                spare=2 if has_pairs else 0,
            ),
        )
        for layout in layouts
    )
    layout, group = min(candidates, key=lambda pair: pair[0].mean_count * pair[1].cost)
    tiling = convolution_tiling(
        model,
        group=group,
        output_blocks=phases * layout.blocks,
        rows=prod((axis.output for axis in axes[:-1]), start=1),
        width=last.output,
        cuts_rows=last.is_written_out or not last.is_padded,
        sums=round(layout.mean_count * prod(layout.kernel) * layout.source_lanes) // steps.group,
        weight_nbytes=layout.block_stride * packed.nbytes,
    )
    return layout, tiling


def _check_zeros(operation: Convolution) -> None:
    """Raise ValueError if the kernel would have to subtract zero points."""
    least = -BYTE_SHIFT if operation.source.scalar is Scalar.I8 else 0
    zero = operation.source_zero
    number = 0 if zero is None else zero.number if isinstance(zero, Number) else None
    if number != least or operation.weights_zero is not None:
        raise ValueError(f"{operation.output.name}: zero points are not taken off before")


def _is_flat(operation: Convolution) -> bool:
    """Return True if the epilogue is the same when pixels are numbered in a single row.

    It then reads each tensor at the pixel's position along all spatial axes, or along none.
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
        moving = [
            axis
            for axis, coordinate in enumerate(part.coordinates)
            if _moves_with(coordinate, spatial)
        ]
        spatial_part = slice(moving[0], moving[0] + rank) if moving else slice(0)
        if moving and (
            part.coordinates[spatial_part] != pixels
            or part.tensor.shape[spatial_part] != operation.output.shape[2 : 2 + rank]
            or len(moving) != rank
        ):
            return False
    return True


def _moves_with(coordinate: Coordinate, axes: Collection[int]) -> bool:
    return any(axis in axes for axis, _ in coordinate.terms)
