"""Converts convolutional networks to tensors with blocks of channels.

Convolutions always make blocked tensors, and read a source in either layout. Poolings, elementwise
work and concatenations between them stay blocked if channels fill whole blocks. So a tensor is
converted only where the network ends, or where an operation reads it that knows no blocks. A tensor
of one pixel is the same in both layouts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from ortpkg.compiler.fusion.substitution import moved, replace_reads
from ortpkg.compiler.layouts.block_conversions import (
    blocked_tensor,
    channel_coordinate,
    channel_count,
    from_blocks,
    to_blocks,
)
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Coordinate,
    Element,
    Read,
    Tensor,
    along,
    parts_of,
)
from ortpkg.compiler.tensor_ir.operations import Alias, Convolution, Map, Operation, Pool
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, reads_of

#: Channels of bytes that a kernel multiplies at once.
_BYTES_TOGETHER = 4


def block_channels(program: TensorProgram, lanes: int) -> TensorProgram:
    """Return the program with blocks of ``lanes`` channels around its convolutions."""
    if not any(isinstance(operation, Convolution) for operation in program.operations):
        return program
    return _Blocking(program, lanes).blocked_program()


def _tensors_in_blocks(program: TensorProgram, lanes: int) -> set[Tensor]:
    """Return the plain tensors that blocked ones replace."""
    writers: dict[Tensor, list[Map]] = {}
    for operation in program.operations:
        if isinstance(operation, Map):
            writers.setdefault(operation.output, []).append(operation)
    blocked: set[Tensor] = set()
    for operation in program.operations:
        match operation:
            case Convolution():
                blocked.add(operation.output)
            case Pool():
                channels = channel_count(operation.source)
                is_whole = channels is not None and channels % lanes == 0
                if is_whole or (operation.source in blocked and operation.epilogue is None):
                    blocked.add(operation.output)
            case Map() if operation is writers[operation.output][-1]:
                if all(_stays_blocked(map_, blocked, lanes) for map_ in writers[operation.output]):
                    blocked.add(operation.output)
            case _:
                pass
    return blocked


def _stays_blocked(operation: Map, blocked: Collection[Tensor], lanes: int) -> bool:
    """Return True if a map can run over blocks and reads nothing large outside blocks."""
    rank = len(operation.output.shape)
    if rank < 3 or len(operation.axes) != rank or not _is_whole(operation.output, lanes):
        return False
    width = operation.axes[1]
    axes = [along(axis) for axis in range(rank)]
    if not isinstance(width, int) or width % lanes:
        return False
    if not _is_shifted(operation.coordinates, axes, lanes):
        return False
    reads = [part for part in parts_of(operation.value) if isinstance(part, Read)]
    for read in reads:
        if read.tensor in blocked:
            if not _is_whole(read.tensor, lanes) or len(read.coordinates) != rank:
                return False
            if not _is_whole_shift(read.coordinates[1], lanes):
                return False
        elif any(axis >= 2 for coordinate in read.coordinates for axis, _ in coordinate.terms):
            return False
    return any(read.tensor in blocked for read in reads)


def _is_whole(tensor: Tensor, lanes: int) -> bool:
    channels = channel_count(tensor)
    return channels is not None and channels % lanes == 0


def _is_shifted(coordinates: Sequence[Coordinate], axes: Sequence[Coordinate], lanes: int) -> bool:
    """Return True if coordinates are the axes, except for a channel shift by whole blocks."""
    outer = [coordinate for axis, coordinate in enumerate(coordinates) if axis != 1]
    expected = [coordinate for axis, coordinate in enumerate(axes) if axis != 1]
    return (
        len(coordinates) == len(axes)
        and outer == expected
        and _is_whole_shift(coordinates[1], lanes)
    )


def _is_whole_shift(coordinate: Coordinate, lanes: int) -> bool:
    offset = coordinate.offset
    return (
        coordinate == Coordinate(((1, 1),), offset)
        and isinstance(offset, int)
        and offset % lanes == 0
    )


class _Blocking:
    def __init__(self, program: TensorProgram, lanes: int) -> None:
        self._program, self._lanes = program, lanes
        self._chosen = _tensors_in_blocks(program, lanes)
        self._blocked: dict[Tensor, Tensor] = {}
        self._narrow: dict[Tensor, Tensor] = {}
        self._is_made_plain: set[Tensor] = set()
        self._operations: list[Operation] = []
        self._origins = dict(program.origins)

    def blocked_program(self) -> TensorProgram:
        """Return the program, with conversions right before their first use."""
        for operation in self._program.operations:
            match operation:
                case Convolution():
                    self._convolution(operation)
                case Pool() if operation.output in self._chosen:
                    self._pool(operation)
                case Map() if operation.output in self._chosen:
                    self._map(operation)
                case Alias() if self._is_pixel(operation.source):
                    source = self._blocked[operation.source]
                    self._operations.append(replace(operation, source=source))
                case _:
                    for tensor in reads_of(operation):
                        self._have_plain(tensor)
                    self._operations.append(operation)
        for output in self._program.outputs:
            self._have_plain(output)
        operations = tuple(self._operations)
        return replace(self._program, operations=operations, origins=self._origins)

    def _convolution(self, operation: Convolution) -> None:
        source = self._blocked.get(operation.source)
        if source is None and operation.is_depthwise:
            source = self._in_blocks(operation.source)
        elif source is None and operation.source.scalar in {Scalar.U8, Scalar.I8}:
            source = self._in_byte_blocks(operation.source)
        self._have_plain(operation.weights)
        epilogue = self._over_blocks(operation.epilogue, operation.output)
        self._operations.append(
            replace(
                operation,
                source=operation.source if source is None else source,
                output=self._made(operation.output),
                source_zero=self._over_blocks(operation.source_zero, operation.output),
                weights_zero=self._over_blocks(operation.weights_zero, operation.output),
                epilogue=epilogue,
            )
        )

    def _pool(self, operation: Pool) -> None:
        source = self._in_blocks(operation.source)
        epilogue = self._over_blocks(operation.epilogue, operation.output)
        output = self._made(operation.output)
        self._operations.append(replace(operation, source=source, output=output, epilogue=epilogue))

    def _map(self, operation: Map) -> None:
        rank, width = len(operation.axes), operation.axes[1]
        shift = operation.coordinates[1].offset
        assert isinstance(width, int)
        assert isinstance(shift, int)
        value = self._over_blocks(operation.value, operation.output)
        assert value is not None
        spatial = tuple(along(axis) for axis in range(2, rank))
        block = Coordinate(((1, 1),), shift // self._lanes)
        self._operations.append(
            Map(
                output=self._made(operation.output),
                axes=(operation.axes[0], width // self._lanes, *operation.axes[2:], self._lanes),
                value=value,
                coordinates=(along(0), block, *spatial, along(rank)),
            )
        )

    def _made(self, plain: Tensor) -> Tensor:
        """Return the blocked tensor that replaces a plain one."""
        if plain not in self._blocked:
            self._blocked[plain] = blocked_tensor(plain, self._lanes)
            self._origins[self._blocked[plain]] = self._origins.get(plain, ())
        return self._blocked[plain]

    def _in_blocks(self, plain: Tensor) -> Tensor:
        """Return the blocked tensor, converted if there is only a plain one."""
        if plain in self._blocked:
            return self._blocked[plain]
        self._is_made_plain.add(plain)
        blocked = self._made(plain)
        self._operations += to_blocks(plain, blocked)
        return blocked

    def _in_byte_blocks(self, plain: Tensor) -> Tensor:
        """Return bytes in blocks; few channels get one block with a multiple of four lanes."""
        channels = channel_count(plain)
        assert channels is not None
        lanes = -(-channels // _BYTES_TOGETHER) * _BYTES_TOGETHER
        if lanes >= self._lanes:
            return self._in_blocks(plain)
        if plain not in self._narrow:
            self._narrow[plain] = blocked_tensor(plain, lanes)
            self._have_plain(plain)
            self._operations += to_blocks(plain, self._narrow[plain])
        return self._narrow[plain]

    def _have_plain(self, tensor: Tensor) -> None:
        """Convert a tensor that exists only in blocks."""
        if tensor not in self._blocked or tensor in self._is_made_plain:
            return
        self._is_made_plain.add(tensor)
        blocked = self._blocked[tensor]
        if self._is_pixel(tensor) and tensor not in self._program.outputs:
            self._operations.append(Alias(output=tensor, source=blocked))
        else:
            self._operations += from_blocks(blocked, tensor)

    def _is_pixel(self, tensor: Tensor) -> bool:
        """Return True if a blocked tensor has the same memory layout as the plain one."""
        is_one = all(size == 1 for size in tensor.shape[2:])
        return tensor in self._blocked and is_one and _is_whole(tensor, self._lanes)

    def _over_blocks(self, element: Element | None, output: Tensor) -> Element | None:
        """Return an expression over a plain tensor's axes as one over the blocked tensor's."""
        if element is None:
            return None
        rank = len(output.shape)
        inner = [along(axis) for axis in range(2, rank)]
        over_blocks = moved(element, [along(0), channel_coordinate(rank, self._lanes), *inner])
        return replace_reads(over_blocks, partial(self._read_over_blocks, rank=rank))

    def _read_over_blocks(self, read: Read, *, rank: int) -> Element:
        """Return a read at the channel of a block's lane; from blocks, if the tensor is large."""
        block = self._block_coordinate(read, rank)
        is_large = any(
            axis in range(2, rank)
            for coordinate in read.coordinates
            for axis, _ in coordinate.terms
        )
        if block is not None and (read.tensor in self._blocked or is_large):
            blocked = self._in_blocks(read.tensor)
            return Read(blocked, (read.coordinates[0], block, *read.coordinates[2:], along(rank)))
        self._have_plain(read.tensor)
        return read

    def _block_coordinate(self, read: Read, rank: int) -> Coordinate | None:
        """Return the block of a read's channel, if lanes of the output are lanes of it."""
        if len(read.coordinates) != rank or channel_count(read.tensor) is None:
            return None
        coordinate = read.coordinates[1]
        if coordinate != replace(channel_coordinate(rank, self._lanes), offset=coordinate.offset):
            return None
        if not isinstance(coordinate.offset, int) or coordinate.offset % self._lanes:
            return None
        return Coordinate(((1, 1),), coordinate.offset // self._lanes)
