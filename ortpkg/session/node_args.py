"""What a session says of its model: inputs, outputs and metadata, under ONNX Runtime's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.types import SparseTensorType, TensorType, ValueType

#: What onnxruntime says of a model that states no version: the largest number of its type.
_NO_VERSION = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output.

    Attributes:
        name: the value's name.
        type: ONNX Runtime's text for it, e.g. "tensor(float)"; "" where unknown.
        shape: per dimension an int, a symbolic name or None; empty where the rank is not known.
        value_type: the type as a value; None where unknown.
    """

    name: str
    type: str
    shape: list[int | str | None] = field(hash=False)
    value_type: ValueType | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """What the model file says of itself.

    Attributes:
        producer_name: the tool that wrote it.
        graph_name, graph_description: of the main graph.
        domain, description: of the model.
        version: the model's own number; the largest of 64 bits where it states none.
        custom_metadata_map: whatever else the author noted (``metadata_props``).
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


def node_args(graph: Graph, names: Sequence[str]) -> list[NodeArg]:
    """``names`` as :class:`NodeArg`."""
    return [_node_arg(name, graph.type_of(name)) for name in names]


def _node_arg(name: str, value_type: ValueType | None) -> NodeArg:
    shape = value_type.shape if isinstance(value_type, TensorType | SparseTensorType) else None
    return NodeArg(
        name, "" if value_type is None else str(value_type), list(shape or ()), value_type
    )


def model_metadata(model: Model) -> ModelMetadata:
    """The metadata of ``model``."""
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=_NO_VERSION if model.model_version is None else model.model_version,
        custom_metadata_map=dict(model.metadata_props),
    )
