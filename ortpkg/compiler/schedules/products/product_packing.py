"""Packs the sides of a matrix product for its kernel: panels, and rows in memory.

A constant right side is packed once, at compile time. Other right sides, and a left side that is
not a plain read, are packed by a kernel in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.compiler.schedules.linear_reads import LinearIndex, linear_index
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_space import (
    PackedTensor,
    RightPanels,
    StridedRows,
    axes_of,
    columns_in_place,
    split_index,
    sum_of_strides,
)
from ortpkg.compiler.schedules.scheduled_kernel import Packing, ScheduledKernel
from ortpkg.compiler.schedules.transposed_square import transposed_square
from ortpkg.compiler.tensor_ir.elements import Element, Read, Tensor
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size

Array = npt.NDArray[Any]
#: Moves the vector at an offset; the number of valid lanes may be less than all (None).
Move = Callable[[Operand, Operand | None], None]
#: Approximate number of elements that one tile of a packing kernel moves.
_TILE_ELEMENTS = 1 << 15
#: Vector size of CPUs without masked loads.
_SHORT = 16


def constant_view(read: Read, sizes: Sequence[int], source: Array) -> Array:
    """Return a view of the elements that a read of a constant gives over axes of these sizes.

    Raises:
        ValueError: if an element is outside the constant.
    """
    linear = linear_index(read)
    strides = [_number(linear.stride(axis)) for axis in range(len(sizes))]
    first = _number(linear.offset)
    ends = [stride * (size - 1) for stride, size in zip(strides, sizes, strict=True)]
    if prod(sizes) == 0:
        return np.zeros(sizes, source.dtype)
    lowest = first + sum(min(end, 0) for end in ends)
    highest = first + sum(max(end, 0) for end in ends)
    if lowest < 0 or highest >= source.size:
        raise ValueError(f"{read.tensor.name} is read beyond its {source.size} elements")
    flat = np.ascontiguousarray(source).reshape(-1)[first:]
    nbytes = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat, tuple(sizes), [stride * nbytes for stride in strides], writeable=False
    )


def in_panels(matrices: Array, width: int) -> Array:
    """Return (..., k, n) as (..., panel, k, column of the panel); columns after the last are 0."""
    *batch, depth, columns = matrices.shape
    panels = -(-columns // width)
    made = np.zeros((*batch, panels, depth, width), matrices.dtype)
    whole = columns // width
    if whole:
        parts = matrices[..., : whole * width].reshape(*batch, depth, whole, width)
        made[..., :whole, :, :] = np.moveaxis(parts, -2, -3)
    if whole != panels:
        made[..., whole, :, : columns - whole * width] = matrices[..., whole * width :]
    return made


def in_grouped_panels(matrices: Array, width: int, group: int) -> Array:
    """Return (..., k, n) as (..., panel, step, column, row in the step), ``group`` rows in a step.

    Elements after the last row and the last column are 0.
    """
    *batch, depth, columns = matrices.shape
    steps, panels = -(-depth // group), -(-columns // width)
    made = np.zeros((*batch, panels, steps * group, width), matrices.dtype)
    made[..., :depth, :] = in_panels(matrices, width)
    groups = made.reshape(*batch, panels, steps, group, width)
    return np.ascontiguousarray(np.swapaxes(groups, -1, -2))


def packed_constant(product: Product, read: Read, width: int, scalar: Scalar) -> RightPanels | None:
    """Return a constant right side in panels; None if it cannot be packed at compile time."""
    sizes = constant_sizes(product, read)
    if sizes is None:
        return None
    *batch, k, n = sizes
    shape = (*batch, -(-n // width), k, width)

    def pack(source: Array) -> Array:
        matrices = constant_view(read, sizes, source)
        return in_panels(matrices.astype(np.float32) if scalar is Scalar.F32 else matrices, width)

    layout = f"{scalar} panels of {width} columns of {sizes} at {text_of(linear_index(read))}"
    tensor = Tensor(f"{read.tensor.name} in panels", scalar, shape)
    packing = Packing(source=read.tensor, layout=layout, pack=pack)
    batch_steps = batch_strides(product, read, shape)
    stored = PackedTensor(tensor=tensor, packing=packing, batch=batch_steps)
    return RightPanels(stored=stored, panel=k * width, step=width)


def constant_sizes(product: Product, read: Read) -> tuple[int, ...] | None:
    """Return the sizes (batch..., k, n) of a constant right side; None if they are not constant."""
    linear = linear_index(read)
    sizes = (*matrix_sizes(product, read), product.k, product.n)
    numbers = [linear.offset, *(number for _, number in linear.terms)]
    if linear.values or not all(isinstance(value, int) for value in (*sizes, *numbers)):
        return None
    return tuple(_number(size) for size in sizes)


def matrix_sizes(product: Product, element: Element) -> tuple[Size, ...]:
    """Return the batch sizes of a packed element: 1 for axes that it does not depend on."""
    axes = axes_of(element)
    return tuple(size if axis in axes else 1 for axis, size in enumerate(product.batch))


def rows_in_memory(
    product: Product, model: MachineModel
) -> tuple[StridedRows, list[ScheduledKernel]]:
    """Return the left side stored row by row as f32, and the kernel that writes it."""
    sizes = matrix_sizes(product, product.left)
    shape = (*sizes, product.m, product.k)
    rows = Tensor(f"{product.output.name} left rows", Scalar.F32, shape)
    batch = batch_strides(product, product.left, shape)
    kernel = _row_kernel(product, rows, model)
    return StridedRows(tensor=rows, offset=0, batch=batch, row=product.k, step=1), [kernel]


def _row_kernel(product: Product, rows: Tensor, model: MachineModel) -> ScheduledKernel:
    maker = KernelMaker("product_left")
    b, values, lanes = maker.builder, ElementValues(maker, model), model.lanes(Scalar.F32)
    output = maker.written(rows)
    at_once = rows_at_once(product.k)
    blocks = parts_count(product.m, at_once)
    sizes = (*rows.shape[:-2], blocks)
    *matrix, block = split_index(maker, b.tile, sizes)
    first = b.mul(b.index(block), at_once)
    end = b.least(b.add(first, at_once), maker.value(product.m))
    depth = maker.value(product.k)
    with b.loop(first, end, hint="row") as row:
        row_start = sum_of_strides(maker, [*matrix, row.index], strides_of(rows.shape)[:-1])

        def move(step: Operand, count: Operand | None) -> None:
            value = values.value_of(
                product.left,
                [*matrix, row.index, step],
                vector_axis=len(matrix) + 1,
                lanes=lanes,
                count=count,
            )
            b.store(output, b.add(b.index(row_start), step), value, count)

        by_vectors(b, depth, lanes, product.k, move)
    return maker.scheduled(prod(sizes, start=1))


def packed_by_kernel(
    product: Product, width: int, model: MachineModel
) -> tuple[RightPanels, list[ScheduledKernel]]:
    """Return the right side in panels of f32, and the kernel that packs it in each run."""
    sizes = matrix_sizes(product, product.right)
    shape = (*sizes, parts_count(product.n, width), product.k, width)
    panels = Tensor(f"{product.output.name} right panels", Scalar.F32, shape)
    kernel = _PanelKernel(product, panels, width, model).scheduled()
    strides = batch_strides(product, product.right, shape)
    stored = PackedTensor(tensor=panels, packing=None, batch=strides)
    return RightPanels(stored=stored, panel=product.k * width, step=width), [kernel]


def panels_in_place(product: Product, width: int, model: MachineModel) -> RightPanels | None:
    """Return the right side in place, for few rows; elements must be contiguous along n.

    If the last panel is partial, its vectors need masked loads; None if the CPU has none.
    """
    columns = columns_in_place(product.right, len(product.batch))
    is_whole = isinstance(product.n, int) and product.n % width == 0
    if columns is None or columns.row != 1 or not (is_whole or model.vector_nbytes > _SHORT):
        return None
    stored = PackedTensor(tensor=columns.tensor, packing=None, batch=columns.batch)
    return RightPanels(
        stored=stored, offset=columns.offset, panel=width, step=columns.step, is_padded=is_whole
    )


class _PanelKernel:
    """Packs one panel for some steps along k in each tile.

    Elements contiguous along k are read along k, a square of vectors at a time, and transposed in
    registers; others are read along n.
    """

    def __init__(self, product: Product, panels: Tensor, width: int, model: MachineModel) -> None:
        self._product, self._panels, self._width = product, panels, width
        self._maker = maker = KernelMaker("product_right")
        self._b, self._values = maker.builder, ElementValues(maker, model)
        self._lanes = model.lanes(Scalar.F32)
        self._output = maker.written(panels)
        self._axis = len(product.batch)

    def scheduled(self) -> ScheduledKernel:
        b, maker, lanes = self._b, self._maker, self._lanes
        at_once = max(lanes, _TILE_ELEMENTS // self._width // lanes * lanes)
        blocks = parts_count(self._product.k, at_once)
        sizes = (*self._panels.shape[:-2], blocks)
        *matrix, panel, block = split_index(maker, b.tile, sizes)
        first = b.mul(b.index(block), at_once)
        end = b.least(b.add(first, at_once), maker.value(self._product.k))
        base = b.index(sum_of_strides(maker, [*matrix, panel], strides_of(self._panels.shape)[:-2]))
        column = b.mul(b.index(panel), self._width)
        n = maker.value(self._product.n)
        columns = b.least(b.sub(n, column), self._width)
        if self._runs_along_k():
            with b.loop(0, columns, lanes) as square:
                self._transposed(matrix, base, column, square.index, first, end)
        else:
            with b.loop(first, end, hint="step") as step:
                self._along_n(matrix, base, column, columns, step.index)
        return maker.scheduled(prod(sizes, start=1))

    def _runs_along_k(self) -> bool:
        right = self._product.right
        if not isinstance(right, Read):
            return False
        linear = linear_index(right)
        return linear.stride(self._axis) == 1 and linear.stride(self._axis + 1) != 1

    def _value(
        self,
        matrix: Sequence[Operand],
        step: Operand,
        column: Operand,
        axis: int,
        lanes: int,
        count: Operand | None = None,
    ) -> Value:
        value = self._values.value_of(
            self._product.right,
            [*matrix, step, column],
            vector_axis=axis,
            lanes=lanes,
            count=count,
        )
        return self._b.cast(value, Scalar.F32)

    def _along_n(
        self, matrix: Sequence[Operand], base: Value, column: Value, columns: Value, step: Value
    ) -> None:
        b = self._b
        row = b.add(base, b.mul(step, self._width))

        def move(offset: Operand, count: Operand | None) -> None:
            at = b.add(column, offset)
            value = self._value(matrix, step, at, self._axis + 1, self._lanes, count)
            b.store(self._output, b.add(row, offset), value)

        by_vectors(b, columns, self._lanes, self._product.n, move)

    def _transposed(
        self,
        matrix: Sequence[Operand],
        base: Value,
        column: Value,
        square: Value,
        first: Value,
        end: Value,
    ) -> None:
        b, lanes = self._b, self._lanes
        last = b.sub(self._maker.value(self._product.n), 1)
        at = b.add(column, square)
        columns = [b.least(b.add(at, lane), last) for lane in range(lanes)]
        whole = b.sub(end, b.compute(Op.REM, b.sub(end, first), lanes))
        start = b.add(base, square)
        with b.loop(first, whole, lanes, hint="step") as step:
            rows = [
                self._value(matrix, step.index, row_column, self._axis, lanes)
                for row_column in columns
            ]
            for number, vector in enumerate(transposed_square(b, rows)):
                row = b.add(start, b.mul(b.add(step.index, number), self._width))
                b.store(self._output, row, vector)
        with b.loop(whole, end, hint="step") as step, b.loop(0, lanes) as lane:
            one = b.least(b.add(at, lane.index), last)
            value = self._value(matrix, step.index, one, self._axis, 1)
            row = b.add(start, b.mul(step.index, self._width))
            b.store(self._output, b.add(row, lane.index), value)


def by_vectors(
    b: KernelBuilder,
    count: Value,
    lanes: int,
    size: Size,
    move: Move,
) -> None:
    """Move ``count`` neighbours as whole vectors and a rest; ``size`` is that of the whole axis."""
    if isinstance(size, int) and size % lanes == 0:
        with b.loop(0, count, lanes) as loop:
            move(loop.index, None)
        return
    rest = b.compute(Op.AND, count, lanes - 1)
    whole = b.sub(count, rest)
    with b.loop(0, whole, lanes) as loop:
        move(loop.index, None)
    with b.when(b.compute(Op.GT, rest, 0)):
        move(whole, rest)


def rows_at_once(depth: Size) -> int:
    """Return the number of left rows that one tile of a packing kernel writes."""
    return max(1, _TILE_ELEMENTS // max(depth, 1)) if isinstance(depth, int) else 32


def batch_strides(product: Product, element: Element, shape: Sequence[Size]) -> tuple[Size, ...]:
    """Return the distances between matrices along the batch axes, in a side of this shape."""
    axes = axes_of(element)
    strides = strides_of(shape)
    return tuple(
        strides[axis] if axis in axes and size != 1 else 0
        for axis, size in enumerate(product.batch)
    )


def text_of(linear: LinearIndex) -> str:
    """Return a linear index as text, for the name of a layout."""
    terms = " + ".join(f"{number}*axis{axis}" for axis, number in linear.terms)
    return f"{linear.offset} + {terms}"


def _number(size: Size) -> int:
    if not isinstance(size, int):
        raise TypeError(f"{size} is no number")
    return size
