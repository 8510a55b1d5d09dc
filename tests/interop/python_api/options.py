"""What upstream's tests assert of session options and of the providers' arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.interop.python_api.behaviour import (
    CPU,
    MUL,
    Behaviours,
    X,
    bytes_of,
    model_of,
    raises,
    same,
    session_of,
)

behaviour = Behaviours()

_FILE_ENTRY = "session.optimized_model_external_initializers_file_name"
_SIZE_ENTRY = "session.optimized_model_external_initializers_min_size_in_bytes"


def _saving(ort: Any, path: str, data: str = "", nbytes: int = 0) -> Any:
    options = ort.SessionOptions()
    options.optimized_model_filepath = path
    if data:
        options.add_session_config_entry(_FILE_ENTRY, data)
        options.add_session_config_entry(_SIZE_ENTRY, str(nbytes))
    return options


@behaviour("the optimized model is written where the options say")
def optimized_model(ort: Any, folder: Path) -> None:
    session_of(ort, MUL, _saving(ort, "optimized.onnx"))
    same(ort.InferenceSession("optimized.onnx", providers=CPU).run(None, {"x": X})[0], X * X)


@behaviour("its initializers over a size go into a file that a config entry names")
def optimized_model_with_data(ort: Any, folder: Path) -> None:
    session_of(ort, MUL, _saving(ort, "optimized.onnx", "optimized.bin", 10))
    assert Path("optimized.bin").stat().st_size >= 24
    same(ort.InferenceSession("optimized.onnx", providers=CPU).run(None, {"x": X})[0], X * X)


@behaviour("that file lies beside the optimized model, in whatever folder that is")
def optimized_model_elsewhere(ort: Any, folder: Path) -> None:
    Path("sub").mkdir()
    session_of(ort, MUL, _saving(ort, "sub/optimized.onnx", "optimized.bin", 10))
    assert Path("sub", "optimized.bin").exists()


@behaviour(
    "a model with a data file of its own is written with another, and may be read and written again"
)
def optimized_model_chain(ort: Any, folder: Path) -> None:
    model = model_of(MUL)
    (weight,) = model.graph.initializer
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), "w"))
    onnx.save(model, "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    for source, made in (("m", "first"), ("first", "second")):
        ort.InferenceSession(
            f"{source}.onnx", _saving(ort, f"{made}.onnx", f"{made}.bin", 10), providers=CPU
        )
    for name in ("m.onnx", "m.bin", "first.onnx", "first.bin"):
        Path(name).unlink()
    same(ort.InferenceSession("second.onnx", providers=CPU).run(None, {"x": X})[0], X * X)


@behaviour("the optimization level is ENABLE_ALL by default, and can be set")
def optimization_level(ort: Any, folder: Path) -> None:
    options, levels = ort.SessionOptions(), ort.GraphOptimizationLevel
    assert options.graph_optimization_level == levels.ORT_ENABLE_ALL
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
    assert options.graph_optimization_level == levels.ORT_ENABLE_EXTENDED
    same(session_of(ort, MUL, options).run(None, {"x": X})[0], X * X)


@behaviour("the execution mode is sequential by default, and can be set")
def execution_mode(ort: Any, folder: Path) -> None:
    options = ort.SessionOptions()
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL


_CONFIG = {
    "session_options": {"inter_op_num_threads": 5, "intra_op_num_threads": 2, "enable_profiling": 1}
}


@behaviour("with ORT_LOAD_CONFIG_FROM_MODEL=1 a model's own session options count")
def options_of_the_model(ort: Any, folder: Path) -> None:
    model = model_of(MUL)
    model.metadata_props.add(key="ort_config", value=json.dumps(_CONFIG))
    os.environ["ORT_LOAD_CONFIG_FROM_MODEL"] = "1"
    try:
        session = ort.InferenceSession(model.SerializeToString(), providers=CPU)
    finally:
        del os.environ["ORT_LOAD_CONFIG_FROM_MODEL"]
    found = session.get_session_options()
    assert (found.inter_op_num_threads, found.intra_op_num_threads, found.enable_profiling) == (
        5,
        2,
        True,
    )


_FREE = "g (float[Dim1,Dim2,5] x) => (float[Dim1,Dim2,5] y) { y = Abs(x) }"


@behaviour("dimensions can be fixed by their denotation")
def dimension_by_denotation(ort: Any, folder: Path) -> None:
    model = model_of(_FREE)
    dimensions = model.graph.input[0].type.tensor_type.shape.dim
    for dimension, denotation in zip(dimensions, ("DATA_BATCH", "DATA_CHANNEL"), strict=False):
        dimension.denotation = denotation
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    options.add_free_dimension_override_by_denotation("DATA_CHANNEL", 5)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=CPU)
    assert session.get_inputs()[0].shape == [3, 5, 5]


@behaviour("dimensions can be fixed by their name")
def dimension_by_name(ort: Any, folder: Path) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("Dim1", 4)
    options.add_free_dimension_override_by_name("Dim2", 6)
    assert session_of(ort, _FREE, options).get_inputs()[0].shape == [4, 6, 5]


@behaviour("any config entry can be set and read")
def config_entry(ort: Any, folder: Path) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("CONFIG_KEY", "CONFIG_VAL")
    assert options.get_session_config_entry("CONFIG_KEY") == "CONFIG_VAL"


@behaviour("a config entry that was not set is a RuntimeError that names it")
def missing_config_entry(ort: Any, folder: Path) -> None:
    raises(
        RuntimeError,
        "INVALID_KEY",
        lambda: ort.SessionOptions().get_session_config_entry("INVALID_KEY"),
    )


@behaviour("add_initializer puts a tensor in the place of the model's")
def added_initializer(ort: Any, folder: Path) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(np.array([[2, 1], [4, 3], [6, 5]], np.float32))
    options = ort.SessionOptions()
    options.add_initializer("w", value)
    same(session_of(ort, MUL, options).run(["y"], {"x": X})[0], [[2, 2], [12, 12], [30, 30]])


def _model_without_its_data() -> bytes:
    model = model_of(MUL)
    (weight,) = model.graph.initializer
    weight.CopyFrom(
        onnx.TensorProto(
            name="w", data_type=1, dims=[3, 2], data_location=onnx.TensorProto.EXTERNAL
        )
    )
    for key, value in {"location": "not_on_disk.bin", "offset": "0", "length": "24"}.items():
        weight.external_data.add(key=key, value=value)
    return bytes(model.SerializeToString())


@behaviour("external initializers may be tensors of the caller's")
def external_initializers(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(_model_without_its_data())
    weight, options = ort.OrtValue.ortvalue_from_numpy(X), ort.SessionOptions()
    options.add_external_initializers(["w"], [weight])
    same(ort.InferenceSession("m.onnx", options, providers=CPU).run(None, {"x": X})[0], X * X)


@behaviour("external initializers may be files in memory")
def external_files_in_memory(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(_model_without_its_data())
    content, options = X.tobytes(), ort.SessionOptions()
    options.add_external_initializers_from_files_in_memory(
        ["not_on_disk.bin"], [content], [len(content)]
    )
    same(ort.InferenceSession("m.onnx", options, providers=CPU).run(None, {"x": X})[0], X * X)


# --- the arguments of providers -------------------------------------------------------------------


def _normalized(ort: Any, providers: Any, options: Any) -> Any:
    module = import_module(f"{ort.__name__}.capi.onnxruntime_inference_collection")
    return module.check_and_normalize_provider_args(providers, options, ["a", "b", "c"])


@behaviour("names and options of providers come out as two lists of texts")
def provider_arguments(ort: Any, folder: Path) -> None:
    assert _normalized(ort, None, None) == ([], [])
    assert _normalized(ort, [("a", {1: 2}), "b"], None) == (["a", "b"], [{"1": "2"}, {}])
    assert _normalized(ort, ["a", "b"], [{1: 2}, {}]) == (["a", "b"], [{"1": "2"}, {}])


@behaviour("a provider that is named twice is a warning")
def provider_named_twice(ort: Any, folder: Path) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert _normalized(ort, ["a", "b", "a"], [{"x": 1}, {}, {"y": 2}]) == (
            ["a", "b"],
            [{"x": "1"}, {}],
        )
    assert [each.category for each in seen] == [UserWarning]


_WRONG_PROVIDERS: tuple[tuple[Any, Any], ...] = (
    ([3], None),
    (CPU, 3),
    (CPU, ["not dict"]),
    (["a", "b"], [{1: 2}]),
    ([("a", {1: 2})], [{3: 4}]),
)


@behaviour("providers that are no list of names, or of names with options, are a ValueError")
def wrong_providers(ort: Any, folder: Path) -> None:
    for providers, options in _WRONG_PROVIDERS:
        with pytest.raises(ValueError):
            ort.InferenceSession(bytes_of(MUL), None, providers, options, enable_fallback=0)


# --- threads and memory of the process ------------------------------------------------------------


_SHARED_THREADS = """
import numpy as np, {module} as ort
ort.set_global_thread_pool_sizes(2, 2)
options = ort.SessionOptions()
options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
options.use_per_session_threads = False
session = ort.InferenceSession("m.onnx", options, providers=["CPUExecutionProvider"])
print(session.run(None, {{"x": np.full((3, 2), 2, np.float32)}})[0].sum())
"""


@behaviour("a parallel session may take the threads of the process")
def shared_threads(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(bytes_of(MUL))
    command = [sys.executable, "-c", _SHARED_THREADS.format(module=ort.__name__)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "42.0\n"


@behaviour("sessions run with and without an allocator that they share")
def shared_allocator(ort: Any, folder: Path) -> None:
    info = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    ort.create_and_register_allocator(info, None)
    for value in ("1", "0"):
        options = ort.SessionOptions()
        options.add_session_config_entry("session.use_env_allocators", value)
        same(session_of(ort, MUL, options).run(None, {"x": X})[0], X * X)
