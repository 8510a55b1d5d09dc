"""A node in shape inference: the knowledge of its inputs, and the results for its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy.typing as npt

from ortpkg.foundations.errors import quoted
from ortpkg.graph.graph import Graph, Initializer, Node
from ortpkg.graph.shapes.expressions import Expression, Size, TooLargeError
from ortpkg.graph.shapes.knowledge import (
    MOST_ELEMENTS,
    WHOLE_NUMBERS,
    Elements,
    Knowledge,
    KnownSequence,
    KnownTensor,
    Sizes,
)
from ortpkg.graph.types import MOST_DIMENSIONS, ElementType

#: Largest size of a dimension in files.
_LARGEST_SIZE = (1 << 63) - 1


class ShapeError(ValueError):
    """The shapes of a node's inputs do not fit each other, or its attributes."""


class SubgraphInference(Protocol):
    """Infers a sub-graph of the node from the knowledge of its inputs.

    Returns the knowledge of its outputs.
    """

    def __call__(
        self, graph: Graph, inputs: Sequence[Knowledge | None]
    ) -> list[Knowledge | None]: ...


class ShapeContext:
    """The knowledge of a node's inputs.

    Inference functions call :meth:`make` for the node's outputs.

    Attributes:
        node: the node.
        inputs: knowledge by slot; None for an input that is missing or unknown.
        constants: returns the array of an input that is a small constant, else None.
    """

    def __init__(
        self,
        node: Node,
        inputs: Sequence[Knowledge | None],
        *,
        constants: Callable[[str], npt.NDArray[Any] | None],
        new_size: Callable[[], Expression],
        infer_subgraph: SubgraphInference,
    ) -> None:
        self.node = node
        self.inputs = inputs
        self.infer_subgraph = infer_subgraph
        self.new_size = new_size
        self.made: dict[int, Knowledge] = {}
        self._constants = constants

    # --- what is given ----------------------------------------------------------------------------

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the attribute's value, or ``default`` if it is absent.

        Raises:
            ShapeError: if its type differs from that of ``default``, since not every operator has a
                definition that tells it.
        """
        value = self.node.attribute(name, default)
        if default is not None and not isinstance(value, type(default)):
            raise ShapeError(f"{self.node}: the attribute {name} is {quoted(value)}")
        return value

    def optional(self, name: str, kind: str) -> Any:
        """Return the attribute's value, None if it is absent.

        Raises:
            ShapeError: if its type is not ``kind`` ("INT", "TENSOR", ...).
        """
        attribute = self.node.attributes.get(name)
        if attribute is not None and attribute.kind != kind:
            raise ShapeError(f"{self.node}: {name} is of type {attribute.kind}, not {kind}")
        return None if attribute is None else attribute.value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute of whole numbers; () if it is absent.

        Raises:
            ShapeError: if it has another type.
        """
        attribute = self.node.attributes.get(name)
        if attribute is not None and attribute.kind != "INTS" and attribute.value != ():
            raise ShapeError(
                f"{self.node}: the attribute {name} is of type {attribute.kind}, not INTS"
            )
        return () if attribute is None else tuple(attribute.value)

    def subgraph(self, name: str) -> Graph:
        """Return the graph of an attribute; ShapeError if there is none."""
        graph = self.attribute(name)
        if not isinstance(graph, Graph):
            raise ShapeError(f"{self.node}: the attribute {name} is no graph")
        return graph

    @property
    def version(self) -> int:
        """Version of the operator's definition."""
        return self.node.since_version

    def has(self, slot: int) -> bool:
        """Return True if the node has an input in this slot."""
        return slot < len(self.node.inputs) and bool(self.node.inputs[slot])

    def known(self, slot: int) -> Knowledge | None:
        """Return the knowledge of an input; None if it is unknown."""
        return self.inputs[slot] if slot < len(self.inputs) else None

    def tensor(self, slot: int) -> KnownTensor | None:
        """Return the knowledge of an input that is a tensor, else None."""
        knowledge = self.known(slot)
        return knowledge if isinstance(knowledge, KnownTensor) else None

    def shape(self, slot: int) -> Sizes | None:
        """Return an input's sizes; None if the number of dimensions is unknown."""
        tensor = self.tensor(slot)
        return None if tensor is None else tensor.shape

    def element_type(self, slot: int) -> ElementType:
        """Return the element type of a tensor, or of a sequence's tensors; UNDEFINED if unknown."""
        knowledge = self.known(slot)
        while knowledge is not None and not isinstance(knowledge, KnownTensor):
            knowledge = getattr(knowledge, "element", None)
        return ElementType.UNDEFINED if knowledge is None else knowledge.element_type

    def elements(self, slot: int) -> Elements | None:
        """Return the whole numbers in an input if they are few and followed, else None."""
        tensor = self.tensor(slot)
        return None if tensor is None else tensor.elements

    def numbers(self, slot: int) -> tuple[int, ...] | None:
        """Return the whole numbers in an input if all are known without symbols, else None."""
        elements = self.elements(slot)
        return None if elements is None else elements.numbers

    def number(self, slot: int) -> int | None:
        """Return the only whole number in an input if it is known without symbols, else None."""
        numbers = self.numbers(slot)
        return numbers[0] if numbers is not None and len(numbers) == 1 else None

    def size(self, slot: int) -> Size | None:
        """Return the only whole number in an input if known, possibly with symbols, else None."""
        elements = self.elements(slot)
        return elements.values[0] if elements is not None and len(elements.values) == 1 else None

    def values(self, slot: int) -> tuple[Size | None, ...] | None:
        """Return the whole numbers in an input in C order, None for each unknown one.

        None if no element is followed.
        """
        elements = self.elements(slot)
        return None if elements is None else elements.values

    def vector_length(self, slot: int) -> int | None:
        """Return the number of elements of an input that is a vector; None if unknown."""
        shape = self.shape(slot)
        return (
            shape[0]
            if shape is not None and len(shape) == 1 and isinstance(shape[0], int)
            else None
        )

    def vector_elements(self, slot: int) -> tuple[Size | None, ...]:
        """Return the elements of a vector of known length, None for each that is not followed."""
        elements = self.elements(slot)
        return (None,) * (self.vector_length(slot) or 0) if elements is None else elements.values

    def constant(self, slot: int) -> npt.NDArray[Any] | None:
        """Return the array of an input that is a constant of few elements, else None."""
        return self._constants(self.node.inputs[slot]) if self.has(slot) else None

    def new_sizes(self, count: int) -> Sizes:
        """Return this many unknown sizes; ShapeError for more than tensors have dimensions."""
        self.check_rank(count)
        return tuple(self.new_size() for _ in range(count))

    def chosen_type(self, name: str, default: ElementType) -> ElementType:
        """Return the element type whose number is in an attribute.

        ``default`` if it is absent or 0 (UNDEFINED).
        """
        number = self.attribute(name, 0)
        if number not in ElementType.__members__.values():
            raise ShapeError(f"{self.node}: there is no element type of number {number}")
        return ElementType(number or default)

    # --- what is made -----------------------------------------------------------------------------

    def make(
        self,
        slot: int,
        shape: Sequence[Size] | None,
        element_type: ElementType | None = None,
        elements: Sequence[Size | None] | None = None,
    ) -> None:
        """Set the shape of an output.

        Args:
            slot: index of the output.
            shape: its sizes; None if the number of dimensions is unknown.
            element_type: its element type, if the operator's definition does not determine it.
            elements: elements in C order of an output of whole numbers; kept if they are few.
        """
        sizes = None if shape is None else tuple(shape)
        if sizes is not None:
            self.check_rank(len(sizes))
            for size in sizes:
                if isinstance(size, int) and not 0 <= size <= _LARGEST_SIZE:
                    raise ShapeError(
                        "a dimension is negative" if size < 0 else "a dimension is over 2^63 - 1"
                    )
        known_elements = None
        if elements is not None and sizes is not None and len(elements) <= MOST_ELEMENTS:
            counts = tuple(size for size in sizes if isinstance(size, int))
            if len(counts) == len(sizes) and math.prod(counts) == len(elements):
                known_elements = Elements(counts, tuple(elements))
        self.made[slot] = KnownTensor(element_type or ElementType.UNDEFINED, sizes, known_elements)

    def make_known(self, slot: int, knowledge: Knowledge | None) -> None:
        """Set an output that is no plain tensor, or equals another value; None sets nothing."""
        if knowledge is not None:
            self.made[slot] = knowledge

    def make_sequence(self, slot: int, element: Knowledge | None) -> None:
        """Set an output to a sequence of such values."""
        self.made[slot] = KnownSequence(element)

    # --- checks -----------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int) -> int:
        """Return ``axis`` counted from the front; ShapeError if there is no such axis."""
        if not -rank <= axis < rank:
            raise ShapeError(f"{self.node}: axis {axis} of {rank} dimensions")
        return axis % rank if rank else 0

    def check_rank(self, rank: int) -> None:
        """Raise ShapeError for more dimensions than tensors have."""
        if rank > MOST_DIMENSIONS:
            raise ShapeError(
                f"{self.node}: {rank} dimensions; no tensor has over {MOST_DIMENSIONS}"
            )

    def compute(self, operation: Callable[..., Size], *sizes: Size) -> Size:
        """Return ``operation(*sizes)``, or a new size if the expression would be too large."""
        try:
            return operation(*sizes)
        except TooLargeError:
            return self.new_size()


