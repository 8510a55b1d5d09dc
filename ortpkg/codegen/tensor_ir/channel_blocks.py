"""Tensors whose channels lie in blocks: how convolutions and poolings see their operands.

A *plain* tensor is (batch, channels, spatial...). A *blocked* one is (batch, blocks, spatial...,
lanes): channel ``c`` is lane ``c % lanes`` of block ``c // lanes``. Its rank, one more than that of
a plain one, tells it apart. Where the channels are no multiple of the lanes, the lanes behind the
last channel are 0: whoever writes a blocked tensor sees to that, so that whoever sums over channels
needs no exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ortpkg.codegen.tensor_ir.elements import Tensor
from ortpkg.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelBlocks:
    """The dimensions of a tensor, blocked or plain: a plain one has blocks of one channel."""

    batch: Size
    blocks: Size
    spatial: tuple[Size, ...]
    lanes: int

    @property
    def plane(self) -> Size:
        """How many elements lie between neighbouring blocks."""
        return prod(self.spatial, start=self.lanes)

    def stride(self, axis: int) -> Size:
        """How many elements lie between neighbours along a spatial axis."""
        return prod(self.spatial[axis + 1 :], start=self.lanes)


def channel_blocks(tensor: Tensor, spatial_rank: int) -> ChannelBlocks:
    """How a tensor's channels lie."""
    lanes = tensor.shape[-1] if len(tensor.shape) == spatial_rank + 3 else 1
    if not isinstance(lanes, int):
        raise TypeError(f"{tensor.name}: the lanes of a block are a formula")
    return ChannelBlocks(
        batch=tensor.shape[0],
        blocks=tensor.shape[1],
        spatial=tensor.shape[2 : 2 + spatial_rank],
        lanes=lanes,
    )
