"""Operator schemas: the version that a node means, and the types its constraints stand for.

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
    """The definition of an operator that opset ``opset`` of its domain means.

    None where there is none.
    """
    if not 0 <= opset <= _LARGEST_OPSET:
        return None
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def resolve_since_version(domain: str, op_type: str, opset: int) -> int:
    """The version of the operator's definition under ``opset``.

    ``opset`` itself where there is no definition.
    """
    schema = find_schema(domain, op_type, opset)
    if schema is None:
        return 1 if domain == ONNX_DOMAIN and op_type in ADDED_BY_ONNXRUNTIME else opset
    return schema.since_version


def schema_of(node: Node) -> onnx.defs.OpSchema | None:
    """The node's operator definition; None for operators that the onnx package does not define."""
    return find_schema(node.domain, node.op_type, node.since_version)


def constraint_types(graph: Graph, node: Node) -> dict[str, ElementType]:
    """Type-constraint name → element type, as far as known types of inputs and outputs tell.

    Containers count by what they hold. An operator without a schema binds "T" to its first typed
    input, or to that one that has it.
    """
    schema = schema_of(node)
    found: dict[str, ElementType] = {}
    if schema is None:
        first = _INPUT_OF_T.get((node.domain, node.op_type), 0)
        for value in (*node.inputs[first:], *node.outputs):
            element_type = _element_type(graph.type_of(value)) if value else None
            if element_type is not None:
                return {"T": element_type}
        return found
    for values, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for slot, value in enumerate(values):
            if not value or not formals:
                continue
            constraint = formals[min(slot, len(formals) - 1)].type_str
            if constraint not in found and "(" not in constraint:
                element_type = _element_type(graph.type_of(value))
                if element_type is not None:
                    found[constraint] = element_type
    return found


def _element_type(value_type: ValueType | None) -> ElementType | None:
    while isinstance(value_type, SequenceType | OptionalType):
        value_type = value_type.element
    if value_type is None or isinstance(value_type, MapType):
        return None
    return value_type.element_type


@dataclass(frozen=True, slots=True)
class OutputFormal:
    """What a definition says of an output.

    Attributes:
        sources: input slots of the same type; a variadic input counts from its slot on.
        fixed: the element type, where there is only one.
        allowed: the types, as ONNX writes them.
    """

    sources: tuple[int, ...]
    fixed: ElementType
    allowed: frozenset[str]


@cache
def output_formals(domain: str, op_type: str, version: int) -> tuple[OutputFormal, ...]:
    """What an operator's definition says of its outputs, by position.

    () where there is no definition.
    """
    schema = find_schema(domain, op_type, version)
    if schema is None:
        return ()
    found = []
    for formal in schema.outputs:
        sources = tuple(
            slot for slot, given in enumerate(schema.inputs) if given.type_str == formal.type_str
        )
        types = list(formal.types)
        fixed = declared_element_type(types[0]) if len(types) == 1 else None
        found.append(OutputFormal(sources, fixed or ElementType.UNDEFINED, frozenset(types)))
    return tuple(found)


def forget_output_formals() -> None:
    """Reads definitions anew: one came or went."""
    output_formals.cache_clear()
