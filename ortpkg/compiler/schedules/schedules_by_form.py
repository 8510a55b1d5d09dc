"""Schedules of operations, made once for each *form*: equal layers are scheduled once.

Two operations have the same form if they differ only in their tensors, and these match: same scalar
type and shape, both constant or both not, and repeated at the same positions. A form's kernels are
made for the first operation; later ones get copies with their own tensors.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache

from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.schedule import schedule
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Alias, Operation
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import Expression

#: Types whose values are compared directly; checked first, since most parts have one of them.
_ATOMS = frozenset({bool, int, str, type(None)})


class SchedulesByForm:
    """Cache of the results of :func:`~.schedule.schedule`, by form.

    Attributes:
        model: model of the CPU to schedule for.
    """

    def __init__(self, model: MachineModel) -> None:
        self.model = model
        self._made: dict[Hashable, tuple[Sequence[Tensor], list[ScheduledKernel]]] = {}

    def kernels_of(self, program: TensorProgram) -> list[tuple[Operation, ScheduledKernel]]:
        """Return the kernels of a fused program with their operations, in the order they run."""
        constants = frozenset(program.constants)
        return [
            (operation, kernel)
            for operation in program.operations
            if not isinstance(operation, Alias)
            for kernel in self.schedule(operation, constants)
        ]

    def schedule(
        self, operation: Operation, constants: Collection[Tensor]
    ) -> list[ScheduledKernel]:
        """Return the kernels of an operation, in the order in which they run; none for an alias."""
        tensors: dict[Tensor, int] = {}
        form = _form_of(operation, tensors, constants)
        if form not in self._made:
            made = schedule(operation, self.model, constants)
            self._made[form] = (tuple(tensors), made)
            return made
        before, made = self._made[form]
        tensors_by_cached = dict(zip(before, tensors, strict=True))
        return [_with_tensors(kernel, tensors_by_cached) for kernel in made]


def _form_of(value: object, tensors: dict[Tensor, int], constants: Collection[Tensor]) -> Hashable:
    """Return a comparable form of the value, with numbers instead of tensors.

    New tensors are added to ``tensors``.
    """
    kind: type = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, Tensor):
        if value in tensors:
            return tensors[value]
        tensors[value] = len(tensors)
        return (value.scalar, value.shape, value in constants)
    if isinstance(value, tuple):
        return tuple([_form_of(part, tensors, constants) for part in value])
    if isinstance(value, float):
        return ("float", value.hex())  # 0.0 is not -0.0, and no integer
    names = _names(kind)
    if names is not None:
        return (kind, *[_form_of(getattr(value, name), tensors, constants) for name in names])
    assert isinstance(value, Hashable)
    return value


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """Return the fields to compare one by one; None for a type that is compared as a whole."""
    if not is_dataclass(kind) or issubclass(kind, Expression):
        return None
    return tuple(field.name for field in fields(kind))


def _with_tensors(kernel: ScheduledKernel, replacements: dict[Tensor, Tensor]) -> ScheduledKernel:
    """Return the kernel with other tensors, adding new temporary ones to ``replacements``."""

    def replaced(tensor: Tensor) -> Tensor:
        if tensor not in replacements:
            replacements[tensor] = replace(tensor)
        return replacements[tensor]

    packed = {
        replaced(tensor): replace(packing, source=replaced(packing.source))
        for tensor, packing in kernel.packed.items()
    }
    return replace(kernel, buffers=tuple(map(replaced, kernel.buffers)), packed=packed)
