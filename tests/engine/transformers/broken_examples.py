"""Breaks a model in every generic way: each copy differs from it in one thing.

Other readers of inner values, other nodes, inputs, attributes, constants, types, shapes, opsets. A
copy may be no valid model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

Edit = Callable[[onnx.ModelProto], None]
Edits = Iterator[tuple[str, Edit]]

_SAME_ARITY = (
    ("Add", "Sub", "Mul", "Div", "Pow", "Max"),
    ("Relu", "Neg", "Exp", "Tanh", "Erf", "Sqrt", "Sigmoid", "HardSigmoid", "Softmax", "Identity"),
    ("ReduceMean", "ReduceSum", "ReduceMax"),
    ("MatMul", "Add"),
    ("DequantizeLinear", "QuantizeLinear"),
    ("Conv", "ConvTranspose"),
    ("Reshape", "Expand"),
)
_TEXTS = ("SAME_UPPER", "VALID", "tanh", "reflect", "edge")
_OPSETS = (6, 9, 12, 16, 18, 20, 23, 24)
_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT16)


def broken_copies(
    model: onnx.ModelProto, types: dict[str, onnx.TypeProto]
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield what was changed, and the changed copy; ``types`` are those of the inner values."""
    edits = (
        _other_readers(model, types),
        _other_nodes(model),
        _other_inputs(model, types),
        _other_attributes(model),
        _other_constants(model),
        _other_shapes(model),
        _other_kinds(),
    )
    for group in edits:
        for words, edit in group:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            edit(copy)
            yield words, copy


def _inner_values(model: onnx.ModelProto) -> list[str]:
    kept = {output.name for output in model.graph.output}
    names = (name for node in model.graph.node for name in node.output)
    return [name for name in names if name and name not in kept]


# --- readers --------------------------------------------------------------------------------------


def _other_readers(model: onnx.ModelProto, types: dict[str, onnx.TypeProto]) -> Edits:
    for name in _inner_values(model):
        if name not in types:
            continue
        yield f"{name} is an output", _as_output(name, types[name])
        yield f"{name} is read again", _read_again(name, types[name])
        yield f"{name} is read in a branch", _read_in_branch(name, types[name])
    for index, node in enumerate(model.graph.node):
        schema = _schema(node)
        if schema is not None and len(node.output) < schema.max_output <= 4:
            yield f"all outputs of node {index} are used", _more_outputs(index, schema.max_output)


def _as_output(name: str, kind: onnx.TypeProto) -> Edit:
    return lambda model: model.graph.output.append(helper.make_value_info(name, kind))


def _read_again(name: str, kind: onnx.TypeProto) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        model.graph.node.append(helper.make_node("Identity", [name], ["again"]))
        model.graph.output.append(helper.make_value_info("again", kind))

    return edit


def _read_in_branch(name: str, kind: onnx.TypeProto) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        branches = {
            f"{branch}_branch": helper.make_graph(
                [helper.make_node("Identity", [name], [branch])],
                branch,
                [],
                [helper.make_value_info(branch, kind)],
            )
            for branch in ("then", "else")
        }
        model.graph.input.append(helper.make_tensor_value_info("choice", TensorProto.BOOL, []))
        model.graph.node.append(helper.make_node("If", ["choice"], ["again"], **branches))
        model.graph.output.append(helper.make_value_info("again", kind))

    return edit


def _more_outputs(index: int, count: int) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        node = model.graph.node[index]
        for number in range(len(node.output), count):
            node.output.append(f"more{number}")
            kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
            model.graph.output.append(helper.make_value_info(f"more{number}", kind))

    return edit


# --- nodes ----------------------------------------------------------------------------------------


def _schema(node: onnx.NodeProto) -> Any:
    return defs.get_schema(node.op_type, "") if not node.domain else None


def _other_nodes(model: onnx.ModelProto) -> Edits:
    for index, node in enumerate(model.graph.node):
        for row in _SAME_ARITY:
            for op_type in row if node.op_type in row and not node.domain else ():
                if op_type != node.op_type:
                    yield f"node {index} is {op_type}", _with_op_type(index, op_type)


