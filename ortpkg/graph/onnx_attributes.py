"""Reads AttributeProtos other than graphs."""

from __future__ import annotations

from typing import Any

import onnx

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.initializers import TensorReader
from ortpkg.graph.load_control import (
    CONSTANT_NBYTES,
    DECLARED_NBYTES,
    LISTED_NBYTES,
    polled_parts,
)
from ortpkg.graph.value_types import value_type_from_proto

_PLAIN_FIELDS = {"FLOAT": "f", "INT": "i", "STRING": "s"}
_PLAIN_LIST_FIELDS = {"FLOATS": "floats", "INTS": "ints", "STRINGS": "strings"}
_FIELD_KINDS = {
    **{name: kind for kind, name in {**_PLAIN_FIELDS, **_PLAIN_LIST_FIELDS}.items()},
    "t": "TENSOR",
    "g": "GRAPH",
    "tensors": "TENSORS",
    "graphs": "GRAPHS",
}


def attribute_kind(proto: onnx.AttributeProto) -> str:
    """Return the type name ("INT", "GRAPH", ...).

    Models before IR version 2 leave it out; then the field that is set decides.

    Raises:
        InvalidGraphError: for an unknown type, or without both type and value.
    """
    try:
        kind = str(onnx.AttributeProto.AttributeType.Name(proto.type))
    except ValueError as error:
        raise InvalidGraphError(
            f"attribute {quoted(proto.name)} has the unknown type {proto.type}"
        ) from error
    if kind != "UNDEFINED":
        return kind
    present = {descriptor.name for descriptor, _ in proto.ListFields()}
    kind_of_field = next((kind for name, kind in _FIELD_KINDS.items() if name in present), None)
    if kind_of_field is None:
        raise InvalidGraphError(f"attribute {quoted(proto.name)} has no value")
    return kind_of_field


def attribute_value(proto: onnx.AttributeProto, kind: str, tensors: TensorReader) -> Any:
    """Return the value of any attribute but a graph, as in :class:`ortpkg.graph.node.Attribute`."""
    if kind in _PLAIN_FIELDS:
        return getattr(proto, _PLAIN_FIELDS[kind])
    if kind in _PLAIN_LIST_FIELDS:
        return tuple(polled_parts(getattr(proto, _PLAIN_LIST_FIELDS[kind]), LISTED_NBYTES))
    where = f"attribute {quoted(proto.name)}"
    match kind:
        case "TENSOR":
            return tensors.initializer(proto.t)
        case "TENSORS":
            parts = polled_parts(proto.tensors, CONSTANT_NBYTES)
            return tuple(tensors.initializer(tensor) for tensor in parts)
        case "SPARSE_TENSOR":
            return tensors.sparse_initializer(proto.sparse_tensor)
        case "SPARSE_TENSORS":
            sparse_parts = polled_parts(proto.sparse_tensors, 3 * CONSTANT_NBYTES)
            return tuple(tensors.sparse_initializer(sparse) for sparse in sparse_parts)
        case "TYPE_PROTO":
            return value_type_from_proto(proto.tp, where)
        case _:
            types = polled_parts(proto.type_protos, DECLARED_NBYTES)
            return tuple(value_type_from_proto(part, where) for part in types)
