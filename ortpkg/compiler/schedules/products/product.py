"""Schedules matrix products: chooses the layout of each side, and the kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_versions import Version, versions_by_size
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_bfloats import (
    bfloats_in_place,
    constant_bfloats,
    packed_bfloats,
)
from ortpkg.compiler.schedules.products.product_bytes import (
    byte_rows,
    bytes_by_kernel,
    bytes_in_place,
    packed_bytes,
)
from ortpkg.compiler.schedules.products.product_dots import product_of_dots
from ortpkg.compiler.schedules.products.product_kernel import product_kernel
from ortpkg.compiler.schedules.products.product_packing import (
    packed_by_kernel,
    packed_constant,
    panels_in_place,
    rows_in_memory,
)
from ortpkg.compiler.schedules.products.product_space import (
    RightPanels,
    StridedRows,
    product_space,
    rows_in_place,
)
from ortpkg.compiler.schedules.products.product_steps import (
    BFLOAT_STEPS,
    BYTE_STEPS,
    FloatSteps,
    has_byte_dots,
)
from ortpkg.compiler.schedules.products.product_tiling import (
    ProductSizes,
    ProductTiling,
    product_tiling,
)
from ortpkg.compiler.schedules.products.product_zeros import ZeroSums, left_has_zero
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import (
    Convert,
    Element,
    Read,
    Tensor,
    scalar_of,
    tensors_read,
)
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size

_BYTES = frozenset({Scalar.U8, Scalar.I8})

#: Row limits of the versions of a product whose rows are known only at run time.
_ONE_ROW, _FEW_ROWS = 1, 4


def schedule_product(
    operation: Product, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernels that compute a product, in order.

    A constant right side is packed at compile time. Another right side, or a left side that is not
    a plain read, is packed by kernels that run first.

    Args:
        operation: the product.
        model: the CPU.
        constants: tensors whose values are known at compile time.
    """
    if scalar_of(operation.right) in _BYTES:
        return _integer_product(operation, model, constants)
    of_bfloats = _bfloat_product(operation, model, constants)
    return of_bfloats or _float_product(operation, model, constants)


def _bfloat_product(
    product: Product, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernels of a product of two bf16 sides; none if it is another product."""
    left, read = bfloats_in_place(product), constant_bfloats(product, constants)
    if not model.multiplies_bfloat or left is None or read is None:
        return []
    space, steps = product_space(product, left), BFLOAT_STEPS

    def kernels(tiling: ProductTiling, rows: Size) -> list[ScheduledKernel]:
        del rows
        right = packed_bfloats(product, read, tiling.panel_width)
        return [product_kernel(product, space, left, right, tiling, model, steps)]

    sizes = ProductSizes(
        rows=space.rows,
        columns=product.n,
        steps=parts_count(product.k, steps.group),
        lanes=model.lanes(steps.sums),
    )
    return _by_rows(sizes, model, kernels)


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

    def kernels(tiling: ProductTiling, rows: Size) -> list[ScheduledKernel]:
        right, packing = _right_side(product, model, constants, tiling, rows)
        return [*packing, product_kernel(product, space, left, right, tiling, model, FloatSteps())]

    sizes = ProductSizes(
        rows=space.rows, columns=product.n, steps=product.k, lanes=model.lanes(Scalar.F32)
    )
    return [*before, *_by_rows(sizes, model, kernels)]


def _by_rows(
    sizes: ProductSizes,
    model: MachineModel,
    kernels: Callable[[ProductTiling, Size], list[ScheduledKernel]],
) -> list[ScheduledKernel]:
    """Return versions for one row, few rows and many, which share panels of one width.

    ``kernels`` makes the kernels for a tiling and the largest number of rows.
    """
    widest = product_tiling(model, sizes)
    if isinstance(sizes.rows, int):
        return kernels(widest, sizes.rows)

    def make_few(most: int) -> list[ScheduledKernel]:
        return kernels(product_tiling(model, sizes.with_rows(most, widest.vectors)), most)

    few = [most for most in (_ONE_ROW, _FEW_ROWS) if most < widest.rows]
    return versions_by_size(
        sizes.rows,
        *(Version(most=most, make=partial(make_few, most)) for most in few),
        Version(make=lambda: kernels(widest, sizes.rows)),
    )


def _integer_product(
    product: Product, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    before: list[ScheduledKernel] = []
    left, row_sums = bytes_in_place(product), None
    if left is None:
        left, row_sums, kernel = byte_rows(product, model)
        before.append(kernel)
    space, steps = product_space(product, left), BYTE_STEPS
    has_dot = has_byte_dots(model)
    sizes = ProductSizes(
        rows=space.rows,
        columns=product.n,
        steps=parts_count(product.k, steps.group),
        lanes=model.lanes(steps.sums),
        spare=1 if has_dot else 3,
        loaded=1 if has_dot else 2,
    )
    width = product_tiling(model, sizes).panel_width
    packed = None
    if not set(tensors_read(product.right)).isdisjoint(constants):
        packed = packed_bytes(product, width)
    if packed is None:
        right, columns, kernel = bytes_by_kernel(product, width, model)
        before.append(kernel)
    else:
        right, columns = packed
    zeros = ZeroSums(columns=columns if left_has_zero(product) else None, rows=row_sums)

    def kernels(tiling: ProductTiling, rows: Size) -> list[ScheduledKernel]:
        del rows
        return [product_kernel(product, space, left, right, tiling, model, steps, zeros)]

    return [*before, *_by_rows(sizes, model, kernels)]


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
    rows: Size,
) -> tuple[RightPanels, list[ScheduledKernel]]:
    width = tiling.panel_width
    panels = constant_panels(product, model, constants, width)
    if panels is not None:
        return panels, []
    is_read_once = isinstance(rows, int) and rows <= tiling.rows
    if is_read_once and scalar_of(product.right) is Scalar.F32:
        panels = panels_in_place(product, width, model)
        if panels is not None:
            return panels, []
    return packed_by_kernel(product, width, model)


def constant_panels(
    product: Product, model: MachineModel, constants: Collection[Tensor], width: int
) -> RightPanels | None:
    """Return a constant right side in panels of ``width`` columns; None if it is not constant."""
    read = _stored(product.right)
    if read is None or read.tensor not in constants:
        return None
    return packed_constant(product, read, width, _panel_scalar(read, model))


def _stored(element: Element) -> Read | None:
    """Return the read of an element that is only read and widened to f32; else None."""
    if isinstance(element, Convert) and element.scalar is Scalar.F32:
        element = element.operand
    small = {Scalar.F16, Scalar.BF16, Scalar.F32}
    return element if isinstance(element, Read) and element.tensor.scalar in small else None


def _panel_scalar(read: Read, model: MachineModel) -> Scalar:
    """Return f16 if the constant is, and the CPU widens it in one step; else f32.

    All CPUs with a fused product do.
    """
    keeps = read.tensor.scalar is Scalar.F16 and model.has_fma
    return Scalar.F16 if keeps else Scalar.F32
