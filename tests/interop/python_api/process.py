"""What upstream asserts of the module itself: the machine, compiling, adapters."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.interop.python_api.behaviour import (
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


@behaviour('the version is a text, and the build information has the words "Build Info"')
def versions(ort: Any, folder: Path) -> None:
    assert isinstance(ort.get_version_string(), str)
    assert "Build Info" in ort.get_build_info()


@behaviour("the CPU's provider is available, and the last of all")
def providers(ort: Any, folder: Path) -> None:
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert ort.get_all_providers()[-1] == "CPUExecutionProvider"


@behaviour("the device is a CPU or a GPU")
def device(ort: Any, folder: Path) -> None:
    assert "CPU" in ort.get_device() or "GPU" in ort.get_device()


@behaviour("telemetry can be switched off and on")
def telemetry(ort: Any, folder: Path) -> None:
    ort.disable_telemetry_events()
    ort.enable_telemetry_events()


@behaviour("a memory info says name, device, kinds and maker")
def memory_info(ort: Any, folder: Path) -> None:
    info = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    assert (info.name, info.device_id, info.device_vendor_id) == ("Cpu", 0, 0)
    assert (info.mem_type, info.allocator_type) == (
        ort.OrtMemType.DEFAULT,
        ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
    )
    assert info.device_mem_type == ort.OrtDeviceMemoryType.DEFAULT


@behaviour("a memory info may have any name in its second form")
def memory_info_v2(ort: Any, folder: Path) -> None:
    info = ort.OrtMemoryInfo.create_v2(
        "Test",
        ort.OrtMemoryInfoDeviceType.CPU,
        0,
        0,
        ort.OrtDeviceMemoryType.DEFAULT,
        128,
        ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
    )
    assert (info.name, info.device_id, info.mem_type) == ("Test", 0, ort.OrtMemType.DEFAULT)


@behaviour("an arena is configured by four numbers")
def arena_by_numbers(ort: Any, folder: Path) -> None:
    arena = ort.OrtArenaCfg(8, 0, 4, 2)
    assert (arena.max_mem, arena.arena_extend_strategy) == (8, 0)
    assert (arena.initial_chunk_size_bytes, arena.max_dead_bytes_per_chunk) == (4, 2)


@behaviour("an arena is configured by names and numbers")
def arena_by_names(ort: Any, folder: Path) -> None:
    given = {"max_mem": 32, "arena_extend_strategy": 11, "initial_chunk_size_bytes": 18, "max_dead_bytes_per_chunk": 14,
             "initial_growth_chunk_size_bytes": 12, "max_power_of_two_extend_bytes": 17}  # fmt: skip
    arena = ort.OrtArenaCfg(given)
    assert {name: getattr(arena, name) for name in given} == given


@behaviour(
    "once the process has shared threads, a session with threads of its own is a RuntimeError",
    missing="sessions with and without threads of their own live beside each other here",
)
def own_threads_refused(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(bytes_of(MUL))
    program = (
        f"import {ort.__name__} as ort; ort.set_global_thread_pool_sizes(2, 2); o ="
        " ort.SessionOptions()\no.use_per_session_threads = True; o.execution_mode ="
        " ort.ExecutionMode.ORT_PARALLEL\ntry: ort.InferenceSession('m.onnx', o,"
        " providers=['CPUExecutionProvider'])\nexcept RuntimeError: print('refused')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "refused" in done.stdout


# --- compatibility of compiled models -------------------------------------------------------------


def _cpu_devices(ort: Any) -> list[Any]:
    return [each for each in ort.get_ep_devices() if each.ep_name == "CPUExecutionProvider"]


@behaviour("a rating needs devices (RuntimeError) and a text (TypeError)")
def rating_arguments(ort: Any, folder: Path) -> None:
    rate = native(ort).get_model_compatibility_for_ep_devices
    raises(RuntimeError, "", lambda: rate([], "info"))
    raises(TypeError, "", lambda: rate(ort.get_ep_devices(), None))


@behaviour("any text is not applicable to the CPU's provider")
def rating_of_the_cpu(ort: Any, folder: Path) -> None:
    rating = native(ort).get_model_compatibility_for_ep_devices(
        _cpu_devices(ort)[:1], "arbitrary-compat-string"
    )
    assert rating == native(ort).OrtCompiledModelCompatibility.EP_NOT_APPLICABLE


def _compiled(**stated: str) -> bytes:
    model = onnx.helper.make_model(
        onnx.helper.make_graph([], "g", [], []), opset_imports=[onnx.helper.make_opsetid("", 13)]
    )
    onnx.helper.set_model_props(
        model, {f"ep_compatibility_info.{name}": text for name, text in stated.items()}
    )
    return bytes(model.SerializeToString())


@behaviour("the compatibility string of a serialized model is that of the provider named, or None")
def compatibility_of_bytes(ort: Any, folder: Path) -> None:
    read = native(ort).get_compatibility_info_from_model_bytes
    assert read(_compiled(TestEP="v1_driver_123"), "TestEP") == "v1_driver_123"
    assert read(_compiled(TestEP="v1_driver_123"), "OtherEP") is None
    assert read(_compiled(), "AnyEP") is None


@behaviour("bytes that are no model are a RuntimeError")
def compatibility_of_no_model(ort: Any, folder: Path) -> None:
    raises(
        RuntimeError,
        "",
        lambda: native(ort).get_compatibility_info_from_model_bytes(
            b"this is not a valid model", "TestEP"
        ),
    )


@behaviour("empty arguments are a RuntimeError")
def compatibility_of_nothing(ort: Any, folder: Path) -> None:
    module = native(ort)
    for call in (
        lambda: module.get_compatibility_info_from_model_bytes(b"", "TestEP"),
        lambda: module.get_compatibility_info_from_model_bytes(b"data", ""),
        lambda: module.get_compatibility_info_from_model("", "TestEP"),
        lambda: module.get_compatibility_info_from_model("model.onnx", ""),
    ):
        raises(RuntimeError, "", call)


@behaviour("the compatibility string of a file; a file that is missing is a RuntimeError")
def compatibility_of_a_file(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(_compiled(TestEP="file_v2"))
    read = native(ort).get_compatibility_info_from_model
    assert read("m.onnx", "TestEP") == "file_v2"
    raises(RuntimeError, "", lambda: read("none.onnx", "TestEP"))


@behaviour("hardware devices have a type by number, and a maker")
def hardware_devices(ort: Any, folder: Path) -> None:
    found = native(ort).get_hardware_devices()
    assert found
    assert all(each.type.value in (0, 1, 2) and each.vendor is not None for each in found)


@behaviour("nothing keeps the CPU's provider from the CPU, as a mask of reasons says")
def no_incompatibility(ort: Any, folder: Path) -> None:
    cpu, *_ = [each for each in native(ort).get_hardware_devices() if each.type.value == 0]
    found = native(ort).get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", cpu)
    assert (found["reasons_bitmask"], found["error_code"], "notes" in found) == (0, 0, True)


@behaviour("the reasons are asked of a provider with a name")
def incompatibility_of_nobody(ort: Any, folder: Path) -> None:
    first, *_ = native(ort).get_hardware_devices()
    raises(
        Exception, "", lambda: native(ort).get_hardware_device_ep_incompatibility_details("", first)
    )


@behaviour("the reasons are bits")
def incompatibility_reasons(ort: Any, folder: Path) -> None:
    reasons = native(ort).OrtDeviceEpIncompatibilityReason
    names = ("NONE", "DRIVER_INCOMPATIBLE", "DEVICE_INCOMPATIBLE", "MISSING_DEPENDENCY", "UNKNOWN")
    assert [getattr(reasons, name).value for name in names] == [0, 1, 2, 4, -(1 << 31)]


# --- compiling ------------------------------------------------------------------------------------


def _compiler(ort: Any, model: Any, **options: Any) -> Any:
    return ort.ModelCompiler(
        ort.SessionOptions(), model, embed_compiled_data_into_model=True, **options
    )


@behaviour("a model file is compiled to a file")
def compile_file(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(bytes_of(MUL))
    _compiler(ort, "m.onnx").compile_to_file("made.onnx")
    assert Path("made.onnx").exists()


@behaviour("a serialized model is compiled to a file")
def compile_bytes_to_file(ort: Any, folder: Path) -> None:
    _compiler(ort, bytes_of(MUL)).compile_to_file("made.onnx")
    assert Path("made.onnx").exists()


@behaviour("a serialized model is compiled to bytes")
def compile_bytes(ort: Any, folder: Path) -> None:
    made = _compiler(ort, bytes_of(MUL)).compile_to_bytes()
    assert isinstance(made, bytes)
    same(
        ort.InferenceSession(made, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0], X * X
    )


@behaviour("a model is compiled to a stream")
def compile_to_stream(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(bytes_of(MUL))
    written: list[bytes] = []
    _compiler(ort, "m.onnx").compile_to_stream(lambda content: written.append(bytes(content)))
    assert onnx.load_model_from_string(b"".join(written)).graph.node


@behaviour("what the stream raises is a Fail with its text")
def compile_to_broken_stream(ort: Any, folder: Path) -> None:
    def write(content: bytes) -> None:
        raise ValueError("My Python Error")

    raises(
        native(ort).Fail,
        "My Python Error",
        lambda: _compiler(ort, bytes_of(MUL)).compile_to_stream(write),
    )


@behaviour("that nothing was compiled is a Fail where a flag says so, and no file is made")
def compile_nothing(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(bytes_of(MUL))
    compiler = _compiler(ort, "m.onnx", flags=ort.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED)
    raises(
        native(ort).Fail,
        "Unable to compile any nodes",
        lambda: compiler.compile_to_file("made.onnx"),
    )
    assert not Path("made.onnx").exists()


@behaviour("a file that is there is a Fail where a flag says so")
def compile_over_a_file(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(bytes_of(MUL))
    compiler = _compiler(ort, "m.onnx", flags=ort.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS)
    compiler.compile_to_file("made.onnx")
    raises(native(ort).Fail, "exists already", lambda: compiler.compile_to_file("made.onnx"))


@behaviour("an initializer that only inner graphs read is in the compiled model")
def compile_inner_graphs(ort: Any, folder: Path) -> None:
    text = (
        "g () => (float[1,4] y) <int64[1] axes = {0}, float[4] data = {10,20,30,40}, bool cond ="
        " {1}> { y = If (cond) <then_branch = t () => (float[1,4] a) { a = Unsqueeze(data, axes) },"
        " else_branch = e () => (float[1,4] b) { b = Unsqueeze(data, axes) }> }"
    )
    made = _compiler(ort, bytes_of(text)).compile_to_bytes()
    session = ort.InferenceSession(made, providers=["CPUExecutionProvider"])
    assert session.run(None, {})[0].tolist() == [[10, 20, 30, 40]]


@behaviour("nothing is optimized unless a level is given")
def compile_levels(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(
        bytes_of("g (float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }")
    )
    found = []
    for name in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC"):
        level = getattr(ort.GraphOptimizationLevel, name)
        _compiler(ort, "m.onnx", graph_optimization_level=level).compile_to_file(f"{name}.onnx")
        found.append(Counter(node.op_type for node in onnx.load(f"{name}.onnx").graph.node))
    assert found == [{"Identity": 1, "Neg": 1}, {"Neg": 1}]


@behaviour("a function says in which file the compiled model has an initializer")
def compile_with_places(ort: Any, folder: Path) -> None:
    Path("m.onnx").write_bytes(bytes_of(MUL))

    def locate(name: str, value: Any, known: Any) -> Any:
        assert name
        Path("mine.bin").write_bytes(value.numpy().tobytes())
        return ort.OrtExternalInitializerInfo("mine.bin", 0, value.tensor_size_in_bytes())

    _compiler(ort, "m.onnx", get_initializer_location_func=locate).compile_to_file("made.onnx")
    same(
        ort.InferenceSession("made.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": X})[
            0
        ],
        X * X,
    )


@behaviour("the function may leave an initializer in the file that it came from")
def compile_with_known_places(ort: Any, folder: Path) -> None:
    model = model_of(MUL)
    (weight,) = model.graph.initializer
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), "w"))
    onnx.save(model, "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    seen = []

    def keep(name: str, value: Any, known: Any) -> Any:
        seen.append(
            (name, value.data_ptr() != 0, value.tensor_size_in_bytes(), Path(known.filepath).name)
        )
        return known

    _compiler(ort, "m.onnx", get_initializer_location_func=keep).compile_to_file("made.onnx")
    assert seen == [("w", True, 24, "m.bin")]
    assert onnx.load("made.onnx", load_external_data=False).graph.initializer[0].external_data


# --- adapters -------------------------------------------------------------------------------------


def _write_adapter(ort: Any, path: str, **parameters: Any) -> None:
    made = ort.AdapterFormat()
    made.set_adapter_version(1)
    made.set_model_version(2)
    made.set_parameters(
        {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in parameters.items()}
    )
    made.export_adapter(path)


@behaviour("an adapter is written to a file and read from it")
def adapter_file(ort: Any, folder: Path) -> None:
    given: dict[str, Any] = {
        "a": np.arange(10, dtype=np.float32).reshape(5, 2),
        "b": np.arange(10, dtype=np.int64).reshape(2, 5),
    }
    _write_adapter(ort, str(folder / "m.onnx_adapter"), **given)
    read = ort.AdapterFormat.read_adapter(str(folder / "m.onnx_adapter"))
    assert (read.get_adapter_version(), read.get_model_version()) == (1, 2)
    found = read.get_parameters()
    assert sorted(found) == ["a", "b"]
    for name, array in given.items():
        assert found[name].shape() == list(array.shape)
        np.testing.assert_array_equal(found[name].numpy(), array)


@behaviour("an adapter's tensors stand in for inputs that have defaults, in the runs that name it")
def adapter_run(ort: Any, folder: Path) -> None:
    _write_adapter(ort, str(folder / "m.onnx_adapter"), a=np.array([10, 20], np.float32))
    adapter = ort.LoraAdapter()
    adapter.Load(str(folder / "m.onnx_adapter"))
    options = ort.RunOptions()
    options.add_active_adapter(adapter)
    session = session_of(
        ort, "g (float[2] x, float[2] a = {1, 2}) => (float[2] y) { y = Mul(x, a) }"
    )
    ones = {"x": np.ones(2, np.float32)}
    assert session.run(None, ones, options)[0].tolist() == [10, 20]
    assert session.run(None, ones)[0].tolist() == [1, 2]


@behaviour("a backend, as the onnx package knows it, prepares and runs a model")
def onnx_backend(ort: Any, folder: Path) -> None:
    from importlib import import_module

    Path("m.onnx").write_bytes(bytes_of(MUL))
    prepared = import_module(f"{ort.__name__}.backend").prepare("m.onnx")
    same(prepared.run(X)[0], X * X)
