"""Checks nodes against their operators: numbers of inputs and outputs, attributes, loop bodies.

ONNX's own shape inference and many rewrite rules read inputs and attributes by position and type
without checking that they exist. This is checked once, when a model is read, so that later stages
need no checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import onnx.defs

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.attribute_checks import attribute_problems
from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.graph.operator_schemas import find_schema
from ortpkg.graph.types import MOST_DIMENSIONS

_Option = onnx.defs.OpSchema.FormalParameterOption
#: Attribute kinds whose empty lists are interchangeable: exporters have written one for another.
_EMPTY_LIST_KINDS = frozenset({"FLOATS", "INTS", "STRINGS"})
_MOST = 1 << 31
#: Attributes that number or count axes; inference cuts them to 32 bits before it looks at them, or
#: counts to them.
_AXES = frozenset({
    "axes", "axis", "batch_axis", "batch_dims", "perm", "scan_input_axes", "scan_output_axes",
    "time_axis",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Formals:
    """The form of a node according to its definition.

    It is read once from the schema, where every look-up makes new lists.

    Attributes:
        inputs, outputs: (least, most) numbers of them.
        needed: for each input by position, True if it must exist.
        kinds: attribute name → type name; ``required``: names of attributes that a node must have.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: tuple[bool, ...]
    kinds: Mapping[str, str]
    required: tuple[str, ...]


@cache
def _formals_of(domain: str, op_type: str, opset: int) -> _Formals | None:
    schema = find_schema(domain, op_type, opset)
    if schema is None:
        return None
    kinds = {
        name: str(attribute.type).rsplit(".", maxsplit=1)[-1]
        for name, attribute in schema.attributes.items()
    }
    return _Formals(
        inputs=(schema.min_input, min(schema.max_input, _MOST)),
        outputs=(schema.min_output, min(schema.max_output, _MOST)),
        needed=tuple(formal.option == _Option.Single for formal in schema.inputs),
        kinds=kinds,
        required=tuple(
            sorted(name for name, attribute in schema.attributes.items() if attribute.required)
        ),
    )


def forget_formals() -> None:
    """Make the next check read definitions anew, after one was added or removed."""
    _formals_of.cache_clear()


def verify_schemas(graph: Graph) -> None:
    """Raise InvalidGraphError, naming the node, for one that its operator does not allow.

    Sub-graphs are included. Operators without a definition, and attributes that are not in a
    definition, are not checked.
    """
    pending = [graph]
    while pending:
        current = pending.pop()
        for node in current.nodes:
            formals = _formals_of(node.domain, node.op_type, node.since_version)
            if formals is None:
                _refuse_first(_problems_of_any(node), node)
            else:
                _refuse_first(_problems(node, formals), node)
            pending.extend(node.subgraphs.values())


def _refuse_first(problems: Iterator[str], node: Node) -> None:
    problem = next(problems, None)
    if problem is not None:
        raise InvalidGraphError(f"{node} {problem}", node_name=node.name)


def _problems_of_any(node: Node) -> Iterator[str]:
    if not node.outputs:
        yield "has no outputs; a node without any does nothing"
    yield from attribute_problems(node)


def _problems(node: Node, formals: _Formals) -> Iterator[str]:
    for what, count, (least, most) in (
        ("inputs", len(node.inputs), formals.inputs),
        ("outputs", len(node.outputs), formals.outputs),
    ):
        if not least <= count <= most:
            expected = (
                f"{least}"
                if least == most
                else f"{least} or more"
                if most == _MOST
                else f"{least} to {most}"
            )
            yield (
                f"has {count} {what}; {node.op_type} of version {node.since_version} has {expected}"
            )
    for slot, (value, is_needed) in enumerate(zip(node.inputs, formals.needed, strict=False)):
        if is_needed and not value:
            yield f"leaves out input {slot}, which {node.op_type} needs"
    for name in formals.required:
        if name not in node.attributes:
            yield f"lacks the attribute {quoted(name)}, which {node.op_type} needs"
    for name, attribute in node.attributes.items():
        expected_kind = formals.kinds.get(name)
        if expected_kind is not None and not _is_of_kind(attribute, expected_kind):
            yield (
                f"has the attribute {quoted(name)} of type {attribute.kind}; {expected_kind} was"
                " expected"
            )
        if name in _AXES and any(abs(axis) > MOST_DIMENSIONS for axis in _integers(attribute)):
            yield (
                f"has the attribute {quoted(name)} of {attribute.value}; no tensor has over"
                f" {MOST_DIMENSIONS} axes"
            )
    check = _FURTHER_PROBLEMS.get((node.domain, node.op_type))
    if check is not None:
        yield from check(node)
    yield from attribute_problems(node)


