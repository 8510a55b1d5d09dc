"""The ONNX definition of an operator of one's own, with its type and shape inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Any

import numpy as np
import onnx
import onnx.defs

from ortpkg.errors import InvalidGraphError, OrtpkgError, UsageError, printable, quoted
from ortpkg.graph.schema_caches import forget_cached_schemas
from ortpkg.graph.types import ElementType
from ortpkg.kernels.custom_ops import CustomOp, Shape

_Schema = onnx.defs.OpSchema
_Option = onnx.defs.OpSchema.FormalParameterOption
_OPTIONS = {"?": _Option.Optional, "*": _Option.Variadic}
#: numpy's words for types whose ONNX name is another.
_NUMPY_NAMES = {"float32": "float", "float64": "double"}
_ELEMENT_NAMES = frozenset(each.name.lower() for each in ElementType if each is not ElementType.UNDEFINED)
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
    """The definition. UsageError, naming the operator and what is wrong, for one that makes no sense."""
    where = f"operator {quoted(f'{operator.domain}.{operator.op_type}')}"
    if not operator.domain or not operator.op_type.isidentifier() or not operator.outputs:
        raise UsageError(f"{where}: a domain, a name without blanks and at least one output are needed")
    version: object = operator.version
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UsageError(f"{where}: its version is a number from 1 on, not {quoted(operator.version)}")
    used = {text.rstrip("?*") for text in (*operator.inputs.values(), *operator.outputs.values())}
    unused = [name for name in operator.types if name not in used]
    if unused:
        raise UsageError(f"{where}: no input or output is of the constraint {quoted(unused[0])}")
    definition = _Schema(
        operator.op_type,
        operator.domain,
        operator.version,
        inputs=_formals(operator.inputs, operator, where),
        outputs=_formals(operator.outputs, operator, where),
        type_constraints=[
            (name, [_type_text(each, where) for each in allowed], "") for name, allowed in operator.types.items()
        ],
        attributes=[_attribute(name, value, where) for name, value in operator.attributes.items()],
    )
    definition.set_type_and_shape_inference_function(lambda context: _infer(operator, context))
    return definition


def publish_definition(definition: onnx.defs.OpSchema) -> None:
    """Makes the definition one that models are read and inferred with. UsageError where its name is taken."""
    try:
        onnx.defs.register_schema(definition)
    except Exception as error:  # onnx's SchemaError, or whatever its extension module raises
        raise UsageError(f"operator {quoted(f'{definition.domain}.{definition.name}')}: {printable(error)}") from error
    forget_cached_schemas()


def forget_definition(operator: CustomOp) -> None:
    """Takes back :func:`publish_definition`."""
    onnx.defs.deregister_schema(operator.op_type, operator.version, operator.domain)
    forget_cached_schemas()


def _formals(declared: Mapping[str, str], operator: CustomOp, where: str) -> list[onnx.defs.OpSchema.FormalParameter]:
    found = []
    for position, (name, text) in enumerate(declared.items()):
        option = _OPTIONS.get(text[-1:], _Option.Single)
        if option is _Option.Variadic and position < len(declared) - 1:
            raise UsageError(f"{where}: {quoted(name)} may be many, so it must be the last")
        bare = text.rstrip("?*")
        type_text = bare if bare in operator.types else _type_text(bare, where)
        least = 0 if option is _Option.Variadic else 1
        found.append(_Schema.FormalParameter(name, type_text, param_option=option, min_arity=least))
    return found


def _type_text(name: str, where: str) -> str:
    """ONNX's text of a type: "float" and "float32" are "tensor(float)"."""
    short = _NUMPY_NAMES.get(name, name)
    if short in _ELEMENT_NAMES:
        return f"tensor({short})"
    if name.startswith(("tensor(", "seq(", "optional(", "map(", "sparse_tensor(")) and name.endswith(")"):
        return name
    raise UsageError(f"{where}: there is no type or constraint {quoted(name)}")


