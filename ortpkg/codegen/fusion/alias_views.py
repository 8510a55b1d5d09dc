"""Reads of a tensor under another shape as reads of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortpkg.codegen.fusion.substitution import moved_place, replace_reads
from ortpkg.codegen.tensor_ir.elements import Element, Place, Read, Tensor
from ortpkg.codegen.tensor_ir.operations import Alias
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram, with_elements
from ortpkg.shapes.expressions import Size


def read_through_aliases(program: TensorProgram) -> TensorProgram:
    """Has expressions read what an alias is of, where a place of it is a sum of axes.

    That is so where the alias splits dimensions, or puts in and takes away dimensions of 1; where
    it joins some, a quotient would be needed, and the alias is read itself.
    """
    sources = {each.output: each.source for each in program.operations if isinstance(each, Alias)}

    def through(read: Read) -> Element:
        while read.tensor in sources:
            source = sources[read.tensor]
            places = places_in_source(read.tensor.shape, source.shape, read.places)
            if places is None:
                break
            read = Read(source, places)
        return read

    operations = tuple(
        with_elements(each, lambda element: replace_reads(element, through))
        for each in program.operations
    )
    return replace(program, operations=operations)


def places_in_source(
    shape: Sequence[Size], source: Sequence[Size], places: Sequence[Place]
) -> tuple[Place, ...] | None:
    """The same element's places in the tensor that an alias is of; None where they are no sums.

    Both shapes are cut into groups of dimensions with the same number of elements.
    """
    found: list[Place] = []
    own = 0
    for size in source:
        group: list[int] = []
        count: Size = 1
        while own < len(shape) and count != size:
            count = count * shape[own]
            group.append(own)
            own += 1
        if count != size:
            return None
        found.append(_joined(group, shape, places))
    return tuple(found) if all(size == 1 for size in shape[own:]) else None


def _joined(group: Sequence[int], shape: Sequence[Size], places: Sequence[Place]) -> Place:
    """One place for the places of a group of dimensions."""
    terms: list[tuple[int, Size]] = []
    stride: Size = 1
    for dimension in reversed(group):
        if shape[dimension] != 1:
            terms.append((dimension, stride))
            stride = stride * shape[dimension]
    return moved_place(Place(tuple(terms)), list(places))


def root_of(tensor: Tensor, sources: dict[Tensor, Tensor]) -> Tensor:
    """The tensor in whose memory an alias lies."""
    while tensor in sources:
        tensor = sources[tensor]
    return tensor
