"""Schedules convolutions: which kernel computes one, and how it is cut.

The output is blocked, with as many lanes as a vector has numbers of f32; the source is blocked or
plain. Channels, groups and the window are numbers; the batch and the spatial sizes may be formulas.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.convolution_tiling import (
    ConvolutionTiling,
    convolution_tiling,
    register_group,
)
from ortpkg.codegen.schedules.convolution_weights import (
    WeightLayout,
    packed_weights,
    weight_layouts,
)
from ortpkg.codegen.schedules.depthwise_kernel import depthwise_convolution
from ortpkg.codegen.schedules.direct_convolution import direct_convolution
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.product_steps import BYTE_SHIFT, has_byte_dots, steps_of
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.schedules.transposed_phases import (
    Phases,
    phase_count,
    phase_weights,
    phases_of,
)
from ortpkg.codegen.schedules.window_axes import WindowAxis, flat_axis, window_axes
from ortpkg.codegen.schedules.winograd_convolution import winograd_convolution
from ortpkg.codegen.schedules.winograd_tiling import winograd_tiling
from ortpkg.codegen.tensor_ir.channel_blocks import channel_blocks
from ortpkg.codegen.tensor_ir.elements import Number, Place, Position, Read, Tensor, along, parts_of
from ortpkg.codegen.tensor_ir.operations import Convolution


def schedule_convolution(
    operation: Convolution, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """The kernels of a convolution, weights packed ahead where they are constants.

    Of bytes, weights are i8 and have no zero point, and the source is in blocks: u8 without a zero
    point, or i8 with -128. ValueError otherwise. A convolution of each channel by itself may have
    any.
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
    if all(each.is_pointwise for each in axes) and _is_flat(operation):
        axes = [flat_axis(axes)]
    layout, tiling = _cut(model, layouts, axes, 1)
    weights = packed_weights(operation.weights, layout, constants)
    return [*weights.kernels, direct_convolution(operation, model, weights, tiling, axes)]


def _phases_kernels(
    operation: Convolution, model: MachineModel, constants: Collection[Tensor], phases: Phases
) -> list[ScheduledKernel]:
    """Return the kernels of phases of a transposed convolution: weight packing first, if any."""
    axes = [each.axis for each in phases]
    layouts = weight_layouts(
        operation,
        [each.kernel for each in axes],
        source_lanes=channel_blocks(operation.source, len(axes)).lanes,
        lanes=model.lanes(Scalar.F32),
    )
    layout, tiling = _cut(model, layouts, axes, phase_count(phases))
    weights = phase_weights(operation, layout, phases, constants)
    return [*weights.kernels, direct_convolution(operation, model, weights, tiling, axes, phases)]


def _cut(
    model: MachineModel,
    layouts: Sequence[WeightLayout],
    axes: Sequence[WindowAxis],
    phases: int,
) -> tuple[WeightLayout, ConvolutionTiling]:
    """The layout that costs least, and how a kernel is cut that has so many phases."""
    last, packed = axes[-1], layouts[0].scalar
    steps = steps_of(packed)
    has_pairs = packed is Scalar.I8 and not has_byte_dots(model)
    candidates = (
        (
            each,
            register_group(
                model,
                width=last.output,
                sharing=each.sharing,
                nbytes=steps.sums.nbytes,
                loaded=2 if has_pairs else 1,
                spare=2 if has_pairs else 0,
            ),
        )
        for each in layouts
    )
    layout, group = min(candidates, key=lambda pair: pair[0].mean_count * pair[1].cost)
    tiling = convolution_tiling(
        model,
        group=group,
        output_blocks=phases * layout.blocks,
        rows=prod((each.output for each in axes[:-1]), start=1),
        width=last.output,
        cuts_rows=last.is_written_out or not last.is_padded,
        sums=round(layout.mean_count * prod(layout.kernel) * layout.source_lanes) // steps.group,
        weight_nbytes=layout.block_stride * packed.nbytes,
    )
    return layout, tiling


def _check_zeros(operation: Convolution) -> None:
    """ValueError where a kernel would have to take off zero points."""
    least = -BYTE_SHIFT if operation.source.scalar is Scalar.I8 else 0
    zero = operation.source_zero
    number = 0 if zero is None else zero.number if isinstance(zero, Number) else None
    if number != least or operation.weights_zero is not None:
        raise ValueError(f"{operation.output.name}: zero points are not taken off before")


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
