"""Insert copy nodes where values cross between the CPU's memory and memory that it cannot read.

It is ONNX Runtime's MemcpyTransformer: it runs last, on a partitioned graph, and changes nothing if
the CPU reads all memories. Afterwards each node finds its inputs where its kernel reads them:

- A value is copied once to each memory that reads it. A copy from one device to another goes by way
  of the CPU's memory.
- A constant gets a twin in each memory that reads it, filled when the session is created; never in
  a run.
- Inputs and outputs of a session and of sub-graphs lie in the CPU's memory.
- A copy for the body of a Loop or Scan is made once, before the loop; one for a branch of an If is
  made in the branch, and only if that is taken.
- Values other than numeric tensors (strings, sequences, maps) always lie in the CPU's memory.
- A node that copies by itself (``KernelDef.device_slots``) takes and returns arrays, except for
  values that it shares with other nodes of its memory: these are copied once and stay there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Initializer, Node
from ortpkg.graph.topology import all_graphs, topological_order
from ortpkg.runtime.engine.execution_plan import (
    CPU_DEVICE,
    OrtDevice,
    implicit_inputs_of,
    may_cross,
)
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.kernel_registry import DeviceSlots, KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Value
from ortpkg.runtime.providers.allocator import DeviceAllocator

MEMCPY_FROM_HOST = "MemcpyFromHost"
MEMCPY_TO_HOST = "MemcpyToHost"

#: Graph → constant or outer value → its device, for those outside of the CPU's memory.
ValueDevices = Mapping[Graph, Mapping[str, OrtDevice]]


class HostSlots(NamedTuple):
    """Slots of one node that hold arrays though its provider's memory is another."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Crossings(NamedTuple):
    """Result of :func:`insert_copies`.

    Attributes:
        value_devices: constants and outer values that lie on a device.
        host_slots: node that copies by itself → its slots that hold arrays.
    """

    value_devices: ValueDevices
    host_slots: Mapping[Node, HostSlots]


def insert_copies(
    graph: Graph,
    devices: Mapping[str, OrtDevice],
    kernels_of: Callable[[Graph], Mapping[int, KernelDef]],
) -> Crossings:
    """Rewire ``graph`` and the graphs inside it so that each kernel can read its inputs.

    Args:
        graph: partitioned; its inputs and outputs keep their names.
        devices: execution provider → its memory.
        kernels_of: returns the kernel definition of each node of a graph, by node index.
    """
    if all(device.is_host_accessible for device in devices.values()):
        return Crossings({}, {})
    inserter = _Inserter(devices, kernels_of)
    inserter.count_readers(graph)
    inserter.place(graph)
    inserter.remove_unread_originals()
    return Crossings(inserter.value_devices, inserter.host_slots)


def is_copy(node: Node) -> bool:
    """Return True for a node that :func:`insert_copies` made."""
    return node.op_type in {MEMCPY_FROM_HOST, MEMCPY_TO_HOST} and node.domain == ONNX_DOMAIN


def copy_kernel_def(node: Node) -> KernelDef:
    """Return the kernel definition of a copy node."""

    def factory(_info: OpKernelInfo) -> Compute:
        raise InvalidGraphError(f"{node} copies with the allocator of its provider")

    is_from_host = node.op_type == MEMCPY_FROM_HOST
    return KernelDef(
        op_type=node.op_type,
        since=(1,),
        factory=factory,
        host_inputs=(0,) if is_from_host else (),
        host_outputs=() if is_from_host else (0,),
    )


def copy_compute(node: Node, allocator: DeviceAllocator) -> Compute:
    """Return the function that computes a copy node.

    A value that the caller of the run passed on the device, or wants there, is not copied.

    Args:
        node: copies to or from the device.
        allocator: of the device's memory.
    """

    def from_host(context: OpKernelContext, value: Value) -> Value:
        if value is None or isinstance(value, DeviceTensor):
            return value
        source = value if value.flags.c_contiguous else value.copy(order="C")
        if not allocator.is_divisible:
            return allocator.upload(source)
        target = context.output(0, value.shape, value.dtype)
        allocator.copy_from_host(source, cast(Any, target))
        return target

    def to_host(context: OpKernelContext, value: Value) -> Value:
        if value is None:
            return None
        wanted = context.device_target(0)
        if wanted is not None:
            return value
        target = context.output(0, value.shape, value.dtype)
        allocator.copy_to_host(value, target)
        return target

    return from_host if node.op_type == MEMCPY_FROM_HOST else to_host


