"""The onnx package's node cases with odd attributes: wrong kinds, lengths, signs, sizes and words.

Every choice comes from the seed.
"""

from __future__ import annotations

import math
import random
from functools import cache

import onnx.defs
from onnx import AttributeProto, ModelProto, NodeProto, helper

from tests.fuzz.operators import Feeds, fix_input, operator_cases

_INTEGERS = (-(1 << 63), -(1 << 31), -100, -2, -1, 0, 1, 2, 3, 5, 100, 1 << 31, (1 << 63) - 1)
_FLOATS = (math.nan, math.inf, -math.inf, -1.0, 0.0, 0.5, 3e38, 1e-45)
_WORDS = ("", "FOO", "foo bar", "\N{SNOWMAN}")
_Kind = onnx.defs.OpSchema.AttrType
#: Kinds of attributes that are changed; those of tensors and graphs have other cases.
_LISTS = {_Kind.INTS: _Kind.INT, _Kind.FLOATS: _Kind.FLOAT, _Kind.STRINGS: _Kind.STRING}
_SINGLE = (_Kind.INT, _Kind.FLOAT, _Kind.STRING)
_Value = int | float | str | list[int] | list[float] | list[str]


@cache
def _cases_by_operator() -> dict[tuple[str, str], list[tuple[bytes, Feeds]]]:
    """Operator with attributes to change → its cases of one node, in an order that stays."""
    cases: dict[tuple[str, str], list[tuple[bytes, Feeds]]] = {}
    for data, feeds in operator_cases():
        model = ModelProto.FromString(data)
        nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        if len(nodes) == 1 and _kinds(model, nodes[0]):
            cases.setdefault((nodes[0].domain, nodes[0].op_type), []).append((data, feeds))
    return dict(sorted(cases.items()))


def _kinds(model: ModelProto, node: NodeProto) -> dict[str, _Kind]:
    """Attributes of a node's operator that can be changed here → their kinds."""
    version = next(entry.version for entry in model.opset_import if entry.domain == node.domain)
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return {}
    attributes = schema.attributes
    if any(attribute.type == _Kind.GRAPH for attribute in attributes.values()):
        return {}
    return {
        name: attribute.type
        for name, attribute in sorted(attributes.items())
        if attribute.type in _SINGLE or attribute.type in _LISTS
    }


def odd_operators() -> list[tuple[str, str]]:
    """Return domain and name of each operator that seeds choose from."""
    return list(_cases_by_operator())


def model_of_odd_attributes(seed: int) -> tuple[bytes, Feeds]:
    """A node case with one or two odd attributes; integer inputs are constants in half of them."""
    choose = random.Random(seed)
    operators = odd_operators()
    data, fed = choose.choice(_cases_by_operator()[operators[seed % len(operators)]])
    model, feeds = ModelProto.FromString(data), dict(fed)
    node = next(node for node in model.graph.node if node.op_type != "Constant")
    kinds = _kinds(model, node)
    for _ in range(choose.choice((1, 1, 1, 2))):
        name = choose.choice(list(kinds))
        _change(choose, node, name, kinds[name])
    is_constant, is_free = choose.random() < 0.5, choose.random() < 0.3
    for position, name in enumerate(list(feeds)):
        if position and is_constant:
            fix_input(model, feeds, name)
    # Declared sizes of a result that is another one now would be wrong.
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    if is_free:
        _free_sizes(model)
    return bytes(model.SerializeToString()), feeds


def _free_sizes(model: ModelProto) -> None:
    """Name each axis of the inputs, so that a run alone knows its size."""
    for value in model.graph.input:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            dimension.dim_param = f"{value.name}_{axis}"


def _change(choose: random.Random, node: NodeProto, name: str, kind: _Kind) -> None:
    """Take an attribute away, or give it an odd value, of another kind now and then."""
    attributes = [attribute for attribute in node.attribute if attribute.name == name]
    before = helper.get_attribute_value(attributes[0]) if attributes else None
    for attribute in attributes:
        node.attribute.remove(attribute)
    way = choose.random()
    if way < 0.1:
        return
    if way < 0.2:
        kind = choose.choice((*_SINGLE, *_LISTS))
        before = None
    node.attribute.append(_made(choose, name, kind, before))


def _made(choose: random.Random, name: str, kind: _Kind, before: object) -> AttributeProto:
    if kind not in _LISTS:
        return helper.make_attribute(name, _single(choose, kind, before))
    single = _LISTS[kind]
    numbers = list(before) if isinstance(before, list | tuple) else []
    way = choose.random()
    if numbers and way < 0.5:
        numbers[choose.randrange(len(numbers))] = _single(choose, single, None)
    elif numbers and way < 0.65:
        numbers.pop(choose.randrange(len(numbers)))
    elif numbers and way < 0.8:
        numbers.append(choose.choice(numbers))
    else:
        numbers = [_single(choose, single, None) for _ in range(choose.randrange(5))]
    lists = {
        _Kind.INTS: AttributeProto.INTS,
        _Kind.FLOATS: AttributeProto.FLOATS,
        _Kind.STRINGS: AttributeProto.STRINGS,
    }
    return helper.make_attribute(name, numbers, attr_type=lists[kind])


def _single(choose: random.Random, kind: _Kind, before: object) -> int | float | str:
    if kind == _Kind.INT:
        return choose.choice(_INTEGERS)
    if kind == _Kind.FLOAT:
        return choose.choice(_FLOATS)
    word = before.decode() if isinstance(before, bytes) else "none"
    return choose.choice((*_WORDS, word.swapcase(), word + "x"))
