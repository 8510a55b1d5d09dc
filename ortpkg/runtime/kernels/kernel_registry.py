"""Kernel definitions, and the registry that finds one by domain, operator, version and types.

Registration is explicit: ``runtime/kernels/cpu_kernels.py`` names the modules whose tagged
functions make up the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import NamedTuple

from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.op_kernel import KernelFactory


class DeviceSlots(NamedTuple):
    """Slots of a kernel that copies by itself between the CPU's memory and its provider's.

    Values that lie in the provider's memory are read there, and values that other kernels read
    there stay there. All others are passed as arrays, which the kernel copies.

    Attributes:
        inputs, outputs: slots whose values it reads, or makes, in its provider's memory.
        read_inputs, read_outputs: slots whose elements the CPU reads, too; these are always arrays.
    """

    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    read_inputs: frozenset[int] = frozenset()
    read_outputs: frozenset[int] = frozenset()

    @property
    def movable_inputs(self) -> frozenset[int]:
        """Slots that take values in the provider's memory."""
        return self.inputs - self.read_inputs

    @property
    def movable_outputs(self) -> frozenset[int]:
        """Slots whose values may stay in the provider's memory."""
        return self.outputs - self.read_outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDef:
    """Operator that a kernel serves, and what the planner may do around it.

    Attributes:
        domain, op_type: the operator.
        since: the operator-schema versions (``Node.since_version``) that it implements.
        types: type-constraint name of the schema → allowed element types; a constraint not named
            allows all.
        in_place: (input, output) pairs: the output may use the input's buffer if the input is not
            used later and the sizes agree.
        alias: (input, output) pairs: the output *is* the input's buffer under another shape
            (Reshape, Squeeze, ...).
        uses_output_buffer: True if it computes into ``context.output``, which makes planned memory
            useful.
        host_inputs, host_outputs: slots whose values are in memory that the CPU reads, even if the
            provider has a memory of its own (a shape, for one).
        factory: makes the compute function.
        is_async: the compute function may return a ``concurrent.futures.Future`` of its result;
            nodes that do not need it run meanwhile. It brings its own memory:
            ``uses_output_buffer`` is False, and nothing is in place.
        is_strict: if False, the compute function is called while inputs are still being computed,
            and gets these as objects whose ``result()`` waits.
        device_slots: slots of a kernel that copies by itself between the two memories; None if copy
            nodes do that.

    Raises:
        ValueError: an asynchronous kernel would write to planned memory.
    """

    op_type: str
    since: tuple[int, ...]
    factory: KernelFactory
    domain: str = ""
    types: Mapping[str, frozenset[ElementType]] = field(default_factory=dict)
    in_place: tuple[tuple[int, int], ...] = ()
    alias: tuple[tuple[int, int], ...] = ()
    uses_output_buffer: bool = True
    host_inputs: tuple[int, ...] = ()
    host_outputs: tuple[int, ...] = ()
    is_async: bool = False
    is_strict: bool = True
    device_slots: DeviceSlots | None = None

    def __post_init__(self) -> None:
        if self.is_async and (self.uses_output_buffer or self.in_place or self.alias):
            raise ValueError(
                f"the asynchronous kernel for {self.op_type} must bring its own memory"
            )


_TAG = "__ortpkg_kernel_defs__"


def kernel(
    op_type: str,
    *,
    since: tuple[int, ...],
    domain: str = "",
    types: Mapping[str, frozenset[ElementType]] | None = None,
    in_place: tuple[tuple[int, int], ...] = (),
    alias: tuple[tuple[int, int], ...] = (),
    uses_output_buffer: bool = True,
    host_inputs: tuple[int, ...] = (),
    host_outputs: tuple[int, ...] = (),
) -> Callable[[KernelFactory], KernelFactory]:
    """Return a decorator that tags a kernel factory with a :class:`KernelDef`.

    It registers nothing.
    """

    def tag(factory: KernelFactory) -> KernelFactory:
        definition = KernelDef(
            op_type=op_type,
            domain=domain,
            since=since,
            types=dict(types or {}),
            in_place=in_place,
            alias=alias,
            uses_output_buffer=uses_output_buffer,
            host_inputs=host_inputs,
            host_outputs=host_outputs,
            factory=factory,
        )
        setattr(factory, _TAG, (*getattr(factory, _TAG, ()), definition))
        return factory

    return tag


def kernel_defs_of(module: ModuleType) -> list[KernelDef]:
    """Return the definitions of ``module``: its own tagged functions, then its table ``KERNELS``.

    They are in source order; imported functions belong to the module that defines them. The table
    is for operators that differ in one ufunc only.
    """
    tagged = [
        definition
        for value in vars(module).values()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
        for definition in getattr(value, _TAG, ())
    ]
    return [*tagged, *getattr(module, "KERNELS", ())]


class KernelRegistry:
    """Registry of kernels by (domain, op_type, since_version), then by the node's types."""

    def __init__(self, definitions: Iterable[KernelDef] = ()) -> None:
        self._definitions: dict[tuple[str, str, int], list[KernelDef]] = {}
        for definition in definitions:
            self.register(definition)

    def register(self, definition: KernelDef) -> None:
        """Add a kernel after those of its operator and version; the first that fits is taken."""
        for version in definition.since:
            self._definitions.setdefault(
                (definition.domain, definition.op_type, version), []
            ).append(definition)

    def definitions(self) -> list[KernelDef]:
        """Return every definition once, in registration order."""
        all_definitions = [
            definition for definitions in self._definitions.values() for definition in definitions
        ]
        return list({id(definition): definition for definition in all_definitions}.values())

    def try_find_kernel(self, node: Node, types: Mapping[str, ElementType]) -> KernelDef | None:
        """Return the first definition for ``node`` whose constraints allow ``types`` (name → type).

        A constraint whose type is not known counts as allowed. None if no definition fits.
        """
        for definition in self._definitions.get(
            (node.domain, node.op_type, node.since_version), ()
        ):
            if all(
                name not in types or types[name] in allowed
                for name, allowed in definition.types.items()
            ):
                return definition
        return None
