"""Makes a kernel for tensors: their buffers and strides, and sizes as numbers or parameters."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.kernel import Buffer, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import I64
from ortpkg.compiler.schedules.scheduled_kernel import Packing, ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.graph.shapes.expressions import Size


class KernelMaker:
    """A kernel under construction, whose buffers are tensors of the program.

    A size that is a number is a constant in the kernel, so that loops have known bounds; a formula
    is a size parameter, whose value each run passes.

    Attributes:
        builder: builder of the kernel.
    """

    def __init__(self, name: str) -> None:
        self.builder = KernelBuilder(name)
        self._buffers: dict[tuple[Tensor, bool], Buffer] = {}
        self._tensors: list[Tensor] = []
        self._sizes: dict[Size, Value] = {}
        self._packed: dict[Tensor, Packing] = {}

    def read_packed(self, tensor: Tensor, packing: Packing) -> Buffer:
        """Return the buffer of a packed constant; ``tensor`` has the packed shape."""
        self._packed[tensor] = packing
        return self.read(tensor)

    def read(self, tensor: Tensor) -> Buffer:
        """Return the buffer of a tensor that the kernel reads."""
        return self._buffer(tensor, is_output=False)

    def written(self, tensor: Tensor) -> Buffer:
        """Return the buffer of a tensor that the kernel writes."""
        return self._buffer(tensor, is_output=True)

    def size(self, size: Size) -> Operand:
        """Return a size as a number if it is known, else as a parameter of the kernel."""
        if isinstance(size, int):
            return size
        if size not in self._sizes:
            self._sizes[size] = self.builder.size(f"size{len(self._sizes)}")
        return self._sizes[size]

    def beginning(self, offset: Size) -> Value:
        """Return an offset into a tensor as a parameter, even if it is known, unless it is 0.

        So pieces of equal size at different offsets share one kernel.
        """
        if offset == 0:
            return self.builder.constant(0, I64)
        if offset not in self._sizes:
            self._sizes[offset] = self.builder.size(f"size{len(self._sizes)}")
        return self._sizes[offset]

    def value(self, size: Size) -> Value:
        """Return a size as an i64 value."""
        number = self.size(size)
        return number if isinstance(number, Value) else self.builder.constant(number, I64)

    def scheduled(self, tile_count: Size, *, wave_tiles: Size = 0) -> ScheduledKernel:
        """Return the kernel with the tensors and sizes to call it with."""
        return ScheduledKernel(
            kernel=self.builder.kernel(),
            buffers=tuple(self._tensors),
            sizes=tuple(self._sizes),
            tile_count=tile_count,
            wave_tiles=wave_tiles,
            packed=dict(self._packed),
        )

    def _buffer(self, tensor: Tensor, *, is_output: bool) -> Buffer:
        key = (tensor, is_output)
        if key not in self._buffers:
            name = f"{'out' if is_output else 'in'}{len(self._buffers)}"
            make = self.builder.output if is_output else self.builder.input
            self._buffers[key] = make(name, tensor.scalar)
            self._tensors.append(tensor)
        return self._buffers[key]


def strides_of(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Return the number of elements between neighbours along each dimension, in C order."""
    return tuple(prod(shape[dimension + 1 :], start=1) for dimension in range(len(shape)))
