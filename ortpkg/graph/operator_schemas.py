"""Operator schemas: the version that a node refers to, and the types of its constraints.

Source: onnx.defs. Operators of other domains have no schema here: their version is the imported
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import onnx.defs

from ortpkg.graph.declared_values import declared_element_type
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.onnx_opsets import ADDED_BY_ONNXRUNTIME
from ortpkg.graph.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    ValueType,
)

#: Operators without a schema whose "T" is not the type of the first input: the input that has it.
_INPUT_OF_T = {("com.microsoft", "EmbedLayerNormalization"): 2}


#: onnx takes 32 bits; a model may say more.
_LARGEST_OPSET = (1 << 31) - 1


@cache
def find_schema(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the definition of an operator in opset ``opset`` of its domain.

    None if there is none.
    """
    if not 0 <= opset <= _LARGEST_OPSET:
        return None
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def resolve_since_version(domain: str, op_type: str, opset: int) -> int:
    """Return the version of the operator's definition under ``opset``.

    ``opset`` itself if there is no definition.
    """
    schema = find_schema(domain, op_type, opset)
    if schema is None:
        return 1 if domain == ONNX_DOMAIN and op_type in ADDED_BY_ONNXRUNTIME else opset
    return schema.since_version


def schema_of(node: Node) -> onnx.defs.OpSchema | None:
    """Return the node's operator definition; None if the onnx package does not define it."""
    return find_schema(node.domain, node.op_type, node.since_version)


def constraint_types(graph: Graph, node: Node) -> dict[str, ElementType]:
    """Return type-constraint name → element type, as far as input and output types are known.

    Containers count by their elements. An operator without a schema binds "T" to its first typed
    input, or to the input listed in ``_INPUT_OF_T``.
    """
    schema = schema_of(node)
    types: dict[str, ElementType] = {}
    if schema is None:
        first = _INPUT_OF_T.get((node.domain, node.op_type), 0)
        for value in (*node.inputs[first:], *node.outputs):
            element_type = _element_type(graph.type_of(value)) if value else None
            if element_type is not None:
                return {"T": element_type}
        return types
    for values, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for slot, value in enumerate(values):
            if not value or not formals:
                continue
            constraint = formals[min(slot, len(formals) - 1)].type_str
            if constraint not in types and "(" not in constraint:
                element_type = _element_type(graph.type_of(value))
                if element_type is not None:
                    types[constraint] = element_type
    return types


def _element_type(value_type: ValueType | None) -> ElementType | None:
    while isinstance(value_type, SequenceType | OptionalType):
        value_type = value_type.element
    if value_type is None or isinstance(value_type, MapType):
        return None
    return value_type.element_type


@dataclass(frozen=True, slots=True)
class OutputFormal:
    """The definition of an output.

    Attributes:
        sources: input slots of the same type; a variadic input counts from its slot on.
        fixed: the element type, if there is only one.
        allowed: the types, as ONNX writes them.
    """

    sources: tuple[int, ...]
    fixed: ElementType
    allowed: frozenset[str]


@cache
def output_formals(domain: str, op_type: str, version: int) -> tuple[OutputFormal, ...]:
    """Return the definitions of an operator's outputs, by position.

    () if there is no definition.
    """
    schema = find_schema(domain, op_type, version)
    if schema is None:
        return ()
    formals = []
    for formal in schema.outputs:
        sources = tuple(
            slot
            for slot, input_formal in enumerate(schema.inputs)
            if input_formal.type_str == formal.type_str
        )
        types = list(formal.types)
        fixed = declared_element_type(types[0]) if len(types) == 1 else None
        formals.append(OutputFormal(sources, fixed or ElementType.UNDEFINED, frozenset(types)))
    return tuple(formals)


def forget_output_formals() -> None:
    """Make the next call read definitions anew, after one was added or removed."""
    output_formals.cache_clear()
