"""Mistakes and loose habits of programs written for onnxruntime, in both libraries."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ortpkg
from tests.session.conftest import model_of

LIBRARIES = [pytest.param(ortpkg, id="ortpkg"), pytest.param(onnxruntime, id="onnxruntime")]
TWO = bytes(
    model_of("g (float[N,2] a, float[N,2] b) => (float[N,2] c, float[N,2] d) { c = Add(a, b)  d = Mul(a, b) }")
    .SerializeToString()
)  # fmt: skip
A = np.array([[1, 2]], np.float32)
FEEDS = {"a": A, "b": A}


def session_of(ort: Any, model: bytes | Path = TWO, options: Any = None) -> Any:
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("ort", LIBRARIES)
def test_names_of_outputs_may_come_from_a_generator(ort: Any) -> None:
    (found,) = session_of(ort).run((name for name in ["d"]), FEEDS)
    assert found.tolist() == [[1, 4]]


@pytest.mark.parametrize(
    "call",
    [
        lambda ort: session_of(ort).run("c", FEEDS),
        lambda ort: session_of(ort).run(None, FEEDS, "options"),
        lambda ort: session_of(ort).run(None, FEEDS, ort.SessionOptions()),
        lambda ort: ort.InferenceSession(TWO, ["CPUExecutionProvider"]),
        lambda ort: copy.deepcopy(session_of(ort)),
    ],
    ids=[
        "a text as names",
        "a text as run options",
        "session options in a run",
        "a list as options",
        "copy",
    ],
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_arguments_of_a_wrong_kind_are_a_type_error(ort: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        call(ort)


@pytest.mark.parametrize("option", ["intra_op_num_threads", "inter_op_num_threads"])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_numbers_of_threads_below_zero_are_left_to_the_library(ort: Any, option: str) -> None:
    options = ort.SessionOptions()
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    setattr(options, option, -1)
    (found, _) = session_of(ort, options=options).run(None, FEEDS)
    assert found.tolist() == [[2, 4]]


def test_an_empty_path_says_so() -> None:
    with pytest.raises(ortpkg.errors.UsageError, match="the path of the model is empty"):
        session_of(ortpkg, "")  # type: ignore[arg-type]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_wrappers_find_the_path_of_the_model(ort: Any, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(TWO)
    assert session_of(ort, tmp_path / "m.onnx")._model_path == str(tmp_path / "m.onnx")


@pytest.mark.parametrize("start", ["run", "run_async"])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_missing_input_is_told_at_once_and_in_the_same_words(ort: Any, start: str) -> None:
    arguments = [None, {"a": A}] + [print, None] * (start == "run_async")
    with pytest.raises(
        ValueError, match=r"Required inputs \(\['b'\]\) are missing from input feed \(\['a'\]\)\."
    ):
        getattr(session_of(ort), start)(*arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable_profiling", "yes"),
        ("intra_op_num_threads", "4"),
        ("inter_op_num_threads", None),
        ("logid", 3),
        ("execution_mode", "ORT_PARALLEL"),
        ("graph_optimization_level", "all"),
        ("log_severity_level", "x"),
        ("execution_mode", "GraphOptimizationLevel.ORT_ENABLE_BASIC"),
        ("execution_order", "ExecutionMode.ORT_PARALLEL"),
        ("enable_mem_pattern", "ExecutionMode.ORT_SEQUENTIAL"),
    ],
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_options_refuse_values_of_another_kind(ort: Any, name: str, value: Any) -> None:
    enumeration, _, member = str(value).partition(".")
    with pytest.raises(TypeError):
        setattr(
            ort.SessionOptions(),
            name,
            getattr(getattr(ort, enumeration), member) if member else value,
        )


@pytest.mark.parametrize("ort", LIBRARIES)
def test_options_keep_what_a_number_means(ort: Any) -> None:
    options = ort.SessionOptions()
    options.enable_mem_pattern = 0
    options.intra_op_num_threads = True
    assert (options.enable_mem_pattern, str(options.intra_op_num_threads)) == (False, "1")
    assert isinstance(options.enable_mem_pattern, bool)
    assert str(options.execution_mode) == "ExecutionMode.ORT_SEQUENTIAL"


def test_a_number_becomes_the_member_that_it_stands_for() -> None:
    options = ortpkg.SessionOptions()
    options.execution_mode = 1  # type: ignore[assignment]
    assert options.execution_mode is ortpkg.ExecutionMode.ORT_PARALLEL


@pytest.mark.parametrize("ort", LIBRARIES)
def test_an_array_of_one_element_is_fed_for_a_scalar(ort: Any) -> None:
    session = session_of(
        ort, model_of("g (float x) => (float y) { y = Neg(x) }").SerializeToString()
    )
    assert np.ravel(session.run(None, {"x": np.array([3], np.float32)})[0]).tolist() == [-3]
    assert session.run(None, {"x": np.array(3, np.float32)})[0].shape == ()


@pytest.mark.parametrize("ort", LIBRARIES)
def test_inputs_can_be_kept_in_sets(ort: Any) -> None:
    first, second = session_of(ort).get_inputs()
    assert len({first, second}) == 2


@pytest.mark.parametrize("ort", LIBRARIES)
def test_an_index_out_of_range_is_an_invalid_argument(ort: Any) -> None:
    text = "g (float[N] x, int64[M] i) => (float[M] y) { y = Gather(x, i) }"
    session = session_of(ort, model_of(text).SerializeToString())
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument):
        session.run(None, {"x": A[0], "i": np.array([7])})


# --- maps -----------------------------------------------------------------------------------------


def vectorizer(ort: Any, **vocabulary: Any) -> Any:
    kind = TensorProto.STRING if "string_vocabulary" in vocabulary else TensorProto.INT64
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", **vocabulary)
    map_type = helper.make_map_type_proto(
        kind, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    row = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [helper.make_value_info("x", map_type)], [row])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return session_of(ort, model.SerializeToString())


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_map_becomes_a_row(ort: Any) -> None:
    texts, numbers = (
        vectorizer(ort, string_vocabulary=["a", "b"]),
        vectorizer(ort, int64_vocabulary=[1, 2]),
    )
    assert texts.run(None, {"x": {"b": 3.0, "z": 1.0}})[0].tolist() == [[0, 3]]
    assert numbers.run(None, {"x": {np.int64(1): 2}})[0].tolist() == [[2, 0]]


@pytest.mark.parametrize(
    "wrong", [{1: 1.0}, {b"a": 1.0}, {"a": "x"}, {"a": None}, {"a": 1.0, 1.5: 2.0}, None]
)
def test_a_map_with_keys_or_values_of_another_type_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ortpkg.errors.InvalidFeedError, match=r"input 'x' is .*, expected map\(string"
    ):
        vectorizer(ortpkg, string_vocabulary=["a", "b"]).run(None, {"x": wrong})


# --- which provider runs which nodes --------------------------------------------------------------


@pytest.mark.parametrize("ort", LIBRARIES)
def test_assigned_nodes_have_their_domains(ort: Any) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    text = "g (float[2] x) => (float[2] y) { a = com.microsoft.Gelu(x)  y = Relu(a) }"
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> {text}'
    )
    found = session_of(ort, model.SerializeToString(), options).get_provider_graph_assignment_info()
    nodes = {(node.op_type, node.domain) for each in found for node in each.get_nodes()}
    assert nodes == {("Gelu", "com.microsoft"), ("Relu", "")}
