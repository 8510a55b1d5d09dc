"""Packs the sides of an integer product for its kernel, with their sums.

The left side becomes u8 and the right side i8, shifted by 128 if they have the other type. Both
have groups of four bytes along k; the last group of the right side is padded with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.loop_ir.kernel import Buffer, Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import I32, LoopType, Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker, strides_of
from ortpkg.compiler.schedules.linear_reads import linear_index
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_packing import (
    batch_strides,
    by_vectors,
    constant_sizes,
    constant_view,
    in_grouped_panels,
    matrix_sizes,
    rows_at_once,
    text_of,
)
from ortpkg.compiler.schedules.products.product_space import (
    PackedTensor,
    RightPanels,
    StridedRows,
    rows_in_place,
    split_index,
    sum_of_strides,
)
from ortpkg.compiler.schedules.products.product_steps import BYTE_SHIFT, as_unsigned
from ortpkg.compiler.schedules.products.product_zeros import right_has_zero
from ortpkg.compiler.schedules.scheduled_kernel import Packing, ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Read, Tensor, scalar_of
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size

Array = npt.NDArray[Any]
_GROUP = 4


# --- the left side --------------------------------------------------------------------------------


def bytes_in_place(product: Product) -> StridedRows | None:
    """Return the left side if it can be read in place, four u8 at a time, else None."""
    fits = isinstance(product.k, int) and product.k % _GROUP == 0
    if not fits or scalar_of(product.left) is not Scalar.U8 or right_has_zero(product):
        return None
    rows = rows_in_place(product.left, len(product.batch))
    return rows if rows is not None and rows.step == 1 else None


def byte_rows(
    product: Product, model: MachineModel
) -> tuple[StridedRows, StridedRows | None, ScheduledKernel]:
    """Return the left side row by row as u8, the sums of its rows if needed, and the kernel."""
    sizes = matrix_sizes(product, product.left)
    width = parts_count(product.k, _GROUP) * _GROUP
    name = product.output.name
    rows = Tensor(f"{name} left bytes", Scalar.U8, (*sizes, product.m, width))
    batch = batch_strides(product, product.left, rows.shape)
    made = StridedRows(tensor=rows, offset=0, batch=batch, row=width, step=1)
    if not right_has_zero(product):
        return made, None, _RowKernel(product, rows, None, model).scheduled()
    sums = Tensor(f"{name} left sums", Scalar.I32, (*sizes, product.m))
    batch = batch_strides(product, product.left, sums.shape)
    made_sums = StridedRows(tensor=sums, offset=0, batch=batch, row=1, step=0)
    return made, made_sums, _RowKernel(product, rows, sums, model).scheduled()


class _RowKernel:
    """Writes rows of bytes, several in each tile, and their sums."""

    def __init__(
        self, product: Product, rows: Tensor, sums: Tensor | None, model: MachineModel
    ) -> None:
        self._product, self._rows, self._lanes = product, rows, model.lanes(Scalar.I32)
        self._maker = maker = KernelMaker("product_left_bytes")
        self._values = ElementValues(maker, model)
        self._output = maker.written(rows)
        self._sums = None if sums is None else maker.written(sums)

    def scheduled(self) -> ScheduledKernel:
        maker, m = self._maker, self._product.m
        at_once = rows_at_once(self._product.k)
        sizes = (*self._rows.shape[:-2], parts_count(m, at_once))
        *matrix, block = split_index(maker, maker.builder.tile, sizes)
        b = maker.builder
        first = b.mul(b.index(block), at_once)
        end = b.least(b.add(first, at_once), maker.value(m))
        with b.loop(first, end, hint="row") as row:
            self._row([*matrix, row.index])
        return maker.scheduled(prod(sizes, start=1))

    def _row(self, row: Sequence[Operand]) -> None:
        maker, rows, lanes = self._maker, self._rows, self._lanes
        b, depth = maker.builder, maker.value(self._product.k)
        base = b.index(sum_of_strides(maker, row, strides_of(rows.shape)[:-1]))
        whole = b.sub(depth, b.compute(Op.AND, depth, lanes - 1))
        zero = b.constant(0, I32.with_lanes(lanes))
        with b.loop(0, whole, lanes, carried=[zero], hint="step") as step:
            moved = self._moved(row, base, step.index, lanes)
            step.hand_on(b.add(step.carried[0], moved))
        total = b.compute(Op.SUM, step.results[0])
        with b.loop(whole, depth, carried=[total], hint="step") as step:
            step.hand_on(b.add(step.carried[0], self._moved(row, base, step.index, 1)))
        if self._sums is not None:
            strides = strides_of(rows.shape[:-1])
            b.store(self._sums, sum_of_strides(maker, row, strides), step.results[0])

    def _moved(self, row: Sequence[Operand], base: Value, step: Value, lanes: int) -> Value:
        """Write neighbours as u8, and return them as i32."""
        b = self._maker.builder
        value = self._values.value_of(
            self._product.left, [*row, step], vector_axis=len(row), lanes=lanes
        )
        value = as_unsigned(b, value)
        b.store(self._output, b.add(base, step), value)
        return b.cast(value, Scalar.I32)


def _as_signed(b: KernelBuilder, value: Value) -> Value:
    if value.type.scalar is Scalar.I8:
        return value
    moved = b.compute(Op.XOR, value, BYTE_SHIFT)
    return b.bitcast(moved, value.type.with_scalar(Scalar.I8))


# --- the right side -------------------------------------------------------------------------------


def packed_bytes(product: Product, width: int) -> tuple[RightPanels, PackedTensor] | None:
    """Return a constant right side in panels, and its column sums; None if that is impossible."""
    read = product.right
    if not isinstance(read, Read):
        return None
    sizes = constant_sizes(product, read)
    if sizes is None:
        return None
    *batch, k, n = sizes
    steps, panels = -(-k // _GROUP), -(-n // width)

    def signed(source: Array) -> Array:
        view = constant_view(read, sizes, source)
        return view if view.dtype == np.int8 else (view ^ np.uint8(BYTE_SHIFT)).view(np.int8)

    def pack(source: Array) -> Array:
        return in_grouped_panels(signed(source), width, _GROUP)

    def sums(source: Array) -> Array:
        made = np.zeros((*batch, panels * width), np.int32)
        made[..., :n] = signed(source).sum(axis=-2, dtype=np.int32)
        return made

    words = f"{width} columns of {sizes} at {text_of(linear_index(read))}"
    name = read.tensor.name
    tensor = Tensor(f"{name} in panels", Scalar.I8, (*batch, panels, steps, width, _GROUP))
    columns = Tensor(f"{name} summed", Scalar.I32, (*batch, panels * width))
    return (
        _panels(
            PackedTensor(
                tensor=tensor,
                packing=Packing(source=read.tensor, layout=f"byte panels of {words}", pack=pack),
                batch=batch_strides(product, read, tensor.shape),
            ),
            width,
        ),
        PackedTensor(
            tensor=columns,
            packing=Packing(source=read.tensor, layout=f"byte sums of {words}", pack=sums),
            batch=batch_strides(product, read, columns.shape),
        ),
    )


def _panels(stored: PackedTensor, width: int) -> RightPanels:
    steps = stored.tensor.shape[-3]
    return RightPanels(stored=stored, panel=steps * (width * _GROUP), step=width * _GROUP)


def bytes_by_kernel(
    product: Product, width: int, model: MachineModel
) -> tuple[RightPanels, PackedTensor, ScheduledKernel]:
    """Return the right side in panels, the sums of its columns, and the kernel that makes both."""
    sizes = matrix_sizes(product, product.right)
    steps, panels = parts_count(product.k, _GROUP), parts_count(product.n, width)
    name = product.output.name
    made = Tensor(f"{name} right bytes", Scalar.I8, (*sizes, panels, steps, width, _GROUP))
    sums = Tensor(f"{name} right sums", Scalar.I32, (*sizes, panels * width))
    kernel = _PanelKernel(product, made, sums, width, model).scheduled()
    return (
        _panels(
            PackedTensor(
                tensor=made, packing=None, batch=batch_strides(product, product.right, made.shape)
            ),
            width,
        ),
        PackedTensor(
            tensor=sums, packing=None, batch=batch_strides(product, product.right, sums.shape)
        ),
        kernel,
    )


class _PanelKernel:
    """Packs one panel in each tile, and sums its columns."""

    def __init__(
        self, product: Product, panels: Tensor, sums: Tensor, width: int, model: MachineModel
    ) -> None:
        self._product, self._panels, self._width = product, panels, width
        self._maker = maker = KernelMaker("product_right_bytes")
        self._b, self._values = maker.builder, ElementValues(maker, model)
        self._lanes = model.lanes(Scalar.I32)
        self._output: Buffer = maker.written(panels)
        self._sums: Buffer = maker.written(sums)

    def scheduled(self) -> ScheduledKernel:
        b, maker, width = self._b, self._maker, self._width
        sizes: tuple[Size, ...] = self._panels.shape[:-3]
        *matrix, panel = split_index(maker, b.tile, sizes)
        base = b.index(sum_of_strides(maker, [b.tile], strides_of(self._panels.shape)[-4:-3]))
        column = b.mul(b.index(panel), width)
        columns = b.least(b.sub(maker.value(self._product.n), column), width)

        def move(offset: Operand, count: Operand | None) -> None:
            first = b.add(column, offset)
            target = b.add(base, b.mul(b.index(offset), _GROUP))
            sums_target = b.add(b.mul(b.tile, width), offset)
            self._columns(matrix, first, target, sums_target, count)

        by_vectors(b, columns, self._lanes, self._product.n, move)
        return maker.scheduled(prod(sizes, start=1))

    def _columns(
        self,
        matrix: Sequence[Operand],
        column: Value,
        target: Value,
        sums_target: Value,
        count: Operand | None,
    ) -> None:
        """Pack neighbouring columns along the whole of k."""
        b, lanes = self._b, self._lanes
        steps = self._maker.value(parts_count(self._product.k, _GROUP))
        ones = b.constant(1, LoopType(Scalar.U8, _GROUP * lanes))
        zero = b.constant(0, I32.with_lanes(lanes))
        with b.loop(0, steps, carried=[zero], hint="step") as step:
            first = b.mul(step.index, _GROUP)
            rows = [
                self._row(matrix, b.add(first, number), column, count) for number in range(_GROUP)
            ]
            packed = _interleaved(b, rows)
            b.store(self._output, b.add(target, b.mul(step.index, self._width * _GROUP)), packed)
            step.hand_on(b.dot(step.carried[0], ones, packed))
        b.store(self._sums, sums_target, step.results[0])

    def _row(
        self, matrix: Sequence[Operand], step: Value, column: Value, count: Operand | None
    ) -> Value:
        """Return a row's bytes of neighbouring columns; zeros beyond the last row."""
        b, lanes, k = self._b, self._lanes, self._product.k
        is_whole = isinstance(k, int) and k % _GROUP == 0
        depth = self._maker.value(k)
        inside = step if is_whole else b.least(step, b.sub(depth, 1))
        value = self._values.value_of(
            self._product.right,
            [*matrix, inside, column],
            vector_axis=len(matrix) + 1,
            lanes=lanes,
            count=count,
        )
        value = _as_signed(b, value)
        if is_whole:
            return value
        zeros = b.constant(0, value.type)
        return b.select(b.splat(b.compute(Op.LT, step, depth), lanes), value, zeros)


def _interleaved(b: KernelBuilder, rows: Sequence[Value]) -> Value:
    """Return the first lanes of four vectors, then the second lanes, and so on."""

    def pairs(left: Value, right: Value, group: int) -> Value:
        count = left.type.lanes
        order = [
            start + side * count + lane
            for start in range(0, count, group)
            for side in (0, 1)
            for lane in range(group)
        ]
        return b.shuffle(left, right, order)

    return pairs(pairs(rows[0], rows[1], 1), pairs(rows[2], rows[3], 1), 2)
