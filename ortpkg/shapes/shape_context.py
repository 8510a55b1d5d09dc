"""One node as its operator's inference sees it: its inputs' knowledge, a place for outputs'."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy.typing as npt

from ortpkg.errors import quoted
from ortpkg.graph.graph import Graph, Initializer, Node
from ortpkg.graph.types import MOST_DIMENSIONS, ElementType
from ortpkg.shapes.expressions import Expression, Size, TooLargeError
from ortpkg.shapes.knowledge import (
    MOST_ELEMENTS,
    WHOLE_NUMBERS,
    Elements,
    Knowledge,
    KnownSequence,
    KnownTensor,
    Sizes,
)

#: Of a dimension, as files hold it.
_LARGEST_SIZE = (1 << 63) - 1


class ShapeError(ValueError):
    """The shapes of a node's inputs do not fit each other, or its attributes."""


class SubgraphInference(Protocol):
    """Infers a sub-graph of the node at hand, given what is known of its inputs.

    Returns what is known of its outputs.
    """

    def __call__(
        self, graph: Graph, inputs: Sequence[Knowledge | None]
    ) -> list[Knowledge | None]: ...


class ShapeContext:
    """What is known of a node's inputs.

    Inference functions call :meth:`make` for what they can say of its outputs.

    Attributes:
        node: the node.
        inputs: per slot; None for an input that is left out, or of which nothing is known.
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
        """The attribute's value, or ``default`` where it is absent.

        ShapeError where its type is another than that of ``default``: not every operator has a
            definition that tells.
        """
        value = self.node.attribute(name, default)
        if default is not None and not isinstance(value, type(default)):
            raise ShapeError(f"{self.node}: the attribute {name} is {quoted(value)}")
        return value

    def optional(self, name: str, kind: str) -> Any:
        """The attribute's value, None where it is absent.

        ShapeError where it is of another type than ``kind`` ("INT", "TENSOR", ...).
        """
        found = self.node.attributes.get(name)
        if found is not None and found.kind != kind:
            raise ShapeError(f"{self.node}: {name} is of type {found.kind}, not {kind}")
        return None if found is None else found.value

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute of whole numbers; () where it is absent.

        ShapeError where it is of another type.
        """
        found = self.node.attributes.get(name)
        if found is not None and found.kind != "INTS" and found.value != ():
            raise ShapeError(f"{self.node}: the attribute {name} is of type {found.kind}, not INTS")
        return () if found is None else tuple(found.value)

    def subgraph(self, name: str) -> Graph:
        """The graph that an attribute holds. ShapeError where there is none."""
        found = self.attribute(name)
        if not isinstance(found, Graph):
            raise ShapeError(f"{self.node}: the attribute {name} is no graph")
        return found

    @property
    def version(self) -> int:
        """Of the operator's definition."""
        return self.node.since_version

    def has(self, slot: int) -> bool:
        """Whether the node takes an input there."""
        return slot < len(self.node.inputs) and bool(self.node.inputs[slot])

    def known(self, slot: int) -> Knowledge | None:
        """What is known of the input."""
        return self.inputs[slot] if slot < len(self.inputs) else None

    def tensor(self, slot: int) -> KnownTensor | None:
        """What is known of the input, where it is a tensor."""
        found = self.known(slot)
        return found if isinstance(found, KnownTensor) else None

    def shape(self, slot: int) -> Sizes | None:
        """The input's sizes; None where the number of dimensions is not known."""
        found = self.tensor(slot)
        return None if found is None else found.shape

    def element_type(self, slot: int) -> ElementType:
        """Of the tensor, or of those in the sequence; UNDEFINED where it is not known."""
        found = self.known(slot)
        while found is not None and not isinstance(found, KnownTensor):
            found = getattr(found, "element", None)
        return ElementType.UNDEFINED if found is None else found.element_type

    def elements(self, slot: int) -> Elements | None:
        """The whole numbers in the input, where they are few and followed."""
        found = self.tensor(slot)
        return None if found is None else found.elements

    def numbers(self, slot: int) -> tuple[int, ...] | None:
        """The whole numbers in the input, where all are known without symbols."""
        found = self.elements(slot)
        return None if found is None else found.numbers

    def number(self, slot: int) -> int | None:
        """The one whole number in the input, where it is known without symbols."""
        found = self.numbers(slot)
        return found[0] if found is not None and len(found) == 1 else None

    def size(self, slot: int) -> Size | None:
        """The one whole number in the input, where it is known, perhaps with symbols."""
        found = self.elements(slot)
        return found.values[0] if found is not None and len(found.values) == 1 else None

    def values(self, slot: int) -> tuple[Size | None, ...] | None:
        """The whole numbers in the input in C order, None for each that is not followed.

        None where not one of them is.
        """
        found = self.elements(slot)
        return None if found is None else found.values

    def vector_length(self, slot: int) -> int | None:
        """How many elements the input, a vector, has, where that is a known number."""
        shape = self.shape(slot)
        return (
            shape[0]
            if shape is not None and len(shape) == 1 and isinstance(shape[0], int)
            else None
        )

    def vector_elements(self, slot: int) -> tuple[Size | None, ...]:
        """The elements of a vector of known length, None for each that is not followed."""
        found = self.elements(slot)
        return (None,) * (self.vector_length(slot) or 0) if found is None else found.values

    def constant(self, slot: int) -> npt.NDArray[Any] | None:
        """The input, where it is a constant of few elements, of whatever type."""
        return self._constants(self.node.inputs[slot]) if self.has(slot) else None

    def new_sizes(self, count: int) -> Sizes:
        """That many sizes of which nothing is known.

        ShapeError for more than tensors have dimensions.
        """
        self.check_rank(count)
        return tuple(self.new_size() for _ in range(count))

    def chosen_type(self, name: str, default: ElementType) -> ElementType:
        """The element type that an attribute names by its number.

        ``default`` where it is absent or 0 (UNDEFINED).
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
        """States the shape of an output.

        ``element_type``: where the operator's definition does not say it. ``elements``: in C order,
        of an output of whole numbers; kept where they are few.
        """
        sizes = None if shape is None else tuple(shape)
        if sizes is not None:
            self.check_rank(len(sizes))
            for size in sizes:
                if isinstance(size, int) and not 0 <= size <= _LARGEST_SIZE:
                    raise ShapeError(
                        "a dimension is negative" if size < 0 else "a dimension is over 2^63 - 1"
                    )
        kept = None
        if elements is not None and sizes is not None and len(elements) <= MOST_ELEMENTS:
            counts = tuple(size for size in sizes if isinstance(size, int))
            if len(counts) == len(sizes) and math.prod(counts) == len(elements):
                kept = Elements(counts, tuple(elements))
        self.made[slot] = KnownTensor(element_type or ElementType.UNDEFINED, sizes, kept)

    def make_known(self, slot: int, known: Knowledge | None) -> None:
        """States what an output is, where it is no plain tensor, or just like another value."""
        if known is not None:
            self.made[slot] = known

    def make_sequence(self, slot: int, element: Knowledge | None) -> None:
        """States that an output is a sequence of such values."""
        self.made[slot] = KnownSequence(element)

    # --- checks -----------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front. ShapeError where there is no such axis."""
        if not -rank <= axis < rank:
            raise ShapeError(f"{self.node}: axis {axis} of {rank} dimensions")
        return axis % rank if rank else 0

    def check_rank(self, rank: int) -> None:
        """ShapeError for more dimensions than tensors have."""
        if rank > MOST_DIMENSIONS:
            raise ShapeError(
                f"{self.node}: {rank} dimensions; no tensor has over {MOST_DIMENSIONS}"
            )

    def compute(self, operation: Callable[..., Size], *sizes: Size) -> Size:
        """``operation(*sizes)``, or a new size where that, an expression, would be too large."""
        try:
            return operation(*sizes)
        except TooLargeError:
            return self.new_size()


