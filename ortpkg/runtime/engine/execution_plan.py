"""The execution plan: the order of nodes, each one's device and kernel, every value's index.

First of the three planning layers: everything after it uses integers only. The plan is frozen; the
same graph always gives the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ortpkg.foundations.errors import InvalidGraphError, ModelError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.providers.execution_provider import GraphViewer

#: Index of an input or output that is left out. Frames keep an always-empty slot at the end of
#: their value list, so that indexing with it yields None.
ABSENT = -1


@dataclass(frozen=True, slots=True)
class OrtDevice:
    """A memory.

    Attributes:
        name: name of the memory.
        alignment: alignment of blocks and of offsets in them, in bytes.
        is_host_accessible: True if the CPU can read and write it; else copy nodes move values.
        is_divisible: True if several values may lie in one block of it.
    """

    name: str = "Cpu"
    alignment: int = 64
    is_host_accessible: bool = True
    is_divisible: bool = True


CPU_DEVICE = OrtDevice()


class OrtValueNameIdxMap:
    """Map of value name ↔ index: unique both ways, contiguous from 0, stable."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._indices: dict[str, int] = {}
        self._names: list[str] = []
        for name in names:
            self.add(name)

    def add(self, name: str) -> int:
        """Return the index of ``name``, adding the name if it is new."""
        index = self._indices.get(name)
        if index is None:
            index = self._indices[name] = len(self._names)
            self._names.append(name)
        return index

    def index_of(self, name: str) -> int:
        """Return the index of ``name``; ModelError (FAIL) if it was never added."""
        index = self._indices.get(name)
        if index is None:
            raise ModelError(f"Could not find OrtValue with name {quoted(name)}")
        return index

    def name_of(self, index: int) -> str:
        """Return the name at ``index``; ModelError (FAIL) if there is none."""
        if not 0 <= index < len(self._names):
            raise ModelError(
                f"Could not find OrtValue with index {index}; there are {len(self._names)}"
            )
        return self._names[index]

    def __contains__(self, name: str) -> bool:
        return name in self._indices

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStep:
    """One node in the execution order.

    Attributes:
        node_index, node_name, op_type: the node.
        provider: the execution provider that runs it; ``device`` is its memory.
        kernel: definition of its kernel (and of what the planner may do around it).
        inputs, outputs: value indices; :data:`ABSENT` for one left out.
        implicit_inputs: outer values that its sub-graphs use, as value indices of this graph, and
            the inputs and outputs of asynchronous nodes that end with this step.
        waits_for: steps of asynchronous nodes that must be done before it.
    """

    node_index: int
    node_name: str
    op_type: str
    provider: str
    device: OrtDevice
    kernel: KernelDef
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    implicit_inputs: tuple[int, ...] = ()
    waits_for: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """Order, kernels, devices and value indices of one graph.

    Attributes:
        steps: the nodes in the order in which they run.
        values: the value-name index.
        inputs, outputs, initializers: value indices of the graph's interface and weights.
        outer_values: in a sub-graph, values of graphs around it that it (or a graph inside it)
            uses.
        locations: the device of each value, by value index.
        may_cross: whether each value can lie in memory that the CPU cannot read: tensors of
            numbers, by value index.
    """

    steps: tuple[NodeStep, ...]
    values: OrtValueNameIdxMap
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    initializers: tuple[int, ...]
    outer_values: tuple[int, ...]
    locations: tuple[OrtDevice, ...]
    may_cross: tuple[bool, ...]

    def memory_of_input(self, step: NodeStep, slot: int) -> OrtDevice:
        """Return the memory in which a kernel reads an input: its provider's, or the CPU's."""
        if (
            step.device.is_host_accessible
            or slot in step.kernel.host_inputs
            or not self.may_cross[step.inputs[slot]]
        ):
            return CPU_DEVICE
        return step.device

    @property
    def devices(self) -> tuple[OrtDevice, ...]:
        """Every device that holds a value, each once, in order of first appearance."""
        return tuple(dict.fromkeys(self.locations)) or (CPU_DEVICE,)


