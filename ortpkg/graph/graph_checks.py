"""Rules for a graph: ONNX's own, and that its use lists are right."""

from __future__ import annotations

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.graph import Graph, Node, Use
from ortpkg.graph.load_control import polled_parts
from ortpkg.graph.topology import topological_order


def verify_graph(graph: Graph) -> None:
    """Raise InvalidGraphError, naming node and value, for undefined values and for cycles.

    Sub-graphs are included: values that they miss are implicit inputs of their node.
    """
    for node in graph.nodes:
        for value in polled_parts((*node.inputs, *node.implicit_inputs)):
            if value and not graph.defines(value):
                inside = "a sub-graph of " if value in node.implicit_inputs else ""
                raise InvalidGraphError(
                    f"{inside}{node} takes {quoted(value)}, which nothing in the graph makes",
                    node_name=node.name,
                )
    for output in polled_parts(graph.outputs):
        if not graph.defines(output):
            raise InvalidGraphError(f"nothing makes the graph's output {quoted(output)}")
    pending = [graph]
    while pending:
        current = pending.pop()
        topological_order(current)
        for node in current.nodes:
            pending.extend(node.subgraphs.values())


def check_consistency(graph: Graph) -> list[str]:
    """Compare producers, use lists and implicit inputs with the nodes.

    Return one text per difference; none if all is right.
    """
    problems: list[str] = []
    uses: dict[str, list[Use]] = {}
    for node in graph.nodes:
        for output in node.outputs:
            if output and graph.producer_of(output) is not node:
                problems.append(f"{node} makes {quoted(output)}, but is not its producer")
            if output and (graph.is_input(output) or output in graph.initializers):
                problems.append(
                    f"{node} makes {quoted(output)}, which is also an input or initializer"
                )
        for slot, value in enumerate(node.inputs):
            if value:
                uses.setdefault(value, []).append(Use(node.index, slot))
        for value in node.implicit_inputs:
            uses.setdefault(value, []).append(Use(node.index, -1))
        problems += _check_subgraphs(graph, node)
    for value in {**uses, **dict.fromkeys(graph.used_values())}:
        if sorted(map(str, uses.get(value, []))) != sorted(map(str, graph.consumers_of(value))):
            problems.append(f"the use list of {quoted(value)} differs from what the nodes take")
    for name, initializer in graph.initializers.items():
        if name != initializer.name:
            problems.append(
                f"the initializer {quoted(initializer.name)} is filed under {quoted(name)}"
            )
    return problems


def _check_subgraphs(graph: Graph, node: Node) -> list[str]:
    problems: list[str] = []
    needed: dict[str, None] = {}
    for name, subgraph in node.subgraphs.items():
        if subgraph.parent is not graph:
            problems.append(f"{node}: the parent of {quoted(name)} is another graph")
        problems += check_consistency(subgraph)
        needed.update(dict.fromkeys(subgraph.outer_values()))
    if set(needed) != set(node.implicit_inputs):
        problems.append(
            f"{node}: its implicit inputs are {node.implicit_inputs}, its sub-graphs take"
            f" {tuple(needed)}"
        )
    return problems
