"""Kernel definitions, and the registry that finds one by domain, operator, version and types.

Registration is explicit: ``kernels/cpu_kernels.py`` names the modules whose tagged functions make
    up the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import NamedTuple

from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.kernels.op_kernel import KernelFactory


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
    """Which nodes a kernel serves, and what the planner may do around it.

    Attributes:
        domain, op_type: the operator.
        since: the operator-schema versions (``Node.since_version``) that it implements.
        types: type-constraint name of the schema → allowed element types; a constraint not named
            allows all.
        in_place: (input, output) pairs: the output may lie in the input's buffer when that input
            dies here and the sizes agree.
        alias: (input, output) pairs: the output *is* the input's buffer under another shape
            (Reshape, Squeeze, ...).
        uses_output_buffer: whether it computes into ``context.output`` (then planned memory is
            worth planning).
        host_inputs, host_outputs: slots whose values lie in memory that the CPU reads, also where
            the provider's own memory is another (a shape, for one).
        factory: makes the compute function.
        is_async: the compute function may return a ``concurrent.futures.Future`` of its result;
            nodes that do not need it run meanwhile. It brings its own memory:
            ``uses_output_buffer`` is False, and nothing is in place.
        is_strict: without it, the compute function is called while inputs are still under way, and
            gets these as objects whose ``result()`` waits.
        device_slots: of a kernel that copies by itself between the two memories; None where copy
            nodes do that.

    Raises ValueError for an asynchronous kernel that would write to planned memory.
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
    """Tags a kernel factory with a :class:`KernelDef`; it registers nothing by itself."""

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
    """The definitions of ``module``: its own tagged functions, then its table ``KERNELS``.

    In source order; imported functions belong to the module that defines them. The table is for
    operators that differ in one ufunc only.
    """
    tagged = [
        definition
        for value in vars(module).values()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
        for definition in getattr(value, _TAG, ())
    ]
    return [*tagged, *getattr(module, "KERNELS", ())]


class KernelRegistry:
    """Finds kernels. Lookup by (domain, op_type, since_version), then by the node's types."""

    def __init__(self, definitions: Iterable[KernelDef] = ()) -> None:
        self._definitions: dict[tuple[str, str, int], list[KernelDef]] = {}
        for definition in definitions:
            self.register(definition)

    def register(self, definition: KernelDef) -> None:
        """Adds a kernel after those of its operator and version; the first that fits is taken."""
        for version in definition.since:
            self._definitions.setdefault(
                (definition.domain, definition.op_type, version), []
            ).append(definition)

    def definitions(self) -> list[KernelDef]:
        """Every definition once, in registration order."""
        found = [
            definition for definitions in self._definitions.values() for definition in definitions
        ]
        return list({id(definition): definition for definition in found}.values())

    def try_find_kernel(self, node: Node, types: Mapping[str, ElementType]) -> KernelDef | None:
        """The first definition for ``node`` whose constraints allow ``types`` (name → type).

        A constraint whose type is not known counts as allowed.
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
