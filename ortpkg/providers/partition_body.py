"""The body of a partition: some nodes of a graph as a graph of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ortpkg.errors import ExecutionProviderError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.providers.execution_provider import FusedNode, MetaDef


def partition_body(
    graph: Graph,
    nodes: Sequence[Node],
    meta: MetaDef,
    ep_name: str,
    *,
    takes_subgraphs: bool = True,
) -> Graph:
    """The nodes as a graph of their own: constants that are not inputs of the fused node go along.

    Args:
        graph: the one that has the nodes.
        nodes: what is fused.
        meta: name, inputs and outputs.
        ep_name: whose claim it is, for messages.
        takes_subgraphs: whether sub-graphs of the nodes become those of the new graph; without it,
            they only appear in it, and stay where they are: for a graph that is looked at, and
            thrown away.

    Raises ExecutionProviderError where the meta definition's inputs and outputs do not cover what
    flows in and out.
    """
    body = Graph(meta.name, opset_imports=graph.opset_imports)
    body.set_inputs(meta.inputs)
    body.set_outputs(meta.outputs)
    made = dict.fromkeys(value for node in nodes for value in node.outputs if value)
    for value in _taken(nodes, made, meta):
        constant = graph.constant(value)
        if constant is None:
            raise _uncovered(ep_name, meta, value, "takes", "input")
        body.add_initializer(constant)
    for value in _given(graph, nodes):
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
        found = graph.type_of(value)
        if found is not None:
            body.set_type(value, found)
    # the nodes that compute these are outside; without their elements, sizes inside are unknown
    body.known_elements = {
        value: elements
        for value in meta.inputs
        if (elements := graph.elements_of(value)) is not None
    }
    return body


def fused_node_of(graph: Graph, nodes: Sequence[Node], meta: MetaDef, ep_name: str) -> FusedNode:
    """What the nodes would be fused into, for a trial; the graph stays as it is."""
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


def _taken(nodes: Sequence[Node], made: Collection[str], meta: MetaDef) -> Iterable[str]:
    """Values that the nodes need and neither make nor get as inputs: they must be constants."""
    needed = dict.fromkeys(
        value for node in nodes for value in (*node.inputs, *node.implicit_inputs) if value
    )
    return [value for value in needed if value not in made and value not in meta.inputs]


def _given(graph: Graph, nodes: Sequence[Node]) -> Iterator[str]:
    """Values of the nodes that are used outside of them."""
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
