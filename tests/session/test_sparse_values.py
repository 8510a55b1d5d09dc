"""Sparse tensors as feeds and outputs, and what a model says of its version, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import ortpkg
from ortpkg.foundations.errors import InvalidFeedError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import to_model_proto


@pytest.mark.parametrize("version", [None, 0, 3])
def test_a_model_that_states_no_version_has_the_number_that_onnxruntime_says(
    version: int | None,
) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Abs(x) }'
    )
    if version is not None:
        model.model_version = version
    found = [
        module.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        .get_modelmeta()
        .version
        for module in (onnxruntime, ortpkg)
    ]
    assert found[0] == found[1]
    assert to_model_proto(load_model(model)).HasField("model_version") == (version is not None)


@pytest.mark.parametrize("attributes", [{}, {"transA": 1}, {"transB": 1}, {"alpha": 2.0}], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_sparse_matrix_is_multiplied_as_in_onnxruntime(
    attributes: dict[str, Any], dtype: Any
) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node(
        "SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", **attributes
    )
    inputs = [
        helper.make_sparse_tensor_value_info("a", kind, [2, 3]),
        helper.make_tensor_value_info("b", kind, [None, None]),
    ]
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", kind, [None, None])]
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    b = np.arange(6 if "transA" in attributes else 9, dtype=dtype).reshape(-1, 3)
    found = []
    for module in (onnxruntime, ortpkg):
        places = np.array([1, 2], np.int64), np.array([0, 1, 2], np.int64)
        a = module.SparseTensor.sparse_csr_from_numpy(
            [2, 3], np.array([2, 5], dtype), *places, module.OrtDevice.make("cpu", 0)
        )
        feeds = {
            "a": module.OrtValue.ort_value_from_sparse_tensor(a),
            "b": module.OrtValue.ortvalue_from_numpy(b),
        }
        session = module.InferenceSession(model, providers=["CPUExecutionProvider"])
        assert session.get_inputs()[0].shape == [2, 3]
        found.append(session.run_with_ort_values(None, feeds)[0].numpy())
    np.testing.assert_array_equal(*found)


def test_a_sparse_input_is_checked_as_others_are() -> None:
    text = """<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]>
        g (sparse_tensor(float[2, 2]) a, float[2, 2] b) => (float[2, 2] y) {
            y = com.microsoft.SparseToDenseMatMul(a, b)
        }"""
    session = ortpkg.InferenceSession(onnx.parser.parse_model(text).SerializeToString())

    def sparse(shape: list[int], dtype: Any = np.float32) -> ortpkg.SparseTensor:
        device = ortpkg.OrtDevice.make("cpu", 0)
        return ortpkg.SparseTensor.sparse_coo_from_numpy(
            shape, np.ones(1, dtype), np.zeros(1, np.int64), device
        )

    b = np.ones((2, 2), np.float32)
    assert session.run(None, {"a": sparse([2, 2]), "b": b})[0].tolist() == [[1, 1], [0, 0]]
    for wrong, message in (
        (b, "input 'a' is a ndarray, expected a SparseTensor of sparse_tensor"),
        (sparse([3, 2]), "input 'a' has size 3 in dimension 0"),
        (
            sparse([2, 2], np.float64),
            r"input 'a' is sparse_tensor\(double\), expected sparse_tensor\(float\)",
        ),
    ):
        with pytest.raises(InvalidFeedError, match=message):
            session.run(None, {"a": wrong, "b": b})


@pytest.mark.parametrize(
    "places", [[2, 3, 5], [[1, 2], [0, 2], [1, 0]]], ids=["flat", "coordinates"]
)
@pytest.mark.parametrize(
    "make_type", [helper.make_sparse_tensor_value_info, helper.make_tensor_value_info]
)
def test_a_sparse_constant_comes_out_sparse_as_in_onnxruntime(
    make_type: Any, places: list[Any]
) -> None:
    indices = numpy_helper.from_array(np.array(places, np.int64), "places")
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [3], [1.5, 0.0, 1.0])
    graph = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, [1]), make_type("w", 1, [3, 3])],
    )
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 3]))
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8
    ).SerializeToString()
    found = []
    for module in (onnxruntime, ortpkg):
        session = module.InferenceSession(model, providers=["CPUExecutionProvider"])
        fed = {"x": module.OrtValue.ortvalue_from_numpy(np.ones(1, np.float32))}
        for names, position in ((None, 1), (["w"], 0), (["w", "y"], 0)):
            made = session.run_with_ort_values(names, fed)[position].as_sparse_tensor()
            found.append(
                (
                    made.values().tolist(),
                    made.as_coo_view().indices().tolist(),
                    list(made.dense_shape()),
                )
            )
        assert session.run(["y"], {"x": np.ones(1, np.float32)})[0].tolist() == [1.0]
    assert found == found[:1] * 6
    assert len(found[0][0]) == 2
