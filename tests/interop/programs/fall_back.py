"""A service that takes the best provider and survives the rest: ``fall_back.py MODULE``."""

# mypy: ignore-errors

import importlib
import logging
import queue
import sys
import threading
import warnings

import numpy as np
import onnx
import onnx.parser

ort = importlib.import_module(sys.argv[1])
native = importlib.import_module(f"{sys.argv[1]}.capi.onnxruntime_pybind11_state")

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
classifier (float[N,3] x) => (float[N,2] scores, int64[N] label)
<float[3,2] w = {1,-1, 2,0, 0,1}, float[2] b = {0.5,-0.5}> {
  h = MatMul(x, w)
  scores = Add(h, b)
  label = ArgMax<axis = 1, keepdims = 0>(scores)
}"""
WANTED = [
    ("TensorrtExecutionProvider", {"trt_fp16_enable": True}),
    ("CUDAExecutionProvider", {"device_id": 0, "arena_extend_strategy": "kNextPowerOfTwo"}),
    "CPUExecutionProvider",
]
X = np.array([[1, 2, 3], [-1, -2, 3]], np.float32)


def open_model(path, wanted):
    """The session, and what was warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        session = ort.InferenceSession(path, providers=wanted)
    return session, [each.category.__name__ for each in seen]


def select(wanted):
    available = ort.get_available_providers()
    return [each for each in wanted if (each if isinstance(each, str) else each[0]) in available]


def attempt(what, kind, call):
    try:
        call()
    except kind as error:
        print(what, "->", kind.__name__, bool(str(error)))


def main():
    logging.disable(logging.CRITICAL)
    onnx.save(onnx.parser.parse_model(MODEL), "model.onnx")
    session, warned = open_model("model.onnx", WANTED)
    print(session.get_providers(), warned, session.get_provider_options()["CPUExecutionProvider"])
    print(
        select(WANTED),
        session.get_modelmeta().graph_name,
        session.get_modelmeta().custom_metadata_map,
    )
    scores, label = session.run(["scores", "label"], {"x": X})
    print(scores.tolist(), label.tolist(), scores.dtype, label.dtype)

    session.disable_fallback()
    session.set_providers(["CPUExecutionProvider"])
    print(session.run(["label"], {"x": X.tolist()})[0].tolist())
    options = ort.SessionOptions()
    options.log_severity_level = 4
    attempt(
        "no file",
        native.NoSuchFile,
        lambda: ort.InferenceSession("absent.onnx", options, providers=["CPUExecutionProvider"]),
    )
    attempt(
        "no model",
        native.InvalidProtobuf,
        lambda: ort.InferenceSession(b"no model at all", options),
    )
    attempt(
        "no such provider",
        RuntimeError,
        lambda: ort.InferenceSession("model.onnx", providers=["Nope"], enable_fallback=0),
    )
    attempt(
        "options of none",
        ValueError,
        lambda: ort.InferenceSession(
            "model.onnx", None, ["CPUExecutionProvider"], [{}, {}], enable_fallback=0
        ),
    )
    for what, kind, feeds in (
        ("a missing input", ValueError, {}),
        ("a wrong name", ValueError, {"y": X}),
        ("doubles", native.InvalidArgument, {"x": X.astype(np.float64)}),
        ("a row", native.InvalidArgument, {"x": X[0]}),
        ("too wide", native.InvalidArgument, {"x": np.ones((1, 4), np.float32)}),
    ):
        attempt(what, kind, lambda feeds=feeds: session.run(None, feeds))
    attempt("a wrong output", native.InvalidArgument, lambda: session.run(["q"], {"x": X}))
    try:
        session.run(None, {"x": X[0]})
    except native.InvalidArgument:
        print("caught by its name")

    in_threads(session)
    in_background(session)
    stopped(session)
    config()


def in_threads(session):
    found = queue.Queue()
    threads = [
        threading.Thread(
            target=lambda n=n: found.put((n, session.run(None, {"x": X * n})[1].tolist()))
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sorted(found.queue))


def in_background(session):
    done = threading.Event()

    def finished(results, user_data, error):
        print([each.shape for each in results], user_data, error)
        done.set()

    session.run_async(["label"], {"x": X}, finished, {"request": 7})
    assert done.wait(60)


def stopped(session):
    options = ort.RunOptions()
    options.logid, options.terminate = "request 8", True
    attempt("a run that was stopped", native.Fail, lambda: session.run(None, {"x": X}, options))


def config():
    options = ort.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_free_dimension_override_by_name("N", 2)
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    session = ort.InferenceSession(
        "model.onnx", sess_options=options, providers=["CPUExecutionProvider"]
    )
    print(
        [each.shape for each in session.get_inputs()],
        session.get_session_options().intra_op_num_threads,
    )
    print(
        options.get_session_config_entry("session.intra_op.allow_spinning"),
        str(options.execution_mode),
    )
    attempt(
        "another size",
        native.InvalidArgument,
        lambda: session.run(None, {"x": np.ones((3, 3), np.float32)}),
    )
    print(ort.get_device())


if __name__ == "__main__":
    main()
