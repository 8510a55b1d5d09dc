"""Moves elementwise work after products, convolutions and reductions into their epilogues."""

from __future__ import annotations

from dataclasses import replace

from ortpkg.compiler.fusion.inlining import is_whole_map
from ortpkg.compiler.fusion.substitution import is_identity, moved, replace_reads
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Coordinate,
    Element,
    Made,
    Read,
    Tensor,
    along,
    parts_of,
)
from ortpkg.compiler.tensor_ir.operations import (
    Alias,
    Convolution,
    Map,
    Operation,
    Pool,
    Product,
    Reduce,
    RowNormalize,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, reads_of

_WithEpilogue = Product | Convolution | Pool | Reduce | RowNormalize
_MOST_PARTS = 96


def fuse_epilogues(program: TensorProgram) -> TensorProgram:
    """Fuse each map into the operation whose output only it reads, element by element."""
    operations: dict[int, Operation] = dict(enumerate(program.operations))
    aliases: dict[int, Alias] = {}
    readers: dict[Tensor, list[int]] = {}
    made_at: dict[Tensor, int] = {}
    for index, operation in operations.items():
        for tensor in reads_of(operation):
            readers.setdefault(tensor, []).append(index)
        made_at[operation.output] = index
    for index, operation in enumerate(program.operations):
        if not is_whole_map(operation):
            continue
        for tensor in reads_of(operation):
            is_shared = readers[tensor] != [index] or tensor in program.outputs
            producer = None if is_shared else operations.get(made_at.get(tensor, -1))
            fused = _fused(producer, operation, tensor)
            if fused is not None:
                del operations[made_at[tensor]]
                operations[index], alias = fused
                if alias is not None:
                    aliases[index] = alias
                break
    ordered = [
        fused_operation
        for index in sorted(operations)
        for fused_operation in (operations[index], aliases.get(index))
        if fused_operation is not None
    ]
    return replace(program, operations=tuple(ordered))


def _fused(
    producer: Operation | None, reader: Map, tensor: Tensor
) -> tuple[Operation, Alias | None] | None:
    """Return the producer with the map as its epilogue, and an alias with the map's shape."""
    if not isinstance(producer, _WithEpilogue):
        return None
    squeezed = _without_unit_axes(reader)
    axes = tuple(size for size in producer.output.shape if size != 1)
    if squeezed.axes != axes:
        return None
    positions = [dimension for dimension, size in enumerate(producer.output.shape) if size != 1]
    wide = [along(positions[axis]) for axis in range(len(axes))]
    value = moved(squeezed.value, wide)
    result = _result_of(producer)
    is_apart = False

    def change(read: Read) -> Element:
        nonlocal is_apart
        if read.tensor is not tensor:
            return read
        if not is_identity(read.coordinates, producer.output.shape):
            is_apart = True
        return result

    value = replace_reads(value, change)
    if is_apart or sum(1 for _ in parts_of(value)) > _MOST_PARTS:
        return None
    shape = producer.output.shape
    if reader.output.shape == shape:
        return replace(producer, output=reader.output, epilogue=value), None
    made = Tensor(reader.output.name, reader.output.scalar, shape)
    return replace(producer, output=made, epilogue=value), Alias(output=reader.output, source=made)


def _result_of(producer: _WithEpilogue) -> Element:
    if producer.epilogue is not None:
        return producer.epilogue
    scalar = producer.output.scalar
    return Made(scalar if scalar not in {Scalar.F16, Scalar.BF16} else Scalar.F32)


def _without_unit_axes(operation: Map) -> Map:
    """Return the map without axes of size 1."""
    wide_axes = [axis for axis, size in enumerate(operation.axes) if size != 1]
    coordinates = [
        along(wide_axes.index(axis)) if axis in wide_axes else Coordinate()
        for axis in range(len(operation.axes))
    ]
    return Map(
        output=operation.output,
        axes=tuple(operation.axes[axis] for axis in wide_axes),
        value=moved(operation.value, coordinates),
        coordinates=tuple(coordinates),
    )
