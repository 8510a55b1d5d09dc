"""Remove nodes whose outputs nobody uses, and unused constants.

No ONNX operator has other effects. A node without any output is there for an effect, and stays.
"""

from __future__ import annotations

from ortpkg.graph.graph import Graph
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.engine.transformers.rewriting import has_used_output
from ortpkg.runtime.engine.transformers.transform_context import GraphPass, TransformContext


def _run(graph: Graph, context: TransformContext) -> int:
    removed = 0
    for index in reversed(topological_order(graph)):
        node = graph.node(index)
        if (
            any(node.outputs)
            and context.may_change(node)
            and not has_used_output(graph, node.outputs)
        ):
            graph.remove_node(node)
            for output in node.outputs:
                graph.types.pop(output, None)
            removed += 1
    for name in tuple(graph.initializers):
        if not graph.is_input(name) and not has_used_output(graph, (name,)):
            graph.remove_initializer(name)
            graph.types.pop(name, None)
            removed += 1
    return removed


UNUSED_REMOVAL = GraphPass(name="unused-removal", run=_run)