#: Says what a node makes, by calls of ``context.make``. ShapeError where its inputs do not fit.
InferenceFunction = Callable[[ShapeContext], None]

_TAG = "__ortpkg_infers__"


def infers(*op_types: str, domain: str = "") -> Callable[[InferenceFunction], InferenceFunction]:
    """Tags the inference function of these operators of ``domain``, in all of their versions."""

    def tag(function: InferenceFunction) -> InferenceFunction:
        own = tuple((domain, op_type) for op_type in op_types)
        setattr(function, _TAG, (*getattr(function, _TAG, ()), *own))
        return function

    return tag


def inference_functions_of(module: ModuleType) -> dict[tuple[str, str], InferenceFunction]:
    """(domain, operator) → function, of those that ``module`` defines."""
    return {
        key: value
        for value in vars(module).values()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
        for key in getattr(value, _TAG, ())
    }


def constant_knowledge(tensor: Initializer) -> KnownTensor:
    """A constant, with its elements where inference follows them; other constants are not read."""
    elements = None
    if tensor.element_type in WHOLE_NUMBERS and math.prod(tensor.shape) <= MOST_ELEMENTS:
        elements = Elements(tensor.shape, tuple(int(value) for value in tensor.numpy().reshape(-1)))
    return KnownTensor(tensor.element_type, tensor.shape, elements)