def implicit_inputs_of(node: Node) -> tuple[str, ...]:
    """Return the values that a node's sub-graphs take from the graph around them, each once."""
    names = (name for inner in node.subgraphs.values() for name in inner.outer_values())
    return tuple(dict.fromkeys(names))


def may_cross(graph: Graph, value: str) -> bool:
    """Return True if ``value`` may lie where the CPU cannot read: a numeric tensor, or unknown."""
    value_type = graph.type_of(value)
    return value_type is None or (
        isinstance(value_type, TensorType) and value_type.element_type is not ElementType.STRING
    )


def create_execution_plan(
    viewer: GraphViewer,
    devices: Mapping[str, OrtDevice],
    kernels: Mapping[int, KernelDef],
    placed: Mapping[str, OrtDevice] | None = None,
) -> ExecutionPlan:
    """Plan the execution of a partitioned graph.

    Args:
        viewer: the graph with its nodes in topological order (Kahn's algorithm).
        devices: execution provider name → its memory.
        kernels: node index → kernel definition.
        placed: constants and outer values that lie outside of the CPU's memory → their devices.

    Raises:
        ModelError: FAIL, a node has no kernel or no provider of the session.
        InvalidGraphError: a main graph takes a value that nothing makes.
    """
    graph = viewer.graph
    outer = graph.outer_values()
    _verify_made(viewer, outer)
    values = OrtValueNameIdxMap(
        name for name in (*graph.inputs, *graph.initializers, *outer) if name
    )
    for node in viewer.nodes:
        for name in node.outputs:
            if name:
                values.add(name)
    steps = tuple(_step(node, values, devices, kernels) for node in viewer.nodes)
    crossing = tuple(may_cross(graph, values.name_of(index)) for index in range(len(values)))
    locations = _locations(steps, values, placed or {}, crossing)
    return ExecutionPlan(
        steps=with_joins(steps),
        values=values,
        inputs=_indices(values, graph.inputs),
        outputs=_indices(values, graph.outputs),
        initializers=_indices(
            values, (name for name in graph.initializers if not graph.is_input(name))
        ),
        outer_values=_indices(values, outer),
        locations=tuple(_moved_near_readers(steps, locations, graph, values)),
        may_cross=crossing,
    )


def _locations(
    steps: Sequence[NodeStep],
    values: OrtValueNameIdxMap,
    placed: Mapping[str, OrtDevice],
    crossing: Sequence[bool],
) -> list[OrtDevice]:
    """Return the memory of each value: that of the provider that makes it.

    An alias of an input lies in the input's memory.
    """
    locations = [placed.get(values.name_of(index), CPU_DEVICE) for index in range(len(values))]
    for step in steps:
        aliases = {
            output: step.inputs[source]
            for source, output in step.kernel.alias
            if source < len(step.inputs)
        }
        for slot, index in enumerate(step.outputs):
            if index == ABSENT:
                continue
            source = aliases.get(slot, ABSENT)
            if source != ABSENT:
                locations[index] = locations[source]
            elif step.device.is_host_accessible or (
                slot not in step.kernel.host_outputs and crossing[index]
            ):
                locations[index] = step.device
    return locations


def _moved_near_readers(
    steps: Sequence[NodeStep], locations: list[OrtDevice], graph: Graph, values: OrtValueNameIdxMap
) -> list[OrtDevice]:
    """Move each value that all memories can hold to the memory of its only reader."""
    if all(step.device == CPU_DEVICE for step in steps):
        return locations
    readers: dict[int, set[OrtDevice]] = {}
    movable: set[int] = set()
    for step in steps:
        aliased = {output for _, output in step.kernel.alias}
        outputs = (
            index
            for slot, index in enumerate(step.outputs)
            if index != ABSENT and slot not in aliased
        )
        if step.kernel.uses_output_buffer:
            movable.update(index for index in outputs if not graph.is_output(values.name_of(index)))
        inputs = frozenset(step.inputs)
        for index in (*step.inputs, *step.implicit_inputs):
            if index != ABSENT:
                readers.setdefault(index, set()).add(step.device if index in inputs else CPU_DEVICE)
    for index in sorted(movable):
        reader, *others = readers.get(index, {CPU_DEVICE})
        if (
            not others
            and reader != CPU_DEVICE
            and reader.is_host_accessible
            and locations[index].is_host_accessible
        ):
            locations[index] = reader
    return locations


