"""Limits of a session hold while it is made: in reading, inference, folding, planning."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from ortpkg.foundations.errors import (
    InvalidGraphError,
    LimitExceededError,
    LoadCancelledError,
    ModelFileError,
)
from ortpkg.graph import load_control
from ortpkg.graph.load_control import LoadControl, load_limits, poll_load
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.wire_format import cut_weights
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

FLOAT = TensorProto.FLOAT


def empty_model() -> ModelProto:
    model = ModelProto(ir_version=9)
    model.opset_import.add(domain="", version=18)
    model.graph.name = "g"
    model.graph.input.append(helper.make_tensor_value_info("x", FLOAT, [1]))
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, [1]))
    return model


def chain(count: int) -> ModelProto:
    model = empty_model()
    value = "x"
    for number in range(count):
        made = "y" if number == count - 1 else f"v{number}"
        model.graph.node.add(op_type="Relu", input=[value], output=[made])
        value = made
    return model


def constants(count: int) -> ModelProto:
    model = chain(1)
    for number in range(count):
        model.graph.initializer.add(name=f"w{number}", data_type=FLOAT, dims=[1], float_data=[1.0])
    return model


def declared(count: int) -> ModelProto:
    model = chain(1)
    for number in range(count):
        model.graph.value_info.append(helper.make_tensor_value_info(f"q{number}", FLOAT, [1]))
    return model


def outputs(count: int) -> ModelProto:
    model = chain(1)
    for number in range(count):
        model.graph.node.add(op_type="Relu", input=["x"], output=[f"o{number}"])
        model.graph.output.append(helper.make_tensor_value_info(f"o{number}", FLOAT, [1]))
    return model


def branches(count: int) -> ModelProto:
    """Ifs inside Ifs, two in each."""
    model = empty_model()
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    leaf = GraphProto(name="b")
    leaf.node.add(op_type="Relu", input=["x"], output=["o"])
    leaf.output.append(helper.make_tensor_value_info("o", FLOAT, [1]))
    for _ in range(count.bit_length()):
        around = GraphProto(name="b")
        node = around.node.add(op_type="If", input=["c"], output=["o"])
        node.attribute.extend(
            helper.make_attribute(name, leaf) for name in ("then_branch", "else_branch")
        )
        around.output.extend(leaf.output)
        leaf = around
    node = model.graph.node.add(op_type="If", input=["c"], output=["y"])
    node.attribute.extend(
        helper.make_attribute(name, leaf) for name in ("then_branch", "else_branch")
    )
    return model


def doubling_functions(count: int) -> ModelProto:
    model = empty_model()
    model.opset_import.add(domain="f", version=1)
    for number in range(count.bit_length()):
        function = model.functions.add(name=f"f{number}", domain="f", input=["a"], output=["b"])
        function.opset_import.add(domain="", version=18)
        function.opset_import.add(domain="f", version=1)
        inner = {"op_type": f"f{number - 1}", "domain": "f"} if number else {"op_type": "Relu"}
        function.node.add(input=["a"], output=["t"], **inner)
        function.node.add(input=["t"], output=["b"], **inner)
    model.graph.node.add(
        op_type=f"f{count.bit_length() - 1}", domain="f", input=["x"], output=["y"]
    )
    return model


def sparse(count: int, tensors: int = 1) -> ModelProto:
    model = chain(1)
    for number in range(tensors):
        tensor = model.graph.sparse_initializer.add()
        tensor.values.CopyFrom(helper.make_tensor(f"w{number}", FLOAT, [1], [1.0]))
        tensor.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [1], [0]))
        tensor.dims.append(count)
    return model


BOMBS = (chain, constants, declared, outputs, branches, doubling_functions)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_session_that_takes_too_long_to_make_is_a_limits_error(
    bomb: Callable[[int], ModelProto],
) -> None:
    model = bomb(20_000).SerializeToString()
    start_s = time.monotonic()
    with pytest.raises(
        LimitExceededError, match=r"making the session passed its time limit of 0\.1 s"
    ) as raised:
        InferenceSession(model, SessionOptions(timeout_s=0.1), ["cpu"])
    assert raised.value.limit == "time"
    assert time.monotonic() - start_s < 5


@pytest.mark.parametrize(
    ("bomb", "count", "free_nbytes"),
    [(chain, 30_000, None), (constants, 9_000, 8 << 20), (declared, 14_000, 8 << 20)],
)
def test_a_model_whose_own_objects_take_too_much_memory_is_a_limits_error(
    monkeypatch: pytest.MonkeyPatch,
    bomb: Callable[[int], ModelProto],
    count: int,
    free_nbytes: int | None,
) -> None:
    """``free_nbytes``: what they may take at least, where it is less than for users."""
    if free_nbytes is not None:
        monkeypatch.setattr(load_control, "_FREE_NBYTES", free_nbytes)
    model = bomb(count).SerializeToString()
    with pytest.raises(
        LimitExceededError, match=r"the nodes and constants of the model take .* and more, which"
    ) as raised:
        InferenceSession(model, SessionOptions(memory_limit_nbytes=1 << 20), ["cpu"])
    assert raised.value.limit == "memory"


def test_functions_that_double_are_refused_before_they_are_inlined() -> None:
    with pytest.raises(InvalidGraphError, match="more than 200000 nodes, functions inlined"):
        InferenceSession(doubling_functions(1 << 29).SerializeToString())


def test_a_sparse_constant_is_judged_by_what_it_takes_when_dense() -> None:
    model = sparse(1 << 28).SerializeToString()
    with pytest.raises(LimitExceededError, match=r"a constant of the model takes 1\.1 GB"):
        InferenceSession(model, SessionOptions(memory_limit_nbytes=1 << 29), ["cpu"])


def test_sparse_constants_are_bounded_together() -> None:
    with pytest.raises(
        ModelFileError, match="with those before it, when dense; at most 2147483648 are allowed"
    ):
        load_model(sparse(1 << 28, tensors=3))


def test_a_sparse_constant_is_made_dense_once() -> None:
    constant = load_model(sparse(10)).graph.initializers["w0"]
    assert constant.numpy() is constant.numpy()
    np.testing.assert_array_equal(constant.numpy(), np.eye(1, 10)[0])


def test_folded_constants_keep_to_the_memory_limit_together() -> None:
    weight = numpy_helper.from_array(np.ones(100_000, np.float32), "v0")
    nodes = [helper.make_node("Exp", [f"v{number}"], [f"v{number + 1}"]) for number in range(40)]
    nodes.append(helper.make_node("Sum", ["x", *(f"v{number}" for number in range(1, 41))], ["y"]))
    x, y = (helper.make_tensor_value_info(name, FLOAT, [100_000]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def weight_nbytes(limit_nbytes: int | None) -> int:
        options = SessionOptions(memory_limit_nbytes=limit_nbytes)
        with InferenceSession(proto.SerializeToString(), options, ["cpu"]) as session:
            return session.get_plan().graph.weight_nbytes

    assert weight_nbytes(8_000_000) <= 4_400_000 < weight_nbytes(None)


def test_texts_count_where_constants_are_folded() -> None:
    model = empty_model()
    model.opset_import[0].version = 20
    model.graph.node.add(op_type="Relu", input=["x"], output=["y"])
    for number in range(12):
        model.graph.node.add(
            op_type="StringConcat",
            input=[f"t{number}", f"t{number}"],
            output=[f"t{number + 1}"],
        )
    model.graph.initializer.add(
        name="t0", data_type=TensorProto.STRING, dims=[1], string_data=[b"a" * 1024]
    )
    model.graph.output.append(helper.make_tensor_value_info("t12", TensorProto.STRING, [1]))
    with InferenceSession(model.SerializeToString(), SessionOptions(), ["cpu"]) as session:
        left = session.get_plan().graph.nodes
        assert [node.op_type for node in left].count("StringConcat") == 3  # of 2, 4 and 4 megabytes
        (found,) = session.run(["t12"], {"x": np.ones(1, np.float32)})
    assert len(found[0]) == 4 << 20


def test_loading_is_cancelled_between_nodes() -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 50:
            raise LoadCancelledError("enough")

    control = LoadControl(memory_limit_nbytes=None, timeout_s=None, check=check)
    with load_limits(control), pytest.raises(LoadCancelledError):
        load_model(chain(1000))
    poll_load(1 << 60)  # outside of the making of a session nothing is bounded


def parts_of_one_thing(kind: str, count: int) -> ModelProto:
    """A model with ``count`` parts of one node, constant, value or message."""
    model = chain(1)
    (node,) = model.graph.node
    match kind:
        case "inputs":
            node.op_type = "Sum"
            node.input.extend(["x"] * (count - 1))
        case "outputs":
            node.output.extend(f"o{number}" for number in range(count))
        case "attributes":
            for number in range(count):
                node.attribute.add(name=f"a{number}", i=1, type="INT")
        case "texts":
            model.graph.initializer.add(
                name="w", data_type=TensorProto.STRING, dims=[count], string_data=[b"a"] * count
            )
        case "metadata":
            for number in range(count):
                model.metadata_props.add(key=f"k{number}", value="v")
    return model


@pytest.mark.parametrize("kind", ["inputs", "outputs", "attributes", "texts", "metadata"])
def test_many_parts_of_one_thing_are_read_under_the_limits(kind: str) -> None:
    def asked(count: int) -> int:
        times = 0

        def check() -> None:
            nonlocal times
            times += 1

        control = LoadControl(memory_limit_nbytes=None, timeout_s=None, check=check)
        model = parts_of_one_thing(kind, count)
        with load_limits(control), suppress(InvalidGraphError, ModelFileError):
            load_model(model)
        return times

    assert asked(8 * 1024) - asked(2) >= 8


def test_fields_of_a_file_are_looked_through_under_the_limits() -> None:
    control = LoadControl(memory_limit_nbytes=None, timeout_s=-1)
    data = memoryview(parts_of_one_thing("metadata", 10_000).SerializeToString())
    with load_limits(control), pytest.raises(LimitExceededError):
        cut_weights(data)


def test_inputs_of_one_node_count_as_memory() -> None:
    model = parts_of_one_thing("inputs", 200_000).SerializeToString()
    with pytest.raises(LimitExceededError, match="the nodes and constants of the model take"):
        InferenceSession(model, SessionOptions(memory_limit_nbytes=1 << 20), ["cpu"])


def test_limits_of_a_session_end_with_its_making() -> None:
    with InferenceSession(chain(3).SerializeToString(), SessionOptions(timeout_s=30)) as session:
        (found,) = session.run(None, {"x": np.ones(1, np.float32)})
    assert found == 1
