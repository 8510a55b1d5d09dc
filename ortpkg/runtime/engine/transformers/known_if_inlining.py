"""Replace an ``If`` with a constant condition by the nodes of the branch that is taken.

Exporters write conditions about shapes, such as whether a dimension is 1; these become constant as
soon as the shape is known. Left in a branch, nodes would run on the last provider, and no fusion
could cross the branch's border.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.graph.graph import ONNX_DOMAIN, ArrayInitializer, Graph, Initializer, Node
from ortpkg.graph.initializers import MappedInitializer, SparseInitializer
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.engine.transformers.rewriting import constant_array
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

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
        _move(graph, branch, branch.node(index), names, if_node=node)
    for name, new in names.items():
        if name in branch.types and new not in graph.types:
            graph.set_type(new, branch.types[name])
        if name in branch.known_elements:
            graph.known_elements[new] = branch.known_elements[name]
    _hand_on(graph, node, branch, names)
    return True


def _branch(graph: Graph, node: Node) -> Graph | None:
    """Return the branch that every run takes; None if unknown, or if it cannot be moved."""
    condition = constant_array(graph, node.inputs[0], largest_nbytes=_CONDITION_NBYTES)
    if condition is None or condition.size != 1 or condition.dtype.kind != "b":
        return None
    branch = node.subgraphs.get("then_branch" if condition.reshape(-1)[0] else "else_branch")
    if branch is None or branch.inputs or len(branch.outputs) != len(node.outputs):
        return None
    if any(
        isinstance(initializer, SparseInitializer) for initializer in branch.initializers.values()
    ):
        return None
    return branch


def _new_names(graph: Graph, node: Node, branch: Graph) -> Mapping[str, str]:
    """Return a name for each value of the branch that the enclosing graphs do not use.

    A value that a node makes for an output of ``node`` takes that output's name.
    """
    names: dict[str, str] = {}
    for value, output in zip(branch.outputs, node.outputs, strict=True):
        if output and value not in names and branch.producer_of(value) is not None:
            names[value] = output
    node_outputs = (value for inner in branch.nodes for value in inner.outputs if value)
    for value in (*branch.initializers, *node_outputs):
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


def _move(
    graph: Graph, branch: Graph, inner: Node, names: Mapping[str, str], *, if_node: Node
) -> None:
    """Move a node of the branch to the graph that contains ``if_node``."""
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
        execution_provider=if_node.execution_provider,
        doc_string=inner.doc_string,
        metadata=inner.metadata,
        at=if_node,
    )


def _hand_on(graph: Graph, node: Node, branch: Graph, names: Mapping[str, str]) -> None:
    """Add an Identity for each output that no moved node makes, or that is a value's second one."""
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
