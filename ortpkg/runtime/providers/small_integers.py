"""Finds the integers of a graph that are sizes, positions or indices, and so fit in 24 bits.

A library that computes integers in 32 bits, or in float32, is right about these only. An integer is
*small* if it is computed from sizes, positions and small constants alone. It is an *index* if it is
used as a size, a position or an index of other nodes only, unchanged; an index that is used is
below the size of a tensor.

Floats count as small if they are computed from small integers and constants, as scaled sizes are,
because they become integers again.

Known limit: a product of sizes counts as small, which is wrong for tensors of more than 2**24
elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType, TensorType

#: Above this, float32 skips integers.
SMALLEST_LARGE = 1 << 24
#: Constants with more elements are tables of data.
_MOST_ELEMENTS = 1 << 16

#: Operators that make sizes, positions or indices → the outputs that hold these.
_SOURCES: Mapping[str, tuple[int, ...]] = {
    "ArgMax": (0,),
    "ArgMin": (0,),
    "EyeLike": (0,),
    "NonMaxSuppression": (0,),
    "NonZero": (0,),
    "Shape": (0,),
    "Size": (0,),
    "TopK": (1,),
}
#: Operators that only move elements → the input slots of these elements; None for all.
MOVES: Mapping[str, tuple[int, ...] | None] = {
    "Compress": (0,),
    "Concat": None,
    "DepthToSpace": (0,),
    "Expand": (0,),
    "Flatten": (0,),
    "Gather": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "Identity": (0,),
    "OneHot": (2,),
    "Pad": (0, 2),
    "Reshape": (0,),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "Slice": (0,),
    "SpaceToDepth": (0,),
    "Split": (0,),
    "Squeeze": (0,),
    "Tile": (0,),
    "Transpose": (0,),
    "Unsqueeze": (0,),
    "Where": (1, 2),
}
#: Operators whose output holds the elements of their first input, and no others.
KEEPS_ELEMENTS = frozenset(
    {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
#: Operators whose results are small if all their inputs are.
_KEEPS_SMALL = frozenset(
    {
        "Abs", "Add", "Clip", "CumSum", "Div", "Max", "Min", "Mod", "Mul", "Neg", "Range",
        "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Sign", "Sub", "Trilu",
        # of floats
        "Ceil", "Floor", "Log", "Round", "Sqrt",
    }
)  # fmt: skip
#: Input slots of sizes, axes and indices, by operator. Senseless values there are errors anyway.
INDEX_SLOTS: Mapping[str, frozenset[int]] = {
    "ConstantOfShape": frozenset({0}),
    "CumSum": frozenset({1}),
    "Expand": frozenset({1}),
    "Gather": frozenset({1}),
    "GatherElements": frozenset({1}),
    "GatherND": frozenset({1}),
    "Loop": frozenset({0}),
    "OneHot": frozenset({1}),
    "Pad": frozenset({1, 3}),
    "ReduceL1": frozenset({1}),
    "ReduceL2": frozenset({1}),
    "ReduceLogSum": frozenset({1}),
    "ReduceLogSumExp": frozenset({1}),
    "ReduceMax": frozenset({1}),
    "ReduceMean": frozenset({1}),
    "ReduceMin": frozenset({1}),
    "ReduceProd": frozenset({1}),
    "ReduceSum": frozenset({1}),
    "ReduceSumSquare": frozenset({1}),
    "Reshape": frozenset({1}),
    "Resize": frozenset({3}),
    "RoiAlign": frozenset({2}),
    "ScatterElements": frozenset({1}),
    "ScatterND": frozenset({1}),
    "Slice": frozenset({3, 4}),
    "Split": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Tile": frozenset({1}),
    "TopK": frozenset({1}),
    "Unsqueeze": frozenset({1}),
}
#: Input slots that are clamped to the axis, so that a constant there may be of any size.
LIMIT_SLOTS: Mapping[str, frozenset[int]] = {
    "Slice": frozenset({1, 2}),
    "Trilu": frozenset({1}),
}
#: Operators that read the shape and no element.
_SIZES_ALONE = frozenset({"Shape", "Size"})
_INDEX_TYPES = frozenset({ElementType.INT32, ElementType.INT64})

_SCAN_WITHOUT_BATCH = 9

INTEGERS = frozenset(
    {
        ElementType.INT8, ElementType.UINT8, ElementType.INT16, ElementType.UINT16,
        ElementType.INT32, ElementType.UINT32, ElementType.INT64, ElementType.UINT64,
    }
)  # fmt: skip


_NUMBERS = INTEGERS | {ElementType.FLOAT, ElementType.FLOAT16}


def element_type_of(graph: Graph, value: str) -> ElementType | None:
    """Return the element type of a tensor; None for other values and unknown types."""
    value_type = graph.type_of(value)
    return value_type.element_type if isinstance(value_type, TensorType) else None


class OuterIntegers:
    """Small integers of an enclosing graph, computed on first use."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._own: SmallIntegers | None = None

    def is_small(self, value: str) -> bool:
        """Return True if the value is small in that graph; see :meth:`SmallIntegers.is_small`."""
        if self._own is None:
            parent = self._graph.parent
            self._own = SmallIntegers(
                self._graph, None if parent is None else OuterIntegers(parent)
            )
        return self._own.is_small(value)


