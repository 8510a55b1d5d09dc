"""Checks types of nodes' inputs against their operators, after inference.

Kernels go by the first type that a constraint is bound to, and numpy silently converts the others,
so mismatches have to be refused before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.operator_schemas import find_schema
from ortpkg.graph.topology import all_graphs
from ortpkg.graph.types import SparseTensorType

_MOST_TYPES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class _Formal:
    """The definition of an input.

    Attributes:
        constraint: the name of the type that it shares with other inputs; "" if each may have its
            own.
        allowed: the types, as ONNX writes them.
    """

    constraint: str
    allowed: frozenset[str]


@cache
def _formals_of(domain: str, op_type: str, version: int) -> tuple[_Formal, ...]:
    schema = find_schema(domain, op_type, version)
    if schema is None:
        return ()
    return tuple(
        _Formal(formal.type_str if formal.is_homogeneous else "", frozenset(formal.types))
        for formal in schema.inputs
    )


def forget_input_types() -> None:
    """Make the next check read definitions anew, after one was added or removed."""
    _formals_of.cache_clear()


def verify_types(graph: Graph) -> None:
    """Raise InvalidGraphError, naming the node, if types of inputs or branches do not fit.

    Sub-graphs are included. Not checked are operators without a definition, values of unknown type,
    and sparse ones, which operators take as dense tensors.
    """
    for current in all_graphs(graph):
        for node in current.nodes:
            if node.op_type == "If" and node.domain == ONNX_DOMAIN:
                _verify_branches(node)
            formals = _formals_of(node.domain, node.op_type, node.since_version)
            if formals:
                _verify_inputs(current, node, formals)


def _verify_inputs(graph: Graph, node: Node, formals: tuple[_Formal, ...]) -> None:
    bound: dict[str, tuple[str, str]] = {}
    for slot, value in enumerate(node.inputs):
        value_type = graph.type_of(value) if value else None
        if value_type is None or isinstance(value_type, SparseTensorType):
            continue
        formal, type_text = formals[min(slot, len(formals) - 1)], str(value_type)
        if type_text not in formal.allowed:
            shown = sorted(formal.allowed)[:_MOST_TYPES_SHOWN]
            rest = ", ..." if len(formal.allowed) > len(shown) else ""
            raise InvalidGraphError(
                f"{node} takes {quoted(value)}, a {type_text}; {node.op_type} of version"
                f" {node.since_version} takes there {', '.join(shown)}{rest}",
                node_name=node.name,
            )
        if not formal.constraint:
            continue
        first, expected = bound.setdefault(formal.constraint, (value, type_text))
        if expected != type_text:
            raise InvalidGraphError(
                f"{node} takes {quoted(first)}, a {expected}, and {quoted(value)}, a {type_text};"
                " they must be of one type",
                node_name=node.name,
            )


def _verify_branches(node: Node) -> None:
    """Check that both branches of an If return each output in one type, as ONNX demands.

    Sizes may differ.
    """
    then, other = node.subgraphs.get("then_branch"), node.subgraphs.get("else_branch")
    if then is None or other is None:
        return
    for output, *made in zip(node.outputs, then.outputs, other.outputs, strict=False):
        types = [inner.type_of(value) for inner, value in zip((then, other), made, strict=True)]
        if None not in types and str(types[0]) != str(types[1]):
            raise InvalidGraphError(
                f"{node} gives {quoted(output)}, in its then_branch a {types[0]}, in its"
                f" else_branch a {types[1]}; they must be of one type",
                node_name=node.name,
            )