def _attribute(name: str, value: Any, where: str) -> onnx.defs.OpSchema.Attribute:
    for kind, onnx_kind in _KINDS:
        if isinstance(value, type | GenericAlias) and value == kind:
            return _Schema.Attribute(name, getattr(_Schema.AttrType, onnx_kind), "", required=True)
    try:
        return _Schema.Attribute(name, onnx.helper.make_attribute(name, _plain(value)))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: attribute {quoted(name)} cannot have the default {quoted(value)}") from error


def _plain(value: Any) -> Any:
    return onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


# --- inference -------------------------------------------------------------------------------------------------------


def _infer(operator: CustomOp, context: Any) -> None:
    """Sets the outputs' types as far as they follow; called by ONNX's inference."""
    count = context.get_num_inputs()
    inputs = [context.get_input_type(slot) if context.has_input(slot) else None for slot in range(count)]
    shapes = _output_shapes(operator, context, inputs)
    for slot in range(context.get_num_outputs()):
        text = _declared(operator.outputs, slot)
        made = _bound_type(operator, text, inputs)
        if made is None:
            continue
        if slot < len(shapes) and shapes[slot] is not None and made.HasField("tensor_type"):
            _set_shape(made, shapes[slot])
        context.set_output_type(slot, made)


def _declared(formals: Mapping[str, str], slot: int) -> str:
    texts = list(formals.values())
    return texts[min(slot, len(texts) - 1)].rstrip("?*")


def _bound_type(operator: CustomOp, text: str, inputs: Sequence[onnx.TypeProto | None]) -> onnx.TypeProto | None:
    """The type of an output without its shape; None where no input binds its constraint."""
    made = onnx.TypeProto()
    if text not in operator.types:
        name = _type_text(text, "").removeprefix("tensor(").removesuffix(")")
        if name not in _ELEMENT_NAMES:
            return None  # a container: its type is known when the run has made it
        made.tensor_type.elem_type = int(ElementType[name.upper()])
        return made
    for slot, given in enumerate(inputs):
        if given is not None and _declared(operator.inputs, slot) == text:
            made.CopyFrom(given)
            if made.HasField("tensor_type"):
                made.tensor_type.ClearField("shape")
            return made
    return None


def _output_shapes(operator: CustomOp, context: Any, inputs: Sequence[onnx.TypeProto | None]) -> Sequence[Shape]:
    """What the operator says of its outputs. InvalidGraphError where it raises: shapes that it cannot take."""
    if operator.output_shapes is None:
        return ()
    attributes = {
        name: _value_of(context.get_attribute(name), default) for name, default in operator.attributes.items()
    }
    try:
        return tuple(operator.output_shapes(*[_shape_of(each) for each in inputs], **attributes))
    except OrtpkgError:
        raise
    except Exception as error:
        name = f"{operator.domain}.{operator.op_type}"
        raise InvalidGraphError(
            f"operator {quoted(name)} refuses the shapes of its inputs: {printable(error)}"
        ) from error


def _value_of(attribute: onnx.AttributeProto | None, default: Any) -> Any:
    if attribute is None:
        return default
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return [each.decode() if isinstance(each, bytes) else each for each in value] if _is_list(value) else value


def _is_list(value: Any) -> bool:
    return not isinstance(value, int | float | str) and isinstance(value, Sequence)


def _shape_of(given: onnx.TypeProto | None) -> tuple[int | str | None, ...] | None:
    if given is None or not given.HasField("tensor_type") or not given.tensor_type.HasField("shape"):
        return None
    return tuple(
        each.dim_value if each.HasField("dim_value") else each.dim_param or None for each in given.tensor_type.shape.dim
    )


def _set_shape(made: onnx.TypeProto, shape: Shape) -> None:
    made.tensor_type.shape.SetInParent()
    for size in shape or ():
        dimension = made.tensor_type.shape.dim.add()
        if isinstance(size, str):
            dimension.dim_param = size
        elif size is not None:
            dimension.dim_value = int(size)
