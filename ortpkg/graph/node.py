"""The parts of a graph: nodes, attributes, constants, uses.

Only :class:`ortpkg.graph.graph.Graph` changes a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from ortpkg.errors import quoted, unquoted
from ortpkg.graph.types import ElementType

if TYPE_CHECKING:
    from ortpkg.graph.graph import Graph

ONNX_DOMAIN = ""
MICROSOFT_DOMAIN = "com.microsoft"
ML_DOMAIN = "ai.onnx.ml"


class Initializer(Protocol):
    """A constant of the graph. Its bytes may still be in a file:

    ``numpy()`` maps or reads them on first use.
    """

    @property
    def name(self) -> str:
        """The value that it is."""

    @property
    def element_type(self) -> ElementType:
        """ONNX's, also where numpy has no such type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the dense tensor."""

    @property
    def nbytes(self) -> int:
        """Of the dense array that ``numpy`` gives.

        A packed or sparse tensor takes less in the file.
        """

    def numpy(self) -> npt.NDArray[Any]:
        """The value, read-only.

        Raises ModelFileError where the external file is missing or too short.
        """
        ...


@dataclass(frozen=True, slots=True)
class ArrayInitializer:
    """An initializer whose array is already in memory."""

    name: str
    array: npt.NDArray[Any]
    element_type: ElementType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def numpy(self) -> npt.NDArray[Any]:
        return self.array


@dataclass(frozen=True, slots=True)
class Attribute:
    """A node attribute with ONNX's type beside the value, so that it can be written back unchanged.

    ``kind`` is the AttributeProto type name ("INT", "FLOATS", "GRAPH", ...). ``value``: int, float,
    bytes (STRING), an Initializer (TENSOR), a Graph (GRAPH), a ValueType (TYPE_PROTO), a sparse
    tensor's value, a tuple of these for the plural kinds, or for ``kind == "REF"`` the name of the
    function attribute that it refers to.
    """

    kind: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAnnotation:
    """What a model says of a value beyond its type.

    Nothing here depends on it, and it survives a round trip.

    Attributes:
        doc_string, metadata: free text.
        denotation: what the value means, e.g. "IMAGE"; ``dim_denotations``: likewise per dimension
            ("DATA_BATCH").
    """

    doc_string: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    denotation: str = ""
    dim_denotations: tuple[str, ...] = ()


class Node:
    """One operator application. Change it only through its graph.

    Attributes:
        index: unique and stable within the graph.
        name: for people; may be empty in a model, never here (one is made up).
        op_type, domain: the operator; ``since_version`` is the version of its definition that the
            model's opset means.
        attributes: by name.
        execution_provider: "" until partitioning assigns it.
    """

    # A node may have many thousands of values, of which one after the other gets another name. So
    # the names are a list, or a dictionary, while they are exchanged, and become a tuple again when
    # somebody reads them.
    __slots__ = (
        "_implicit_inputs", "_inputs", "_outputs", "attributes", "doc_string", "domain",
        "execution_provider", "index", "metadata", "name", "op_type", "since_version",
    )  # fmt: skip

    def __init__(
        self,
        *,
        index: int,
        name: str,
        op_type: str,
        domain: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        attributes: Mapping[str, Attribute] | None = None,
        since_version: int = 0,
        execution_provider: str = "",
        implicit_inputs: tuple[str, ...] = (),
        doc_string: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.index = index
        self.name = name
        self.op_type = op_type
        self.domain = domain
        self._inputs: tuple[str, ...] | list[str] = inputs
        self._outputs: tuple[str, ...] | list[str] = outputs
        self._implicit_inputs: tuple[str, ...] | dict[str, None] = implicit_inputs
        self.attributes: Mapping[str, Attribute] = {} if attributes is None else attributes
        self.since_version = since_version
        self.execution_provider = execution_provider
        self.doc_string = doc_string
        self.metadata: Mapping[str, str] = {} if metadata is None else metadata

    @property
    def inputs(self) -> tuple[str, ...]:
        """Value names; "" for one left out."""
        if isinstance(self._inputs, list):
            self._inputs = tuple(self._inputs)
        return self._inputs

    @inputs.setter
    def inputs(self, names: tuple[str, ...]) -> None:
        self._inputs = names

    @property
    def outputs(self) -> tuple[str, ...]:
        """Value names; "" for one left out."""
        if isinstance(self._outputs, list):
            self._outputs = tuple(self._outputs)
        return self._outputs

    @outputs.setter
    def outputs(self, names: tuple[str, ...]) -> None:
        self._outputs = names

    @property
    def implicit_inputs(self) -> tuple[str, ...]:
        """Values of outer graphs that its sub-graphs use, each once."""
        if isinstance(self._implicit_inputs, dict):
            self._implicit_inputs = tuple(self._implicit_inputs)
        return self._implicit_inputs

    @implicit_inputs.setter
    def implicit_inputs(self, names: tuple[str, ...]) -> None:
        self._implicit_inputs = names

    def exchange_input(self, slot: int, name: str) -> str:
        """Takes ``name`` at ``slot``, without a look at the others; what stood there."""
        if not isinstance(self._inputs, list):
            self._inputs = list(self._inputs)
        old, self._inputs[slot] = self._inputs[slot], name
        return old

    def exchange_output(self, slot: int, name: str) -> str:
        """Makes ``name`` at ``slot``, without a look at the others; what stood there."""
        if not isinstance(self._outputs, list):
            self._outputs = list(self._outputs)
        old, self._outputs[slot] = self._outputs[slot], name
        return old

    def exchange_implicit_input(self, old: str, new: str) -> None:
        """Uses ``new`` for ``old`` in sub-graphs, without a look at the others.

        KeyError where it does not use it.
        """
        if not isinstance(self._implicit_inputs, dict):
            self._implicit_inputs = dict.fromkeys(self._implicit_inputs)
        del self._implicit_inputs[old]
        self._implicit_inputs[new] = None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute's value (strings decoded), or ``default`` where it is absent."""
        found = self.attributes.get(name)
        if found is None:
            return default
        if found.kind == "STRING":
            return found.value.decode("utf-8", "surrogateescape")
        if found.kind == "STRINGS":
            return tuple(text.decode("utf-8", "surrogateescape") for text in found.value)
        return found.value

    @property
    def subgraphs(self) -> dict[str, Graph]:
        """The graph attributes by name (GRAPHS attributes as ``name[i]``)."""
        found: dict[str, Graph] = {}
        for name, attribute in self.attributes.items():
            if attribute.kind == "GRAPH":
                found[name] = attribute.value
            elif attribute.kind == "GRAPHS":
                found.update({f"{name}[{i}]": graph for i, graph in enumerate(attribute.value)})
        return found

    def __str__(self) -> str:
        domain = f"{self.domain}:" if self.domain else ""
        return f"{unquoted(domain + self.op_type)} node {quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Use:
    """Where a value is consumed: a node and the input slot.

    Slot -1 is an implicit input of its sub-graphs.
    """

    node_index: int
    slot: int
