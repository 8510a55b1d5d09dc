"""Schedules of operations, made once for each *form*: equal layers are scheduled once.

Two operations have one form where they differ in the tensors alone, and these are alike: of the
same kind of number and the same shape, both constants or both not, the same one wherever the same
one stands. A form's kernels are made for the first operation; others get them with their own
tensors.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache

from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.schedule import schedule
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Tensor
from ortpkg.codegen.tensor_ir.operations import Alias, Operation
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram
from ortpkg.shapes.expressions import Expression

#: Types whose values are compared directly; checked first, since most parts have one of them.
_ATOMS = frozenset({bool, int, str, type(None)})


class SchedulesByForm:
    """What :func:`~.schedule.schedule` makes, kept for as long as this lives.

    Attributes:
        model: of the CPU that it schedules for.
    """

    def __init__(self, model: MachineModel) -> None:
        self.model = model
        self._made: dict[Hashable, tuple[Sequence[Tensor], list[ScheduledKernel]]] = {}

    def kernels_of(self, program: TensorProgram) -> list[tuple[Operation, ScheduledKernel]]:
        """Each kernel of a program whose operations are fused, with its operation, as they run."""
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
        """The kernels of an operation, in the order in which they run; none of an alias."""
        tensors: dict[Tensor, int] = {}
        form = _form_of(operation, tensors, constants)
        if form not in self._made:
            made = schedule(operation, self.model, constants)
            self._made[form] = (tuple(tensors), made)
            return made
        before, made = self._made[form]
        own = dict(zip(before, tensors, strict=True))
        return [_with_tensors(each, own) for each in made]


def _form_of(value: object, tensors: dict[Tensor, int], constants: Collection[Tensor]) -> Hashable:
    """The value as what can be compared, with numbers for its tensors, which are noted."""
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
    """The fields that are looked into; None for what is compared as it is."""
    if not is_dataclass(kind) or issubclass(kind, Expression):
        return None
    return tuple(field.name for field in fields(kind))


def _with_tensors(kernel: ScheduledKernel, own: dict[Tensor, Tensor]) -> ScheduledKernel:
    """The kernel for other tensors; ``own`` gets those of its own that it writes or packs."""

    def owned(tensor: Tensor) -> Tensor:
        if tensor not in own:
            own[tensor] = replace(tensor)
        return own[tensor]

    packed = {
        owned(tensor): replace(packing, source=owned(packing.source))
        for tensor, packing in kernel.packed.items()
    }
    return replace(kernel, buffers=tuple(map(owned, kernel.buffers)), packed=packed)
