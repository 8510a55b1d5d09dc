"""Selects the schedule of each kind of operation."""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.compiler.schedules.attention.attention_schedule import schedule_attention
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product import schedule_product
from ortpkg.compiler.schedules.recurrences.recurrence import schedule_recurrence
from ortpkg.compiler.schedules.rows.map import schedule_map
from ortpkg.compiler.schedules.rows.reduce import schedule_reduce
from ortpkg.compiler.schedules.rows.row_normalize import schedule_row_normalize
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.windows.convolution_schedule import schedule_convolution
from ortpkg.compiler.schedules.windows.pool import schedule_pool
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import (
    Alias,
    Attention,
    Convolution,
    Map,
    Operation,
    Pool,
    Product,
    Recurrence,
    Reduce,
    RowNormalize,
)


def reason_against(operation: Operation) -> str | None:
    """Return why an operation cannot be scheduled; None if it can."""
    if isinstance(operation, Convolution):
        sizes = (operation.source.shape[1], *operation.weights.shape)
        if not all(isinstance(size, int) for size in sizes):
            return "its channels are known only when it runs"
    return None


def schedule(
    operation: Operation, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernels of an operation, in the order in which they run; none for an alias.

    Args:
        operation: an operation with :func:`no reason against it <reason_against>`.
        model: model of the target's CPU.
        constants: tensors whose values are known, and may be packed.
    """
    match operation:
        case Attention():
            return schedule_attention(operation, model, constants)
        case Map():
            return schedule_map(operation, model, constants)
        case Product():
            return schedule_product(operation, model, constants)
        case Convolution():
            return schedule_convolution(operation, model, constants)
        case Pool():
            return schedule_pool(operation, model, constants)
        case Reduce():
            return schedule_reduce(operation, model, constants)
        case RowNormalize():
            return schedule_row_normalize(operation, model, constants)
        case Recurrence():
            return schedule_recurrence(operation, model, constants)
        case Alias():
            return []
