"""Stores of a blocked output: epilogues in registers, and zeros in unused lanes."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.tensor_ir.channel_blocks import channel_blocks
from ortpkg.compiler.tensor_ir.elements import Element, Tensor


class BlockOutput:
    """A tensor with blocks of channels that a kernel writes, one vector of channels at a time."""

    def __init__(
        self,
        maker: KernelMaker,
        model: MachineModel,
        output: Tensor,
        epilogue: Element | None,
        *,
        spatial_rank: int,
        channels: int | None,
    ) -> None:
        """Create the output of a kernel.

        Args:
            maker: maker of the kernel.
            model: the CPU.
            output: the tensor.
            epilogue: expression over the output's axes, or None.
            spatial_rank: number of spatial axes.
            channels: number of channels; lanes after them are written as 0. None if all lanes are
                used.
        """
        self._maker = maker
        self._layout = channel_blocks(output, spatial_rank)
        self._buffer = maker.written(output)
        self._epilogue = epilogue
        self._values = ElementValues(maker, model)
        self._channels = channels

    def store(
        self, made: Value, image: Operand, block: Operand, positions: Sequence[Operand]
    ) -> None:
        """Write the channels of a block at spatial positions.

        ``made`` is the operation's own result for them.
        """
        b, layout, maker = self._maker.builder, self._layout, self._maker
        lanes = layout.lanes
        index = b.add(b.mul(b.index(image), maker.size(layout.blocks)), block)
        index = b.mul(index, maker.size(layout.plane))
        for axis, position in enumerate(positions):
            index = b.add(index, b.mul(b.index(position), maker.size(layout.stride(axis))))
        count: Value | None = None
        if self._channels is not None and self._channels % lanes:
            count = b.least(b.sub(self._channels, b.mul(b.index(block), lanes)), lanes)
            zeros = b.constant(0, LoopType(self._buffer.scalar, lanes))
            b.store(self._buffer, index, zeros)
        if self._epilogue is not None:
            axes = [image, block, *positions]
            made = self._values.value_of(
                self._epilogue,
                [*axes, 0] if lanes > 1 else axes,
                vector_axis=len(axes) if lanes > 1 else None,
                lanes=lanes,
                count=count,
                made=made,
            )
        b.store(self._buffer, index, b.cast(made, self._buffer.scalar), count)
