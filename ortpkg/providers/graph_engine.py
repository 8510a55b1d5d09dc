"""What a session lends to execution providers that compute their partitions with kernels: the
engine itself.

Providers lie below the engine and may not import it (docs/architecture.md). A provider whose
partitions are graphs of kernels, and not what a library made of them, would otherwise need
transformers, plans and memory of its own, and its partitions would be slower than the same nodes
outside of them. So the session hands in the engine, as it hands in the options for contexts, and
the provider decides when to use it (docs/adr/0011-lent-engine.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ortpkg.graph.graph import Graph, Node
from ortpkg.kernels.op_kernel import OpKernelContext, OpKernelInfo, Value

if TYPE_CHECKING:
    from ortpkg.providers.execution_provider import ExecutionProvider

#: What the kernel factory of a node gets to see, e.g. with layouts of its constants that were kept.
InfoOf = Callable[[Graph, Node], OpKernelInfo]


class PlannedGraph(Protocol):
    """A graph with its execution plan, its allocation plan and its memory pattern. Thread-safe."""

    def run(self, inputs: Sequence[Value], context: OpKernelContext) -> list[Value]:
        """Runs it once, as part of the run that ``context`` belongs to, and within that run's
        limits.

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
    """The engine of the session that an execution provider belongs to."""

    def optimize(self, graph: Graph, kernels: ExecutionProvider) -> None:
        """Takes ``graph`` through the graph transformers of all levels, whatever level the session
        asks for.

        Args:
            graph: its types known; changed in place, but for its inputs and outputs.
            kernels: nodes are put in that it has kernels for; constants are computed with these.
        """
        ...

    def plan(self, graph: Graph, kernels: ExecutionProvider, info_of: InfoOf) -> PlannedGraph:
        """Makes ``graph`` ready to run on the kernels of a provider, with the session's options for
        memory.

        Raises KernelNotFoundError where it has none for a node, InvalidGraphError where a node's
        attributes do not fit.
        """
        ...
