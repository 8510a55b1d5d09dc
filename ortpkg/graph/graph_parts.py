"""Parts of graphs and nodes: constants, attributes, annotations, and the usual domains."""

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
        """The name of the value."""

    @property
    def element_type(self) -> ElementType:
        """ONNX's type, even if numpy has no such type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense tensor."""

    @property
    def nbytes(self) -> int:
        """The size of the dense array that ``numpy`` returns.

        A packed or sparse tensor takes less in the file.
        """

    def numpy(self) -> npt.NDArray[Any]:
        """Return the value, read-only.

        Raises:
            ModelFileError: if the external file is missing or too short.
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
    """A node attribute: its ONNX type and value, so that it can be written back unchanged.

    ``kind`` is the AttributeProto type name ("INT", "FLOATS", "GRAPH", ...). ``value`` is an int, a
    float, bytes (STRING), an Initializer (TENSOR), a Graph (GRAPH), a ValueType (TYPE_PROTO), a
    sparse tensor's value, or a tuple of these for the plural kinds; for ``kind == "REF"`` it is the
    name of the function attribute that it refers to.
    """

    kind: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAnnotation:
    """Information about a value beyond its type.

    Nothing here depends on it; it is kept for writing.

    Attributes:
        doc_string, metadata: free text.
        denotation: the meaning of the value, e.g. "IMAGE"; ``dim_denotations``: that of each
            dimension, e.g. "DATA_BATCH".
    """

    doc_string: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    denotation: str = ""
    dim_denotations: tuple[str, ...] = ()
