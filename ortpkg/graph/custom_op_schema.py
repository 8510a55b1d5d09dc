"""ONNX definition of a custom operator."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any

import numpy as np
import onnx
import onnx.defs

from ortpkg.foundations.errors import UsageError, printable, quoted
from ortpkg.graph.custom_op import CustomOp
from ortpkg.graph.operator_schemas import find_schema, forget_output_formals
from ortpkg.graph.schema_checks import forget_formals
from ortpkg.graph.type_checks import forget_input_types
from ortpkg.graph.types import ElementType

_Schema = onnx.defs.OpSchema
_Option = onnx.defs.OpSchema.FormalParameterOption
_OPTIONS = {"?": _Option.Optional, "*": _Option.Variadic}
#: numpy's names of types that ONNX calls otherwise.
_NUMPY_NAMES = {"float32": "float", "float64": "double"}
_ELEMENT_NAMES = frozenset(
    element_type.name.lower()
    for element_type in ElementType
    if element_type is not ElementType.UNDEFINED
)
_KINDS: tuple[tuple[Any, str], ...] = (
    (int, "INT"),
    (float, "FLOAT"),
    (str, "STRING"),
    (list[int], "INTS"),
    (list[float], "FLOATS"),
    (list[str], "STRINGS"),
    (np.ndarray, "TENSOR"),
)


def definition_of(operator: CustomOp) -> onnx.defs.OpSchema:
    """Return the ONNX definition of an operator.

    Raises:
        UsageError: the declaration makes no sense; the message names the operator and the reason.
    """
    where = f"operator {quoted(f'{operator.domain}.{operator.op_type}')}"
    if not operator.domain or not operator.op_type.isidentifier() or not operator.outputs:
        raise UsageError(
            f"{where}: a domain, a name without blanks and at least one output are needed"
        )
    version: object = operator.version
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UsageError(
            f"{where}: its version is a number from 1 on, not {quoted(operator.version)}"
        )
    used = {text.rstrip("?*") for text in (*operator.inputs.values(), *operator.outputs.values())}
    unused = [name for name in operator.types if name not in used]
    if unused:
        raise UsageError(f"{where}: no input or output is of the constraint {quoted(unused[0])}")
    return _Schema(
        operator.op_type,
        operator.domain,
        operator.version,
        inputs=_formals(operator.inputs, operator, where),
        outputs=_formals(operator.outputs, operator, where),
        type_constraints=[
            (name, [_type_text(type_name, where) for type_name in allowed], "")
            for name, allowed in operator.types.items()
        ],
        attributes=[_attribute(name, value, where) for name, value in operator.attributes.items()],
    )


def publish_definition(definition: onnx.defs.OpSchema) -> None:
    """Register a definition with onnx, so that models are read and inferred with it.

    Raises:
        UsageError: the name is in use.
    """
    try:
        onnx.defs.register_schema(definition)
    except Exception as error:  # onnx's SchemaError, or whatever its extension module raises
        raise UsageError(
            f"operator {quoted(f'{definition.domain}.{definition.name}')}: {printable(error)}"
        ) from error
    _forget_cached_schemas()


def forget_definition(operator: CustomOp) -> None:
    """Undo :func:`publish_definition`."""
    onnx.defs.deregister_schema(operator.op_type, operator.version, operator.domain)
    _forget_cached_schemas()


def _formals(
    declared: Mapping[str, str], operator: CustomOp, where: str
) -> list[onnx.defs.OpSchema.FormalParameter]:
    formals = []
    for position, (name, text) in enumerate(declared.items()):
        option = _OPTIONS.get(text[-1:], _Option.Single)
        if option is _Option.Variadic and position < len(declared) - 1:
            raise UsageError(f"{where}: {quoted(name)} may be many, so it must be the last")
        bare = text.rstrip("?*")
        type_text = bare if bare in operator.types else _type_text(bare, where)
        least = 0 if option is _Option.Variadic else 1
        formals.append(
            _Schema.FormalParameter(name, type_text, param_option=option, min_arity=least)
        )
    return formals


def _type_text(name: str, where: str) -> str:
    """Return ONNX's text of a type: "float" and "float32" are "tensor(float)"."""
    short = _NUMPY_NAMES.get(name, name)
    if short in _ELEMENT_NAMES:
        return f"tensor({short})"
    if name.startswith(
        ("tensor(", "seq(", "optional(", "map(", "sparse_tensor(")
    ) and name.endswith(")"):
        return name
    raise UsageError(f"{where}: there is no type or constraint {quoted(name)}")


def _attribute(name: str, value: Any, where: str) -> onnx.defs.OpSchema.Attribute:
    for kind, onnx_kind in _KINDS:
        if isinstance(value, type | GenericAlias) and value == kind:
            return _Schema.Attribute(name, getattr(_Schema.AttrType, onnx_kind), "", required=True)
    try:
        return _Schema.Attribute(name, onnx.helper.make_attribute(name, _plain(value)))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{where}: attribute {quoted(name)} cannot have the default {quoted(value)}"
        ) from error


def _plain(value: Any) -> Any:
    return onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _forget_cached_schemas() -> None:
    """Clear caches of definitions, so that the next lookups see the change."""
    find_schema.cache_clear()
    forget_formals()
    forget_output_formals()
    forget_input_types()
