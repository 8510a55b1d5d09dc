"""The onnx package's node cases, with a few changes to the models or to what they are fed.

Every choice comes from the seed.
"""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.conformance.cases import as_value
from tests.conformance.node_cases import node_cases
from tests.fuzz.mutants import CHANGES, EDGES

_MOST_NBYTES = 100_000
#: Behind an output, for what looks at pairs of nodes.
_FOLLOWERS = (
    "Identity", "Relu", "Neg", "Transpose", "Shape", "Size", "Flatten", "Cast", "Not", "Sqrt", "Unsqueeze", "Squeeze",
    "Softmax", "Dropout", "Add", "Mul", "MatMul", "Concat", "Reshape", "Where", "Max", "QuantizeLinear", "SequenceConstruct",
)  # fmt: skip

Feeds = dict[str, Any]


@cache
def operator_cases() -> tuple[tuple[bytes, Feeds], ...]:
    """The small node cases: a model, and what it is fed. Computed once for a checkout."""
    found = []
    for case in node_cases():
        model = case.model.SerializeToString()
        inputs, _ = case.data_sets[0]
        names = [value.name for value in case.model.graph.input]
        feeds = dict(zip(names, map(as_value, inputs), strict=False))
        nbytes = sum(getattr(value, "nbytes", 0) for value in feeds.values())
        if len(model) + nbytes <= _MOST_NBYTES:
            found.append((model, feeds))
    return tuple(found)


def mutated_operator(seed: int) -> tuple[bytes, Feeds]:
    """A node case with one to three changes; its integers are constants more often than not."""
    choose = random.Random(seed)
    data, known = choose.choice(operator_cases())
    model, feeds = ModelProto.FromString(data), dict(known)
    for name in list(feeds):
        is_size = getattr(feeds[name], "dtype", None) == np.int64
        if choose.random() < (0.6 if is_size else 0.1):
            fix_input(model, feeds, name)
    if choose.random() < 0.4:
        _loosen(choose, model)
    if choose.random() < 0.4:
        _follow(choose, model)
    for _ in range(choose.choice((0, 1, 1, 1, 2))):
        if feeds and choose.random() < 0.35:
            _change_feed(choose, feeds)
        elif model.graph.initializer and choose.random() < 0.4:
            _change_size(choose, model)
        else:
            choose.choice(CHANGES)(choose, model)
    return bytes(model.SerializeToString()), feeds


def fix_input(model: ModelProto, feeds: Feeds, name: str) -> None:
    """Makes a constant of an input, where it is a tensor."""
    if not isinstance(feeds[name], np.ndarray) or feeds[name].dtype == object:
        return
    model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    for number, value in enumerate(model.graph.input):
        if value.name == name:
            del model.graph.input[number]
            return


def _loosen(choose: random.Random, model: ModelProto) -> None:
    """Leaves out what is said of sizes, here and there."""
    for value in [*model.graph.input, *model.graph.output]:
        tensor = value.type.tensor_type
        for dimension in tensor.shape.dim:
            if choose.random() < 0.5:
                dimension.dim_param = choose.choice(("N", "M", ""))
        if tensor.HasField("shape") and choose.random() < 0.2:
            tensor.ClearField("shape")


def _follow(choose: random.Random, model: ModelProto) -> None:
    """Adds a node behind one that there is, and makes what it gives an output."""
    values = [name for node in model.graph.node for name in node.output if name]
    if not values:
        return
    op_type, made = choose.choice(_FOLLOWERS), f"follower{len(model.graph.node)}"
    known = [*values, *(value.name for value in model.graph.input)]
    inputs = [choose.choice(values), choose.choice(known)]
    is_pair = op_type in _FOLLOWERS[_FOLLOWERS.index("Add") :]
    node = model.graph.node.add(op_type=op_type, input=inputs[: 1 + is_pair], output=[made])
    if op_type in ("Cast", "Concat"):
        name, number = {"Cast": ("to", choose.randrange(1, 17)), "Concat": ("axis", 0)}[op_type]
        node.attribute.append(helper.make_attribute(name, number))
    model.graph.output.append(ValueInfoProto(name=made))
    if choose.random() < 0.5:
        names = [value.name for value in model.graph.output]
        del model.graph.output[names.index(choose.choice(names))]


def _change_feed(choose: random.Random, feeds: Feeds) -> None:
    name = choose.choice(list(feeds))
    array = feeds[name]
    if not isinstance(array, np.ndarray):
        return
    way = choose.random()
    if way < 0.5 and array.size and array.dtype.kind in "iuf":
        array = array.copy()
        with np.errstate(all="ignore"):
            edge: float = choose.choice(EDGES)
            if array.dtype.kind in "iu":
                limits = np.iinfo(array.dtype)
                edge = min(max(edge, limits.min), limits.max)
            array.flat[choose.randrange(array.size)] = edge
    elif way < 0.7:
        array = array.reshape(-1)[: choose.randrange(3)]
    elif way < 0.85:
        array = array[np.newaxis]
    elif array.ndim:
        array = np.concatenate([array, array], choose.randrange(array.ndim))
    feeds[name] = array


def _change_size(choose: random.Random, model: ModelProto) -> None:
    """Puts an edge into a constant of integers."""
    tensor = choose.choice(list(model.graph.initializer))
    if tensor.data_type != TensorProto.INT64:
        return
    is_changed = math.prod(tensor.dims) * 8 != len(tensor.raw_data)  # before
    if is_changed or min(tensor.dims, default=1) < 1:  # nothing in it to change, and no array
        return
    array = numpy_helper.to_array(tensor).copy()
    array.flat[choose.randrange(array.size)] = choose.choice(EDGES)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
