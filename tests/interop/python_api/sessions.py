"""What upstream's tests assert of sessions: making, asking and running them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.interop.python_api.behaviour import (
    CPU,
    MUL,
    Behaviours,
    X,
    bytes_of,
    model_of,
    native,
    raises,
    same,
    session_of,
)

behaviour = Behaviours()


@behaviour("a model may be a path object")
def path_object(ort: Any, folder: Path) -> None:
    path = folder / "m.onnx"
    path.write_bytes(bytes_of(MUL))
    same(ort.InferenceSession(path, providers=CPU).run(None, {"x": X})[0], X * X)


@behaviour("a model may be bytes")
def serialized_model(ort: Any, folder: Path) -> None:
    same(session_of(ort, MUL).run(["y"], {"x": X})[0], X * X)


@behaviour("a session made with all available providers has the CPU's")
def all_available_providers(ort: Any, folder: Path) -> None:
    session = ort.InferenceSession(bytes_of(MUL), providers=ort.get_available_providers())
    assert "CPUExecutionProvider" in session.get_providers()
    same(session.run(None, {"x": X})[0], X * X)


@behaviour("set_providers makes the session anew with the providers named")
def set_providers(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    session.set_providers(CPU)
    assert session.get_providers() == CPU
    same(session.run(None, {"x": X})[0], X * X)


@behaviour("set_providers with a name that nobody knows is a RuntimeError that repeats it")
def set_unknown_provider(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    raises(RuntimeError, "InvalidProvider", lambda: session.set_providers(["InvalidProvider"]))


@behaviour("inputs and outputs have names and shapes, and one memory info each")
def inputs_and_outputs(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape, made.name, made.shape) == ("x", [3, 2], "y", [3, 2])
    assert [len(session.get_input_memory_infos()), len(session.get_output_memory_infos())] == [1, 1]
    assert None not in (*session.get_input_memory_infos(), *session.get_output_memory_infos())


@behaviour("get_input_epdevices has one entry per input, which may be None")
def input_ep_devices(ort: Any, folder: Path) -> None:
    assert len(session_of(ort, MUL).get_input_epdevices()) == 1


@behaviour("no output names, as None or an empty list, mean all outputs")
def all_outputs(ort: Any, folder: Path) -> None:
    session = session_of(ort, MUL)
    assert len(session.run(None, {"x": X})) == len(session.run([], {"x": X})) == 1


@behaviour("run_async calls back with the outputs, the caller's data and an empty error")
def run_async(ort: Any, folder: Path) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    done, seen = threading.Event(), []

    def callback(outputs: Any, data: Any, error: str) -> None:
        seen.append((outputs[0], data, error))
        done.set()

    session_of(ort, MUL, options).run_async(["y"], {"x": X}, callback, 123)
    assert done.wait(10)
    assert seen[0][1:] == (123, "")
    same(seen[0][0], X * X)


@behaviour(
    "a product of matrices, with columns turned by indexing, is that of the array as it is seen"
)
def non_contiguous_input(ort: Any, folder: Path) -> None:
    session = session_of(
        ort, "g (float[3,2] x) => (float[3,1] y) <float[2,1] w = {1,2}> { y = MatMul(x, w) }"
    )
    turned = X[:, ::-1]
    same(session.run(None, {"x": turned})[0], turned @ np.array([[1], [2]], np.float32))


@behaviour("several threads run one session, each with run options of its own")
def many_threads(ort: Any, folder: Path) -> None:
    session, found = session_of(ort, MUL), []

    def run(name: str) -> None:
        options = ort.RunOptions()
        options.logid = name
        found.append(session.run([], {"x": X}, options)[0])

    threads = [threading.Thread(target=run, args=(f"thread{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for each in found:
        same(each, X * X)


@behaviour("a dimension that the model names has that name in the shape")
def symbolic_dimension(ort: Any, folder: Path) -> None:
    session = session_of(
        ort, "g (float[N,2] x) => (float[N,1] y) <float[2,1] w = {1,2}> { y = MatMul(x, w) }"
    )
    assert [session.get_inputs()[0].shape, session.get_outputs()[0].shape] == [["N", 2], ["N", 1]]
    assert session.run(None, {"x": X})[0].shape == (3, 1)


@behaviour("inputs keep the model's order, with the types as texts; booleans compute")
def boolean_inputs(ort: Any, folder: Path) -> None:
    session = session_of(
        ort, "g (bool[2] second, bool[2] first) => (bool[2] y) { y = And(second, first) }"
    )
    assert [each.name for each in session.get_inputs()] == ["second", "first"]
    assert {each.type for each in (*session.get_inputs(), *session.get_outputs())} == {
        "tensor(bool)"
    }
    fed = {"first": np.array([True, False]), "second": np.array([True, True])}
    assert session.run(None, fed)[0].tolist() == [True, False]


@behaviour("an input that is not fed is a ValueError that names it")
def missing_input(ort: Any, folder: Path) -> None:
    session = session_of(ort, "g (bool[1] a, bool[1] b) => (bool[1] y) { y = And(a, b) }")
    raises(ValueError, "'b'", lambda: session.run([], {"a": np.array([True])}))


@behaviour("the model's metadata are its producer, its names and its descriptions")
def model_metadata(ort: Any, folder: Path) -> None:
    model = model_of(MUL)
    model.producer_name, model.graph.name, model.doc_string = (
        "the producer",
        "the graph",
        "what it is",
    )
    found = ort.InferenceSession(model.SerializeToString(), providers=CPU).get_modelmeta()
    assert (found.producer_name, found.graph_name, found.description) == (
        "the producer",
        "the graph",
        "what it is",
    )
    assert (found.domain, found.graph_description) == ("", "")


@behaviour(
    "a profile is a list with one event per line, each with its name, time, length and process"
)
def profile(ort: Any, folder: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    session = session_of(ort, MUL, options)
    session.run([], {"x": X})
    path = Path(session.end_profiling())
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "[" in lines[0]
    assert "]" in lines[-1]
    assert all(
        tag in line
        for line in lines[1:-1]
        for tag in ("pid", "dur", "ts", "ph", "X", "name", "args")
    )
    assert json.loads(path.read_text(encoding="utf-8"))


@behaviour("profiles begin one after the other")
def profiling_start(ort: Any, folder: Path) -> None:
    starts = []
    for _ in range(3):
        options = ort.SessionOptions()
        options.enable_profiling = True
        session = session_of(ort, MUL, options)
        starts.append(session.get_profiling_start_time_ns())
        Path(session.end_profiling()).unlink()
    assert starts == sorted(starts)


@behaviour(
    "outputs that are inputs passed through are the caller's own, and stay as they were when more"
    " runs follow"
)
def passed_through(ort: Any, folder: Path) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = session_of(
        ort,
        "g (float[2,2] x) => (float[2,2] y, float[2,2] x) <float ten = {10}> { y = Add(x, ten) }",
        options,
    )
    feeds = [np.full((2, 2), number, np.float32) for number in range(5)]
    results = [session.run(None, {"x": feed}) for feed in feeds]
    for feed, (added, passed) in zip(feeds, results, strict=True):
        same(added, feed + 10)
        same(passed, feed)
        assert not np.shares_memory(passed, feed)


@behaviour(
    "an output array of a session does not own its memory, so it is no copy",
    missing="arrays here own theirs; that nothing is copied holds without it",
)
def zero_copy_output(ort: Any, folder: Path) -> None:
    assert session_of(ort, MUL).run(None, {"x": X})[0].base is not None


@behaviour("a model whose inputs have defaults runs without them")
def base_model(ort: Any, folder: Path) -> None:
    session = session_of(
        ort, "g (float[2] x, float[2] a = {1, 2}) => (float[2] y) { y = Mul(x, a) }"
    )
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [1, 2]
    assert [each.name for each in session.get_overridable_initializers()] == ["a"]


_THREE = """g (float[2] x) => (float[2] y) { [add_0] a = Add(x, x) [mul_0] b = Mul(a, x) [add_1] y = Add(b, x) }"""


def _recording(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


@behaviour(
    "where it is asked for, each node's execution provider is told, each of the CPU's by itself"
)
def graph_assignment(ort: Any, folder: Path) -> None:
    found = session_of(ort, _THREE, _recording(ort)).get_provider_graph_assignment_info()
    assert [each.ep_name for each in found] == ["CPUExecutionProvider"] * 3
    nodes = sorted(
        (node.domain, node.op_type, node.name) for each in found for node in each.get_nodes()
    )
    assert nodes == [("", "Add", "add_0"), ("", "Add", "add_1"), ("", "Mul", "mul_0")]


@behaviour("asking for it without the option is a Fail that names the option")
def graph_assignment_unasked(ort: Any, folder: Path) -> None:
    session = session_of(ort, _THREE)
    raises(
        native(ort).Fail,
        "session.record_ep_graph_assignment_info",
        session.get_provider_graph_assignment_info,
    )


@behaviour("only_execute_path_to_fetches computes one output of two whose values share memory")
def only_path_to_fetches(ort: Any, folder: Path) -> None:
    text = (
        "g (float[9] a, float[9] b) => (float[9] s, float[9] d) { p = Add(a, b) q = Sub(a, b) s ="
        " Neg(p) d = Neg(q) }"
    )
    session, options = session_of(ort, text), ort.RunOptions()
    options.only_execute_path_to_fetches = True
    ones = np.ones(9, np.float32)
    same(session.run(["s"], {"a": ones, "b": ones}, options)[0], -ones - ones)
    same(session.run(["d"], {"a": ones, "b": ones}, options)[0], ones - ones)


@behaviour("memory can be given back after a run by a run option")
def arena_shrinkage(ort: Any, folder: Path) -> None:
    options = ort.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    assert options.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    same(session_of(ort, MUL).run([], {"x": X}, options)[0], X * X)


@behaviour("an optional input may be None, three graphs deep")
def nested_optional(ort: Any, folder: Path) -> None:
    outer = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (optional(float[2]) o, float[2] x) =>'
        " (float[2] y) { h = OptionalHasElement(o) y = If (h) <then_branch = t () => (float[2] a) {"
        " g1 = OptionalGetElement(o) a = Add(g1, x) }, else_branch = e () => (float[2] b) { b = If"
        " (h) <then_branch = t2 () => (float[2] c) { c = Abs(x) }, else_branch = e2 () => (float[2]"
        " d) { d = Neg(x) }> }> }"
    )
    session = ort.InferenceSession(outer.SerializeToString(), providers=CPU)
    ones = np.ones(2, np.float32)
    assert session.run(None, {"o": None, "x": ones})[0].tolist() == [-1, -1]
    assert session.run(None, {"o": ones, "x": ones})[0].tolist() == [2, 2]


# --- models and their data as links ---------------------------------------------------------------


def _linked(folder: Path, model_folder: str, data_folder: str) -> Path:
    """A model with a data file, both reached by links, as a download cache has them."""
    (folder / model_folder).mkdir(parents=True)
    (folder / data_folder).mkdir(parents=True, exist_ok=True)
    (folder / "snapshots" / "v").mkdir(parents=True)
    values = np.arange(10, dtype=np.float32)
    (folder / data_folder / "guid2").write_bytes(values.tobytes())
    model = model_of(
        "g (float[10] x) => (float[10] y) <float[10] w = {0,1,2,3,4,5,6,7,8,9}> { y = Add(x, w) }"
    )
    (weight,) = model.graph.initializer
    weight.CopyFrom(
        onnx.TensorProto(name="w", data_type=1, dims=[10], data_location=onnx.TensorProto.EXTERNAL)
    )
    for key, value in {"location": "data.bin", "offset": "0", "length": "40"}.items():
        weight.external_data.add(key=key, value=value)
    (folder / model_folder / "guid1").write_bytes(model.SerializeToString())
    path = folder / "snapshots" / "v" / "model.onnx"
    path.symlink_to(folder / model_folder / "guid1")
    (path.parent / "data.bin").symlink_to(folder / data_folder / "guid2")
    return path


@behaviour("model and data may be links into one folder")
def links_to_one_folder(ort: Any, folder: Path) -> None:
    session = ort.InferenceSession(os.fspath(_linked(folder, "blobs", "blobs")), providers=CPU)
    same(session.run(None, {"x": np.zeros(10, np.float32)})[0], np.arange(10))


@behaviour("linked data may lie in a folder below the model's own")
def links_to_a_folder_below(ort: Any, folder: Path) -> None:
    session = ort.InferenceSession(os.fspath(_linked(folder, "blobs", "blobs/data")), providers=CPU)
    same(session.run(None, {"x": np.zeros(10, np.float32)})[0], np.arange(10))


@behaviour(
    "linked data in a folder that is not the model's is refused",
    missing=(
        "links of the user's own are followed wherever they lead; those of somebody else are"
        " refused"
    ),
)
def links_to_elsewhere(ort: Any, folder: Path) -> None:
    path = os.fspath(_linked(folder, "model", "data"))
    raises(Exception, "data.bin", lambda: ort.InferenceSession(path, providers=CPU))
