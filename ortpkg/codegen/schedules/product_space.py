"""The output of a matrix product as matrices of rows, and where its sides lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ortpkg.codegen.loop_ir.kernel import Buffer, Op
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.schedules.kernel_maker import KernelMaker
from ortpkg.codegen.schedules.linear_reads import linear_place
from ortpkg.codegen.schedules.scheduled_kernel import Packing
from ortpkg.codegen.tensor_ir.elements import Element, Position, Read, Tensor, parts_of
from ortpkg.codegen.tensor_ir.operations import Product
from ortpkg.shapes.expressions import Size, operation


@dataclass(frozen=True, slots=True, kw_only=True)
class StridedRows:
    """A side that is read where it lies: rows of the left side, columns of the right side.

    Attributes:
        tensor: what is read.
        offset: of the element of the first matrix, row and step.
        batch: how far it is to the next matrix along each batch axis.
        row, step: how far it is to the next row (column), and to the next place along k.
    """

    tensor: Tensor
    offset: Size
    batch: tuple[Size, ...]
    row: Size
    step: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTensor:
    """What is made of the right side.

    Attributes:
        tensor: it.
        packing: how it is made of a constant; None: a kernel makes it.
        batch: how far it is to the next matrix along each batch axis; 0: all have the same.
    """

    tensor: Tensor
    packing: Packing | None
    batch: tuple[Size, ...]

    def read(self, maker: KernelMaker) -> Buffer:
        """Its buffer in a kernel that reads it."""
        if self.packing is None:
            return maker.read(self.tensor)
        return maker.read_packed(self.tensor, self.packing)


@dataclass(frozen=True, slots=True, kw_only=True)
class RightPanels:
    """The right side in panels of columns.

    Attributes:
        stored: where it lies.
        offset: of the first number.
        panel, step: how far it is to the next panel, and to the next step along k.
        is_padded: whether the last panel is as wide as the others.
    """

    stored: PackedTensor
    offset: Size = 0
    panel: Size
    step: Size
    is_padded: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSpace:
    """The rows of the output.

    Attributes:
        batch, m, n: sizes of the output.
        is_merged: whether the rows of all matrices are taken for rows of one.
    """

    batch: tuple[Size, ...]
    m: Size
    n: Size
    is_merged: bool

    @property
    def matrices(self) -> tuple[Size, ...]:
        """Sizes of the batch axes that are walked matrix by matrix."""
        return () if self.is_merged else self.batch

    @property
    def rows(self) -> Size:
        """Rows of each matrix."""
        return prod(self.batch, start=self.m) if self.is_merged else self.m

    def row_axes(
        self, maker: KernelMaker, matrix: Sequence[Operand], row: Operand
    ) -> list[Operand]:
        """Where a row stands along the batch axes and m."""
        if not self.is_merged:
            return [*matrix, row]
        return split_place(maker, row, (*self.batch, self.m))


def product_space(product: Product, left: StridedRows) -> ProductSpace:
    """Merges the matrices where one right side serves them all and left rows follow each other."""
    axes = axes_of(product.right)
    if product.right_zero is not None:
        axes |= axes_of(product.right_zero)
    distance, is_merged = left.row * product.m, True
    for axis in reversed(range(len(product.batch))):
        size = product.batch[axis]
        is_merged &= size == 1 or (left.batch[axis] == distance and axis not in axes)
        distance = distance * size
    return ProductSpace(batch=product.batch, m=product.m, n=product.n, is_merged=is_merged)


def rows_in_place(element: Element, batch_count: int) -> StridedRows | None:
    """The left side where it is a plain read whose places the axes alone say, else None."""
    if not isinstance(element, Read):
        return None
    place = linear_place(element)
    if place.values:
        return None
    return StridedRows(
        tensor=element.tensor,
        offset=place.offset,
        batch=tuple(place.stride(axis) for axis in range(batch_count)),
        row=place.stride(batch_count),
        step=place.stride(batch_count + 1),
    )


def columns_in_place(element: Element, batch_count: int) -> StridedRows | None:
    """The right side where it is a plain read whose places the axes alone say, else None."""
    rows = rows_in_place(element, batch_count)
    return None if rows is None else replace(rows, row=rows.step, step=rows.row)


def axes_of(element: Element) -> frozenset[int]:
    """The axes that an element depends on."""
    axes: set[int] = set()
    for part in parts_of(element):
        if isinstance(part, Position):
            axes.add(part.axis)
        elif isinstance(part, Read):
            axes.update(axis for place in part.places for axis, _ in place.terms)
    return frozenset(axes)


def split_place(maker: KernelMaker, place: Operand, sizes: Sequence[Size]) -> list[Operand]:
    """One place counted in C order as a place along each of some axes; 0 along those of size 1."""
    b: KernelBuilder = maker.builder
    places: list[Operand] = []
    first = next((axis for axis, size in enumerate(sizes) if size != 1), 0)
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            places.append(0)
            continue
        size = maker.value(sizes[axis])
        rest = b.index(place)
        places.append(rest if axis == first else b.compute(Op.REM, rest, size))
        if axis != first:
            place = b.compute(Op.DIV, rest, size)
    return places[::-1]


def sum_of_strides(
    maker: KernelMaker, places: Sequence[Operand], strides: Sequence[Size], offset: Size = 0
) -> Operand:
    """The place in a buffer: the offset and each place times its stride."""
    b = maker.builder
    index: Operand = maker.value(offset)
    for place, stride in zip(places, strides, strict=True):
        index = b.add(index, b.mul(b.index(place), maker.size(stride)))
    return index


def parts_count(size: Size, part: int) -> Size:
    """How many parts of a size there are, the last one perhaps smaller."""
    return operation("floor", size + (part - 1), part) if part != 1 else size
