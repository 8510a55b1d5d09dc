"""Tensors in a serialized model, found and replaced without touching any other byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.proto_walk import walk_tensors
from ortpkg.graph.tensor_messages import (
    ModelMessage,
    Piece,
    TensorMessage,
    with_data_at,
    with_empty_data,
)
from ortpkg.graph.wire_format import WireFormatError, length_delimited_tag, varint
from tests.graph.model_factories import external_tensor, parse

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"

#: Fields that no onnx.proto has: a number, and a text.
UNKNOWN_FIELDS = bytes([0x98, 0x3E, 0x2A]) + length_delimited_tag(998) + varint(5) + b"hello"


def make_tensor(name: str) -> TensorProto:
    return external_tensor(name, "weights.bin", offset=16, length=16)


def model_with_tensors_everywhere() -> onnx.ModelProto:
    """External tensors in every place where onnx.proto allows a tensor."""
    model = parse(
        "g (float[4] x) => (float[4] y) { y = Add(x, w) }", {"w": np.ones(4, dtype=np.float32)}
    )
    branch = helper.make_graph([], "branch", [], [], [make_tensor("in a branch")])
    sparse = onnx.SparseTensorProto(
        values=make_tensor("values"), indices=make_tensor("indices"), dims=[9]
    )
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch)
    node.attribute.append(helper.make_attribute("value", make_tensor("in an attribute")))
    node.attribute.append(
        helper.make_attribute("values", [make_tensor("listed 0"), make_tensor("listed 1")])
    )
    node.attribute.append(helper.make_attribute("graphs", [branch]))
    node.attribute.append(onnx.AttributeProto(name="s", type="SPARSE_TENSOR", sparse_tensor=sparse))
    node.attribute.append(
        onnx.AttributeProto(name="ss", type="SPARSE_TENSORS", sparse_tensors=[sparse])
    )
    model.graph.node.append(node)
    model.graph.initializer.append(make_tensor("initializer"))
    model.graph.sparse_initializer.append(sparse)
    function = model.functions.add(name="f", domain="d")
    function.node.append(node)
    function.attribute_proto.append(helper.make_attribute("default", make_tensor("in a default")))
    model.training_info.add(algorithm=branch, initialization=branch)
    return model


def joined(data: bytes, pieces: list[Piece]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else data[slice(*piece)] for piece in pieces)


def moved(data: bytes, tensor: TensorMessage) -> bytes:
    return with_data_at(memoryview(data), tensor, "elsewhere/other.bin", 4096, 16)


def test_finds_every_tensor_that_the_walk_over_the_parsed_model_finds() -> None:
    model = model_with_tensors_everywhere()

    found = ModelMessage(memoryview(model.SerializeToString())).tensors

    expected = [tensor.name for tensor in walk_tensors(model, limits=ModelLimits())]
    assert sorted(tensor.header.name for tensor in found) == sorted(expected)
    assert {tensor.header.name for tensor in found if tensor.is_initializer} == {
        "w",
        "initializer",
        "in a branch",
    }


def test_moves_the_data_of_every_tensor_and_changes_nothing_else() -> None:
    model = model_with_tensors_everywhere()
    data = model.SerializeToString()
    message = ModelMessage(memoryview(data))

    external = [tensor for tensor in message.tensors if tensor.raw is None]
    changed = onnx.ModelProto.FromString(
        joined(data, message.replaced({tensor.start: moved(data, tensor) for tensor in external}))
    )

    for tensor in walk_tensors(model, limits=ModelLimits()):
        if tensor.data_location == TensorProto.EXTERNAL:
            del tensor.external_data[:]
            for key, value in (
                ("location", "elsewhere/other.bin"),
                ("offset", "4096"),
                ("length", "16"),
            ):
                tensor.external_data.add(key=key, value=value)
    assert changed == model


@pytest.mark.parametrize("path", sorted(DIGITS.rglob("*.onnx")), ids=lambda path: path.stem)
def test_replacing_tensors_by_themselves_gives_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    message = ModelMessage(memoryview(data))

    assert joined(data, message.replaced({})) == data
    assert (
        joined(data, message.replaced({t.start: data[t.start : t.stop] for t in message.tensors}))
        == data
    )


def test_unknown_fields_and_field_order_survive() -> None:
    tensor = make_tensor("w").SerializeToString() + UNKNOWN_FIELDS
    initializer = length_delimited_tag(5) + varint(len(tensor)) + tensor
    graph = UNKNOWN_FIELDS + initializer + length_delimited_tag(2) + b"\x01g"
    data = length_delimited_tag(7) + varint(len(graph)) + graph + b"\x08\x0a" + UNKNOWN_FIELDS
    message = ModelMessage(memoryview(data))
    (found,) = message.tensors

    changed = joined(data, message.replaced({found.start: moved(data, found)}))

    assert changed.count(UNKNOWN_FIELDS) == 3
    assert changed.endswith(length_delimited_tag(2) + b"\x01g" + b"\x08\x0a" + UNKNOWN_FIELDS)
    assert onnx.ModelProto.FromString(changed).graph.initializer[0].external_data[1].value == "4096"


def test_weights_that_lie_in_the_model_are_not_copied() -> None:
    weights = np.arange(100_000, dtype=np.float32)
    model = parse("g (float[4] x) => (float[4] y) { y = Add(x, w) }", {"w": weights})
    model.graph.initializer.append(make_tensor("v"))
    data = model.SerializeToString()
    message = ModelMessage(memoryview(data))

    pieces = message.replaced({message.tensors[1].start: moved(data, message.tensors[1])})

    assert message.tensors[0].raw == (data.index(weights.tobytes()), weights.nbytes)
    assert not message.tensors[0].header.HasField("raw_data")
    assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) < 1000


def test_a_tensor_in_the_model_moves_out_and_an_empty_one_moves_in() -> None:
    model = parse(
        "g (float[4] x) => (float[4] y) { y = Add(x, w) }", {"w": np.ones(4, dtype=np.float32)}
    )
    model.graph.initializer.append(external_tensor("none", "weights.bin", dims=(0, 3)))
    data = model.SerializeToString()
    message = ModelMessage(memoryview(data))
    inner, empty = message.tensors

    replacements = {
        inner.start: moved(data, inner),
        empty.start: with_empty_data(memoryview(data), empty),
    }
    w, none = onnx.ModelProto.FromString(
        joined(data, message.replaced(replacements))
    ).graph.initializer

    assert not w.HasField("raw_data")
    assert (w.data_location, w.external_data[0].value) == (
        TensorProto.EXTERNAL,
        "elsewhere/other.bin",
    )
    assert numpy_helper.to_array(none).shape == (0, 3)


def test_refuses_a_message_that_stands_twice_where_protobuf_would_merge_it() -> None:
    graph = parse("g (float[4] x) => (float[4] y) { y = Neg(x) }").graph.SerializeToString()
    field = length_delimited_tag(7) + varint(len(graph)) + graph

    with pytest.raises(
        WireFormatError, match=r"field 7 at byte \d+ stands twice where one was expected"
    ):
        ModelMessage(memoryview(field + field))


def test_refuses_graphs_that_are_nested_too_deeply() -> None:
    graph = helper.make_graph([], "g", [], [])
    for _ in range(5):
        graph = helper.make_graph(
            [helper.make_node("If", ["c"], ["y"], then_branch=graph)], "g", [], []
        )

    data = helper.make_model(graph).SerializeToString()

    assert ModelMessage(memoryview(data), limits=ModelLimits(subgraph_depth=5)).tensors == []
    with pytest.raises(WireFormatError, match="graphs are nested deeper than 4 levels"):
        ModelMessage(memoryview(data), limits=ModelLimits(subgraph_depth=4))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_damage_is_an_error_or_another_model_never_a_crash(data: st.DataObject) -> None:
    content = bytearray(model_with_tensors_everywhere().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = ModelMessage(memoryview(content))
    except WireFormatError:
        return
    replacements = {
        tensor.start: bytes(content[tensor.start : tensor.stop]) for tensor in message.tensors
    }
    assert joined(bytes(content), message.replaced({})) == content
    assert len(message.replaced(replacements)) >= 1