def _integers(attribute: Attribute) -> tuple[int, ...]:
    if attribute.kind == "INT":
        return (attribute.value,)
    return tuple(attribute.value) if attribute.kind == "INTS" else ()


def _is_of_kind(attribute: Attribute, expected: str) -> bool:
    if attribute.kind == expected:
        return True
    return (
        expected in _EMPTY_LIST_KINDS
        and attribute.kind in _EMPTY_LIST_KINDS
        and not attribute.value
    )


# --- sub-graphs -----------------------------------------------------------------------------------


def _if_problems(node: Node) -> Iterator[str]:
    for name, branch in node.subgraphs.items():
        yield from _count_problems(name, "inputs", len(branch.inputs), 0)
        yield from _count_problems(name, "outputs", len(branch.outputs), len(node.outputs))


def _loop_problems(node: Node) -> Iterator[str]:
    """Body: (iteration, condition, states...) → (condition, states..., scan outputs...)."""
    states = max(len(node.inputs) - 2, 0)
    for name, body in node.subgraphs.items():
        yield from _count_problems(name, "inputs", len(body.inputs), 2 + states)
        yield from _count_problems(
            name, "outputs", len(body.outputs), max(1 + len(node.outputs), 1 + states)
        )


def _scan_problems(node: Node) -> Iterator[str]:
    """Body: (states..., scan inputs...) → (states..., scan outputs...).

    Version 8 has sequence lengths before them.
    """
    input_count = len(node.inputs) - (1 if node.since_version < 9 else 0)
    scanned = node.attribute("num_scan_inputs", 0)
    if not 0 < scanned <= input_count:
        yield f"scans {scanned} inputs; it has {input_count}, of which at least one is scanned"
    for name, body in node.subgraphs.items():
        yield from _count_problems(name, "inputs", len(body.inputs), input_count)
        yield from _count_problems(
            name, "outputs", len(body.outputs), max(len(node.outputs), input_count - scanned)
        )


def _count_problems(name: str, what: str, count: int, expected: int) -> Iterator[str]:
    if count != expected:
        yield (
            f"has a {quoted(name)} of {count} {what}; with the node's own inputs and outputs it"
            f" needs {expected}"
        )


# --- attributes that inference takes at their word ------------------------------------------------


def _split_problems(node: Node) -> Iterator[str]:
    count = node.attribute("num_outputs")
    if count is not None and count != len(node.outputs):
        yield f"has {len(node.outputs)} outputs, but its attribute 'num_outputs' says {count}"


def _gather_nd_problems(node: Node) -> Iterator[str]:
    count = node.attribute("batch_dims", 0)
    if count < 0:
        yield f"has the attribute 'batch_dims' of {count}; a number of dimensions was expected"


_TERM = r"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(f"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")


def _einsum_problems(node: Node) -> Iterator[str]:
    equation = node.attribute("equation", "")
    if not isinstance(equation, str) or not _EQUATION.fullmatch(equation):
        yield (
            f"has the equation {quoted(equation)}; terms of letters with at most one ellipsis,"
            " separated by commas, and an arrow before the last were expected"
        )


_FURTHER_PROBLEMS = {
    ("", "Einsum"): _einsum_problems,
    ("", "If"): _if_problems,
    ("", "Loop"): _loop_problems,
    ("", "Scan"): _scan_problems,
    ("", "Split"): _split_problems,
    ("", "GatherND"): _gather_nd_problems,
}
