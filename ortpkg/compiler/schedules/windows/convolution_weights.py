"""Weights of convolutions, packed in the order in which a kernel reads them.

The order is (output blocks, pieces of the source, kernel..., lanes of a piece, lanes of the
output). For 8-bit weights, four neighbouring lanes of a piece come last, because one instruction
multiplies four. If an output block has channels of several groups, the lanes of other groups
hold zeros. Kernels then sum each group separately and keep only its lanes, since zero times
infinity is NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy.typing as npt

from ortpkg.compiler.loop_ir.kernel import Buffer, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.scheduled_kernel import Packing, ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Convolution

_BYTES_TOGETHER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightLayout:
    """Layout of packed weights, and the source channels that output blocks are summed over.

    ``sharing`` neighbouring blocks of the output read the same pieces of the source: those of all
    groups that have channels in them. A *piece* is a block of source channels, or as many
    neighbours in a block as belong to one group.

    Attributes:
        channels, group_channels: output channels, and source channels of a group.
        groups: groups of the convolution.
        kernel: sizes of the window.
        source_lanes, lanes: channels in a piece of the source, and in a block of the output.
        sharing: number of output blocks that share their source; divides the number of blocks.
        is_depthwise: True if each lane has only its channel's weight for each tap; the layout then
            has
            one piece of one lane.
        scalar: type of the packed weights.
    """

    channels: int
    group_channels: int
    groups: int
    kernel: tuple[int, ...]
    source_lanes: int
    lanes: int
    sharing: int
    is_depthwise: bool = False
    scalar: Scalar = Scalar.F32

    @property
    def together(self) -> int:
        """Lanes of the source that one step of a kernel multiplies."""
        return _BYTES_TOGETHER if self.scalar is Scalar.I8 else 1

    @property
    def blocks(self) -> int:
        """Number of blocks of output channels."""
        return -(-self.channels // self.lanes)

    @property
    def group_outputs(self) -> int:
        """Number of output channels in a group."""
        return max(1, self.channels // self.groups)

    @property
    def crosses_groups(self) -> bool:
        """True if blocks that share their source may mix groups; never for 8-bit weights."""
        if self.groups == 1 or self.is_depthwise or self.scalar is Scalar.I8:
            return False
        return self.group_outputs % (self.sharing * self.lanes) != 0

    @property
    def group_pieces(self) -> int:
        """Number of source pieces in a group, where each piece belongs to one group."""
        return self.group_channels // self.source_lanes

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First piece and number of pieces that each run of ``sharing`` output blocks reads."""
        if self.is_depthwise:
            return [(0, 1)] * self.blocks
        spans = []
        for channel in range(0, self.blocks * self.lanes, self.sharing * self.lanes):
            last = min(channel + self.sharing * self.lanes, self.channels) - 1
            first = channel // self.group_outputs * self.group_channels // self.source_lanes
            stop = (last // self.group_outputs + 1) * self.group_channels
            spans.append((first, -(-stop // self.source_lanes) - first))
        return spans

    @property
    def count(self) -> int:
        """Largest number of source pieces that an output block reads."""
        return max((count for _, count in self.spans), default=0)

    @property
    def mean_count(self) -> float:
        """Mean number of source pieces that an output block reads."""
        return sum(count for _, count in self.spans) / len(self.spans)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the packed weights."""
        lanes: tuple[int, ...] = (self.source_lanes, self.lanes)
        if self.together > 1:
            lanes = (self.source_lanes // self.together, self.lanes, self.together)
        return (self.blocks, self.count, *self.kernel, *lanes)

    @property
    def block_stride(self) -> int:
        """Number of weights between neighbouring output blocks."""
        return prod(self.shape[1:])

    def first_channel(self, channel: int) -> int:
        """Return the first source channel of an output channel, relative to its block's source."""
        if self.is_depthwise:
            return 0
        group = channel // self.group_outputs
        block, _ = self.spans[channel // self.lanes // self.sharing]
        return group * self.group_channels - block * self.source_lanes

    def pack(self, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the weights in this layout."""
        # imported here, since only packing needs numpy
        import numpy as np

        rows = (self.blocks * self.lanes, self.count * self.source_lanes, *self.kernel)
        kinds = {Scalar.F64: np.float64, Scalar.I8: np.int8}
        wide = np.zeros(rows, kinds.get(self.scalar, np.float32))
        for channel in range(self.channels):
            first = self.first_channel(channel)
            wide[channel, first : first + self.group_channels] = weights[channel]
        together = self.together
        steps = (self.count, self.source_lanes // together, together)
        split = wide.reshape(self.blocks, self.lanes, *steps, *self.kernel)
        kernel_axes = range(5, 5 + len(self.kernel))
        order = np.ascontiguousarray(split.transpose(0, 2, *kernel_axes, 3, 1, 4))
        return order.reshape(self.shape)


def weight_layouts(
    operation: Convolution, kernel: Sequence[int], *, source_lanes: int, lanes: int
) -> list[WeightLayout]:
    """Return the possible layouts; the more blocks share their source, the more of it each reads.

    A blocked depthwise convolution has a layout of its own. ``kernel`` are the sizes of the window,
    or of a phase.
    """
    channels, group_channels = (_number(size) for size in operation.weights.shape[:2])
    is_depthwise = operation.is_depthwise and source_lanes == lanes
    blocks = max(1, -(-channels // lanes))
    is_whole = is_depthwise or operation.groups == 1
    scalar = _packed_scalar(operation.weights.scalar, is_depthwise=is_depthwise)
    piece = source_lanes
    if operation.groups > 1 and scalar is not Scalar.I8:
        piece = gcd(max(group_channels, 1), source_lanes)
    sharings = [1 if is_depthwise else blocks] if is_whole else range(1, blocks + 1)
    return [
        WeightLayout(
            channels=channels,
            group_channels=group_channels,
            groups=operation.groups,
            kernel=tuple(kernel),
            source_lanes=1 if is_depthwise else piece,
            lanes=lanes,
            sharing=sharing,
            is_depthwise=is_depthwise,
            scalar=scalar,
        )
        for sharing in sharings
        if blocks % sharing == 0
    ]


def _packed_scalar(scalar: Scalar, *, is_depthwise: bool) -> Scalar:
    """Return the type of packed weights; bytes stay bytes if products are summed in fours."""
    if scalar is Scalar.F64 or (scalar is Scalar.I8 and not is_depthwise):
        return scalar
    return Scalar.F32


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWeights:
    """Weights in a layout: a constant packed at compile time, or the output of ``kernels``."""

    tensor: Tensor
    layout: WeightLayout
    packing: Packing | None
    kernels: tuple[ScheduledKernel, ...]

    def read(self, maker: KernelMaker) -> Buffer:
        """Return their buffer in a kernel."""
        if self.packing is None:
            return maker.read(self.tensor)
        return maker.read_packed(self.tensor, self.packing)


def packed_weights(
    weights: Tensor, layout: WeightLayout, constants: Collection[Tensor]
) -> PackedWeights:
    """Return the weights in the layout: packed now if constant, else by a kernel in each run."""
    tensor = Tensor(f"{weights.name} in blocks", layout.scalar, layout.shape)
    if weights not in constants:
        kernel = packing_kernel(weights, tensor, layout, taps=[range(k) for k in layout.kernel])
        return PackedWeights(tensor=tensor, layout=layout, packing=None, kernels=(kernel,))
    packing = Packing(source=weights, layout=f"convolution {layout}", pack=layout.pack)
    return PackedWeights(tensor=tensor, layout=layout, packing=packing, kernels=())


def first_piece(b: KernelBuilder, layout: WeightLayout, block: Value) -> Value:
    """Return the index of the first source piece that an output block reads."""
    if len(layout.spans) == 1:
        return b.index(layout.spans[0][0])
    channel = b.mul(b.div(block, layout.sharing), layout.sharing * layout.lanes)
    group = b.div(channel, layout.group_outputs)
    return b.div(b.mul(group, layout.group_channels), layout.source_lanes)


def group_range(b: KernelBuilder, layout: WeightLayout, block: Value) -> tuple[Value, Value]:
    """Return the range of groups in the output blocks that share a source: first, and one past."""
    chunk = b.div(block, layout.sharing)
    first = b.mul(chunk, layout.sharing * layout.lanes)
    last = b.sub(b.least(b.add(first, layout.sharing * layout.lanes), layout.channels), 1)
    return b.div(first, layout.group_outputs), b.add(b.div(last, layout.group_outputs), 1)


def piece_count(b: KernelBuilder, layout: WeightLayout, block: Value) -> Value:
    """Return the number of pieces of the source that an output block reads."""
    counts = {count for _, count in layout.spans}
    if len(counts) <= 1:
        return b.index(layout.count)
    chunk = b.add(b.div(block, layout.sharing), 1)
    end = b.least(b.mul(chunk, layout.sharing * layout.lanes), layout.channels)
    group = b.div(b.sub(end, 1), layout.group_outputs)
    stop = b.mul(b.add(group, 1), layout.group_channels)
    stop = b.div(b.add(stop, layout.source_lanes - 1), layout.source_lanes)
    return b.sub(stop, first_piece(b, layout, block))


def packing_kernel(
    weights: Tensor,
    packed: Tensor,
    layout: WeightLayout,
    *,
    taps: Sequence[range],
    first_block: int = 0,
) -> ScheduledKernel:
    """Return a kernel that packs one output block per tile: it writes zeros, then each weight.

    Args:
        weights: the tensor to pack.
        packed: the target; it has room for the layout from output block ``first_block`` on.
        layout: the layout to write.
        taps: for each axis of the window, the taps to pack.
        first_block: the first output block to write.
    """
    maker = KernelMaker("pack_convolution_weights")
    b = maker.builder
    source, target = maker.read(weights), maker.written(packed)
    kernel = [_number(size) for size in weights.shape[2:]]
    block_count, together = layout.block_stride, layout.together
    begin = b.mul(b.add(b.tile, first_block), block_count)
    zeros = b.constant(0, LoopType(packed.scalar, layout.lanes))
    with b.loop(0, block_count, layout.lanes) as entry:
        b.store(target, b.add(begin, entry.index), zeros)
    first_channel = b.mul(b.tile, layout.lanes)
    lanes = b.least(b.sub(layout.channels, first_channel), layout.lanes)
    before = b.mul(first_piece(b, layout, b.tile), layout.source_lanes)
    with b.loop(0, lanes) as lane, b.loop(0, layout.group_channels) as channel:
        output = b.add(first_channel, lane.index)
        group = b.div(output, layout.group_outputs)
        source_lane = channel.index
        if not layout.is_depthwise:
            source_lane = b.add(b.sub(b.mul(group, layout.group_channels), before), source_lane)
        row = b.mul(b.add(b.mul(output, layout.group_channels), channel.index), prod(kernel))
        piece = b.mul(b.div(source_lane, layout.source_lanes), prod(layout.kernel))
        with b.loop(0, prod(layout.kernel)) as tap:
            weight = b.load(source, b.add(row, _tap_in_window(b, tap.index, taps, kernel)))
            inner = b.mul(b.add(piece, tap.index), layout.source_lanes)
            inner = b.add(inner, b.rem(source_lane, layout.source_lanes))
            step = b.add(b.mul(b.div(inner, together), layout.lanes), lane.index)
            index = b.add(begin, b.add(b.mul(step, together), b.rem(inner, together)))
            b.store(target, index, b.cast(weight, packed.scalar))
    return maker.scheduled(layout.blocks)


def _tap_in_window(
    b: KernelBuilder, tap: Value, taps: Sequence[range], kernel: Sequence[int]
) -> Value:
    """Return the flat index in the whole window of the chosen tap with flat index ``tap``."""
    if all(len(chosen) == size for chosen, size in zip(taps, kernel, strict=True)):
        return tap
    window_tap, stride = b.index(0), 1
    for chosen, size in zip(reversed(taps), reversed(kernel), strict=True):
        position = b.add(b.mul(b.rem(tap, len(chosen)), chosen.step), chosen.start)
        window_tap = b.add(window_tap, b.mul(position, stride))
        tap, stride = b.div(tap, len(chosen)), stride * size
    return window_tap


def _number(size: object) -> int:
    if not isinstance(size, int):
        raise TypeError(f"weights of a convolution have a size that is no number: {size}")
    return size
