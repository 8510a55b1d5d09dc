"""Tables of operators that a native library computes otherwise than ONNX defines them.

A row names operators, describes the difference, and tells which of their nodes have it. A library
is not given such nodes (``LibraryTraits.faults``), whether it was named or not. Each row has a
model in the tests that the library itself gets wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, Shape, TensorType

RowsByOperator = Mapping[tuple[str, str], tuple["Difference", ...]]


@dataclass(frozen=True, slots=True)
class NodeCall:
    """Node in its graph, with what is known of its inputs before it runs."""

    graph: Graph
    node: Node

    def has_input(self, slot: int) -> bool:
        """Return True unless the input is left out."""
        return self.node.inputs[slot : slot + 1] not in ((), ("",))

    def has_output(self, slot: int) -> bool:
        """Return True unless the output is left out."""
        return self.node.outputs[slot : slot + 1] not in ((), ("",))

    def is_constant(self, slot: int) -> bool:
        """Return True if the input is a constant or left out."""
        if not self.has_input(slot):
            return True
        value = self.node.inputs[slot]
        maker = self.graph.producer_of(value)
        return self.graph.constant(value) is not None or (
            maker is not None and maker.op_type == "Constant"
        )

    def numbers(self, slot: int) -> tuple[float, ...] | None:
        """Return the elements of an input that is an initializer, flat; None for others."""
        constant = self.graph.constant(self.node.inputs[slot]) if self.has_input(slot) else None
        return None if constant is None else tuple(map(float, constant.numpy().ravel()))

    def is_row_of_constants(self, slot: int) -> bool:
        """Return True for a constant input of several elements, or of an unknown number of them."""
        if not self.has_input(slot) or not self.is_constant(slot):
            return False
        constant = self.graph.constant(self.node.inputs[slot])
        return constant is None or math.prod(constant.shape) > 1

    def input_type(self, slot: int) -> ElementType | None:
        """Return the element type of an input; None if it is left out, no tensor or unknown."""
        declared = self.graph.type_of(self.node.inputs[slot]) if self.has_input(slot) else None
        return declared.element_type if isinstance(declared, TensorType) else None

    def shape(self, slot: int) -> Shape | None:
        """Return the shape of an input; None if it is left out, no tensor or unknown."""
        declared = self.graph.type_of(self.node.inputs[slot]) if self.has_input(slot) else None
        return declared.shape if isinstance(declared, TensorType) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Row of a table.

    Attributes:
        name: name of the row, for tests and documents.
        operators: operators of the row; empty for all operators of the domain.
        behaviour: behaviour of the library, in words; a fragment that begins with "it" or the
            subject.
        applies: returns True for the nodes of these operators that are affected; takes the
            :class:`NodeCall` of the table, or its subclass with more knowledge.
        domain: domain of the operators.
    """

    name: str
    operators: tuple[str, ...]
    behaviour: str
    applies: Callable[[Any], bool] = lambda _call: True
    domain: str = ""

    def fault(self, node: Node) -> str:
        """Return the reason for which the library is not given a node of the row."""
        operator = f"{self.domain}:{node.op_type}" if self.domain else node.op_type
        return f"it would get {operator} wrong: {self.behaviour}"


def by_operator(rows: Iterable[Difference]) -> RowsByOperator:
    """Index rows by domain and operator; those of all operators are left out."""
    table: dict[tuple[str, str], tuple[Difference, ...]] = {}
    for row in rows:
        for operator in row.operators:
            key = (row.domain, operator)
            table[key] = (*table.get(key, ()), row)
    return table


def domain_of(node: Node) -> str:
    """Return the domain of a node's operator, "" for ONNX's own."""
    return "" if node.domain == "ai.onnx" else node.domain
