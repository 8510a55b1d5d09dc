"""Random models, mostly wrong: one operator of any version, with random surroundings.

Every choice comes from the seed, so a number is all that a failure needs to be seen again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
)

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
#: What attributes and shape inputs are made of: mostly small, sometimes at the edges of their
#: types.
_INTS = (
    0,
    1,
    1,
    2,
    3,
    4,
    -1,
    -2,
    5,
    7,
    16,
    100,
    -100,
    1 << 20,
    1 << 31,
    1 << 32,
    1 << 40,
    _INT_MAX,
    _INT_MIN,
)
_FLOATS = (
    0.0,
    1.0,
    0.5,
    -1.0,
    2.0,
    1e-30,
    1e30,
    -1e30,
    3.4e38,
    float("inf"),
    float("-inf"),
    float("nan"),
)
_STRINGS = (
    b"", b"NOTSET", b"SAME_UPPER", b"VALID", b"linear", b"nearest", b"cubic", b"constant",
    b"reflect", b"edge", b"wrap", b"ij,jk->ik", b"...i->i", b"ii", b"add", b"mul", b"max",
    b"bidirectional", b"reverse", b"forward", b"Tanh", b"Relu", b"tf_crop_and_resize",
    b"align_corners", b"asymmetric", b"BRANCH_LEQ", b"LEAF", b"SUM", b"TF", b"IDF", b"RBF",
    b"LOGISTIC", b"DCR", b"CRD", b"mean", b"none", b"UPPER", b"LOWER", b"a(b", b"\xff\xfe", b"a" * 300, b"\x00",
)  # fmt: skip
_DIMENSIONS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 8)
_ODD_DIMENSIONS = (-1, -7, 1 << 20, 1 << 31, 1 << 40, _INT_MAX)
_ELEMENT_TYPES = tuple(
    number for number in TensorProto.DataType.values() if number != TensorProto.UNDEFINED
)
_NUMPY_TYPES = (
    TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT64, TensorProto.INT32,
    TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT16,
    TensorProto.UINT16, TensorProto.BFLOAT16, TensorProto.STRING, TensorProto.INT4,
    TensorProto.UINT4, TensorProto.FLOAT8E4M3FN, TensorProto.COMPLEX64,
)  # fmt: skip
_KINDS = (
    "FLOAT",
    "INT",
    "STRING",
    "TENSOR",
    "GRAPH",
    "FLOATS",
    "INTS",
    "STRINGS",
    "TENSORS",
    "GRAPHS",
    "TYPE_PROTO",
)
_TYPE_NUMBERS = {
    f"tensor({name.lower()})": number
    for name, number in TensorProto.DataType.items()
    if name != "UNDEFINED"
}
_DEPTH = 2


@cache
def schemas() -> tuple[onnx.defs.OpSchema, ...]:
    """Every version of every operator, in a fixed order."""
    found = onnx.defs.get_all_schemas_with_history()
    return tuple(
        sorted(found, key=lambda schema: (schema.domain, schema.name, schema.since_version))
    )


def random_model(seed: int, op_type: str = "") -> ModelProto:
    """The model of ``seed``; of operator ``op_type``, where one is named."""
    return _Maker(random.Random(seed)).model(op_type)


def random_feeds(
    seed: int, inputs: Sequence[tuple[str, Any, Sequence[Any] | None]]
) -> dict[str, Any]:
    """Arrays for inputs (name, numpy type, shape); an open dimension is random by its name."""
    choose = random.Random(seed)
    sizes: dict[str, int] = {}
    feeds: dict[str, Any] = {}
    for name, dtype, shape in inputs:
        dimensions = (
            [choose.choice(_DIMENSIONS) for _ in range(choose.randrange(5))]
            if shape is None
            else shape
        )
        known = [
            (
                size
                if isinstance(size, int)
                else sizes.setdefault(str(size), choose.choice(_DIMENSIONS))
            )
            for size in dimensions
        ]
        known = [max(size, 0) for size in known]
        if math.prod(max(size, 1) for size in known) > 1_000_000 or len(known) > 8:
            known = [min(size, 3) for size in known[:8]]
        feeds[name] = _array(choose, known, dtype)
    return feeds


def _array(choose: random.Random, shape: Sequence[int], dtype: Any) -> Any:
    count = math.prod(shape)
    if dtype == np.dtype(object):
        return np.array(
            [choose.choice(("", "a", "b c", "\u00e4", "2.5")) for _ in range(count)], object
        ).reshape(shape)
    pool: Sequence[Any] = (
        _FLOATS if choose.random() < 0.2 else _INTS[: choose.choice((4, 6, 12, len(_INTS)))]
    )
    values = np.array([choose.choice(pool) for _ in range(count)], np.float64)
    if np.dtype(dtype).kind in "iu":
        values = np.clip(np.nan_to_num(values), -(2.0**62), 2.0**62).astype(np.int64)
    with np.errstate(all="ignore"):
        return values.astype(dtype).reshape(shape)


class _Maker:
    """Makes one model; ``_values`` are the names that nodes may take."""

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose
        self._count = 0
        self._values: list[str] = []

    def _is(self, chance: float) -> bool:
        return self._choose.random() < chance

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def model(self, op_type: str) -> ModelProto:
        candidates = [schema for schema in schemas() if op_type in ("", schema.name)]
        schema = self._choose.choice(candidates)
        graph = GraphProto(name="fuzz")
        node = self._node(schema, graph, 0)
        graph.node.append(node)
        made = [name for name in node.output if name]
        if made and self._is(0.3):
            follower = self._node(self._choose.choice(schemas()), graph, 0, fixed=made)
            if follower.domain == schema.domain:
                graph.node.append(follower)
                made += [name for name in follower.output if name]
        for name in made:
            if self._is(0.8):
                graph.output.append(
                    self._value_info(name, None) if self._is(0.2) else ValueInfoProto(name=name)
                )
        model = ModelProto(ir_version=self._choose.choice((3, 8, 10, 10, 11)), graph=graph)
        model.opset_import.add(domain=schema.domain, version=schema.since_version)
        if schema.domain:
            model.opset_import.add(domain="", version=self._choose.choice((13, 18, 21)))
        return model

    # --- nodes ------------------------------------------------------------------------------------

    def _node(
        self, schema: onnx.defs.OpSchema, graph: GraphProto, depth: int, fixed: Sequence[str] = ()
    ) -> NodeProto:
        node = NodeProto(op_type=schema.name, domain=schema.domain, name="n")
        most = min(schema.max_input, len(schema.inputs) + 2)
        least = min(schema.min_input, most)
        count = self._choose.randint(least, most)
        if self._is(0.15):
            count = self._choose.randint(0, most + 1)
        bound: dict[str, int] = {}
        for slot in range(count):
            if fixed and self._is(0.6):
                node.input.append(self._choose.choice(list(fixed)))
                continue
            formal = schema.inputs[min(slot, len(schema.inputs) - 1)] if schema.inputs else None
            is_needed = (
                formal is not None
                and formal.option != onnx.defs.OpSchema.FormalParameterOption.Optional
            )
            node.input.append(
                ""
                if self._is(0.05 if is_needed else 0.3)
                else self._input(graph, formal, bound, depth)
            )
        most = min(schema.max_output, len(schema.outputs) + 2)
        count = self._choose.randint(min(max(schema.min_output, 1), most), most)
        if self._is(0.1):
            count = self._choose.randint(0, most + 1)
        node.output.extend("" if self._is(0.05) else self._name() for _ in range(count))
        for name in sorted(schema.attributes):
            definition = schema.attributes[name]
            if definition.required or self._is(0.5):
                if self._is(0.04):
                    continue
                kind = str(definition.type).rsplit(".", maxsplit=1)[-1]
                kind = self._choose.choice(_KINDS) if self._is(0.04) else kind
                node.attribute.append(self._attribute(name, kind, depth))
        if self._is(0.02):
            node.attribute.append(
                self._attribute("no_such_attribute", self._choose.choice(_KINDS), depth)
            )
        return node

    def _input(self, graph: GraphProto, formal: Any, bound: dict[str, int], depth: int) -> str:
        """A new value that the graph defines in one of many ways; or one that there is already."""
        if self._values and self._is(0.15):
            return self._choose.choice(self._values)
        name = self._name()
        self._values.append(name)
        element_type = self._element_type(formal, bound)
        way = self._choose.random()
        if way < 0.3 and element_type in _NUMPY_TYPES:
            graph.initializer.append(self._tensor(name, element_type))
            if self._is(0.2):
                graph.input.append(self._value_info(name, element_type))
        elif way < 0.36:
            graph.input.append(ValueInfoProto(name=name))
        elif depth:
            graph.initializer.append(self._tensor(name, self._choose.choice(_NUMPY_TYPES)))
        else:
            graph.input.append(self._value_info(name, element_type))
        return name

    def _element_type(self, formal: Any, bound: dict[str, int]) -> int:
        if formal is None or self._is(0.06):
            return int(self._choose.choice(_ELEMENT_TYPES))
        name = str(formal.type_str)
        if name in bound:
            return bound[name]
        allowed = [_TYPE_NUMBERS[text] for text in sorted(formal.types) if text in _TYPE_NUMBERS]
        common = [number for number in _NUMPY_TYPES if number in allowed]
        found: int = self._choose.choice(common or allowed or list(_ELEMENT_TYPES))
        bound[name] = found
        return found

    # --- values -----------------------------------------------------------------------------------

    def _dimensions(self) -> list[int]:
        rank = (
            self._choose.choice((0, 1, 1, 2, 2, 3, 4, 4, 5))
            if self._is(0.98)
            else self._choose.choice((9, 33, 65))
        )
        return [self._choose.choice(_DIMENSIONS) for _ in range(rank)]

    def _value_info(self, name: str, element_type: int | None) -> ValueInfoProto:
        number = self._choose.choice(_ELEMENT_TYPES) if element_type is None else element_type
        proto = TypeProto()
        tensor = proto.tensor_type
        way = self._choose.random()
        if way < 0.04:
            tensor = proto.sequence_type.elem_type.tensor_type
        elif way < 0.06:
            tensor = proto.optional_type.elem_type.tensor_type
        elif way < 0.08:
            proto.map_type.key_type = TensorProto.INT64
            tensor = proto.map_type.value_type.tensor_type
        elif way < 0.09:
            proto.sparse_tensor_type.elem_type = number
            return ValueInfoProto(name=name, type=proto)
        tensor.elem_type = number
        if self._is(0.85):
            shape = tensor.shape
            shape.SetInParent()
            for size in self._dimensions():
                dimension = shape.dim.add()
                if self._is(0.8):
                    dimension.dim_value = (
                        self._choose.choice(_ODD_DIMENSIONS) if self._is(0.02) else size
                    )
                elif self._is(0.6):
                    dimension.dim_param = self._choose.choice(("N", "M", ""))
        return ValueInfoProto(name=name, type=proto)

    def _tensor(self, name: str, element_type: int) -> TensorProto:
        shape = self._dimensions()
        if element_type == TensorProto.INT64 and self._is(0.6):
            shape = [self._choose.randrange(6)]
        shape = [min(size, 3) for size in shape] if len(shape) < 8 else [1] * len(shape)
        if element_type == TensorProto.STRING:
            count = int(np.prod(shape)) if shape else 1
            texts = TensorProto(name=name, data_type=element_type, dims=shape)
            texts.string_data.extend(self._choose.choice(_STRINGS) for _ in range(count))
            return texts
        dtype = helper.tensor_dtype_to_np_dtype(element_type)
        tensor = onnx.numpy_helper.from_array(
            _array(self._choose, [] if len(shape) > 8 else shape, dtype), name
        )
        tensor.dims[:] = shape
        way = self._choose.random()
        if way < 0.02:
            tensor.dims.append(self._choose.choice(_ODD_DIMENSIONS))
        elif way < 0.03:
            tensor.raw_data = tensor.raw_data[:-1]
        elif way < 0.04:
            tensor.data_type = self._choose.choice(_ELEMENT_TYPES)
        elif way < 0.05:
            tensor.ClearField("raw_data")
            tensor.float_data.extend([1.0, 2.0])
        return tensor

    def _attribute(self, name: str, kind: str, depth: int) -> AttributeProto:
        choose = self._choose
        number = AttributeProto.AttributeType.Value(kind)
        proto = AttributeProto(name=name, type=number)
        length = choose.choice((0, 1, 1, 2, 2, 2, 3, 4, 4, 6, 8, 40))
        small = self._is(0.75)

        def integer() -> int:
            return choose.choice(_INTS[:10]) if small else choose.choice(_INTS)

        match kind:
            case "INT":
                proto.i = integer()
            case "FLOAT":
                proto.f = choose.choice(_FLOATS)
            case "STRING":
                proto.s = choose.choice(_STRINGS)
            case "INTS":
                proto.ints.extend(integer() for _ in range(length))
            case "FLOATS":
                proto.floats.extend(choose.choice(_FLOATS) for _ in range(length))
            case "STRINGS":
                proto.strings.extend(choose.choice(_STRINGS) for _ in range(length))
            case "TENSOR":
                proto.t.CopyFrom(self._tensor("t", choose.choice(_NUMPY_TYPES)))
            case "TENSORS":
                proto.tensors.extend(
                    self._tensor("t", choose.choice(_NUMPY_TYPES)) for _ in range(length)
                )
            case "GRAPH":
                proto.g.CopyFrom(self._subgraph(depth + 1))
            case "GRAPHS":
                proto.graphs.extend(self._subgraph(depth + 1) for _ in range(min(length, 2)))
            case "TYPE_PROTO":
                proto.tp.CopyFrom(self._value_info("t", None).type)
            case "SPARSE_TENSOR":
                proto.sparse_tensor.values.CopyFrom(self._tensor("s", TensorProto.FLOAT))
                proto.sparse_tensor.indices.CopyFrom(self._tensor("i", TensorProto.INT64))
                proto.sparse_tensor.dims.extend(self._dimensions())
        if self._is(0.01):
            proto.type = choose.choice(
                (AttributeProto.UNDEFINED, AttributeProto.INTS, AttributeProto.STRING)
            )
        return proto

    def _subgraph(self, depth: int) -> GraphProto:
        graph = GraphProto(name="inner")
        for _ in range(self._choose.randrange(5)):
            name = self._name()
            typed = self._value_info(name, self._choose.choice(_NUMPY_TYPES))
            graph.input.append(typed if self._is(0.7) else ValueInfoProto(name=name))
        inside = [value.name for value in graph.input]
        for _ in range(self._choose.randrange(3)):
            plain = (
                "Add",
                "Identity",
                "Cast",
                "Reshape",
                "Concat",
                "Shape",
                "Constant",
                "SequenceEmpty",
            )
            wanted = (*plain, "If", "Loop") if depth < _DEPTH else plain
            name = self._choose.choice(wanted)
            versions = [schema for schema in schemas() if schema.name == name and not schema.domain]
            node = self._node(self._choose.choice(versions), graph, depth, fixed=inside)
            graph.node.append(node)
            inside += [made for made in node.output if made]
        for _ in range(self._choose.randrange(5)):
            if inside:
                name = self._choose.choice(inside)
                graph.output.append(
                    self._value_info(name, None) if self._is(0.3) else ValueInfoProto(name=name)
                )
        return graph