def with_joins(steps: Sequence[NodeStep]) -> tuple[NodeStep, ...]:
    """Return ``steps`` with the waits that asynchronous nodes need.

    Each strict node waits for the asynchronous ones whose outputs it takes. The inputs and outputs
    of an asynchronous node are used once more by the first step that waits for it, or by the last
    one: until then nothing overwrites them.
    """
    joined = list(steps)
    last = len(joined) - 1
    for number, step in enumerate(steps):
        if not step.kernel.is_async:
            continue
        outputs = {index for index in step.outputs if index != ABSENT}
        takers = [
            later
            for later in range(number + 1, len(joined))
            if outputs & _awaited_values(steps[later])
        ]
        for later in takers:
            joined[later] = replace(joined[later], waits_for=(*joined[later].waits_for, number))
        join = takers[0] if takers else last
        if join != number:
            held = (
                index
                for index in (*step.inputs, *step.implicit_inputs, *step.outputs)
                if index != ABSENT
            )
            implicit_inputs = dict.fromkeys((*joined[join].implicit_inputs, *held))
            joined[join] = replace(joined[join], implicit_inputs=tuple(implicit_inputs))
    return tuple(joined)


def _awaited_values(step: NodeStep) -> set[int]:
    """Return the values that ``step`` waits for: those of its sub-graphs, and strict inputs."""
    return {*step.implicit_inputs, *(step.inputs if step.kernel.is_strict else ())}


def _verify_made(viewer: GraphViewer, outer: Sequence[str]) -> None:
    """Raise InvalidGraphError if a main graph uses a value that is neither an input nor made."""
    if viewer.graph.parent is not None or not outer:
        return
    missing = frozenset(outer)
    for node in viewer.nodes:
        for name in (*node.inputs, *implicit_inputs_of(node)):
            if name in missing:
                raise InvalidGraphError(
                    f"{node} takes {quoted(name)}, which is no input or initializer, and no node"
                    " makes it",
                    node_name=node.name,
                )
    raise InvalidGraphError(
        f"the output {quoted(outer[0])} is no input or initializer, and no node makes it"
    )


def _step(
    node: Node,
    values: OrtValueNameIdxMap,
    devices: Mapping[str, OrtDevice],
    kernels: Mapping[int, KernelDef],
) -> NodeStep:
    kernel = kernels.get(node.index)
    if kernel is None:
        raise ModelError(f"no kernel found for {node}", node_name=node.name)
    device = devices.get(node.execution_provider)
    if device is None:
        name = quoted(node.execution_provider)
        raise ModelError(
            f"{node} is assigned to {name}, which the session does not have", node_name=node.name
        )
    if node.subgraphs and not device.is_host_accessible:
        device = CPU_DEVICE  # the engine passes values in and out of sub-graphs
    return NodeStep(
        node_index=node.index,
        node_name=node.name,
        op_type=node.op_type,
        provider=node.execution_provider,
        device=device,
        kernel=kernel,
        inputs=_indices(values, node.inputs),
        outputs=_indices(values, node.outputs),
        implicit_inputs=_indices(values, implicit_inputs_of(node)),
    )


def _indices(values: OrtValueNameIdxMap, names: Iterable[str] | Sequence[str]) -> tuple[int, ...]:
    return tuple(values.index_of(name) if name else ABSENT for name in names)