def _with_op_type(index: int, op_type: str) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        node = model.graph.node[index]
        node.op_type = op_type
        if op_type in {"Identity", "Add"}:
            del node.attribute[:]

    return edit


def _other_inputs(model: onnx.ModelProto, types: dict[str, onnx.TypeProto]) -> Edits:
    before = [*(value.name for value in model.graph.input)]
    before += [tensor.name for tensor in model.graph.initializer]
    for index, node in enumerate(model.graph.node):
        for slot, name in enumerate(node.input):
            for other in (*before, ""):
                if other != name:
                    yield (
                        f"input {slot} of node {index} is {other!r}",
                        _with_input(index, slot, other),
                    )
            if name in types:
                yield (
                    f"input {slot} of node {index} is given",
                    _with_input(index, slot, "given", types[name]),
                )
        before += node.output


def _with_input(index: int, slot: int, name: str, kind: onnx.TypeProto | None = None) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[index].input[slot] = name
        if kind is not None:
            model.graph.input.append(helper.make_value_info(name, kind))

    return edit


# --- attributes -----------------------------------------------------------------------------------


def _other_attributes(model: onnx.ModelProto) -> Edits:
    for index, node in enumerate(model.graph.node):
        present = {attribute.name: attribute for attribute in node.attribute}
        for name, attribute in present.items():
            yield f"node {index} without {name}", _with_attribute(index, name, None)
            for value in _changed_values(helper.get_attribute_value(attribute)):
                yield f"{name} of node {index} is {value}", _with_attribute(index, name, value)
        schema = _schema(node)
        for name, attribute in schema.attributes.items() if schema is not None else ():
            values = () if name in present else _odd_values(attribute.type)
            for value in values:
                yield f"{name} of node {index} is {value}", _with_attribute(index, name, value)


def _changed_values(value: Any) -> Iterator[Any]:
    if isinstance(value, int):
        yield from (value + 1, value - 1, -value)
    elif isinstance(value, float):
        yield from (value * 1.5, -value, 0.0)
    elif isinstance(value, list) and all(isinstance(element, int) for element in value):
        for first in range(len(value)):
            yield [*value[:first], value[first] + 1, *value[first + 1 :]]
            for other in range(first):
                swapped = list(value)
                swapped[first], swapped[other] = value[other], value[first]
                yield swapped


def _odd_values(kind: Any) -> tuple[Any, ...]:
    return {
        defs.OpSchema.AttrType.INT: (0, 1, 2, -1, TensorProto.FLOAT16),
        defs.OpSchema.AttrType.FLOAT: (0.5, 0.0),
        defs.OpSchema.AttrType.STRING: _TEXTS,
        defs.OpSchema.AttrType.INTS: ([0], [1], [0, 1]),
    }.get(kind, ())


def _with_attribute(index: int, name: str, value: Any) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        node = model.graph.node[index]
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        if value is not None:
            node.attribute.append(helper.make_attribute(name, value))

    return edit


# --- constants ------------------------------------------------------------------------------------


def _other_constants(model: onnx.ModelProto) -> Edits:
    for index, tensor in enumerate(model.graph.initializer):
        yield f"{tensor.name} is given", _as_input(index, keeps_default=False)
        yield f"{tensor.name} may be given", _as_input(index, keeps_default=True)
        for number, array in enumerate(_changed_arrays(numpy_helper.to_array(tensor))):
            words = f"{tensor.name} is changed ({number})"
            yield words, _with_constant(index, array)


def _as_input(index: int, *, keeps_default: bool) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[index]
        value = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        model.graph.input.append(value)
        if not keeps_default:
            del model.graph.initializer[index]

    return edit


