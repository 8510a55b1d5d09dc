"""Inputs, outputs and metadata of a session's model, under ONNX Runtime's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.types import SparseTensorType, TensorType, ValueType

#: Version that onnxruntime reports for a model without one: the largest number of its type.
_NO_VERSION = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model.

    Attributes:
        name: name of the value.
        type: ONNX Runtime's text for the type, e.g. "tensor(float)"; "" if unknown.
        shape: an int, a symbolic name or None per dimension; empty if the rank is unknown.
        value_type: the type as an object; None if unknown.
    """

    name: str
    type: str
    shape: list[int | str | None] = field(hash=False)
    value_type: ValueType | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """Metadata of a model file.

    Attributes:
        producer_name: name of the tool that wrote it.
        graph_name, graph_description: name and description of the main graph.
        domain, description: domain and description of the model.
        version: version number of the model; the largest of 64 bits if it has none.
        custom_metadata_map: further entries of the author (``metadata_props``).
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


def node_args(graph: Graph, names: Sequence[str]) -> list[NodeArg]:
    """Return a :class:`NodeArg` for each of ``names``."""
    return [_node_arg(name, graph.type_of(name)) for name in names]


def _node_arg(name: str, value_type: ValueType | None) -> NodeArg:
    shape = value_type.shape if isinstance(value_type, TensorType | SparseTensorType) else None
    return NodeArg(
        name, "" if value_type is None else str(value_type), list(shape or ()), value_type
    )


def model_metadata(model: Model) -> ModelMetadata:
    """Return the metadata of ``model``."""
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=_NO_VERSION if model.model_version is None else model.model_version,
        custom_metadata_map=dict(model.metadata_props),
    )
