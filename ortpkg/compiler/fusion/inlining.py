"""Inlines maps into the operations that read them, so that their outputs need no memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeGuard

from ortpkg.compiler.fusion.substitution import moved, replace_reads
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    FUNCTION_ROWS,
    Call,
    Convert,
    Element,
    Number,
    Read,
    SizeValue,
    Tensor,
    along,
    parts_of,
    tensors_read,
)
from ortpkg.compiler.tensor_ir.operations import (
    Attention,
    Map,
    Operation,
    Product,
    Reduce,
    RowNormalize,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, reads_of, with_elements

#: Largest expression after inlining: kernels stay small, and registers suffice.
_MOST_PARTS = 96
_MOST_TENSORS = 8
#: Highest cost of work that is computed again for each reader.
_MOST_COST_AGAIN = 4


def cost_of(element: Element) -> int:
    """Return the cost of computing an element, in simple operations; reads are free."""
    return sum(
        max(1, round(FUNCTION_ROWS[part.function].cycles / 2))
        if isinstance(part, Call)
        else isinstance(part, Convert)
        for part in parts_of(element)
    )


def is_whole_map(operation: Operation) -> TypeGuard[Map]:
    """Return True for a map that writes each element of its output once, at its own axes."""
    return (
        isinstance(operation, Map)
        and operation.axes == operation.output.shape
        and operation.coordinates == tuple(along(axis) for axis in range(len(operation.axes)))
    )


def inline_maps(program: TensorProgram) -> TensorProgram:
    """Inline moves into all expressions, and elementwise work that is read once.

    Into a product only moves are inlined: it reads each element of an operand many times.
    """
    readers: dict[Tensor, int] = {}
    for operation in program.operations:
        for tensor in reads_of(operation):
            readers[tensor] = readers.get(tensor, 0) + 1
    writers: dict[Tensor, int] = {}
    for operation in program.operations:
        writers[operation.output] = writers.get(operation.output, 0) + 1
    inlined: dict[Tensor, Map] = {}
    operations: list[Operation] = []
    for operation in program.operations:
        change = partial(_inlined, operation=operation, maps=inlined, readers=readers)
        changed = with_elements(operation, change)
        operations.append(changed)
        if is_whole_map(changed) and writers[changed.output] == 1:
            inlined[changed.output] = changed
    return replace(program, operations=tuple(operations))


def _inlined(
    element: Element,
    *,
    operation: Operation,
    maps: Mapping[Tensor, Map],
    readers: Mapping[Tensor, int],
) -> Element:
    budget = _MOST_PARTS - sum(1 for _ in parts_of(element))
    tensors = set(tensors_read(element))

    def change(read: Read) -> Element:
        nonlocal budget
        map_ = maps.get(read.tensor)
        if map_ is None or not _may_inline(map_, operation, readers[read.tensor]):
            return read
        size = sum(1 for _ in parts_of(map_.value))
        joined = tensors | set(tensors_read(map_.value))
        if size > budget or len(joined) > _MOST_TENSORS:
            return read
        budget -= size
        tensors.update(joined)
        return moved(map_.value, read.coordinates)

    return replace_reads(element, change)


def _may_inline(map_: Map, operation: Operation, reader_count: int) -> bool:
    if is_move(map_.value):
        # a product reads rows from memory many times, so they are rounded once and stored
        is_rounding = isinstance(map_.value, Convert) and map_.output.scalar is Scalar.BF16
        stays = is_rounding and isinstance(operation, Product)
        return not stays and (not _is_gather(map_.value) or isinstance(operation, Map))
    if isinstance(operation, Product | Attention):
        return False
    if not isinstance(operation, Map | Reduce | RowNormalize):
        return cost_of(map_.value) <= _MOST_COST_AGAIN
    cost = cost_of(map_.value)
    return cost <= _MOST_COST_AGAIN or (reader_count == 1 and len(map_.axes) >= len(operation.axes))


def is_move(value: Element) -> bool:
    """Return True if an element is read or constant, converted or not, but not computed."""
    if isinstance(value, Convert):
        return is_move(value.operand)
    return isinstance(value, Read | Number | SizeValue)


def _is_gather(value: Element) -> bool:
    return any(
        isinstance(part, Read)
        and any(coordinate.value is not None for coordinate in part.coordinates)
        for part in parts_of(value)
    )