def _changed_arrays(array: np.ndarray) -> Iterator[np.ndarray]:
    one = np.ones_like(array) if array.dtype != bool else np.ones(array.shape, bool)
    if array.dtype == bool:
        yield ~array
        return
    yield array + one
    yield array - one
    yield array * 0
    if array.dtype.kind != "u":
        yield -array
    for position in range(min(array.size, 8) if array.size > 1 else 0):
        for change in (1, -1):
            changed = array.copy()
            changed.reshape(-1)[position] += np.asarray(change).astype(array.dtype)
            yield changed
    if array.dtype.kind == "f":
        yield array * np.nan
    for axes in (0, -1, (0, 1)):
        yield np.expand_dims(array, axes)
    if array.ndim:
        yield array.reshape(-1)
        yield array[..., 0]
        yield np.concatenate([array, array + one], axis=-1)
        yield np.concatenate([array, array + one], axis=0)
    yield np.stack([array, array + one])
    yield np.stack([array, array + one], axis=-1)
    for dtype in (np.float64, np.float16, np.int8, np.uint8, np.int32):
        if array.dtype != dtype:
            yield array.astype(dtype)


def _with_constant(index: int, array: np.ndarray) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[index]
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(array), tensor.name))

    return edit


# --- types, shapes and versions -------------------------------------------------------------------


def _other_shapes(model: onnx.ModelProto) -> Edits:
    for index, value in enumerate(model.graph.input):
        yield f"{value.name} is of any shape", _without_shape(index)
        yield f"{value.name} has one dimension more", _with_more_dimensions(index)
        yield f"{value.name} has one dimension less", _with_fewer_dimensions(index)
        for axis in range(len(value.type.tensor_type.shape.dim)):
            for size in (1, 2, 5, "free", None):
                words = f"axis {axis} of {value.name} is {size}"
                yield words, _with_size(index, axis, size)
    sizes = {
        dimension.dim_value for value in model.graph.input
        for dimension in value.type.tensor_type.shape.dim if dimension.dim_value
    }  # fmt: skip
    for old in sorted(sizes):
        for new in (1, "free", None):
            yield f"{old} is {new} everywhere", _with_size_everywhere(old, new)


def _without_output_shapes(model: onnx.ModelProto) -> None:
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")


def _without_shape(index: int) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        _without_output_shapes(model)
        shape = model.graph.input[index].type.tensor_type.shape
        for dimension in shape.dim:
            dimension.Clear()

    return edit


def _with_more_dimensions(index: int) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        _without_output_shapes(model)
        shape = model.graph.input[index].type.tensor_type.shape
        sizes = list(shape.dim)
        del shape.dim[:]
        shape.dim.add().dim_value = 2
        shape.dim.extend(sizes)

    return edit


def _with_fewer_dimensions(index: int) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        _without_output_shapes(model)
        del model.graph.input[index].type.tensor_type.shape.dim[:1]

    return edit


def _set(dimension: Any, size: int | str | None) -> None:
    dimension.Clear()
    if isinstance(size, int):
        dimension.dim_value = size
    elif size is not None:
        dimension.dim_param = size


def _with_size(index: int, axis: int, size: int | str | None) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        _without_output_shapes(model)
        _set(model.graph.input[index].type.tensor_type.shape.dim[axis], size)

    return edit


def _with_size_everywhere(old: int, new: int | str | None) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        _without_output_shapes(model)
        for value in model.graph.input:
            for dimension in value.type.tensor_type.shape.dim:
                if dimension.dim_value == old:
                    _set(dimension, new)

    return edit


def _other_kinds() -> Edits:
    for opset in _OPSETS:
        yield f"opset {opset}", _with_opset(opset)
    for kind in _FLOATS:
        yield f"floats are of kind {kind}", _with_floats(kind)


def _with_opset(opset: int) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        for entry in model.opset_import:
            if not entry.domain:
                entry.version = opset

    return edit


def _with_floats(kind: int) -> Edit:
    def edit(model: onnx.ModelProto) -> None:
        for value in (*model.graph.input, *model.graph.output):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = kind
        for tensor in model.graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                array = numpy_helper.to_array(tensor)
                dtype = helper.tensor_dtype_to_np_dtype(kind)
                tensor.CopyFrom(numpy_helper.from_array(array.astype(dtype), tensor.name))

    return edit