class _Inserter:
    """One pass over a graph and the graphs inside it.

    Attributes:
        given, host_slots: see :class:`Crossings`.
    """

    def __init__(
        self,
        devices: Mapping[str, OrtDevice],
        kernels_of: Callable[[Graph], Mapping[int, KernelDef]],
    ) -> None:
        self.value_devices: dict[Graph, dict[str, OrtDevice]] = {}
        self.host_slots: dict[Node, HostSlots] = {}
        #: Number of slots that read a value in a memory, by value and memory.
        self._readers: Counter[tuple[Graph, str, OrtDevice]] = Counter()
        self._devices = devices
        self._kernels_of = kernels_of
        self._providers = {device: name for name, device in reversed([*devices.items()])}
        self._home: dict[tuple[Graph, str], OrtDevice] = {}
        self._copies: dict[tuple[Graph, str, OrtDevice], str] = {}
        self._around: dict[Graph, Node] = {}
        self._originals: dict[tuple[Graph, str], None] = {}

    def count_readers(self, graph: Graph) -> None:
        """Count how many slots of ``graph`` and the graphs inside it read each value, by memory."""
        for subgraph in all_graphs(graph):
            kernels = self._kernels_of(subgraph)
            for node in subgraph.nodes:
                device, kernel = self._memory_of(node), kernels[node.index]
                if device == CPU_DEVICE:
                    continue
                slots = kernel.device_slots
                for slot, value in enumerate(node.inputs):
                    is_read = slot not in kernel.host_inputs and (
                        slots is None or slot in slots.movable_inputs
                    )
                    owner = _owner_of(subgraph, value) if value and is_read else None
                    if owner is not None:
                        self._readers[owner, value, device] += 1

    def _host_slots_of(self, graph: Graph, node: Node, kernel: KernelDef) -> HostSlots:
        """Return the slots of ``node`` that hold arrays."""
        slots = kernel.device_slots
        if slots is None:
            return HostSlots(kernel.host_inputs, kernel.host_outputs)
        device = self._memory_of(node)
        host_slots = self.host_slots[node] = HostSlots(
            tuple(
                slot
                for slot, value in enumerate(node.inputs)
                if not self._is_taken_there(graph, slot, value, slots, device)
            ),
            tuple(
                slot
                for slot, value in enumerate(node.outputs)
                if slot not in slots.movable_outputs or not self._readers[graph, value, device]
            ),
        )
        return host_slots

    def _is_taken_there(
        self, graph: Graph, slot: int, value: str, slots: DeviceSlots, device: OrtDevice
    ) -> bool:
        """Return True if a node that copies by itself takes an input on its provider's device.

        It does if the value is there already, if another node reads it there, or if it is made
        outside of a loop: then one copy serves all iterations.
        """
        owner = _owner_of(graph, value) if value and slot in slots.movable_inputs else None
        if owner is None:
            return False
        is_there = self._home.get((owner, value), CPU_DEVICE) == device
        is_shared = self._readers[owner, value, device] > 1 or owner is not graph
        return is_there or is_shared or owner.is_constant(value)

    def place(self, graph: Graph) -> None:
        """Rewire the nodes of ``graph`` and of the graphs inside it."""
        kernels = self._kernels_of(graph)
        for index in topological_order(graph):
            node = graph.node(index)
            device = self._memory_of(node)
            host_inputs, host_outputs = self._host_slots_of(graph, node, kernels[index])
            for slot, value in enumerate(node.inputs):
                if value:
                    target = CPU_DEVICE if slot in host_inputs else device
                    graph.replace_input(node, slot, self._value_in(graph, value, target, node))
            for subgraph in node.subgraphs.values():
                self._around[subgraph] = node
                self.place(subgraph)
            if node.subgraphs:
                graph.set_implicit_inputs(node, implicit_inputs_of(node))
            for slot, value in enumerate(node.outputs):
                if (
                    value
                    and slot not in host_outputs
                    and device != CPU_DEVICE
                    and may_cross(graph, value)
                ):
                    self._made_on(graph, node, slot, device)
        if graph.parent is not None:
            last = max(graph.nodes, key=lambda node: node.index, default=None)
            graph.set_outputs(
                [self._value_in(graph, value, CPU_DEVICE, last) for value in graph.outputs]
            )
            self._record_outer_values(graph)

    def _memory_of(self, node: Node) -> OrtDevice:
        """Return the memory of the kernel of ``node``.

        CPU_DEVICE for all memory that the CPU reads.
        """
        device = self._devices[node.execution_provider]
        return CPU_DEVICE if device.is_host_accessible or node.subgraphs else device

    def _made_on(self, graph: Graph, node: Node, slot: int, device: OrtDevice) -> None:
        """Record the memory of an output.

        An output of the graph is copied to the CPU's memory, under its name.
        """
        value = node.outputs[slot]
        if not graph.is_output(value):
            self._home[graph, value] = device
            return
        far = self._named(graph, value, device)
        graph.set_node_outputs(
            node, [far if output == value else output for output in node.outputs]
        )
        self._add_copy(graph, MEMCPY_TO_HOST, far, value, device, node)
        self._copies[graph, value, device] = far
        self._home[graph, far] = device

    def _value_in(self, graph: Graph, value: str, target: OrtDevice, reader: Node | None) -> str:
        """Return the name under which a reader in ``graph`` finds ``value`` in a memory.

        Inserts a copy if there is none yet.
        """
        owner = _owner_of(graph, value)
        home = CPU_DEVICE if owner is None else self._home.get((owner, value), CPU_DEVICE)
        if owner is None or home == target or not may_cross(graph, value):
            return value
        if target != CPU_DEVICE and owner.is_constant(value):
            return self._twin(owner, value, target)
        scope: Graph | None = graph
        while scope is not None:
            if (copy := self._copies.get((scope, value, target))) is not None:
                return copy
            scope = None if scope is owner else scope.parent
        if home != CPU_DEVICE and target != CPU_DEVICE:
            staged = self._value_in(graph, value, CPU_DEVICE, reader)
            return self._copied(graph, value, staged, target, reader)
        return self._copied(graph, value, value, target, reader)

    def _copied(
        self, graph: Graph, value: str, source: str, target: OrtDevice, reader: Node | None
    ) -> str:
        """Insert a copy of ``source``, outside of loops if possible, and return its name.

        ``source`` is ``value``, or the copy of it in the CPU's memory.
        """
        scope, before, owner = graph, reader, _owner_of(graph, source)
        while (
            scope is not owner
            and scope.parent is not None
            and self._around[scope].op_type in {"Loop", "Scan"}
        ):
            scope, before = scope.parent, self._around[scope]
        copy = self._named(scope, value, target)
        if target == CPU_DEVICE:
            self._add_copy(
                scope, MEMCPY_TO_HOST, source, copy, self._home_of(scope, source), before
            )
        else:
            self._add_copy(scope, MEMCPY_FROM_HOST, source, copy, target, before)
            self._home[scope, copy] = target
        self._copies[scope, value, target] = copy
        return copy

    def _home_of(self, graph: Graph, value: str) -> OrtDevice:
        owner = _owner_of(graph, value)
        return CPU_DEVICE if owner is None else self._home.get((owner, value), CPU_DEVICE)

    def _twin(self, owner: Graph, value: str, target: OrtDevice) -> str:
        """Return the name of the same constant in another memory."""
        twin = self._copies.get((owner, value, target))
        if twin is None:
            twin = self._copies[owner, value, target] = self._named(owner, value, target)
            original: Any = owner.initializers[value]
            owner.add_initializer(cast(Initializer, dataclasses.replace(original, name=twin)))
            self._home[owner, twin] = target
            self.value_devices.setdefault(owner, {})[twin] = target
            self._originals[owner, value] = None
        return twin

    def _record_outer_values(self, graph: Graph) -> None:
        for value in graph.outer_values():
            device = self._home_of(graph, value)
            if device != CPU_DEVICE:
                self.value_devices.setdefault(graph, {})[value] = device

    def remove_unread_originals(self) -> None:
        """Remove constants from the CPU's memory that only other memories read."""
        for graph, value in self._originals:
            if not graph.use_count(value) and not graph.is_output(value):
                graph.remove_initializer(value)

    @staticmethod
    def _named(graph: Graph, value: str, device: OrtDevice) -> str:
        name = graph.make_name(f"{value}_{device.name}")
        value_type = graph.type_of(value)
        if value_type is not None:
            graph.set_type(name, value_type)
        return name

    def _add_copy(
        self,
        graph: Graph,
        op_type: str,
        source: str,
        target: str,
        device: OrtDevice,
        at: Node | None,
    ) -> None:
        graph.add_node(
            op_type,
            [source],
            [target],
            name=f"{op_type}_{target}",
            since_version=1,
            execution_provider=self._providers[device],
            at=at,
        )


def _owner_of(graph: Graph, value: str) -> Graph | None:
    """Return the graph that defines ``value``: ``graph`` or one around it; None if neither does."""
    scope: Graph | None = graph
    while scope is not None and not scope.defines(value):
        scope = scope.parent
    return scope
