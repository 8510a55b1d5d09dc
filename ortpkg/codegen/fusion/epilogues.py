"""Puts elementwise work behind products, convolutions and reductions into their epilogues."""

from __future__ import annotations

from dataclasses import replace

from ortpkg.codegen.fusion.inlining import is_whole_map
from ortpkg.codegen.fusion.substitution import is_identity, moved, replace_reads
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import Element, Made, Place, Read, Tensor, along, parts_of
from ortpkg.codegen.tensor_ir.operations import (
    Alias,
    Convolution,
    Map,
    Operation,
    Pool,
    Product,
    Reduce,
    RowNormalize,
)
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram, reads_of

_WithEpilogue = Product | Convolution | Pool | Reduce | RowNormalize
_MOST_PARTS = 96


def fuse_epilogues(program: TensorProgram) -> TensorProgram:
    """Fuses each map into the one operation whose output it alone reads, element by element."""
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
        each
        for index in sorted(operations)
        for each in (operations[index], aliases.get(index))
        if each is not None
    ]
    return replace(program, operations=tuple(ordered))


def _fused(
    producer: Operation | None, reader: Map, tensor: Tensor
) -> tuple[Operation, Alias | None] | None:
    """The producer with the map as its epilogue, and the alias that then has the map's shape."""
    if not isinstance(producer, _WithEpilogue):
        return None
    squeezed = _without_unit_axes(reader)
    axes = tuple(each for each in producer.output.shape if each != 1)
    if squeezed.axes != axes:
        return None
    positions = [place for place, each in enumerate(producer.output.shape) if each != 1]
    wide = [along(positions[axis]) for axis in range(len(axes))]
    value = moved(squeezed.value, wide)
    own = _own_epilogue(producer)
    is_apart = False

    def change(read: Read) -> Element:
        nonlocal is_apart
        if read.tensor is not tensor:
            return read
        if not is_identity(read.places, producer.output.shape):
            is_apart = True
        return own

    value = replace_reads(value, change)
    if is_apart or sum(1 for _ in parts_of(value)) > _MOST_PARTS:
        return None
    shape = producer.output.shape
    if reader.output.shape == shape:
        return replace(producer, output=reader.output, epilogue=value), None
    made = Tensor(reader.output.name, reader.output.scalar, shape)
    return replace(producer, output=made, epilogue=value), Alias(output=reader.output, source=made)


def _own_epilogue(producer: _WithEpilogue) -> Element:
    if producer.epilogue is not None:
        return producer.epilogue
    scalar = producer.output.scalar
    return Made(scalar if scalar not in {Scalar.F16, Scalar.BF16} else Scalar.F32)


def _without_unit_axes(operation: Map) -> Map:
    """The map without axes of size 1, at which everything stands at 0."""
    kept = [axis for axis, size in enumerate(operation.axes) if size != 1]
    places = [
        along(kept.index(axis)) if axis in kept else Place() for axis in range(len(operation.axes))
    ]
    return Map(
        output=operation.output,
        axes=tuple(operation.axes[axis] for axis in kept),
        value=moved(operation.value, places),
        places=tuple(places),
    )
