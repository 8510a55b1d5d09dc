"""Small changes to valid things: models that run, sizes they state, documents of packages.

Every choice comes from the seed.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import onnx
import onnx.parser
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from tests.fuzz.random_models import random_model

#: What sizes are changed to.
EDGES = (
    0, 1, -1, 2, 7, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63), -(1 << 31),
)  # fmt: skip
_BASES = (
    """<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[N, 4] x, bool c) => (float[N, M] y)
       <float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}, float[4] b = {1, 2, 3, 4}> {
       m = MatMul(x, w) a = Add(m, b) g1 = com.microsoft.FastGelu(a) s = Shape(g1) r = Reshape(g1, s)
       y = If (c) <then_branch = t () => (float[N, M] p) { p = Mul(r, w) }, else_branch = e () => (float[N, M] q) {
       q = Relu(r) }> }""",
    """<ir_version: 9, opset_import: ["" : 18]> g (float16[1, 2, 8, 8] x) => (float16[N, C, H, W] y)
       { a = Conv <pads = [1, 1, 1, 1]> (x, k) n = Relu(a) f = Cast <to = 1> (n)
       h = Cast <to = 10> (f) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (h) }""",
    """<ir_version: 9, opset_import: ["" : 18, "f" : 1]> g (float[8] x) => (float[N] y) {
       a = f.twice(x) l = Size(a) y = Identity(a) }
       <domain: "f", opset_import: ["" : 18]> twice (p) => (q) { r = Add(p, p) q = Neg(r) }""",
)
_SIZED = (
    ("Slice", ("x", "s0", "s1", "s2", "s3")), ("Resize", ("x", "", "", "s0")), ("Pad", ("x", "s0")),
    ("Reshape", ("x", "s0")), ("Expand", ("x", "s0")), ("Tile", ("x", "s0")),
    ("ConstantOfShape", ("s0",)), ("Range", ("s0", "s1", "s2")), ("Split", ("x", "s0")),
    ("Unsqueeze", ("x", "s0")), ("Gather", ("x", "s0")), ("OneHot", ("s0", "s1", "v")),
    ("TopK", ("x", "s0")), ("CenterCropPad", ("x", "s0")), ("Trilu", ("x", "s0")),
    ("CumSum", ("x", "s0")), ("ReduceSum", ("x", "s0")), ("Col2Im", ("x", "s0", "s1")),
    ("MaxPool", ("x",)), ("AveragePool", ("x",)), ("ConvTranspose", ("x", "k")),
    ("DepthToSpace", ("x",)), ("SpaceToDepth", ("x",)),
)  # fmt: skip


@cache
def _base_models() -> tuple[ModelProto, ...]:
    models = tuple(map(onnx.parser.parse_model, _BASES))
    kernel = helper.make_tensor("k", TensorProto.FLOAT16, [2, 2, 3, 3], [0.5] * 36)
    models[1].graph.initializer.append(kernel)  # the parser takes no values of float16
    return models


def mutated_model(seed: int) -> bytes:
    """A model with a few things changed: parts of its message, or bytes of the file."""
    choose = random.Random(seed)
    model = ModelProto()
    model.CopyFrom(choose.choice(_base_models()) if choose.random() < 0.6 else random_model(seed))
    for _ in range(choose.randint(1, 3)):
        choose.choice(CHANGES)(choose, model)
    data = bytes(model.SerializeToString())
    if data and choose.random() < 0.15:
        place = choose.randrange(len(data))
        data = data[:place] + bytes([data[place] ^ 1 << choose.randrange(8)]) + data[place + 1 :]
    return data[: choose.randrange(len(data) + 1)] if choose.random() < 0.02 else data


def model_of_sizes(seed: int) -> bytes:
    """One operator whose sizes come from constants at the edges of what they may be."""
    choose = random.Random(seed)
    op_type, inputs = choose.choice(_SIZED)
    graph = GraphProto(name="sizes")
    shape = [choose.choice((*EDGES[:5], 4, "N")) for _ in range(choose.randrange(5))]
    shape = [size if isinstance(size, str) else abs(size) % 64 for size in shape]
    graph.input.append(helper.make_tensor_value_info("x", choose.choice((1, 7, 10)), shape))
    for name in sorted({name for name in inputs if name not in ("", "x")}):
        count = choose.choice((0, 1, 1, 2, 3, 4, 8))
        numbers = [
            choose.choice(EDGES) if choose.random() < 0.5 else choose.randrange(-3, 6)
            for _ in range(count)
        ]
        kind = TensorProto.INT64 if choose.random() < 0.9 else TensorProto.FLOAT
        dims = [] if count == 1 and choose.random() < 0.3 else [count]
        values = numbers if kind == TensorProto.INT64 else [float(number) for number in numbers]
        graph.initializer.append(helper.make_tensor(name, kind, dims, values))
    node = NodeProto(op_type=op_type, input=inputs, output=["y"])
    for name in ("kernel_shape", "strides", "pads", "dilations", "axes", "output_shape"):
        if choose.random() < 0.4 and op_type in (
            "MaxPool",
            "AveragePool",
            "ConvTranspose",
            "Resize",
            "CenterCropPad",
        ):
            count = choose.choice((1, 2, 2, 4))
            node.attribute.append(
                helper.make_attribute(name, [choose.choice(EDGES) for _ in range(count)])
            )
    for name in ("blocksize", "axis", "to", "ceil_mode"):
        if choose.random() < 0.2:
            node.attribute.append(helper.make_attribute(name, choose.choice(EDGES)))
    graph.node.extend([node, NodeProto(op_type="Shape", input=["y"], output=["z"])])
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("y", "z"))
    model = ModelProto(ir_version=9, graph=graph)
    model.opset_import.add(domain="", version=choose.choice((11, 13, 18, 19, 21)))
    return bytes(model.SerializeToString())


# --- models ---------------------------------------------------------------------------------------


def _nodes(model: ModelProto) -> list[Any]:
    found, pending = [], [model.graph, *model.functions]
    while pending:
        for node in pending.pop().node:
            found.append(node)
            pending += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return found


def _change_name(choose: random.Random, model: ModelProto) -> None:
    node = choose.choice(_nodes(model) or [NodeProto()])
    names = choose.choice((node.input, node.output))
    if names and choose.random() < 0.7:
        names[choose.randrange(len(names))] = choose.choice(
            ("", "x", "y", "a", "none", "\x1b[31m", "p")
        )
    elif names:
        del names[choose.randrange(len(names)) :]


def _change_operator(choose: random.Random, model: ModelProto) -> None:
    nodes = _nodes(model)
    if nodes:
        node, other = choose.choice(nodes), choose.choice(nodes)
        node.op_type = choose.choice(
            (other.op_type, "Gelu", "MultiHeadAttention", "Nothing\n", "Identity", "Loop")
        )
        node.domain = choose.choice((node.domain, "", "com.microsoft", "ai.onnx.ml", "f"))


def _change_attribute(choose: random.Random, model: ModelProto) -> None:
    attributes = [attribute for node in _nodes(model) for attribute in node.attribute]
    if attributes:
        attribute = choose.choice(attributes)
        if attribute.ints and choose.random() < 0.7:
            attribute.ints[choose.randrange(len(attribute.ints))] = choose.choice(EDGES)
        else:
            attribute.i = choose.choice((*EDGES, 99))


def _change_type(choose: random.Random, model: ModelProto) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if values:
        tensor = choose.choice(values).type.tensor_type
        if tensor.shape.dim and choose.random() < 0.6:
            choose.choice(list(tensor.shape.dim)).dim_value = choose.choice(EDGES)
        else:
            tensor.elem_type = choose.choice((*range(24), 99))


def _change_constant(choose: random.Random, model: ModelProto) -> None:
    if model.graph.initializer:
        tensor = choose.choice(list(model.graph.initializer))
        choose.choice(
            (
                lambda: tensor.dims.append(choose.choice(EDGES)),
                lambda: setattr(tensor, "data_type", choose.choice((*range(24), 99))),
                lambda: tensor.ClearField("float_data"),
                lambda: setattr(tensor, "name", choose.choice(("", "x", "y"))),
            )
        )()


def _change_opset(choose: random.Random, model: ModelProto) -> None:
    if model.opset_import:
        choose.choice(list(model.opset_import)).version = choose.choice(EDGES)


def _change_outputs(choose: random.Random, model: ModelProto) -> None:
    graphs = [model.graph, *(attribute.g for node in _nodes(model) for attribute in node.attribute)]
    outputs = choose.choice(graphs).output
    if outputs and choose.random() < 0.5:
        outputs[choose.randrange(len(outputs))].name = choose.choice(("", "x", "none"))
    elif outputs:
        del outputs[0]


#: A thing each to change in a model.
CHANGES: tuple[Callable[[random.Random, ModelProto], None], ...] = (
    _change_name, _change_operator, _change_attribute, _change_type, _change_constant,
    _change_opset, _change_outputs,
)  # fmt: skip

# --- documents ------------------------------------------------------------------------------------

_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 70, 1.5, "", "..", "/etc/passwd", "a/../b", "\x1b[2J", "\u202e", "x" * 300, [], {}, [[]],
    {"": 0}, ["a", 1], "CPUExecutionProvider", "sha256:" + "a" * 64, "1.0", "9.9", "v", "\ud800", "con", "a\\b",
)  # fmt: skip

_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7")


def mutated_document(seed: int, text: str) -> bytes:
    """A document of a package with a few things changed."""
    choose = random.Random(seed)
    if choose.random() < 0.05:
        return text.encode(choose.choice(_ENCODINGS))
    if choose.random() < 0.25:
        data = bytearray(text.encode())
        for _ in range(choose.randint(1, 3)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        return bytes(data[: choose.randrange(len(data))] if choose.random() < 0.1 else data)
    value = json.loads(text)
    for _ in range(choose.randint(1, 3)):
        value = _changed(choose, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _changed(choose: random.Random, value: Any) -> Any:
    """``value`` with one thing in it changed."""
    value = copy.deepcopy(value)
    place, keys = value, _keys(value)
    while keys and choose.random() < 0.75:
        key = choose.choice(keys)
        inner = _keys(place[key])
        if not inner:
            place[key] = choose.choice(_VALUES)
            return value
        place, keys = place[key], inner
    if not keys:
        return choose.choice(_VALUES)
    key = choose.choice(keys)
    if isinstance(place, dict) and choose.random() < 0.4:
        moved = place.pop(key)
        if choose.random() < 0.6:
            place[choose.choice(("", "v", "\n", "..", "extra", "ep", "files"))] = moved
    else:
        place[key] = choose.choice(_VALUES)
    return value


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []
