"""A small compiling EP without dependencies: our own kernels, prepared once and kept.

It takes every node for which we have a kernel. To compile is to take the partition through the
session's graph transformers, constant folding and all fusions, and to let each kernel lay out its
weights. The context holds the result, so that a session made from it maps its weights from the
file, computes nothing beforehand, and runs as the same nodes do on the embedded CPU provider. It is
the example of docs/plugins.md for authors of compiling execution providers, and what the EPContext
design is tested with where no accelerator is at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.ep_names import PREPACK_EP, context_sources_of
from ortpkg.errors import CompileError
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.kernels.op_kernel import KERNEL_LAYOUT_VERSION
from ortpkg.providers.compiled_partition import CompiledPartition
from ortpkg.providers.compiling_provider import CompilingProvider
from ortpkg.providers.execution_provider import FusedNode, GraphEngine, GraphViewer
from ortpkg.providers.prepack_compatibility import compatibility_info, machine_architecture
from ortpkg.providers.prepack_context import partition_from, parts_of
from ortpkg.providers.prepack_partition import PrepackedPartition, PrepackKernels

#: No function of their inputs: what is computed once would be the same in every run.
_RANDOM = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
    "Bernoulli", "Dropout",
})  # fmt: skip
_NO_TENSOR = (ElementType.STRING, ElementType.UNDEFINED)


class PrepackExecutionProvider(CompilingProvider):
    """Runs partitions on our kernels, optimized, with weights in kernel layout."""

    backend = "prepack"
    context_sources = context_sources_of(PREPACK_EP)

    def __init__(
        self, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(PREPACK_EP, ep_devices=ep_devices, options=options)
        self._registry = cpu_kernel_registry()
        self._kernels = PrepackKernels(self._registry)
        self._partitions: list[PrepackedPartition] = []

    def supported_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        """Nodes with a kernel of ours, on tensors of known type, without sub-graphs."""
        return [
            node.index for node in viewer.nodes if self._is_supported(viewer.graph, node, types_of)
        ]

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        engine = self._engine()
        graph = copied_graph(fused.body)
        engine.optimize(graph, self._kernels)
        return self._opened(PrepackedPartition(graph, engine, self._kernels))

    def describe_environment(self) -> ContextDescriptor:
        """All that a context depends on: layout, with our fusions' operators, and architecture."""
        return ContextDescriptor(
            ep=self.name,
            sdk_version=f"kernel layout {KERNEL_LAYOUT_VERSION}",
            device="CPU",
            architecture=machine_architecture(),
        )

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:
        del fused
        assert isinstance(compiled, PrepackedPartition)
        return parts_of(compiled)

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        return self._opened(partition_from(entry, fused, self._engine(), self._kernels))

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:
        del graph
        return compatibility_info()

    def close(self) -> None:
        for partition in self._partitions:
            partition.release()

    def _opened(self, partition: PrepackedPartition) -> PrepackedPartition:
        self._partitions.append(partition)
        return partition

    def _engine(self) -> GraphEngine:
        if self.graph_engine is None:
            raise CompileError(
                f"{self.name} computes with the engine of a session, and has none",
                ep_name=self.name,
            )
        return self.graph_engine

    def _is_supported(
        self, graph: Graph, node: Node, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> bool:
        if (
            node.subgraphs
            or node.op_type in _RANDOM
            or not all(map(self._is_tensor(graph), (*node.inputs, *node.outputs)))
        ):
            return False
        opset = graph.opset_imports.get(node.domain)
        if (
            opset is None
            or resolve_since_version(node.domain, node.op_type, opset) != node.since_version
        ):
            # out of a function with imports of its own: a model of the partition could not say it
            return False
        return self._registry.try_find_kernel(node, types_of(node)) is not None

    @staticmethod
    def _is_tensor(graph: Graph) -> Callable[[str], bool]:
        def is_tensor(value: str) -> bool:
            if not value:
                return True
            constant, found = graph.constant(value), graph.type_of(value)
            if constant is not None:
                return constant.element_type not in _NO_TENSOR
            return isinstance(found, TensorType) and found.element_type not in _NO_TENSOR

        return is_tensor


def copied_graph(graph: Graph) -> Graph:
    """A graph of the same nodes, constants and types that can be changed.

    Nodes have no sub-graphs.
    """
    copy = Graph(graph.name, opset_imports=graph.opset_imports)
    copy.set_inputs(graph.inputs)
    copy.set_outputs(graph.outputs)
    for initializer in graph.initializers.values():
        copy.add_initializer(initializer)
    for node in graph.nodes:
        copy.add_copy(node)
    for value in sorted(graph.types):
        copy.set_type(value, graph.types[value])
    return copy
