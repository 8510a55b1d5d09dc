"""Schedules recurrent layers: all steps of all sequences in one step of the program.

Its tiles come in waves, one for each time step. A tile is a direction, a panel of units and a block
of the batch's sequences: it multiplies the states with the panel's packed recurrent weights, all
gates of some units and sequences in registers, and computes the next states from them at once. So
threads share the units even of one sequence, and each reads its own part of the weights repeatedly
from its core's cache. The states before and after a step are side by side, and swap roles with each
step.
"""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product import constant_panels
from ortpkg.compiler.schedules.products.product_packing import packed_by_kernel
from ortpkg.compiler.schedules.recurrences.recurrence_kernel import RecurrenceKernel
from ortpkg.compiler.schedules.recurrences.recurrence_states import (
    end_kernel,
    recurrence_states,
    start_kernel,
)
from ortpkg.compiler.schedules.recurrences.recurrence_tiling import recurrence_tiling
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Number, Tensor
from ortpkg.compiler.tensor_ir.operations import Product, Recurrence


def schedule_recurrence(
    operation: Recurrence, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernels of a recurrent layer: packing of variable weights, start, steps, end."""
    tiling = recurrence_tiling(operation, model)
    gates, hidden = operation.cell.gate_count, operation.hidden
    step = Product(
        output=operation.output,
        batch=(len(operation.backward), gates),
        m=operation.batch,
        n=hidden,
        k=hidden,
        left=Number(0.0, Scalar.F32),  # stands for the state, which exists only in the kernel
        right=operation.recurrence,
    )
    panels, packing = constant_panels(step, model, constants, tiling.width), list[ScheduledKernel]()
    if panels is None:
        panels, packing = packed_by_kernel(step, tiling.width, model)
    states = recurrence_states(operation, tiling)
    steps = RecurrenceKernel(operation, panels, states, tiling, model).scheduled()
    end = end_kernel(operation, states, tiling.lanes, model)
    return [
        *packing,
        start_kernel(operation, states, tiling.lanes, model),
        steps,
        *([] if end is None else [end]),
    ]
