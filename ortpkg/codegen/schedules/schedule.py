"""The schedule of each kind of operation."""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.map import schedule_map
from ortpkg.codegen.schedules.product import schedule_product
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Tensor
from ortpkg.codegen.tensor_ir.operations import Alias, Map, Operation, Product


def reason_against(operation: Operation) -> str | None:
    """Why an operation cannot be scheduled; None where it can."""
    if isinstance(operation, Alias | Map | Product):
        return None
    return f"{type(operation).__name__.lower()} is not compiled"


def schedule(
    operation: Operation, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """The kernels of an operation, in the order in which they run; none of an alias.

    Args:
        operation: what is to be computed, of a kind with :func:`no reason against it
            <reason_against>`.
        model: of the target's CPU.
        constants: tensors whose values are known, and may be packed.
    """
    match operation:
        case Map():
            return schedule_map(operation, model, constants)
        case Product():
            return schedule_product(operation, model, constants)
        case Alias():
            return []
        case _:
            raise TypeError(f"{type(operation).__name__} has no schedule")
