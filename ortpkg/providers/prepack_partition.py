"""A partition on our kernels, by the session's engine, with constants laid out for them.

It is what :class:`~ortpkg.providers.prepack_execution_provider.PrepackExecutionProvider` compiles a
partition to. The graph is optimized before it comes here; here it is planned, and what kernels make
of their constants is collected, or handed out where it was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ortpkg.ep_context.mapped_parts import MappedParts
from ortpkg.ep_names import PREPACK_EP
from ortpkg.errors import EpContextError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.topology import topological_order
from ortpkg.kernels.kernel_registry import KernelRegistry
from ortpkg.kernels.op_kernel import OpKernelContext, OpKernelInfo, Tensor, Value
from ortpkg.kernels.op_kernel_info import NodeKernelInfo
from ortpkg.providers.execution_provider import ExecutionProvider, GraphEngine


class PrepackKernels(ExecutionProvider):
    """Our kernels, for the nodes inside a partition.

    PrepackExecutionProvider itself brings none to a session: it would be given single nodes, which
    it cannot keep.
    """

    backend = "prepack"

    def __init__(self, registry: KernelRegistry) -> None:
        super().__init__(PREPACK_EP)
        self._registry = registry

    @property
    def kernel_registry(self) -> KernelRegistry:
        return self._registry


class _PackingInfo(NodeKernelInfo):
    """OpKernelInfo that hands out layouts that were kept, and keeps those that are made."""

    def __init__(
        self,
        graph: Graph,
        node: Node,
        position: int,
        kept: Mapping[str, Tensor],
        packed: dict[str, Tensor],
    ):
        super().__init__(graph, node)
        self._position = position
        self._kept = kept
        self._packed = packed

    def prepacked(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        key = f"{self._position}:{name}"
        if key not in self._packed:
            found = self._kept.get(key)
            array = np.ascontiguousarray(make()) if found is None else found
            array.flags.writeable = False
            self._packed[key] = array
        return self._packed[key]


class PrepackedPartition:
    """A partition, ready to run. Thread-safe, as planned graphs are.

    Attributes:
        graph: what it computes; its initializers are what the kernels read.
        packed: "node position:name" → a constant in the layout that the node's kernel computes
            with. Positions are those in topological order, in which the graph is written: they are
            the same when it is read again.
    """

    def __init__(
        self,
        graph: Graph,
        engine: GraphEngine,
        kernels: PrepackKernels,
        kept: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Plans the graph and lays out its constants.

        Args:
            graph: every node has a kernel and no sub-graphs. It is optimized, and no longer
                changed.
            engine: of the session.
            kernels: whose kernels it runs on.
            kept: layouts that were made before; those that are missing are made.

        Raises EpContextError where a node has sub-graphs, KernelNotFoundError where it has no
        kernel, InvalidGraphError where its attributes do not fit.
        """
        self.graph = graph
        self.packed: dict[str, Tensor] = {}
        if (node := next((node for node in graph.nodes if node.subgraphs), None)) is not None:
            raise EpContextError(
                f"{node} of the partition {quoted(graph.name)} has sub-graphs", ep_name=PREPACK_EP
            )
        positions = {index: position for position, index in enumerate(topological_order(graph))}

        def info_of(graph: Graph, node: Node) -> OpKernelInfo:
            return _PackingInfo(graph, node, positions[node.index], kept or {}, self.packed)

        self._planned = engine.plan(graph, kernels, info_of)
        constants = [initializer.numpy() for initializer in graph.initializers.values()]
        self._mapped = MappedParts((*constants, *self.packed.values()))

    def compute(self, inputs: Sequence[Value], context: OpKernelContext) -> Sequence[Value]:
        """Runs the graph. Outputs share memory with nothing.

        Raises RunError with the node's name where a kernel fails, EpContextError where the
        context's file became shorter: what is gone cannot be read.
        """
        self._mapped.verify_length(ep_name=PREPACK_EP, partition_name=self.graph.name)
        return self._planned.run(inputs, context)

    def release(self) -> None:
        """Frees the memory that it keeps between runs."""
        self._planned.release()
