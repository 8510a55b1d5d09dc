"""Finds the integers of a graph that are sizes, positions or indices, and so fit in 24 bits.

A library that computes integers in 32 bits, or by way of float32, is right about these and about no
others. An integer is *small* where it is made of sizes, positions and small constants alone; it is
an *index* where nothing but sizes, positions and indices of other nodes are made of it. The index
of a tensor's element is below the tensor's size, whoever computes it.

Floats count, too, where they are computed of small integers and constants, as sizes that are scaled
are: of these, integers are made again.

The limit of what is known here: a product of sizes is taken for small, which a tensor of more than
2**24 elements breaks.
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

#: Operators that make sizes, positions or indices: which of their outputs.
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
#: Operators that move elements and compute nothing: in which slots they take them.
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
#: Operators whose results are small where all that they compute of is.
_KEEPS_SMALL = frozenset(
    {
        "Abs", "Add", "Clip", "CumSum", "Div", "Max", "Min", "Mod", "Mul", "Neg", "Range",
        "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Sign", "Sub", "Trilu",
        # of floats
        "Ceil", "Floor", "Log", "Round", "Sqrt",
    }
)  # fmt: skip
#: Slots of sizes, axes and indices. A value that makes no sense there is an error anyway.
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
#: Slots that mean "as far as there is", so that constants of any size stand in them.
LIMIT_SLOTS: Mapping[str, frozenset[int]] = {
    "Slice": frozenset({1, 2}),
    "Trilu": frozenset({1}),
}
#: Operators that look at no element.
_SIZES_ALONE = frozenset({"Shape", "Size"})
#: What may lie between an integer and the index that is made of it: right in 32 bits, wrapped.
_MAKES_INDEX = frozenset({"Add", "Mul", "Sub"})
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
    """The element type of a tensor; None for what is no tensor, or unknown."""
    found = graph.type_of(value)
    return found.element_type if isinstance(found, TensorType) else None


class OuterIntegers:
    """Small integers of a graph around another one, looked for once somebody asks."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._own: SmallIntegers | None = None

    def is_small(self, value: str) -> bool:
        """Return True as :meth:`SmallIntegers.is_small` of that graph does."""
        if self._own is None:
            parent = self._graph.parent
            self._own = SmallIntegers(
                self._graph, None if parent is None else OuterIntegers(parent)
            )
        return self._own.is_small(value)


class SmallIntegers:
    """Small integers and indices of one graph; of graphs inside it, ask :meth:`inside`."""

    def __init__(
        self,
        graph: Graph,
        outer: SmallIntegers | OuterIntegers | None = None,
        inputs: Iterable[str] = (),
    ) -> None:
        """Goes through the graph once in each direction.

        Args:
            graph: its types inferred.
            outer: of the graph around it.
            inputs: those of the graph that are small.
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
        """Return True for an integer below 2**24 in magnitude, by where it comes from."""
        constant = self._graph.constant(value)
        if constant is not None:
            return _is_small_constant(constant)
        if value in self._small:
            return True
        is_outer = self._outer is not None and not self._graph.defines(value)
        return is_outer and self._outer is not None and self._outer.is_small(value)

    def is_index(self, value: str) -> bool:
        """Return True where only sizes, positions and indices are made of ``value``."""
        return value in self._indices

    def inside(self, node: Node, name: str) -> SmallIntegers:
        """The same of a graph inside ``node``, by the attribute that holds it."""
        return self._inside[node.index, name]

    # --- from where values are made ---------------------------------------------------------------

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
        """Follows values through branches and loop bodies."""
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
        """A state is small while it begins so and each turn of the body leaves it so."""
        ((name, body),) = node.subgraphs.items()
        states = {
            slot: body.inputs[slot]
            for slot in range(first_state, min(len(body.inputs), len(node.inputs)))
            if node.inputs[slot] and self.is_small(node.inputs[slot])
        }
        counter = set(body.inputs[:1]) if iteration else set()
        while True:
            found = SmallIntegers(body, self, {*counter, *states.values()})
            # A body's outputs stand as its inputs do, but for the number of the iteration.
            broken = [
                slot
                for slot in states
                if slot - passed < len(body.outputs)
                and not found.is_small(body.outputs[slot - passed])
            ]
            if not broken:
                break
            for slot in broken:
                del states[slot]
        self._inside[node.index, name] = found
        first = first_state - passed
        for slot, output in enumerate(node.outputs):
            at = slot + first
            if output and at < len(body.outputs) and found.is_small(body.outputs[at]):
                self._small.add(output)

    # --- to where values go -----------------------------------------------------------------------

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
        passes = node.op_type in MOVES or node.op_type in _MAKES_INDEX
        passes = passes or (
            node.op_type == "Cast" and element_type_of(self._graph, node.outputs[0]) in _INDEX_TYPES
        )
        return passes and all(output in self._indices for output in node.outputs if output)


def _is_small_constant(constant: Any) -> bool:
    if constant.element_type not in _NUMBERS or int(np.prod(constant.shape)) > _MOST_ELEMENTS:
        return False
    array = constant.numpy().astype(np.float64)  # in which no limit overflows
    return bool(np.all((array < SMALLEST_LARGE) & (array > -SMALLEST_LARGE)))


def _has_small_value(node: Node) -> bool:
    """Whether the value of a Constant or ConstantOfShape is small; floats are not."""
    number = node.attribute("value_int")
    numbers = node.attribute("value_ints")
    if number is not None or numbers is not None:
        values = (number,) if numbers is None else tuple(numbers)
        return all(abs(each) < SMALLEST_LARGE for each in values)
    tensor = node.attribute("value")
    return tensor is not None and _is_small_constant(tensor)