#: Infers a node's outputs by calls of ``context.make``; ShapeError if its inputs do not fit.
InferenceFunction = Callable[[ShapeContext], None]

_TAG = "__ortpkg_infers__"


def infers(*op_types: str, domain: str = "") -> Callable[[InferenceFunction], InferenceFunction]:
    """Tag the inference function of these operators of ``domain``, in all of their versions."""

    def tag(function: InferenceFunction) -> InferenceFunction:
        keys = tuple((domain, op_type) for op_type in op_types)
        setattr(function, _TAG, (*getattr(function, _TAG, ()), *keys))
        return function

    return tag


def inference_functions_of(module: ModuleType) -> dict[tuple[str, str], InferenceFunction]:
    """Return (domain, operator) → function for the functions that ``module`` defines."""
    return {
        key: value
        for value in vars(module).values()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
        for key in getattr(value, _TAG, ())
    }


def constant_knowledge(tensor: Initializer) -> KnownTensor:
    """Return the knowledge of a constant; its elements are read only if they are followed."""
    elements = None
    if tensor.element_type in WHOLE_NUMBERS and math.prod(tensor.shape) <= MOST_ELEMENTS:
        elements = Elements(tensor.shape, tuple(int(value) for value in tensor.numpy().reshape(-1)))
    return KnownTensor(tensor.element_type, tensor.shape, elements)
