"""Keeps from onnx's shape inference what would crash it or never end: it runs in our process, on strangers' models.

Found by fuzzing onnx 1.23: every operator and version with missing, untyped, oddly typed and oddly sized inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import onnx

from ortpkg.errors import InvalidGraphError, quoted
from ortpkg.graph.graph import Graph
from ortpkg.graph.limits import ModelLimits
from ortpkg.graph.proto_walk import walk_graphs, walk_nodes

#: Operators whose inference reads the type of an input without asking whether there is one.
CRASHES_ON_UNTYPED = frozenset({"DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble"})
_HIDDEN_DOMAIN = "ortpkg.hidden"

_TERM = r"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(f"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """``graph`` and the graphs inside it, in no particular order."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        for node in current.nodes:
            pending.extend(node.subgraphs.values())


def verify_equations(graph: Graph) -> None:
    """Raises InvalidGraphError for an Einsum equation that is none; on some of these inference never ends."""
    for current in all_graphs(graph):
        for node in current.nodes:
            if node.op_type != "Einsum":
                continue
            equation = node.attribute("equation", "")
            if not isinstance(equation, str) or not _EQUATION.fullmatch(equation):
                raise InvalidGraphError(
                    f"{node} has the equation {quoted(equation)}; terms of letters with at most one ellipsis, "
                    "separated by commas, and an arrow before the last were expected",
                    node_name=node.name,
                )


def hide_nodes_that_crash(proto: onnx.ModelProto) -> int:
    """Gives nodes of :data:`CRASHES_ON_UNTYPED` with untyped inputs a domain that inference does not know; how many."""
    limits = ModelLimits()
    nodes = [node for node in walk_nodes(proto, limits=limits) if node.op_type in CRASHES_ON_UNTYPED]
    if not nodes:
        return 0
    typed: set[str] = set()
    for graph in walk_graphs(proto, limits=limits):
        typed |= {tensor.name for tensor in graph.initializer}
        for values in (graph.input, graph.output, graph.value_info):
            typed |= {value.name for value in values if value.type.WhichOneof("value")}
    hidden = [node for node in nodes if not typed.issuperset(node.input)]
    hide(proto, hidden)
    return len(hidden)


def hide(proto: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Gives ``nodes`` of ``proto`` a domain that inference does not know."""
    for node in nodes:
        node.domain = _HIDDEN_DOMAIN
    if all(opset.domain != _HIDDEN_DOMAIN for opset in proto.opset_import):
        proto.opset_import.add(domain=_HIDDEN_DOMAIN, version=1)  # or inference refuses the whole model