class SmallIntegers:
    """Small integers and indices of one graph; :meth:`inside` returns those of its subgraphs."""

    def __init__(
        self,
        graph: Graph,
        outer: SmallIntegers | OuterIntegers | None = None,
        inputs: Iterable[str] = (),
    ) -> None:
        """Walk the graph once in each direction.

        Args:
            graph: with inferred types.
            outer: small integers of the enclosing graph, if there is one.
            inputs: inputs of the graph that are small.
        """
        self._graph = graph
        self._outer = outer
        self._small = set(inputs)
        self._inside: dict[tuple[int, str], SmallIntegers] = {}
        order = [graph.node(index) for index in topological_order(graph)]
        for node in order:
            self._follow(node)
        self._indices = self._find_indices(reversed(order))

    def is_small(self, value: str) -> bool:
        """Return True if the value's origin shows that it is below 2**24 in magnitude."""
        constant = self._graph.constant(value)
        if constant is not None:
            return _is_small_constant(constant)
        if value in self._small:
            return True
        is_outer = self._outer is not None and not self._graph.defines(value)
        return is_outer and self._outer is not None and self._outer.is_small(value)

    def is_index(self, value: str) -> bool:
        """Return True if ``value`` is used only as size, position or index, unchanged."""
        return value in self._indices

    def inside(self, node: Node, name: str) -> SmallIntegers:
        """Return the small integers of a subgraph of ``node``, by its attribute's name."""
        return self._inside[node.index, name]

    # --- small values, in the direction of the graph ---------------------------------------------

    def _follow(self, node: Node) -> None:
        if node.subgraphs:
            self._enter(node)
            return
        if node.domain not in ("", "ai.onnx"):
            return
        slots = _SOURCES.get(node.op_type)
        if slots is not None:
            self._small.update(node.outputs[slot] for slot in slots if slot < len(node.outputs))
        elif self._makes_small(node):
            self._small.update(filter(None, node.outputs))

    def _makes_small(self, node: Node) -> bool:
        if node.op_type in ("Constant", "ConstantOfShape"):
            return _has_small_value(node)
        if node.op_type == "Cast":
            source = element_type_of(self._graph, node.inputs[0])
            return source is ElementType.BOOL or self._is_small_input(node.inputs[0])
        if node.op_type in MOVES:
            moved = MOVES[node.op_type]
            slots = range(len(node.inputs)) if moved is None else moved
            values = [node.inputs[slot] for slot in slots if slot < len(node.inputs)]
            return all(self._is_small_input(value) for value in values if value)
        if node.op_type in _KEEPS_SMALL:
            indices = INDEX_SLOTS.get(node.op_type, frozenset())
            values = [value for slot, value in enumerate(node.inputs) if slot not in indices]
            return all(self._is_small_input(value) for value in values if value)
        return False

    def _is_small_input(self, value: str) -> bool:
        return element_type_of(self._graph, value) in _NUMBERS and self.is_small(value)

    def _enter(self, node: Node) -> None:
        """Follow values into branches and loop bodies."""
        if node.op_type == "Loop":
            self._enter_body(node, first_state=2, passed=1, iteration=True)
        elif node.op_type == "Scan" and node.since_version >= _SCAN_WITHOUT_BATCH:
            self._enter_body(node, first_state=0, passed=0, iteration=False)
        else:
            graphs = node.subgraphs
            for name, graph in graphs.items():
                self._inside[node.index, name] = SmallIntegers(graph, self)
            for slot, output in enumerate(node.outputs):
                ends = [
                    self._inside[node.index, name].is_small(graph.outputs[slot])
                    for name, graph in graphs.items()
                    if slot < len(graph.outputs)
                ]
                if node.op_type == "If" and output and all(ends):
                    self._small.add(output)

    def _enter_body(self, node: Node, *, first_state: int, passed: int, iteration: bool) -> None:
        """Find small loop states: small at first, and small after each iteration of the body."""
        ((name, body),) = node.subgraphs.items()
        states = {
            slot: body.inputs[slot]
            for slot in range(first_state, min(len(body.inputs), len(node.inputs)))
            if node.inputs[slot] and self.is_small(node.inputs[slot])
        }
        counter = set(body.inputs[:1]) if iteration else set()
        while True:
            integers = SmallIntegers(body, self, {*counter, *states.values()})
            # A body's outputs stand as its inputs do, but for the number of the iteration.
            broken = [
                slot
                for slot in states
                if slot - passed < len(body.outputs)
                and not integers.is_small(body.outputs[slot - passed])
            ]
            if not broken:
                break
            for slot in broken:
                del states[slot]
        self._inside[node.index, name] = integers
        first = first_state - passed
        for slot, output in enumerate(node.outputs):
            body_slot = slot + first
            if (
                output
                and body_slot < len(body.outputs)
                and integers.is_small(body.outputs[body_slot])
            ):
                self._small.add(output)

    # --- indices, against the direction of the graph ----------------------------------------------

    def _find_indices(self, backwards: Iterable[Node]) -> set[str]:
        self._indices = set()
        for node in backwards:
            for output in node.outputs:
                if output and self._ends_as_index(output):
                    self._indices.add(output)
        for value in (*self._graph.inputs, *self._graph.initializers):
            if self._ends_as_index(value):
                self._indices.add(value)
        return self._indices

    def _ends_as_index(self, value: str) -> bool:
        if element_type_of(self._graph, value) not in _INDEX_TYPES or self._graph.is_output(value):
            return False
        uses = self._graph.consumers_of(value)
        return bool(uses) and all(self._is_index_use(use.node_index, use.slot) for use in uses)

    def _is_index_use(self, node_index: int, slot: int) -> bool:
        node = self._graph.node(node_index)
        if node.domain not in ("", "ai.onnx") or slot < 0:
            return False
        if node.op_type in _SIZES_ALONE:
            return True
        if slot in INDEX_SLOTS.get(node.op_type, ()):
            return True
        # Arithmetic would wrap a number that 32 bits do not hold, perhaps to an index that exists.
        passes = node.op_type in KEEPS_ELEMENTS and slot == 0
        passes = passes and element_type_of(self._graph, node.outputs[0]) in _INDEX_TYPES
        return passes and all(output in self._indices for output in node.outputs if output)


def _is_small_constant(constant: Any) -> bool:
    if constant.element_type not in _NUMBERS or int(np.prod(constant.shape)) > _MOST_ELEMENTS:
        return False
    array = constant.numpy().astype(np.float64)  # in which no limit overflows
    return bool(np.all((array < SMALLEST_LARGE) & (array > -SMALLEST_LARGE)))


def _has_small_value(node: Node) -> bool:
    """Return True if the value of a Constant or ConstantOfShape is small; floats are not."""
    number = node.attribute("value_int")
    numbers = node.attribute("value_ints")
    if number is not None or numbers is not None:
        values = (number,) if numbers is None else tuple(numbers)
        return all(abs(integer) < SMALLEST_LARGE for integer in values)
    tensor = node.attribute("value")
    return tensor is not None and _is_small_constant(tensor)
