"""Providers that compile: they claim maximal sub-graphs, turn each into one call, and can keep what they compiled.

Everything of the EPContext design that is the same for every such provider is here: which EPContext nodes are its own,
where contexts lie, whether they are still right, one binary for however many partitions, sharing between the sessions
of a group. A provider brings five things: which nodes it supports, compile, export, import, and a description of what
its contexts depend on.

Source: the EPContext design (requirements E10, E19 to E21, E25 to E28, E35 to E41, E43 to E54).
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import onnx

from ortpkg.devices.hardware import EpDevice
from ortpkg.errors import CompileError, EpContextError, OrtpkgError, quoted
from ortpkg.graph.ep_context import EpContextAttributes, ep_context_attributes, is_ep_context
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import WriteOptions, tensor_header, to_model_proto
from ortpkg.graph.types import ElementType
from ortpkg.kernels.kernel_registry import KernelRegistry
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.providers.cpu_execution_provider import CPUAllocator
from ortpkg.providers.ep_context_descriptor import ContextDescriptor, find_mismatch
from ortpkg.providers.ep_context_file import ContextEntry, Part
from ortpkg.providers.ep_context_reader import EpContextReader
from ortpkg.providers.ep_context_writer import EpContextWriter
from ortpkg.providers.execution_provider import (
    Allocator,
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.providers.supported_subgraphs import subgraph_signature, supported_subgraphs

_IR_VERSION = 10


class CompiledPartition(Protocol):
    """A partition inside a foreign library, or compiled by ourselves."""

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        """Runs it on arrays in the order of its inputs; new arrays in the order of its outputs. Thread-safe.

        Ends early, with the error of ``context.check_cancelled``, where the run is to end.
        """
        ...


class CompilingProvider(ExecutionProvider):
    """Claims what it supports as fused partitions, and EPContext nodes of its own.

    Attributes:
        context_sources: values of an EPContext node's ``source`` that are its own, compared without case (E10); the
            first is what it writes.
        ep_context: the session's options; set by the session before it asks for capabilities.
    """

    context_sources: tuple[str, ...] = ()

    def __init__(
        self, name: str, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name, ep_devices=ep_devices, options=options)
        self._context_nodes: list[Node] = []
        self._writer: EpContextWriter | None = None
        #: Its own main EPContext nodes, found when it was asked for capabilities.
        self._mains: list[EpContextAttributes] = []

    # --- what a provider brings --------------------------------------------------------------------------------------

    @abstractmethod
    def supported_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        """Indices of the nodes that it can run; it may refuse any."""

    @abstractmethod
    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        """Compiles. Raises whatever the library raises."""

    @abstractmethod
    def describe_environment(self) -> ContextDescriptor:
        """What its contexts depend on here and now; the digests of the source are left empty."""

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:  # noqa: ARG002
        """What to keep of a compiled partition. CompileError for a provider that keeps nothing."""
        raise CompileError(f"{self.name} cannot keep what it compiled: it makes no contexts", ep_name=self.name)

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:  # noqa: ARG002
        """The compiled partition from what was kept of it. Raises whatever the library raises."""
        raise EpContextError(f"{self.name} loads no contexts", ep_name=self.name, partition_name=entry.name)

    # --- the interface of an execution provider ----------------------------------------------------------------------

    @property
    def kernel_registry(self) -> KernelRegistry | None:
        return None

    def create_allocator(self) -> Allocator:
        return CPUAllocator()

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        own = [node for node in viewer.nodes if self._is_own_context(node)]
        self._mains += [each for each in map(ep_context_attributes, own) if each.main_context]
        claims = [self._claim(viewer.graph, (node.index,), node.name) for node in own]
        free = {node.index for node in viewer.nodes if not node.execution_provider and not is_ep_context(node)}
        supported = free & set(self.supported_nodes(viewer, types_of)) if free else set()
        claims += [
            self._claim(viewer.graph, group, self._partition_name(viewer.graph))
            for group in supported_subgraphs(viewer, supported)
        ]
        return [claim for claim in claims if claim is not None]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        compiled, kept = [], []
        reader = EpContextReader(self.name, self.ep_context, self._mains)
        for fused in fused_nodes:
            context_node = next((node for node in fused.body.nodes if is_ep_context(node)), None)
            if context_node is not None:
                compiled.append(self._load(ep_context_attributes(context_node), fused, reader))
                if self.ep_context.enable:
                    self._context_nodes.append(context_node)
                continue
            compiled.append(self._compile(fused))
            if self.ep_context.enable:
                kept.append((fused, self._entry(fused, compiled[-1])))
        if kept:
            self._context_nodes += self._context_writer().keep(
                [fused.node for fused, _ in kept], [entry for _, entry in kept]
            )
        return [NodeComputeInfo(compute=_compute, create_state=_hands_out(each)) for each in compiled]

    def get_ep_context_nodes(self) -> list[Node]:
        """Writes the binary of what was compiled so far, if that was not done, and returns the nodes (E19, E20)."""
        if self.ep_context.enable:
            self._context_writer().finish()
        return list(self._context_nodes)

    # --- claims ------------------------------------------------------------------------------------------------------

    def _is_own_context(self, node: Node) -> bool:
        if not is_ep_context(node) or node.execution_provider:
            return False
        return ep_context_attributes(node).source.lower() in {each.lower() for each in self.context_sources}

    def _claim(self, graph: Graph, indices: tuple[int, ...], name: str) -> ComputeCapability | None:
        inputs, outputs = subgraph_signature(graph, indices)
        if not outputs:
            return None
        return ComputeCapability(node_indices=indices, meta_def=MetaDef(name=name, inputs=inputs, outputs=outputs))

    def _partition_name(self, graph: Graph) -> str:
        """A name that is unique in the model, and, by the model's, in a binary that several models share."""
        stem = self.name.removesuffix("ExecutionProvider")
        if not self.ep_context.enable:
            return graph.make_name(stem)
        source = self.ep_context.model_path or self.ep_context.output_path
        return graph.make_name(f"{self.ep_context.node_name_prefix}{source.stem}_{stem}")

    # --- compiling and keeping ---------------------------------------------------------------------------------------

    def _compile(self, fused: FusedNode) -> CompiledPartition:
        try:
            return self.compile_partition(fused)
        except OrtpkgError:
            raise
        except Exception as error:
            raise CompileError(
                f"{self.name} cannot compile partition {quoted(fused.node.name)}: {_first_line(error)}",
                ep_name=self.name,
            ) from error

    def _context_writer(self) -> EpContextWriter:
        if self._writer is None:
            self._writer = EpContextWriter(self.name, self.context_sources[0], self.ep_context)
        return self._writer

    def _entry(self, fused: FusedNode, compiled: CompiledPartition) -> ContextEntry:
        graph_digest, weights_digest = _digests(fused.body)
        descriptor = replace(self.describe_environment(), graph_digest=graph_digest, weights_digest=weights_digest)
        return ContextEntry(name=fused.node.name, descriptor=descriptor, parts=self.export_context(compiled, fused))

    # --- loading -----------------------------------------------------------------------------------------------------

    def _load(self, attributes: EpContextAttributes, fused: FusedNode, reader: EpContextReader) -> CompiledPartition:
        """The partition behind an EPContext node. EpContextError (INVALID_GRAPH), whatever is wrong with it (E40)."""
        name = attributes.partition_name or fused.node.name
        entry = reader.find_entry(attributes, name)
        mismatch = find_mismatch(entry.descriptor, self.describe_environment())
        if mismatch is not None:
            raise EpContextError(
                f"the context of partition {quoted(name)} is stale: its {mismatch}; compile the model anew",
                ep_name=self.name,
                source=attributes.source,
                partition_name=name,
            )
        try:
            return self.import_context(entry, fused)
        except OrtpkgError:
            raise
        except Exception as error:
            raise EpContextError(
                f"{self.name} cannot load the context of partition {quoted(name)}: {_first_line(error)}",
                ep_name=self.name,
                source=attributes.source,
                partition_name=name,
            ) from error


def _compute(compiled: CompiledPartition, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
    return compiled.compute(inputs, context)


def _hands_out(compiled: CompiledPartition) -> Callable[[str], CompiledPartition]:
    return lambda _node_name: compiled


def _first_line(error: Exception) -> str:
    return quoted(next(iter(str(error).strip().splitlines()), type(error).__name__))


def _digests(body: Graph) -> tuple[str, str]:
    """SHA-256 of a partition's structure, and of its weights by name, type, shape and bytes."""
    options = WriteOptions(tensor=tensor_header, attribute_tensor=_hashed)
    proto = to_model_proto(Model(graph=body, ir_version=_IR_VERSION), options=options)
    weights = hashlib.sha256()
    for name in sorted(body.initializers):
        initializer = body.initializers[name]
        weights.update(f"{name}\0{initializer.element_type.name}\0{initializer.shape}\0".encode())
        weights.update(initializer.numpy().tobytes())
    return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest(), weights.hexdigest()


def _hashed(tensor: Any) -> onnx.TensorProto:
    header = tensor_header(tensor)
    header.doc_string = hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
    return header
