"""Converts between TypeProto and value types.

Source: onnx.proto, TypeProto. An opaque type has no counterpart here: its value counts as untyped.
"""

from __future__ import annotations

import onnx

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.proto_text import text_of
from ortpkg.graph.types import (
    MOST_DIMENSIONS,
    Dimension,
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    ValueType,
)

_DEEPEST_TYPE = 16


def element_type_from_number(number: int, where: str) -> ElementType:
    """Return the element type with that TensorProto.DataType number.

    InvalidGraphError for an unknown number.
    """
    try:
        return ElementType(number)
    except ValueError as error:
        raise InvalidGraphError(f"{where} has the unknown element type {number}") from error


def value_type_from_proto(proto: onnx.TypeProto, where: str, depth: int = 0) -> ValueType | None:
    """Return the value type; None if the message has none.

    ``where`` names the value in error messages.
    """
    if depth > _DEEPEST_TYPE:
        raise InvalidGraphError(f"the type of {where} is nested deeper than {_DEEPEST_TYPE} levels")
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        return _tensor_type(TensorType, tensor, where)
    if kind == "sparse_tensor_type":
        return _tensor_type(SparseTensorType, proto.sparse_tensor_type, where)
    if kind == "sequence_type":
        element = value_type_from_proto(proto.sequence_type.elem_type, where, depth + 1)
        return None if element is None else SequenceType(element)
    if kind == "optional_type":
        element = value_type_from_proto(proto.optional_type.elem_type, where, depth + 1)
        return None if element is None else OptionalType(element)
    if kind == "map_type":
        value = value_type_from_proto(proto.map_type.value_type, where, depth + 1)
        key = element_type_from_number(proto.map_type.key_type, where)
        return None if value is None else MapType(key, value)
    return None


def _tensor_type(
    kind: type[TensorType] | type[SparseTensorType],
    proto: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor,
    where: str,
) -> ValueType | None:
    element_type = element_type_from_number(proto.elem_type, where)
    if element_type is ElementType.UNDEFINED:
        return None
    return kind(
        element_type, shape_from_proto(proto.shape, where) if proto.HasField("shape") else None
    )


def verify_rank(rank: int, where: str) -> None:
    """Raise InvalidGraphError for more dimensions than tensors may have."""
    if rank > MOST_DIMENSIONS:
        raise InvalidGraphError(
            f"{where} has {rank} dimensions; at most {MOST_DIMENSIONS} are supported"
        )


def shape_from_proto(proto: onnx.TensorShapeProto, where: str) -> Shape:
    """Return dimensions as numbers, names, or None for unspecified ones.

    InvalidGraphError for a negative dimension, or for too many of them.
    """
    verify_rank(len(proto.dim), where)
    return tuple(_dimension(dimension, where) for dimension in proto.dim)


def _dimension(proto: onnx.TensorShapeProto.Dimension, where: str) -> Dimension:
    kind = proto.WhichOneof("value")
    if kind == "dim_value":
        if proto.dim_value < 0:
            # Exporters write -1 for "unknown"; ONNX Runtime reads it so.
            if proto.dim_value == -1:
                return None
            raise InvalidGraphError(f"{where} has the negative dimension {quoted(proto.dim_value)}")
        return int(proto.dim_value)
    if kind == "dim_param" and proto.dim_param:
        return text_of(proto.dim_param, f"name of a dimension of {where}")
    return None


def value_type_to_proto(value_type: ValueType) -> onnx.TypeProto:
    """Return the message of a value type, the inverse of :func:`value_type_from_proto`."""
    proto = onnx.TypeProto()
    if isinstance(value_type, TensorType):
        proto.tensor_type.elem_type = int(value_type.element_type)
        _set_shape(proto.tensor_type, value_type.shape)
    elif isinstance(value_type, SparseTensorType):
        proto.sparse_tensor_type.elem_type = int(value_type.element_type)
        _set_shape(proto.sparse_tensor_type, value_type.shape)
    elif isinstance(value_type, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(value_type_to_proto(value_type.element))
    elif isinstance(value_type, OptionalType):
        proto.optional_type.elem_type.CopyFrom(value_type_to_proto(value_type.element))
    else:
        proto.map_type.key_type = int(value_type.key)
        proto.map_type.value_type.CopyFrom(value_type_to_proto(value_type.value))
    return proto


def _set_shape(
    proto: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor, shape: Shape | None
) -> None:
    if shape is None:
        return
    proto.shape.SetInParent()
    for dimension in shape:
        added = proto.shape.dim.add()
        if isinstance(dimension, int):
            added.dim_value = dimension
        elif dimension is not None:
            added.dim_param = dimension
