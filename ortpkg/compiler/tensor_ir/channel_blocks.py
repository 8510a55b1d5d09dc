"""Tensors whose channels are in blocks, as convolutions and poolings read and write them.

A *plain* tensor is (batch, channels, spatial...). A *blocked* one is (batch, blocks, spatial...,
lanes): channel ``c`` is lane ``c % lanes`` of block ``c // lanes``. A blocked tensor has one
dimension more than a plain one. If the channels are no multiple of the lanes, the unused lanes of
the last block are 0. The operation that writes a blocked tensor ensures this, so that sums over
channels need no exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelBlocks:
    """Dimensions of a blocked or plain tensor; a plain one has blocks of one channel."""

    batch: Size
    blocks: Size
    spatial: tuple[Size, ...]
    lanes: int

    @property
    def plane(self) -> Size:
        """Number of elements between neighbouring blocks."""
        return prod(self.spatial, start=self.lanes)

    def stride(self, axis: int) -> Size:
        """Return the number of elements between neighbours along a spatial axis."""
        return prod(self.spatial[axis + 1 :], start=self.lanes)


def channel_blocks(tensor: Tensor, spatial_rank: int) -> ChannelBlocks:
    """Return the dimensions of a tensor with this many spatial axes, blocked or plain."""
    lanes = tensor.shape[-1] if len(tensor.shape) == spatial_rank + 3 else 1
    if not isinstance(lanes, int):
        raise TypeError(f"{tensor.name}: the lanes of a block are a formula")
    return ChannelBlocks(
        batch=tensor.shape[0],
        blocks=tensor.shape[1],
        spatial=tensor.shape[2 : 2 + spatial_rank],
        lanes=lanes,
    )
