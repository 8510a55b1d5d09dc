"""Interface of an execution provider to the engine: what it can run, and how it compiles that.

Source: the partitioning article and the high-level design, and the EPContext design for the context
methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ortpkg.compiler.machine_code.compilation_stages import Stage, StageTexts
from ortpkg.foundations.errors import CompileError, quoted
from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.ep_context_options import EpContextOptions
from ortpkg.runtime.kernels.kernel_registry import DeviceSlots, KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, OpKernelInfo, Value
from ortpkg.runtime.providers.allocator import Allocator, CPUAllocator, DeviceAllocator
from ortpkg.runtime.providers.session_settings import NO_SETTINGS, SessionSettings

__all__ = [
    "Allocator",
    "BackendPlacement",
    "CPUAllocator",
    "ComputeCapability",
    "DeviceAllocator",
    "DeviceSlots",
    "ExecutionProvider",
    "FusedNode",
    "GraphEngine",
    "GraphViewer",
    "InfoOf",
    "MetaDef",
    "NodeComputeInfo",
    "PlannedGraph",
]

#: Makes a node's kernel info for its kernel factory, e.g. with layouts of constants that were kept.
InfoOf = Callable[[Graph, Node], OpKernelInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaDef:
    """Name and signature of the node that replaces a capability, which makes it *fused*."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str = "ortpkg.fused"
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    doc_string: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCapability:
    """Sub-graph that a provider can run: node indices, and a meta definition to fuse them."""

    node_indices: tuple[int, ...]
    meta_def: MetaDef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedNode:
    """Partition for ``compile``: the node that stands for it, and its body as a graph."""

    node: Node
    body: Graph

    @property
    def nodes(self) -> list[Node]:
        """Nodes of the body, each after those whose outputs it takes.

        ``body.nodes`` has them in insertion order.
        """
        return [self.body.node(index) for index in topological_order(self.body)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeComputeInfo:
    """Functions of a fused node; state is made once per session and released at the end.

    ``compute(state, inputs, context)`` takes one value per input of the fused node and returns one
    per output; several threads may call it at once. The engine owns its results: no later call may
    write to their memory. If ``context.is_watched``, a long computation calls
    ``context.check_cancelled()`` now and then, or has it called for it
    (``foundations/isolation/run_watch.py``).

    Attributes:
        is_async: True if ``compute`` may return a ``concurrent.futures.Future`` of its outputs;
            other nodes run until these are needed. Inputs stay unchanged until it is done.
        is_strict: False to have ``compute`` called before all inputs are computed; it gets the
            missing ones as objects whose ``result()`` waits, and may do without some of them.
        device_slots: slots of a ``compute`` that copies by itself between the CPU's memory and its
            provider's; ``context.device_target(slot)`` says which outputs stay there. None: all
            values are in the provider's memory, and copy nodes stand around the fused node.
    """

    compute: Callable[[Any, Sequence[Any], OpKernelContext], Sequence[Any]]
    create_state: Callable[[str], Any] = lambda _node_name: None
    release_state: Callable[[Any], None] = lambda _state: None
    is_async: bool = False
    is_strict: bool = True
    device_slots: DeviceSlots | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPlacement:
    """Device on which a backend really runs a fused node that a provider handed to it, or a part.

    Attributes:
        ep_name: execution provider inside the backend, e.g. onnxruntime's own CPU provider.
        device: the backend's word for the device ("CPU", "GPU.1"); "" if it does not say.
        node_count: number of nodes, counted by the backend after its own optimizations; None for
            all nodes of the fused node.
        node_names: nodes whose names it states.
        is_fallback: True if this is not what was asked for, but what ran instead.
        reason: why there is nothing more exact to say, or why this ran instead; "" if there is
            nothing to explain.
    """

    ep_name: str
    device: str = ""
    node_count: int | None = None
    node_names: frozenset[str] = frozenset()
    is_fallback: bool = False
    reason: str = ""


class GraphViewer:
    """Graph for providers: read-only, nodes in topological order, constraint types."""

    def __init__(self, graph: Graph, order: Sequence[int]) -> None:
        self.graph = graph
        self.order = tuple(order)

    @property
    def nodes(self) -> list[Node]:
        """Nodes in topological order."""
        return [self.graph.node(index) for index in self.order]


class PlannedGraph(Protocol):
    """Graph with its execution plan, its allocation plan and its memory pattern. Thread-safe."""

    def run(self, inputs: Sequence[Value], context: OpKernelContext) -> list[Value]:
        """Run the graph once, as part of the run of ``context`` and within its limits.

        Raises what a run raises, with the node's name.

        Args:
            inputs: one value per input of the graph, in order.
            context: context of the fused node that it is computed for.

        Returns:
            One value per output; they share memory with nothing.
        """
        ...

    def release(self) -> None:
        """Free the memory that is kept between runs; a later run allocates anew."""
        ...


class GraphEngine(Protocol):
    """Engine of a session, lent to providers whose partitions are graphs of kernels.

    Such providers lie below the engine and may not import it. Without it they would need
    transformers, plans and memory of their own, and be slower than the same nodes outside of a
    partition (docs/adr/0011-lent-engine.md).
    """

    def optimize(self, graph: Graph, kernels: ExecutionProvider) -> None:
        """Apply transformers of all levels to ``graph``, whatever the session asks for.

        Args:
            graph: graph with known types; changed in place, except for its inputs and outputs.
            kernels: provider whose kernels may replace nodes; constants are computed with them.
        """
        ...

    def plan(self, graph: Graph, kernels: ExecutionProvider, info_of: InfoOf) -> PlannedGraph:
        """Prepare ``graph`` to run on a provider's kernels, with the session's memory options.

        Raises:
            KernelNotFoundError: the provider has no kernel for a node.
            InvalidGraphError: a node's attributes do not fit.
        """
        ...


class ExecutionProvider:
    """One execution provider inside one session.

    It computes by kernels (``kernel_registry``), by compiling what it claims (``get_capability``
    and ``compile``), or by both; it overrides the methods of the ways it has. A class that
    overrides none claims nothing.

    Attributes:
        name: ONNX Runtime's name.
        options: provider options of the caller or the package.
        backend: library that provides it here: "embedded", "openvino", "onnxruntime", a plug-in's
            name; "" until :meth:`made_by` was called.
        is_requested: True if the caller asked for it; the embedded CPU provider joins every session
            unasked.
        is_named: True if the session's caller asked for it by name: then it has to run something.
        is_picked: True if a session chose it by default because its caller named no provider.
        computes_natively: True if a native library with threads of its own computes what it fuses.
        obeyed_settings: session options (attributes, keys of config entries) that a plug-in obeys
            by itself; the log names those that are set and that nobody obeys.
        session_settings, ep_context, graph_engine: arguments of :meth:`join_session`; before that
            the defaults, and no engine.
    """

    backend: str = ""
    is_requested: bool = True
    is_named: bool = False
    is_picked: bool = False
    computes_natively: bool = False
    obeyed_settings: Collection[str] = ()
    session_settings: SessionSettings = NO_SETTINGS

    def __init__(
        self,
        name: str,
        *,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
    ):
        self.name = name
        self.options: dict[str, str] = dict(options or {})
        self.ep_context = EpContextOptions()
        self.graph_engine: GraphEngine | None = None
        self._ep_devices = tuple(ep_devices)

    def made_by(self, backend: str) -> None:
        """Set the backend; called once, by a factory that knows it better than the provider."""
        self.backend = backend

    def join_session(
        self,
        *,
        settings: SessionSettings,
        ep_context: EpContextOptions,
        graph_engine: GraphEngine | None,
    ) -> None:
        """Take everything that a session gives to its providers; called once, before anything else.

        By default it is stored, and :meth:`use_session_settings` is called.

        Args:
            settings: session options that differ from their defaults.
            ep_context: session options about compiled contexts.
            graph_engine: the session's engine, for partitions that are graphs of kernels.
        """
        self.session_settings, self.ep_context = settings, ep_context
        self.graph_engine = graph_engine
        self.use_session_settings(settings)

    @property
    def kernel_registry(self) -> KernelRegistry | None:
        """Kernels of the provider. None, the default, for one that only compiles."""
        return None

    def create_allocator(self) -> Allocator:
        """Return the memory that its kernels and compiled partitions use; by default the CPU's.

        A :class:`DeviceAllocator` means that the CPU cannot read it: then their inputs and outputs
        are DeviceTensors, except for ``KernelDef.host_inputs`` and ``host_outputs``, and for values
        that are no tensors of numbers.
        """
        return CPUAllocator()

    def get_ep_devices(self) -> tuple[EpDevice, ...]:
        """Return the EP devices that it runs on."""
        return self._ep_devices

    def find_kernel(self, node: Node, types: Mapping[str, ElementType]) -> KernelDef | None:
        """Return its kernel for ``node``, or None."""
        registry = self.kernel_registry
        return None if registry is None else registry.try_find_kernel(node, types)

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        """Return what it can run of the nodes that are still free.

        Default: every node for which it has a kernel.
        """
        return [
            ComputeCapability(node_indices=(node.index,))
            for node in viewer.nodes
            if self.find_kernel(node, types_of(node)) is not None
        ]

    def nodes_for_float32(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        """Return the indices of free float16 nodes that it would run in float32 instead.

        ``types_of`` returns float32 where the graph still has float16. Nodes of the result get
        casts around them, and then :meth:`get_capability` is asked again. Default: the nodes that
        it claims with these types.
        """
        return [
            index
            for capability in self.get_capability(viewer, types_of)
            for index in capability.node_indices
        ]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        """Return one compute info per fused node, in order.

        A provider that never fuses need not implement it.

        Raises:
            CompileError: a node cannot be compiled; the engine turns other exceptions into this.
        """
        names = ", ".join(quoted(fused.node.name) for fused in fused_nodes)
        raise CompileError(
            f"{self.name} claims {names} as fused, but has no compile()", ep_name=self.name
        )

    def estimate_node_s(self, node: Node, operations: int) -> float | None:  # noqa: ARG002 - part of the interface
        """Return the time of running ``node`` on it, in seconds, for partitioning by cost.

        None if it does not know.

        Args:
            node: the node.
            operations: number of its multiplications and additions, counted from its shapes.
        """
        return None

    def use_session_settings(self, settings: SessionSettings) -> None:
        """Use what the session's options say; called once, by :meth:`join_session`."""

    def get_placement(self, fused_node: str) -> Sequence[BackendPlacement]:  # noqa: ARG002 - part of the interface
        """Return where the backend really runs the fused node of that name.

        Empty: all of it on this provider's device.
        """
        return ()

    def get_compiled_texts(
        self,
        fused_node: str,  # noqa: ARG002 - part of the interface
        stages: Collection[Stage],  # noqa: ARG002
        kernel: str | None = None,  # noqa: ARG002
    ) -> StageTexts:
        """Return texts of a fused node's stages on its way to code, for people to read.

        By default there are none.

        Args:
            fused_node: name of the fused node.
            stages: stages that are wanted.
            kernel: name of the only kernel to show, for stages with a text for each kernel; None
                for all.
        """
        return {}

    def get_refusal(self) -> str:
        """Return why it took no node, for people; "" if it does not know, or took some."""
        return ""

    def get_node_refusals(self) -> Mapping[int, str]:
        """Return why it left nodes of the graph that it was asked about last: node index → reason.

        By default it is empty; nodes that are missing have no known reason.
        """
        return {}

    def get_ep_context_nodes(self) -> list[Node]:
        """Return the EPContext nodes made by ``compile``; empty for a provider that makes none."""
        return []

    def check_ep_contexts(self) -> None:
        """Raise an error if contexts could not be kept; called before they are compiled."""

    def add_ep_context_model(self, files: Sequence[Path]) -> None:
        """Take the files of the context model that was written: its contexts stay."""

    def abandon_ep_contexts(self, reason: BaseException) -> None:
        """Remove contexts that no model names; called when a session that keeps contexts fails."""

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:  # noqa: ARG002 - part of the interface
        """Return the ``ep_compatibility_info`` of what it compiled from ``graph``.

        "" if it has none.
        """
        return ""

    def close(self) -> None:
        """Free what belongs to the provider; called once, when its session closes."""
