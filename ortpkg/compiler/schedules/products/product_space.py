"""The output of a matrix product as matrices of rows, and the memory layout of its sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ortpkg.compiler.loop_ir.kernel import Buffer, Op
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.linear_reads import linear_index
from ortpkg.compiler.schedules.scheduled_kernel import Packing
from ortpkg.compiler.tensor_ir.elements import Element, Position, Read, Tensor, parts_of
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class StridedRows:
    """A side that is read in place: rows of the left side, columns of the right side.

    Attributes:
        tensor: the tensor to read.
        offset: offset of the first element of the first matrix.
        batch: distance between matrices along each batch axis.
        row, step: distance between rows (columns), and between neighbours along k.
    """

    tensor: Tensor
    offset: Size
    batch: tuple[Size, ...]
    row: Size
    step: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTensor:
    """A packed right side.

    Attributes:
        tensor: the packed tensor.
        packing: packing of a constant; None if a kernel makes the tensor.
        batch: distance between matrices along each batch axis; 0 if they share one.
    """

    tensor: Tensor
    packing: Packing | None
    batch: tuple[Size, ...]

    def read(self, maker: KernelMaker) -> Buffer:
        """Return its buffer in a kernel that reads it."""
        if self.packing is None:
            return maker.read(self.tensor)
        return maker.read_packed(self.tensor, self.packing)


@dataclass(frozen=True, slots=True, kw_only=True)
class RightPanels:
    """The right side in panels of columns.

    Attributes:
        stored: the tensor.
        offset: offset of the first element.
        panel, step: distance between panels, and between steps along k.
        is_padded: True if the last panel is as wide as the others.
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
        is_merged: True if the rows of all matrices are treated as rows of one matrix.
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
        """Number of rows of each matrix."""
        return prod(self.batch, start=self.m) if self.is_merged else self.m

    def row_axes(
        self, maker: KernelMaker, matrix: Sequence[Operand], row: Operand
    ) -> list[Operand]:
        """Return the positions of a row along the batch axes and m."""
        if not self.is_merged:
            return [*matrix, row]
        return split_index(maker, row, (*self.batch, self.m))


def product_space(product: Product, left: StridedRows) -> ProductSpace:
    """Merge the matrices if they share one right side and left rows are evenly spaced."""
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
    """Return the left side if it is a plain read without gathers, else None."""
    if not isinstance(element, Read):
        return None
    linear = linear_index(element)
    if linear.values:
        return None
    return StridedRows(
        tensor=element.tensor,
        offset=linear.offset,
        batch=tuple(linear.stride(axis) for axis in range(batch_count)),
        row=linear.stride(batch_count),
        step=linear.stride(batch_count + 1),
    )


def columns_in_place(element: Element, batch_count: int) -> StridedRows | None:
    """Return the right side if it is a plain read without gathers, else None."""
    rows = rows_in_place(element, batch_count)
    return None if rows is None else replace(rows, row=rows.step, step=rows.row)


def axes_of(element: Element) -> frozenset[int]:
    """Return the axes that an element depends on."""
    axes: set[int] = set()
    for part in parts_of(element):
        if isinstance(part, Position):
            axes.add(part.axis)
        elif isinstance(part, Read):
            axes.update(axis for coordinate in part.coordinates for axis, _ in coordinate.terms)
    return frozenset(axes)


def split_index(maker: KernelMaker, index: Operand, sizes: Sequence[Size]) -> list[Operand]:
    """Return the positions along axes of an index in C order; 0 along axes of size 1."""
    b: KernelBuilder = maker.builder
    positions: list[Operand] = []
    first = next((axis for axis, size in enumerate(sizes) if size != 1), 0)
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            positions.append(0)
            continue
        size = maker.value(sizes[axis])
        rest = b.index(index)
        positions.append(rest if axis == first else b.compute(Op.REM, rest, size))
        if axis != first:
            index = b.compute(Op.DIV, rest, size)
    return positions[::-1]


def sum_of_strides(
    maker: KernelMaker, positions: Sequence[Operand], strides: Sequence[Size], offset: Size = 0
) -> Operand:
    """Return an index in a buffer: the offset plus each position times its stride."""
    b = maker.builder
    index: Operand = maker.value(offset)
    for position, stride in zip(positions, strides, strict=True):
        index = b.add(index, b.mul(b.index(position), maker.size(stride)))
    return index
