"""Time by operators, one of them our own: ``python profile_operators.py MODULE``."""

# mypy: ignore-errors

import collections
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser

ort = importlib.import_module(sys.argv[1])

MODEL = """<ir_version: 10, opset_import: ["" : 21, "own" : 1], producer_name: "program", model_version: 3,
 metadata_props: ["labels": "cat,dog"]>
network (float[N,4] x) => (float[N,2] y)
<float[4,4] w = {1,2,3,4, 5,6,7,8, 1,2,3,4, 5,6,7,8}, float[4,2] v = {1,0, 0,1, 1,0, 0,1}> {
  a = MatMul(x, w)
  b = own.Squash(a)
  c = MatMul(b, v)
  y = Softmax<axis = 1>(c)
}
<domain: "own", opset_import: ["" : 21]>
Squash (x) => (y) {
  t = Tanh(x)
  y = Mul(t, t)
}"""
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def profiled(path, runs):
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = "profile"
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = "optimized.onnx"
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        (y,) = session.run(None, {"x": X})
    return session, y, session.end_profiling()


def report(path):
    events = json.loads(Path(path).read_text())
    nodes = [
        event
        for event in events
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time")
    ]
    by_operator = collections.Counter(event["args"]["op_name"] for event in nodes)
    print(sorted(by_operator.items()))
    print({event["args"]["provider"] for event in nodes}, {event["ph"] for event in events})
    print(
        all(event["dur"] >= 0 and event["ts"] >= 0 for event in nodes),
        sorted({*events[0]} - {"args"}),
    )
    sessions = collections.Counter(event["name"] for event in events if event["cat"] == "Session")
    print(sessions["session_initialization"], sessions["model_run"])
    first = next(event["args"] for event in nodes if event["args"]["op_name"] == "MatMul")
    print(
        first["output_type_shape"],
        first["output_size"],
        first["input_type_shape"][0],
        first["node_index"],
    )


def main():
    model = onnx.parser.parse_model(MODEL)
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), weight.name))
    onnx.save(
        model, "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0
    )
    session, y, path = profiled("model.onnx", 3)
    print(y.round(4).tolist())
    print(
        [*map(str, Path().glob("profile_*.json"))] == [path],
        session.end_profiling() == "",
        session.get_profiling_start_time_ns() > 0,
    )
    report(path)
    meta = session.get_modelmeta()
    print(
        meta.producer_name,
        meta.version,
        meta.custom_metadata_map,
        meta.graph_name,
        repr(meta.domain),
    )

    optimized = onnx.load("optimized.onnx")
    print(sorted(node.op_type for node in optimized.graph.node))
    again = ort.InferenceSession("optimized.onnx", providers=["CPUExecutionProvider"])
    print(np.allclose(again.run(None, {"x": X})[0], y))

    options = ort.SessionOptions()
    try:
        options.register_custom_ops_library(str(Path("libops.so").resolve()))
    except ort.capi.onnxruntime_pybind11_state.Fail as error:
        print("no library of operators:", bool(str(error)))
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = ort.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    assigned = session.get_provider_graph_assignment_info()
    print({each.ep_name for each in assigned}, sum(len(each.get_nodes()) for each in assigned) >= 4)

    value = ort.OrtValue.ortvalue_from_numpy(np.zeros((4, 2), np.float32))
    options = ort.SessionOptions()
    options.add_initializer("v", value)
    replaced = ort.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    print(replaced.run(["y"], {"x": X})[0].round(4).tolist())


if __name__ == "__main__":
    main()
