"""Engine that a session lends to its providers, for partitions that they run with kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.runtime.engine.executable_graph import ExecutableGraph
from ortpkg.runtime.engine.execution_frame import NodeContext
from ortpkg.runtime.engine.plain_context import PlainContext
from ortpkg.runtime.engine.transformers import TransformLevel
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, Value
from ortpkg.runtime.providers.execution_provider import ExecutionProvider, InfoOf, PlannedGraph
from ortpkg.runtime.session.graph_planner import GraphPlanner
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.transformation import LATER_LEVELS, transform, transform_context

_IR_VERSION = 10
_HIGHEST = max(TransformLevel)


class SessionGraphEngine:
    """GraphEngine with one session's options.

    Its graphs run in sequence, even in parallel execution: they run on the threads that run the
    fused nodes, and a thread that waited for another of these could wait forever.
    """

    def __init__(self, options: SessionOptions) -> None:
        self._options = options

    def optimize(self, graph: Graph, kernels: ExecutionProvider) -> None:
        """Apply basic transformers, infer types, and apply the later levels, as sessions do."""
        model = Model(graph=graph, ir_version=_IR_VERSION)
        context = transform_context([kernels])
        transform(model, (TransformLevel.BASIC,), _HIGHEST, context)
        transform(model, LATER_LEVELS, _HIGHEST, context)

    def plan(self, graph: Graph, kernels: ExecutionProvider, info_of: InfoOf) -> PlannedGraph:
        """Return the graph ready to run on one provider's kernels.

        ``info_of``: returns the information that a kernel factory gets for a node.
        """
        return _PlannedGraph(
            GraphPlanner(self._options, [kernels], {}, info_of=info_of).plan(graph)
        )


class _PlannedGraph:
    """A planned graph inside a fused node."""

    def __init__(self, executable: ExecutableGraph) -> None:
        self._executable = executable

    def run(self, inputs: Sequence[Value], context: OpKernelContext) -> list[Value]:
        # only the engine runs fused nodes
        assert isinstance(context, NodeContext | PlainContext)
        return self._executable.run(inputs, (), context.control)

    def release(self) -> None:
        if self._executable.pool is not None:
            self._executable.pool.clear()
