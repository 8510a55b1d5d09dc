"""What the engine sees of an execution provider: what it can run, how it compiles that.

Source: the partitioning article and the high-level design, and the EPContext design for the context
methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_context.ep_context_options import EpContextOptions
from ortpkg.errors import CompileError, quoted
from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType
from ortpkg.kernels.kernel_registry import DeviceSlots, KernelDef, KernelRegistry
from ortpkg.kernels.op_kernel import OpKernelContext, OpKernelInfo, Value
from ortpkg.machine_code.compilation_stages import Stage, StageTexts
from ortpkg.providers.allocator import Allocator, CPUAllocator, DeviceAllocator
from ortpkg.providers.session_settings import NO_SETTINGS, SessionSettings

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

#: What the kernel factory of a node gets to see, e.g. with layouts of its constants that were kept.
InfoOf = Callable[[Graph, Node], OpKernelInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaDef:
    """Makes a capability a *fused* sub-graph: name and signature of the node in its place."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str = "ortpkg.fused"
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    doc_string: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCapability:
    """A sub-graph that a provider can run: node indices, and a meta definition to fuse them."""

    node_indices: tuple[int, ...]
    meta_def: MetaDef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedNode:
    """A partition for ``compile``: the node that stands for it, and its body as a graph."""

    node: Node
    body: Graph

    @property
    def nodes(self) -> list[Node]:
        """The body's nodes, each after those whose outputs it takes.

        ``body.nodes`` has them in insertion order.
        """
        return [self.body.node(index) for index in topological_order(self.body)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeComputeInfo:
    """How a fused node runs: state is made once per session, used often, released at the end.

    ``compute(state, inputs, context)`` takes one value per input of the fused node and returns one
    per output; it may be called from several threads at once. What it returns is the engine's from
    then on: no memory that a later call writes to. Where ``context.is_watched``, a long computation
    calls ``context.check_cancelled()`` now and then, or has it called for it
    (``isolation/run_watch.py``).

    Attributes:
        is_async: ``compute`` may return a ``concurrent.futures.Future`` of its outputs, and other
            nodes run until they are needed. Inputs stay as they are until it is done.
        is_strict: without it, ``compute`` is called while inputs are still under way, and gets
            these as objects whose ``result()`` waits; it may do without some of them.
        device_slots: slots of a ``compute`` that copies by itself between the CPU's memory and
            its provider's; ``context.device_target(slot)`` says which outputs stay there. None:
            all values are in the provider's memory, and copy nodes stand around the fused node.
    """

    compute: Callable[[Any, Sequence[Any], OpKernelContext], Sequence[Any]]
    create_state: Callable[[str], Any] = lambda _node_name: None
    release_state: Callable[[Any], None] = lambda _state: None
    is_async: bool = False
    is_strict: bool = True
    device_slots: DeviceSlots | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPlacement:
    """Where a backend really runs (part of) a fused node that a provider handed to it.

    Attributes:
        ep_name: the execution provider inside the backend, e.g. onnxruntime's own CPU provider.
        device: the backend's word for the device ("CPU", "GPU.1"); "" where it does not say.
        node_count: as the backend counts, after optimizations of its own; None: all nodes of the
            fused node.
        node_names: those nodes whose names it tells.
        is_fallback: whether this is not what was asked for, but what ran instead.
        reason: why there is nothing more exact to say, or why this ran instead; "" where there is
            nothing to explain.
    """

    ep_name: str
    device: str = ""
    node_count: int | None = None
    node_names: frozenset[str] = frozenset()
    is_fallback: bool = False
    reason: str = ""


class GraphViewer:
    """A graph as providers see it: read-only, nodes in topological order, constraint types."""

    def __init__(self, graph: Graph, order: Sequence[int]) -> None:
        self.graph = graph
        self.order = tuple(order)

    @property
    def nodes(self) -> list[Node]:
        """The nodes in topological order."""
        return [self.graph.node(index) for index in self.order]


class PlannedGraph(Protocol):
    """A graph with its execution plan, its allocation plan and its memory pattern. Thread-safe."""

    def run(self, inputs: Sequence[Value], context: OpKernelContext) -> list[Value]:
        """Runs it once, as part of the run of ``context`` and within its limits.

        Args:
            inputs: one value per input of the graph, in order.
            context: of the fused node that it is computed for.

        Returns one value per output, which share memory with nothing. Raises what a run raises,
        with the node's name.
        """
        ...

    def release(self) -> None:
        """Frees the memory that it keeps between runs; what runs later takes new memory."""
        ...


class GraphEngine(Protocol):
    """The engine of a session, lent to providers whose partitions are graphs of kernels.

    These lie below the engine and may not import it. Without it they would need transformers, plans
    and memory of their own, and be slower than the same nodes outside of a partition
    (docs/adr/0011-lent-engine.md).
    """

    def optimize(self, graph: Graph, kernels: ExecutionProvider) -> None:
        """Takes ``graph`` through transformers of all levels, whatever the session asks for.

        Args:
            graph: its types known; changed in place, but for its inputs and outputs.
            kernels: nodes are put in that it has kernels for; constants are computed with these.
        """
        ...

    def plan(self, graph: Graph, kernels: ExecutionProvider, info_of: InfoOf) -> PlannedGraph:
        """Makes ``graph`` ready on a provider's kernels, with the session's memory options.

        Raises KernelNotFoundError where it has none for a node, InvalidGraphError where a node's
        attributes do not fit.
        """
        ...


class ExecutionProvider:
    """One execution provider inside one session.

    It computes by kernels (``kernel_registry``), by compiling what it claims (``get_capability``
    and ``compile``), or by both; what it overrides of these says which. A class that does neither
    claims nothing.

    Attributes:
        name: ONNX Runtime's name.
        options: as the caller or the package gave them.
        backend: what provides it here: "embedded", "openvino", "onnxruntime", a plug-in's name; ""
            until :meth:`made_by` was called.
        is_requested: whether the caller asked for it; the embedded CPU provider joins every session
            unasked.
        is_named: whether the session's caller asked for it by name: then it has to run something.
        is_picked: whether a session chose it by default because its caller named no provider.
        computes_natively: whether what it fuses is computed by a native library with threads of its
            own.
        obeyed_settings: session options (attributes, keys of config entries) that a plug-in obeys
            by itself; the log names those that are set and that nobody obeys.
        session_settings, ep_context, graph_engine: what :meth:`join_session` was given; before that
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
        """Called once, by a factory that knows better than the provider what provides it here."""
        self.backend = backend

    def join_session(
        self,
        *,
        settings: SessionSettings,
        ep_context: EpContextOptions,
        graph_engine: GraphEngine | None,
    ) -> None:
        """Called once, before anything is asked, with all that a session gives to its providers.

        Default: it is remembered, and :meth:`use_session_settings` is told.

        Args:
            settings: what the session's options say, as far as it is not their default.
            ep_context: what they say about compiled contexts.
            graph_engine: the session's engine, for partitions that are graphs of kernels.
        """
        self.session_settings, self.ep_context = settings, ep_context
        self.graph_engine = graph_engine
        self.use_session_settings(settings)

    @property
    def kernel_registry(self) -> KernelRegistry | None:
        """The kernels it brings. None, the default, for a provider that only compiles."""
        return None

    def create_allocator(self) -> Allocator:
        """The memory that its kernels and compiled partitions read and write. By default the CPU's.

        A :class:`DeviceAllocator` says that the CPU cannot read it: then what they take and give
        are DeviceTensors, but for ``KernelDef.host_inputs`` and ``host_outputs``, and for what is
        no tensor of numbers.
        """
        return CPUAllocator()

    def get_ep_devices(self) -> tuple[EpDevice, ...]:
        """The EP devices that it runs on."""
        return self._ep_devices

    def find_kernel(self, node: Node, types: Mapping[str, ElementType]) -> KernelDef | None:
        """Its kernel for ``node``, or None."""
        registry = self.kernel_registry
        return None if registry is None else registry.try_find_kernel(node, types)

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        """What it can run of the still free nodes.

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
        """Which of the free float16 nodes, by index, it would run with float32 in their place.

        ``types_of`` says float32 where the graph still says float16. What it wants gets casts
        around it, and then :meth:`get_capability` is asked again. Default: what that claims by
        these types.
        """
        return [
            index for each in self.get_capability(viewer, types_of) for index in each.node_indices
        ]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        """One compute info per fused node, in order.

        A provider that never fuses need not implement it.

        Raises CompileError where it cannot; whatever else it raises becomes one.
        """
        names = ", ".join(quoted(each.node.name) for each in fused_nodes)
        raise CompileError(
            f"{self.name} claims {names} as fused, but has no compile()", ep_name=self.name
        )

    def estimate_node_s(self, node: Node, operations: int) -> float | None:  # noqa: ARG002 - part of the interface
        """What a run of ``node`` takes on it, in seconds, for partitioning by cost.

        None where it does not know.

        ``operations``: how many multiplications and additions the node is, counted from its shapes.
        """
        return None

    def use_session_settings(self, settings: SessionSettings) -> None:
        """Told once, by :meth:`join_session`, what the session's options say."""

    def get_placement(self, fused_node: str) -> Sequence[BackendPlacement]:  # noqa: ARG002 - part of the interface
        """Where the backend really runs the fused node of that name.

        Empty: all of it on this provider's device.
        """
        return ()

    def get_compiled_texts(
        self,
        fused_node: str,  # noqa: ARG002 - part of the interface
        stages: Collection[Stage],  # noqa: ARG002
        kernel: str | None = None,  # noqa: ARG002
    ) -> StageTexts:
        """What the fused node of that name became on its way to code, for people to read.

        By default nothing.

        Args:
            fused_node: its name.
            stages: those that are wanted.
            kernel: of the stages with a text for each kernel, the one of this name alone.
        """
        return {}

    def get_refusal(self) -> str:
        """Why it took no node, for people; "" where it does not know, or took some."""
        return ""

    def get_node_refusals(self) -> Mapping[int, str]:
        """Why it left nodes of the graph that it was asked about last, by their index.

        By default, and of nodes that are not there, it does not say.
        """
        return {}

    def get_ep_context_nodes(self) -> list[Node]:
        """EPContext nodes made by ``compile``; empty for a provider that makes none."""
        return []

    def check_ep_contexts(self) -> None:
        """Called before compiling where contexts are kept: raises where they could not be."""

    def add_ep_context_model(self, files: Sequence[Path]) -> None:
        """Called with the context model's files once it is written: its contexts stay."""

    def abandon_ep_contexts(self, reason: BaseException) -> None:
        """Called where a session that keeps contexts fails: what no model names is to go."""

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:  # noqa: ARG002 - part of the interface
        """The string for ``ep_compatibility_info`` of what it compiled from ``graph``.

        "" where it has none.
        """
        return ""

    def close(self) -> None:
        """Frees what belongs to the provider; called once, when its session closes."""
