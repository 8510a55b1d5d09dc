"""What a graph and its nodes carry: constants, attributes, annotations, and the usual domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt

from ortpkg.graph.types import ElementType

ONNX_DOMAIN = ""
MICROSOFT_DOMAIN = "com.microsoft"
ML_DOMAIN = "ai.onnx.ml"


class Initializer(Protocol):
    """A constant of the graph.

    Its bytes may still be in a file: ``numpy()`` maps or reads them on first use.
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
