"""Operator schemas: which version of an operator a node means, and the types that its constraints are bound to.

Source: onnx.defs. Operators of other domains have no schema here: their version is the imported one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

import onnx.defs

from ortpkg.graph.graph import ML_DOMAIN, ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    ValueType,
)

#: Domains whose schemas the onnx package knows.
ONNX_DOMAINS = (ONNX_DOMAIN, ML_DOMAIN, "ai.onnx.preview", "ai.onnx.preview.training")


#: Operators without a schema whose "T" is not the type of the first input: the input that has it.
_INPUT_OF_T = {("com.microsoft", "EmbedLayerNormalization"): 2}

#: Operators that onnxruntime adds to ONNX's own domain, in version 1; later opsets took some of them over.
_ADDED_BY_ONNXRUNTIME = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
#: Operators of ONNX's own domain that onnxruntime defines from opset 1 on, the engine or not.
ONNXRUNTIME_ADDITIONS: frozenset[str] = _ADDED_BY_ONNXRUNTIME | {
    *("DisentangledAttention_TRT", "EfficientNMS_TRT", "MultilevelCropAndResize_TRT", "PyramidROIAlign_TRT"),
    *("MeanVarianceNormalization", "MemcpyFromHost", "MemcpyToHost", "ThresholdedRelu"),
}
#: The same, in opsets before 10 only.
OLD_ONNXRUNTIME_ADDITIONS: frozenset[str] = frozenset(
    {
        *("Affine", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler", "ParametricSoftplus"),
        *("Scale", "ScaledTanh"),
    }
)
_OPSET_WITHOUT_OLD_ADDITIONS = 10


class OperatorState(Enum):
    """What an opset says of an operator. UNKNOWN: it is newer than the onnx package here."""

    DEFINED = auto()
    DEPRECATED = auto()
    UNDEFINED = auto()
    UNKNOWN = auto()


def operator_state(domain: str, op_type: str, opset: int | None) -> OperatorState:
    """What opset ``opset`` of one of ONNX's own domains says of an operator; None: the domain is not imported."""
    if opset is None:
        return OperatorState.UNDEFINED
    schema = find_schema(domain, op_type, opset)
    if schema is not None:
        return OperatorState.DEPRECATED if schema.deprecated else OperatorState.DEFINED
    if domain == ONNX_DOMAIN and op_type in ONNXRUNTIME_ADDITIONS:
        return OperatorState.DEFINED
    if domain == ONNX_DOMAIN and op_type in OLD_ONNXRUNTIME_ADDITIONS and opset < _OPSET_WITHOUT_OLD_ADDITIONS:
        return OperatorState.DEFINED
    return OperatorState.UNDEFINED if opset <= _newest_opsets().get(domain, 0) else OperatorState.UNKNOWN


def first_opset(domain: str, op_type: str) -> int | None:
    """The first opset that defines an operator; None where none does that the onnx package here knows."""
    opsets = [
        each.since_version
        for each in onnx.defs.get_all_schemas_with_history()
        if each.domain == domain and each.name == op_type
    ]
    return min(opsets, default=None)


@cache
def _newest_opsets() -> dict[str, int]:
    """Domain → the newest opset of which the onnx package here has a definition."""
    newest: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        newest[schema.domain] = max(schema.since_version, newest.get(schema.domain, 0))
    return newest


@cache
def find_schema(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """The definition of an operator that opset ``opset`` of its domain means; None where there is none."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def resolve_since_version(domain: str, op_type: str, opset: int) -> int:
    """The version of the operator's definition under ``opset``; ``opset`` itself where there is no definition."""
    schema = find_schema(domain, op_type, opset)
    if schema is None:
        return 1 if domain == ONNX_DOMAIN and op_type in _ADDED_BY_ONNXRUNTIME else opset
    return schema.since_version


def schema_of(node: Node) -> onnx.defs.OpSchema | None:
    """The node's operator definition; None for operators that the onnx package does not define."""
    return find_schema(node.domain, node.op_type, node.since_version)


def constraint_types(graph: Graph, node: Node) -> dict[str, ElementType]:
    """Type-constraint name → element type, of those that the known types of inputs and outputs bind.

    Containers count by what they hold. An operator without a schema binds "T" to its first typed input, or to that one
    that has it.
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
    """What an operator's definition says of its outputs, by position; () where there is no definition."""
    schema = find_schema(domain, op_type, version)
    if schema is None:
        return ()
    found = []
    for formal in schema.outputs:
        sources = tuple(slot for slot, given in enumerate(schema.inputs) if given.type_str == formal.type_str)
        types = list(formal.types)
        fixed = _tensor_element(types[0]) if len(types) == 1 else ElementType.UNDEFINED
        found.append(OutputFormal(sources, fixed, frozenset(types)))
    return tuple(found)


def forget_output_formals() -> None:
    """Reads definitions anew: one came or went."""
    output_formals.cache_clear()


def _tensor_element(text: str) -> ElementType:
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    return (
        ElementType[name] if text.startswith("tensor(") and name in ElementType.__members__ else ElementType.UNDEFINED
    )
