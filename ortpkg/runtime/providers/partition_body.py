"""Body of a partition: some nodes of a graph as a graph of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.providers.execution_provider import FusedNode, MetaDef


def partition_body(
    graph: Graph,
    nodes: Sequence[Node],
    meta: MetaDef,
    ep_name: str,
    *,
    takes_subgraphs: bool = True,
) -> Graph:
    """Return nodes as a graph of their own, with constants that are no inputs of the fused node.

    Args:
        graph: graph of the nodes.
        nodes: nodes that are fused.
        meta: name, inputs and outputs of the fused node.
        ep_name: name of the execution provider, for messages.
        takes_subgraphs: True to make sub-graphs of the nodes those of the new graph. False only
            shows them in it, for a graph that is examined and thrown away.

    Raises:
        ExecutionProviderError: the meta definition's inputs and outputs do not cover the values
            that flow in and out.
    """
    body = Graph(meta.name, opset_imports=graph.opset_imports)
    body.set_inputs(meta.inputs)
    body.set_outputs(meta.outputs)
    made = dict.fromkeys(value for node in nodes for value in node.outputs if value)
    for value in _outer_constants(nodes, made, meta):
        constant = graph.constant(value)
        if constant is None:
            raise _uncovered(ep_name, meta, value, "takes", "input")
        body.add_initializer(constant)
    for value in _used_outside(graph, nodes):
        if value not in meta.outputs:
            raise _uncovered(ep_name, meta, value, "makes", "output")
    for value in meta.outputs:
        if value not in made:
            raise _uncovered(ep_name, meta, value, "does not make", "output")
    for node in nodes:
        body.add_copy(node)
        if takes_subgraphs:
            for subgraph in node.subgraphs.values():
                subgraph.parent = body
    for value in (*meta.inputs, *made, *body.initializers):
        value_type = graph.type_of(value)
        if value_type is not None:
            body.set_type(value, value_type)
    # nodes outside compute these; without their elements, sizes inside are unknown
    body.known_elements = {
        value: elements
        for value in meta.inputs
        if (elements := graph.elements_of(value)) is not None
    }
    return body


def fused_node_of(graph: Graph, nodes: Sequence[Node], meta: MetaDef, ep_name: str) -> FusedNode:
    """Return the node that would replace some nodes, for a trial; the graph stays as it is."""
    node = Node(
        index=-1,
        name=meta.name,
        op_type=meta.name,
        domain=meta.domain,
        inputs=meta.inputs,
        outputs=meta.outputs,
    )
    return FusedNode(
        node=node, body=partition_body(graph, nodes, meta, ep_name, takes_subgraphs=False)
    )


def _outer_constants(nodes: Sequence[Node], made: Collection[str], meta: MetaDef) -> Iterable[str]:
    """Return the values that nodes need and neither make nor get as inputs: constants."""
    needed = dict.fromkeys(
        value for node in nodes for value in (*node.inputs, *node.implicit_inputs) if value
    )
    return [value for value in needed if value not in made and value not in meta.inputs]


def _used_outside(graph: Graph, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the values of the nodes that are used outside of them."""
    inside = {node.index for node in nodes}
    for value in (value for node in nodes for value in node.outputs if value):
        if graph.is_output(value) or any(
            use.node_index not in inside for use in graph.consumers_of(value)
        ):
            yield value


def _uncovered(
    ep_name: str, meta: MetaDef, value: str, verb: str, kind: str
) -> ExecutionProviderError:
    return ExecutionProviderError(
        f"{ep_name}: the sub-graph {quoted(meta.name)} {verb} {quoted(value)}, which its meta"
        f" definition {'names as' if verb.startswith('does') else 'does not name as'} an {kind}",
        ep_name=ep_name,
    )
