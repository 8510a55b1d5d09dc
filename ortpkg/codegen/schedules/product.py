"""Schedules matrix products: which layout each side gets, and which kernels run."""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.product_kernel import FloatSteps, product_kernel
from ortpkg.codegen.schedules.product_packing import (
    packed_by_kernel,
    packed_constant,
    rows_in_memory,
)
from ortpkg.codegen.schedules.product_space import (
    LeftRows,
    RightPanels,
    product_space,
    rows_in_place,
)
from ortpkg.codegen.schedules.product_tiling import product_tiling
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Convert, Element, Read, Tensor, scalar_of
from ortpkg.codegen.tensor_ir.operations import Product


def schedule_product(
    operation: Product, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """The kernels that compute a product, in order.

    A constant right side is packed ahead; another one, and a left side that is no plain read, by
    kernels that run before. ``constants``: tensors whose values are known when compiling.
    """
    left, before = _left_side(operation, model)
    space = product_space(operation, left)
    tiling = product_tiling(
        model,
        rows=space.rows,
        columns=operation.n,
        steps=operation.k,
        lanes=model.lanes(Scalar.F32),
    )
    right, packing = _right_side(operation, model, constants, tiling.panel_width)
    kernel = product_kernel(operation, space, left, right, tiling, model, FloatSteps())
    return [*before, *packing, kernel]


def _left_side(product: Product, model: MachineModel) -> tuple[LeftRows, list[ScheduledKernel]]:
    if scalar_of(product.left) is Scalar.F32:
        in_place = rows_in_place(product.left, len(product.batch))
        if in_place is not None:
            return in_place, []
    return rows_in_memory(product, model)


def _right_side(
    product: Product, model: MachineModel, constants: Collection[Tensor], width: int
) -> tuple[RightPanels, list[ScheduledKernel]]:
    read = _stored(product.right)
    if read is not None and read.tensor in constants:
        panels = packed_constant(product, read, width, _panel_scalar(read, model))
        if panels is not None:
            return panels, []
    return packed_by_kernel(product, width, model)


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
