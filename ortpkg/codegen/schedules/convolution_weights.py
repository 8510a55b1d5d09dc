"""Weights of convolutions in the order in which a kernel reads them, packed ahead or by a kernel.

The order is (output blocks, source blocks, kernel..., lanes of the source, lanes of the output).
Groups that do not fall on blocks stand in it with zeros between them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from ortpkg.codegen.loop_ir.kernel import Buffer
from ortpkg.codegen.loop_ir.loop_types import LoopType, Scalar
from ortpkg.codegen.schedules.kernel_maker import KernelMaker
from ortpkg.codegen.schedules.scheduled_kernel import Packing, ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Tensor
from ortpkg.codegen.tensor_ir.operations import Convolution


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightLayout:
    """Which source channels each block of output channels is summed over.

    Block ``i`` of the output reads ``count`` blocks of the source from block
    ``i // sharing * step`` on, so ``sharing`` neighbours read the same.

    Attributes:
        channels, group_channels: of the output, and how many channels a group has of the source.
        groups: of the convolution.
        kernel: sizes of the window.
        source_lanes, lanes: channels in a block of the source, and of the output.
        is_depthwise: each lane has the one weight of its channel for each tap; the layout has one
            source block of one lane.
    """

    channels: int
    group_channels: int
    groups: int
    kernel: tuple[int, ...]
    source_lanes: int
    lanes: int
    count: int
    sharing: int
    step: int
    is_depthwise: bool = False

    @property
    def blocks(self) -> int:
        """Blocks of output channels."""
        return -(-self.channels // self.lanes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the packed weights."""
        return (self.blocks, self.count, *self.kernel, self.source_lanes, self.lanes)

    def first_channel(self, channel: int) -> int:
        """Where, among the source channels of its block, those of an output channel begin."""
        if self.is_depthwise:
            return 0
        group = channel // (self.channels // self.groups)
        block = channel // self.lanes // self.sharing * self.step
        return group * self.group_channels - block * self.source_lanes

    def pack(self, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The weights in this layout, as f32, or f64 where they are that."""
        # loaded where weights are packed: schedules are made without numpy
        import numpy as np

        made = np.float64 if weights.dtype == np.float64 else np.float32
        rows = (self.blocks * self.lanes, self.count * self.source_lanes, *self.kernel)
        wide = np.zeros(rows, made)
        for channel in range(self.channels):
            first = self.first_channel(channel)
            wide[channel, first : first + self.group_channels] = weights[channel]
        split = wide.reshape(self.blocks, self.lanes, self.count, self.source_lanes, *self.kernel)
        kernel_axes = range(4, 4 + len(self.kernel))
        return np.ascontiguousarray(split.transpose(0, 2, *kernel_axes, 3, 1))


def weight_layout(
    operation: Convolution, *, source_blocks: int, source_lanes: int, lanes: int
) -> WeightLayout:
    """The layout that sums over as few source channels as blocks allow."""
    channels, group_channels, *kernel = (_number(each) for each in operation.weights.shape)
    group_outputs = channels // operation.groups
    count, sharing, step = source_blocks, max(1, -(-channels // lanes)), 0
    is_depthwise = is_depthwise_convolution(operation) and source_lanes == lanes
    if is_depthwise:
        count = source_lanes = sharing = 1
    elif operation.groups > 1:
        if group_outputs % lanes == 0 and group_channels % source_lanes == 0:
            count = step = group_channels // source_lanes
            sharing = group_outputs // lanes
        elif (
            group_outputs == group_channels and lanes == source_lanes and lanes % group_outputs == 0
        ):
            count = sharing = step = 1
    return WeightLayout(
        channels=channels,
        group_channels=group_channels,
        groups=operation.groups,
        kernel=tuple(kernel),
        source_lanes=source_lanes,
        lanes=lanes,
        count=count,
        sharing=sharing,
        step=step,
        is_depthwise=is_depthwise,
    )


def is_depthwise_convolution(operation: Convolution) -> bool:
    """Whether each output channel is summed over one channel of the source, that of its number."""
    channels, group_channels = operation.weights.shape[:2]
    return operation.groups > 1 and group_channels == 1 and channels == operation.groups


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWeights:
    """Weights in a layout: a constant that is packed ahead, or what ``kernels`` write."""

    tensor: Tensor
    layout: WeightLayout
    packing: Packing | None
    kernels: tuple[ScheduledKernel, ...]

    def read(self, maker: KernelMaker) -> Buffer:
        """Their buffer in a kernel."""
        if self.packing is None:
            return maker.read(self.tensor)
        return maker.read_packed(self.tensor, self.packing)


def packed_weights(
    weights: Tensor, layout: WeightLayout, constants: Collection[Tensor]
) -> PackedWeights:
    """The weights in the layout, by a kernel where they are not known when compiling."""
    scalar = Scalar.F64 if weights.scalar is Scalar.F64 else Scalar.F32
    tensor = Tensor(f"{weights.name} in blocks", scalar, layout.shape)
    if weights not in constants:
        kernel = _packing_kernel(weights, tensor, layout)
        return PackedWeights(tensor=tensor, layout=layout, packing=None, kernels=(kernel,))
    packing = Packing(source=weights, layout=f"convolution {layout}", pack=layout.pack)
    return PackedWeights(tensor=tensor, layout=layout, packing=packing, kernels=())


def _packing_kernel(weights: Tensor, packed: Tensor, layout: WeightLayout) -> ScheduledKernel:
    """Packs one output block a tile: zeros, then each weight at its place."""
    maker = KernelMaker("pack_convolution_weights")
    b = maker.builder
    given, made = maker.read(weights), maker.written(packed)
    taps = prod(layout.kernel)
    block_count = prod(layout.shape[1:])
    zeros = b.constant(0.0, LoopType(packed.scalar, layout.lanes))
    with b.loop(0, block_count, layout.lanes) as entry:
        b.store(made, b.add(b.mul(b.tile, block_count), entry.index), zeros)
    first_channel = b.mul(b.tile, layout.lanes)
    lanes = b.least(b.sub(layout.channels, first_channel), layout.lanes)
    before = b.mul(b.div(b.tile, layout.sharing), layout.step * layout.source_lanes)
    with b.loop(0, lanes) as lane, b.loop(0, layout.group_channels) as channel:
        output = b.add(first_channel, lane.index)
        group = b.div(output, layout.channels // layout.groups)
        place = channel.index
        if not layout.is_depthwise:
            place = b.add(b.sub(b.mul(group, layout.group_channels), before), place)
        block = b.add(b.mul(b.tile, layout.count), b.div(place, layout.source_lanes))
        row = b.mul(b.add(b.mul(output, layout.group_channels), channel.index), taps)
        with b.loop(0, taps) as tap:
            tap_place = b.add(b.mul(block, taps), tap.index)
            inner = b.add(b.mul(tap_place, layout.source_lanes), b.rem(place, layout.source_lanes))
            weight = b.cast(b.load(given, b.add(row, tap.index)), packed.scalar)
            b.store(made, b.add(b.mul(inner, layout.lanes), lane.index), weight)
    return maker.scheduled(layout.blocks)


def _number(size: object) -> int:
    if not isinstance(size, int):
        raise TypeError(f"weights of a convolution have a size that is no number: {size}")
    return size
