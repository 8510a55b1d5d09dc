"""``If`` whose condition is a constant becomes the nodes of its branch.

Exporters ask what only the export knew, such as whether a dimension is 1; the answer is constant
as soon as the shape is. Nodes in a branch are left to the last provider, and no fusion looks across
its border.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.engine.transformers.rewriting import constant_array
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, ArrayInitializer, Graph, Initializer, Node
from ortpkg.graph.initializers import MappedInitializer, SparseInitializer
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.topology import topological_order

_CONDITION_NBYTES = 1


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    branch = _branch(graph, node)
    if branch is None:
        return False
    graph.remove_node(node)
    names = _new_names(graph, node, branch)
    for name, initializer in branch.initializers.items():
        graph.add_initializer(_renamed(initializer, names[name]))
    for index in topological_order(branch):
        _move(graph, branch, branch.node(index), names, at=node)
    for name, new in names.items():
        if name in branch.types and new not in graph.types:
            graph.set_type(new, branch.types[name])
        if name in branch.known_elements:
            graph.known_elements[new] = branch.known_elements[name]
    _hand_on(graph, node, branch, names)
    return True


def _branch(graph: Graph, node: Node) -> Graph | None:
    """The branch that every run takes; None where that is not known, or it cannot be moved."""
    condition = constant_array(graph, node.inputs[0], largest_nbytes=_CONDITION_NBYTES)
    if condition is None or condition.size != 1 or condition.dtype.kind != "b":
        return None
    branch = node.subgraphs.get("then_branch" if condition.reshape(-1)[0] else "else_branch")
    if branch is None or branch.inputs or len(branch.outputs) != len(node.outputs):
        return None
    if any(isinstance(each, SparseInitializer) for each in branch.initializers.values()):
        return None
    return branch


def _new_names(graph: Graph, node: Node, branch: Graph) -> Mapping[str, str]:
    """For each value of the branch a name that no graph around it has.

    What a node of it makes for an output of ``node`` gets the name of that.
    """
    names: dict[str, str] = {}
    for value, output in zip(branch.outputs, node.outputs, strict=True):
        if output and value not in names and branch.producer_of(value) is not None:
            names[value] = output
    made = (value for inner in branch.nodes for value in inner.outputs if value)
    for value in (*branch.initializers, *made):
        if value not in names:
            names[value] = graph.make_name(value)
    return names


def _renamed(initializer: Initializer, name: str) -> Initializer:
    if isinstance(initializer, MappedInitializer):
        return MappedInitializer(
            name=name,
            element_type=initializer.element_type,
            shape=initializer.shape,
            source=initializer.source,
            offset=initializer.offset,
        )
    return ArrayInitializer(name, initializer.numpy(), initializer.element_type)


def _move(graph: Graph, branch: Graph, inner: Node, names: Mapping[str, str], *, at: Node) -> None:
    """Adds a node of the branch to the graph around it."""
    branch.remove_node(inner)
    for subgraph in inner.subgraphs.values():
        for value in subgraph.outer_values():
            subgraph.replace_outer_uses(value, names.get(value, value))
        subgraph.parent = graph
    graph.add_node(
        inner.op_type,
        [names.get(value, value) for value in inner.inputs],
        [names.get(value, value) for value in inner.outputs],
        domain=inner.domain,
        name=inner.name,
        attributes=inner.attributes,
        since_version=inner.since_version,
        implicit_inputs=[names.get(value, value) for value in inner.implicit_inputs],
        execution_provider=at.execution_provider,
        doc_string=inner.doc_string,
        metadata=inner.metadata,
        at=at,
    )


def _hand_on(graph: Graph, node: Node, branch: Graph, names: Mapping[str, str]) -> None:
    """Makes outputs of what the branch only hands through, or hands out twice."""
    opset = graph.opset_imports.setdefault(ONNX_DOMAIN, 1)
    for value, output in zip(branch.outputs, node.outputs, strict=True):
        source = names.get(value, value)
        if output and source != output:
            graph.add_node(
                "Identity",
                (source,),
                (output,),
                since_version=resolve_since_version(ONNX_DOMAIN, "Identity", opset),
                execution_provider=node.execution_provider,
                at=node,
            )


KNOWN_IF_INLINING = RewriteRule(
    name="known-if-inlining", op_types=frozenset({"If"}), rewrite=_rewrite
)
