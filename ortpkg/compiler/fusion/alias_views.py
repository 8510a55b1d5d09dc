"""Replaces reads of an alias by reads of its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortpkg.compiler.fusion.substitution import moved_coordinate, replace_reads
from ortpkg.compiler.tensor_ir.elements import Coordinate, Element, Read, Tensor
from ortpkg.compiler.tensor_ir.operations import Alias
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, with_elements
from ortpkg.graph.shapes.expressions import Size


def read_through_aliases(program: TensorProgram) -> TensorProgram:
    """Let expressions read an alias's source, if its coordinates are sums of axes.

    They are if the alias splits dimensions, or adds or removes dimensions of 1. If it joins
    dimensions, a quotient would be needed, and the expression still reads the alias.
    """
    sources = {
        operation.output: operation.source
        for operation in program.operations
        if isinstance(operation, Alias)
    }

    def through(read: Read) -> Element:
        while read.tensor in sources:
            source = sources[read.tensor]
            coordinates = coordinates_in_source(read.tensor.shape, source.shape, read.coordinates)
            if coordinates is None:
                break
            read = Read(source, coordinates)
        return read

    operations = tuple(
        with_elements(operation, lambda element: replace_reads(element, through))
        for operation in program.operations
    )
    return replace(program, operations=operations)


def coordinates_in_source(
    shape: Sequence[Size], source: Sequence[Size], coordinates: Sequence[Coordinate]
) -> tuple[Coordinate, ...] | None:
    """Return an element's coordinates in an alias's source; None if they are no sums.

    Both shapes are cut into groups of dimensions with the same number of elements.
    """
    source_coordinates: list[Coordinate] = []
    dimension = 0
    for size in source:
        group: list[int] = []
        count: Size = 1
        while dimension < len(shape) and count != size:
            count = count * shape[dimension]
            group.append(dimension)
            dimension += 1
        if count != size:
            return None
        source_coordinates.append(_joined(group, shape, coordinates))
    return tuple(source_coordinates) if all(size == 1 for size in shape[dimension:]) else None


def _joined(
    group: Sequence[int], shape: Sequence[Size], coordinates: Sequence[Coordinate]
) -> Coordinate:
    """Return one coordinate for those of a group of dimensions."""
    terms: list[tuple[int, Size]] = []
    stride: Size = 1
    for dimension in reversed(group):
        if shape[dimension] != 1:
            terms.append((dimension, stride))
            stride = stride * shape[dimension]
    return moved_coordinate(Coordinate(tuple(terms)), list(coordinates))


def root_of(tensor: Tensor, sources: dict[Tensor, Tensor]) -> Tensor:
    """Return the tensor whose memory an alias shares."""
    while tensor in sources:
        tensor = sources[tensor]
    return tensor
