"""Schedules matrix products: which layout each side gets, and which kernels run."""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.product_bytes import (
    byte_rows,
    bytes_by_kernel,
    bytes_in_place,
    packed_bytes,
)
from ortpkg.codegen.schedules.product_dots import product_of_dots
from ortpkg.codegen.schedules.product_kernel import product_kernel
from ortpkg.codegen.schedules.product_packing import (
    packed_by_kernel,
    packed_constant,
    panels_in_place,
    rows_in_memory,
)
from ortpkg.codegen.schedules.product_space import (
    ProductSpace,
    RightPanels,
    StridedRows,
    parts_count,
    product_space,
    rows_in_place,
)
from ortpkg.codegen.schedules.product_steps import ByteSteps, FloatSteps
from ortpkg.codegen.schedules.product_tiling import ProductTiling, product_tiling
from ortpkg.codegen.schedules.product_zeros import ZeroSums, left_has_zero
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import (
    Convert,
    Element,
    Read,
    Tensor,
    scalar_of,
    tensors_read,
)
from ortpkg.codegen.tensor_ir.operations import Product

_BYTES = frozenset({Scalar.U8, Scalar.I8})
#: Those with one instruction for four products of bytes, in LLVM's words.
_DOT_FEATURES = frozenset({"avx512vnni", "avxvnni", "i8mm"})


def schedule_product(
    operation: Product, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """The kernels that compute a product, in order.

    A constant right side is packed ahead; another one, and a left side that is no plain read, by
    kernels that run before. ``constants``: tensors whose values are known when compiling.
    """
    if scalar_of(operation.right) in _BYTES:
        return _integer_product(operation, model, constants)
    return _float_product(operation, model, constants)


def _float_product(
    product: Product, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    is_constant = not set(tensors_read(product.right)).isdisjoint(constants)
    if product.n == 1 or not is_constant:
        dots = product_of_dots(product, model)
        if dots is not None:
            return [dots]
    left, before = _left_side(product, model)
    space = product_space(product, left)
    tiling = product_tiling(
        model,
        rows=space.rows,
        columns=product.n,
        steps=product.k,
        lanes=model.lanes(Scalar.F32),
    )
    right, packing = _right_side(product, model, constants, tiling, space)
    kernel = product_kernel(product, space, left, right, tiling, model, FloatSteps())
    return [*before, *packing, kernel]


def _integer_product(
    product: Product, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    before: list[ScheduledKernel] = []
    left, row_sums = bytes_in_place(product), None
    if left is None:
        left, row_sums, kernel = byte_rows(product, model)
        before.append(kernel)
    space, steps = product_space(product, left), ByteSteps()
    has_dot = not model.features.isdisjoint(_DOT_FEATURES)
    tiling = product_tiling(
        model,
        rows=space.rows,
        columns=product.n,
        steps=parts_count(product.k, steps.group),
        lanes=model.lanes(steps.sums),
        spare=1 if has_dot else 3,
        loaded=1 if has_dot else 2,
    )
    packed = None
    if not set(tensors_read(product.right)).isdisjoint(constants):
        packed = packed_bytes(product, tiling.panel_width)
    if packed is None:
        right, columns, kernel = bytes_by_kernel(product, tiling.panel_width, model)
        before.append(kernel)
    else:
        right, columns = packed
    zeros = ZeroSums(columns=columns if left_has_zero(product) else None, rows=row_sums)
    made = product_kernel(product, space, left, right, tiling, model, steps, zeros)
    return [*before, made]


def _left_side(product: Product, model: MachineModel) -> tuple[StridedRows, list[ScheduledKernel]]:
    if scalar_of(product.left) is Scalar.F32:
        in_place = rows_in_place(product.left, len(product.batch))
        if in_place is not None:
            return in_place, []
    return rows_in_memory(product, model)


def _right_side(
    product: Product,
    model: MachineModel,
    constants: Collection[Tensor],
    tiling: ProductTiling,
    space: ProductSpace,
) -> tuple[RightPanels, list[ScheduledKernel]]:
    width = tiling.panel_width
    panels = constant_panels(product, model, constants, width)
    if panels is not None:
        return panels, []
    is_read_once = isinstance(space.rows, int) and space.rows <= tiling.rows
    if is_read_once and scalar_of(product.right) is Scalar.F32:
        panels = panels_in_place(product, width, model)
        if panels is not None:
            return panels, []
    return packed_by_kernel(product, width, model)


def constant_panels(
    product: Product, model: MachineModel, constants: Collection[Tensor], width: int
) -> RightPanels | None:
    """A constant right side in panels of ``width`` columns; None where it is no such constant."""
    read = _stored(product.right)
    if read is None or read.tensor not in constants:
        return None
    return packed_constant(product, read, width, _panel_scalar(read, model))


def _stored(element: Element) -> Read | None:
    """What is read of memory, where no more is done with it than to widen it to f32."""
    if isinstance(element, Convert) and element.scalar is Scalar.F32:
        element = element.operand
    small = {Scalar.F16, Scalar.BF16, Scalar.F32}
    return element if isinstance(element, Read) and element.tensor.scalar in small else None


def _panel_scalar(read: Read, model: MachineModel) -> Scalar:
    """f16 stays so where the CPU widens it at once, as all do that have a fused product."""
    keeps = read.tensor.scalar is Scalar.F16 and model.has_fma
    return Scalar.F16 if keeps else Scalar.F32
