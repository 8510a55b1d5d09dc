"""Schedules recurrent layers: all steps of a sequence in one call, the state in the cache.

A tile is a direction and a block of the batch's sequences, so that it waits for nobody. Each step
multiplies the state with the packed recurrent weights, one panel of units after the other, all
gates of some units and sequences in registers, and makes the next state of these at once. The
states before and after a step lie side by side in scratch memory, and change places.
"""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.product import constant_panels
from ortpkg.codegen.schedules.product_packing import packed_by_kernel
from ortpkg.codegen.schedules.recurrence_kernel import RecurrenceKernel
from ortpkg.codegen.schedules.recurrence_tiling import recurrence_tiling
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Number, Tensor
from ortpkg.codegen.tensor_ir.operations import Product, Recurrence


def schedule_recurrence(
    operation: Recurrence, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """The kernels of a recurrent layer: one that packs weights that are no constant, and it."""
    tiling = recurrence_tiling(operation, model)
    gates, hidden = operation.cell.gate_count, operation.hidden
    step = Product(
        output=operation.output,
        batch=(len(operation.backward), gates),
        m=operation.batch,
        n=hidden,
        k=hidden,
        left=Number(0.0, Scalar.F32),  # the state, which is nowhere but in the kernel
        right=operation.recurrence,
    )
    panels, packing = constant_panels(step, model, constants, tiling.width), list[ScheduledKernel]()
    if panels is None:
        panels, packing = packed_by_kernel(step, tiling.width, model)
    return [*packing, RecurrenceKernel(operation, panels, tiling, model).scheduled()]
