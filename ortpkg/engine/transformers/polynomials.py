"""Arithmetic on a value and a gate made of it, as polynomials, however the model wrote it.

So a rule finds x · (1 + erf(x / √2)) / 2 whatever the order of its products and sums, and wherever
its constants stand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ortpkg.engine.transformers.patterns import made_by, same_shape, scalar
from ortpkg.engine.transformers.rewriting import known_shape, sole_consumer, tensor_type
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType

#: (power of x, power of the gate) → coefficient.
Polynomial = Mapping[tuple[int, int], float]

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "Neg")
_MOST_NODES = 12
_MOST_STEPS_UP = 4
_HIGHEST_POWER = 4
_NARROW = frozenset({ElementType.FLOAT16, ElementType.BFLOAT16})
_FIRST_VERSION_WITH_BROADCASTING = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A value that is a polynomial in ``x`` and a gate, a function of another one in ``x``.

    Attributes:
        x: the value.
        argument: of the gate's function.
        nodes: all nodes, the one that makes the result last.
        element_type: of the result.
    """

    x: str
    argument: Polynomial
    nodes: list[Node]
    element_type: ElementType


def match_gated(graph: Graph, gate: Node, result: Polynomial) -> Gated | None:
    """The nodes that make ``result`` of what ``gate`` is made of; None where there are none."""
    x = _shared_leaf(graph, gate.inputs[0])
    if x is None:
        return None
    below = _Expression(graph, x, None)
    argument = below.of(gate.inputs[0])
    if argument is None:
        return None
    value = gate.outputs[0]
    for _ in range(_MOST_STEPS_UP):
        node = sole_consumer(graph, value)
        if node is None or node.domain != ONNX_DOMAIN or node.op_type not in _ARITHMETIC:
            return None
        value = node.outputs[0]
        above = _Expression(graph, x, gate.outputs[0])
        found = above.of(value)
        known = tensor_type(graph, value)
        if found is None or known is None:
            return None
        if is_close(found, result, known.element_type):
            if not same_shape(known.shape, known_shape(graph, x)):
                return None
            inner = {**below.nodes, gate.index: gate, **above.nodes}
            nodes = [other for other in inner.values() if other is not node]
            return Gated(
                x=x, argument=argument, nodes=[*nodes, node], element_type=known.element_type
            )
    return None


def is_close(found: Polynomial, wanted: Polynomial, element_type: ElementType) -> bool:
    """Whether coefficients agree as far as the type's precision lets a model state them."""
    tolerance = 2e-3 if element_type in _NARROW else 1e-5
    return found.keys() == wanted.keys() and all(
        math.isclose(found[powers], wanted[powers], rel_tol=tolerance) for powers in wanted
    )


def _shared_leaf(graph: Graph, value: str) -> str | None:
    """The one value that others use too, which ``value`` is computed from with constants.

    None where there is none.
    """
    leaves: dict[str, None] = {}
    pending = [value]
    for _ in range(_MOST_NODES):
        if not pending:
            break
        current = pending.pop()
        if graph.is_constant(current):
            continue
        producer = made_by(graph, current, *_ARITHMETIC)
        if producer is None or graph.use_count(current) != 1:
            leaves[current] = None
        else:
            pending += producer.inputs
    return next(iter(leaves)) if len(leaves) == 1 and not pending else None


class _Expression:
    """Polynomials of values in ``x`` and ``gate``; collects the nodes that it meets."""

    def __init__(self, graph: Graph, x: str, gate: str | None) -> None:
        self._graph = graph
        self._x = x
        self._gate = gate
        shape = known_shape(graph, x)
        self._rank = 0 if shape is None else len(shape)
        self.nodes: dict[int, Node] = {}

    def of(self, value: str) -> Polynomial | None:
        """None where ``value`` is no polynomial of low degree, or too large an expression."""
        if value == self._x:
            return {(1, 0): 1.0}
        if value == self._gate:
            return {(0, 1): 1.0}
        number = scalar(self._graph, value, most_dimensions=self._rank)
        if number is not None:
            return {(0, 0): number}
        node = made_by(self._graph, value, *_ARITHMETIC)
        if node is None or len(self.nodes) >= _MOST_NODES or not _broadcasts(node):
            return None
        self.nodes[node.index] = node
        terms = [self.of(operand) for operand in node.inputs]
        known = [term for term in terms if term is not None]
        return _combined(node.op_type, known) if len(known) == len(terms) else None


def _broadcasts(node: Node) -> bool:
    return node.op_type == "Neg" or node.since_version >= _FIRST_VERSION_WITH_BROADCASTING


def _combined(op_type: str, terms: list[Polynomial]) -> Polynomial | None:
    if op_type == "Neg":
        return _scaled(terms[0], -1)
    left, right = terms
    if op_type == "Mul":
        return _product(left, right)
    if op_type in ("Add", "Sub"):
        right = _scaled(right, -1 if op_type == "Sub" else 1)
        total = {key: left.get(key, 0.0) + right.get(key, 0.0) for key in (*left, *right)}
        return {key: value for key, value in total.items() if value}
    divisor = right.get((0, 0), 0.0)
    if len(right) != 1 or not divisor:
        return None
    if op_type == "Div":
        return _scaled(left, 1 / divisor)
    if divisor not in (1, 2, 3):
        return None
    result: Polynomial | None = {(0, 0): 1.0}
    for _ in range(int(divisor)):
        result = None if result is None else _product(result, left)
    return result


def _scaled(polynomial: Polynomial, factor: float) -> Polynomial:
    return {key: value * factor for key, value in polynomial.items()}


def _product(left: Polynomial, right: Polynomial) -> Polynomial | None:
    total: dict[tuple[int, int], float] = {}
    for (x, gate), a in left.items():
        for (other_x, other_gate), b in right.items():
            key = (x + other_x, gate + other_gate)
            if sum(key) > _HIGHEST_POWER:
                return None
            total[key] = total.get(key, 0.0) + a * b
    return total
