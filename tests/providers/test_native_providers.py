"""OpenVINO and onnxruntime's bridge as providers of models that they take whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg.foundations.documents.load_config import EXACT_CONFIG
from ortpkg.foundations.errors import (
    CompileError,
    ExecutionProviderError,
    InvalidSessionOptionError,
)
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.topology import topological_order
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.providers.ep_discovery.ep_libraries import EpLibrary
from ortpkg.runtime.providers.ep_library_target import EpLibraryTarget
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
)
from ortpkg.runtime.providers.isolated_model import IsolatedLibrary
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.providers.native_library import CompiledModel, NativeLibrary, NativeModel
from ortpkg.runtime.providers.native_model import native_model
from ortpkg.runtime.providers.openvino_device import openvino_device
from ortpkg.runtime.providers.openvino_group import Ports
from ortpkg.runtime.providers.session_settings import SessionSettings
from tests.kernels.node_runner import RunContext

_MLP = """
<ir_version: 10, opset_import: ["" : 17]>
mlp (float[N, 4] x) => (float[N, 3] y, float[N, 4] doubled)
<float[4, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}>
{
    doubled = Add(x, x)
    product = MatMul(doubled, w)
    y = Relu(product)
}
"""
_STRINGS = """
<ir_version: 10, opset_import: ["" : 17]>
echo (string[N] x) => (string[N] y) { y = Identity(x) }
"""
_UNKNOWN_OPERATOR = """
<ir_version: 10, opset_import: ["" : 17, "acme" : 1]>
odd (float[N] x) => (float[N] y) { y = acme.Frobnicate(x) }
"""
_IF = """
<ir_version: 10, opset_import: ["" : 17]>
branches (bool c, float[2] x) => (float[2] y) {
    y = If(c) <
        then_branch = then_graph () => (float[2] a) { a = Neg(x) },
        else_branch = else_graph () => (float[2] b) { b = Identity(x) }
    >
}
"""

_OPENVINO, _BRIDGE = "openvino", "onnxruntime"


def _provider(backend: str, options: dict[str, str] | None = None) -> ExecutionProvider:
    pytest.importorskip(backend)
    name = "OpenVINOExecutionProvider" if backend == _OPENVINO else "CPUExecutionProvider"
    return find_factory(name, backend=backend).create([], options or {})


def _claim(text: str, provider: ExecutionProvider) -> tuple[Graph, list[ComputeCapability]]:
    graph = load_model(onnx.parser.parse_model(text).SerializeToString()).graph
    return graph, provider.get_capability(
        GraphViewer(graph, topological_order(graph)), lambda _node: {}
    )


def _compute(text: str, provider: ExecutionProvider) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Claims and compiles the model as the partitioner does."""
    graph, (capability,) = _claim(text, provider)
    meta = capability.meta_def
    assert meta is not None
    assert meta.inputs == graph.inputs
    assert meta.outputs == graph.outputs
    node = Node(
        index=99,
        name=meta.name,
        op_type=meta.name,
        domain=meta.domain,
        inputs=meta.inputs,
        outputs=meta.outputs,
    )
    (info,) = provider.compile([FusedNode(node=node, body=graph)])
    state = info.create_state(node.name)
    return lambda inputs: info.compute(state, inputs, RunContext())


@pytest.mark.parametrize("backend", [_OPENVINO, _BRIDGE])
def test_a_whole_model_becomes_one_partition_that_computes(backend: str) -> None:
    provider = _provider(backend)
    x = np.array([[1, 2, 3, -4]], dtype=np.float32)

    y, doubled = _compute(_MLP, provider)([x])

    assert _claim(_MLP, provider)[1][0].node_indices == (0, 1, 2)
    np.testing.assert_array_equal(doubled, 2 * x)
    np.testing.assert_array_equal(y, np.maximum(2 * x @ np.vstack([np.eye(3), np.ones(3)]), 0))


@pytest.mark.parametrize("backend", [_OPENVINO, _BRIDGE])
def test_control_flow_goes_along_inside_its_node(backend: str) -> None:
    compute = _compute(_IF, _provider(backend))
    x = np.array([1, 2], dtype=np.float32)

    np.testing.assert_array_equal(compute([np.array(True), x])[0], -x)
    np.testing.assert_array_equal(compute([np.array(False), x])[0], x)


@pytest.mark.parametrize("backend", [_OPENVINO, _BRIDGE])
def test_results_of_one_call_survive_the_next(backend: str) -> None:
    compute = _compute(_MLP, _provider(backend))

    first = compute([np.ones((1, 4), dtype=np.float32)])
    compute([np.zeros((1, 4), dtype=np.float32)])

    np.testing.assert_array_equal(first[1], np.full((1, 4), 2, dtype=np.float32))


@pytest.mark.parametrize("backend", [_OPENVINO, _BRIDGE])
@pytest.mark.requirement("D09")
def test_many_threads_compute_at_once(backend: str) -> None:
    compute = _compute(_MLP, _provider(backend))
    wrong: list[float] = []

    def work(value: float) -> None:
        for _ in range(20):
            doubled = compute([np.full((3, 4), value, dtype=np.float32)])[1]
            if not (doubled == 2 * value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_model_with_an_operator_that_the_library_lacks_is_left_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert _claim(_UNKNOWN_OPERATOR, _provider(_OPENVINO))[1] == []
    assert (
        "(openvino) takes no node: OpenVINOExecutionProvider cannot compile the model"
        in caplog.text
    )
    assert "its library lacks acme:Frobnicate" in caplog.text


def test_openvino_leaves_a_model_with_strings(caplog: pytest.LogCaptureFixture) -> None:
    assert _claim(_STRINGS, _provider(_OPENVINO))[1] == []
    assert "it cannot take or give values of the type of 'x'" in caplog.text


@pytest.mark.requirement("P10")
def test_a_node_that_another_provider_has_is_left() -> None:
    provider = _provider(_BRIDGE)
    graph, _ = _claim(_MLP, provider)
    graph.assign(graph.node(0), "OtherExecutionProvider")

    (capability,) = provider.get_capability(
        GraphViewer(graph, topological_order(graph)), lambda _node: {}
    )
    assert capability.node_indices == (1, 2)


def test_the_bridge_takes_strings() -> None:
    compute = _compute(_STRINGS, _provider(_BRIDGE))

    assert list(compute([np.array(["a", "ü"], dtype=object)])[0]) == ["a", "ü"]


def test_openvino_computes_in_float32_on_a_cpu_that_has_bfloat16() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 17]>
    product (float[8, 512] a, float[512, 8] b) => (float[8, 8] y) { y = MatMul(a, b) }
    """
    random = np.random.default_rng(1)
    a = random.standard_normal((8, 512), dtype=np.float32)
    b = random.standard_normal((512, 8), dtype=np.float32)

    (y,) = _compute(text, _provider(_OPENVINO))([a, b])

    np.testing.assert_allclose(y, a @ b, atol=1e-4)


def test_the_exact_device_of_the_ep_device_is_used() -> None:
    offered = EpDevice(
        ep_name="OpenVINOExecutionProvider", device=None, ep_options={"device_type": "GPU.1"}
    )

    assert openvino_device([offered], {}) == "GPU.1"
    assert openvino_device([offered], {"device_type": "GPU"}) == "GPU.1"
    assert openvino_device([offered], {"device_type": "HETERO:GPU,CPU"}) == "HETERO:GPU,CPU"
    assert openvino_device([], {}) == "CPU"


@pytest.mark.parametrize(("device", "is_applied"), [("CPU", True), ("AUTO", False), ("GPU", False)])
@pytest.mark.parametrize("is_isolated", [False, True], ids=["here", "child"])
def test_openvino_says_on_which_devices_threads_do_not_apply(
    device: str, is_applied: bool, is_isolated: bool
) -> None:
    pytest.importorskip("openvino")
    from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary

    options = {"device_type": device}
    library = (
        IsolatedLibrary("OpenVINOExecutionProvider", backend="openvino", options=options)
        if is_isolated
        else OpenVinoLibrary(options=options)
    )
    unapplied = library.unapplied(SessionSettings(values={"intra_op_num_threads": 2}))
    assert unapplied == (() if is_applied else ("intra_op_num_threads",))
    library.close()


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ('{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}', {"precision": "FP32"}),
        ('{"GPU": {"INFERENCE_PRECISION_HINT": "f16"}}', {"precision": "FP32"}),
        (EXACT_CONFIG, {"precision": "FP32"}),
        (
            '{"CPU": {"NUM_STREAMS": 2}}',
            {"precision": "FP32", "load_config": '{"NUM_STREAMS": "2"}'},
        ),
    ],
)
def test_what_load_config_changes_for_the_device_is_part_of_what_contexts_depend_on(
    config: str, options: dict[str, str]
) -> None:
    pytest.importorskip("openvino")
    from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary

    library = OpenVinoLibrary(options={"load_config": config})
    assert library.describe_environment().options == options
    model = native_model(load_model(onnx.parser.parse_model(_MLP).SerializeToString()).graph)
    assert library.compile_model(model).get_placement()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precison": "FP32"}, "has no option 'precison'; known are: cache_dir, device_type, "),
        ({"precision": "FP8"}, "precision is 'FP8'; known are: FP32, FP16, ACCURACY"),
        ({"load_config": "f32"}, "load_config is JSON, .* not 'f32'"),
        ({"load_config": '{"CPU": []}'}, "load_config is JSON"),
        (
            {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": null}}'},
            "is a text, a number or a flag",
        ),
    ],
)
def test_openvino_refuses_an_option_that_it_does_not_know(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidSessionOptionError, match=message):
        _provider(_OPENVINO, options)


@pytest.mark.requirement("K21")
def test_a_provider_knows_the_ep_devices_that_it_was_made_for() -> None:
    pytest.importorskip("openvino")
    devices = [
        EpDevice(
            ep_name="OpenVINOExecutionProvider", device=None, ep_options={"device_type": "CPU"}
        )
    ] * 2

    assert find_factory("openvino").create(devices, {}).get_ep_devices() == tuple(devices)


def test_the_bridge_says_what_a_build_has_where_a_provider_is_missing() -> None:
    pytest.importorskip("onnxruntime")
    factory = find_factory("RknpuExecutionProvider", backend="onnxruntime")

    with pytest.raises(
        ExecutionProviderError,
        match=r"has no 'RknpuExecutionProvider'; it has: .*CPUExecutionProvider",
    ):
        factory.create([], {})


class _Core:
    """Stands for an OpenVINO with a GPU: what ``query_model`` of "HETERO:GPU,CPU" answers."""

    def query_model(self, _model: Any, device: str) -> dict[str, str]:
        assert device == "HETERO:GPU,CPU"
        return {"a": "GPU", "b": "CPU", "c": "GPU", "w": "CPU", "x": "GPU"}


class _Operation:
    def __init__(self, name: str, kind: str) -> None:
        self.get_friendly_name = lambda: name
        self.get_type_name = lambda: kind


class _SplitModel:
    def get_ops(self) -> list[_Operation]:
        kinds = {"x": "Parameter", "w": "Constant", "a": "MatMul", "b": "TopK", "c": "Relu"}
        return [_Operation(name, kind) for name, kind in kinds.items()]


class _Compiled:
    """A compiled model that runs on ``devices``."""

    inputs: tuple[Any, ...] = ()
    outputs: tuple[Any, ...] = ()

    def __init__(self, *devices: str) -> None:
        self.get_property = lambda _name: list(devices)


def test_nodes_that_openvino_splits_among_devices_are_counted_by_device() -> None:
    pytest.importorskip("openvino")
    from ortpkg.runtime.providers import openvino_library as library

    counts = library._count_nodes(_Core(), _SplitModel(), "HETERO:GPU,CPU")
    model = library._OpenVinoModel(
        _Compiled("GPU", "CPU"),
        Ports(inputs=(), outputs=(), constants={}),
        "HETERO:GPU,CPU",
        counts,
    )
    found = [(place.device, place.node_count, place.is_fallback) for place in model.get_placement()]
    assert found == [("GPU", 2, False), ("CPU", 1, True)]


@pytest.mark.parametrize(
    ("asked", "ran_on", "device", "is_fallback"),
    [
        ("AUTO:GPU,CPU", "(CPU)", "CPU", True),
        ("AUTO:GPU,CPU", "GPU.0", "GPU.0", False),
        ("AUTO:NPU", "CPU", "CPU", True),
        ("AUTO", "CPU", "CPU", False),
        ("MULTI:CPU", "CPU", "CPU", False),
        ("NPU", "NPU", "NPU", False),
    ],
)
def test_openvinos_choice_of_the_cpu_in_place_of_an_accelerator_is_a_fallback(
    asked: str, ran_on: str, device: str, is_fallback: bool
) -> None:
    pytest.importorskip("openvino")
    from ortpkg.runtime.providers import openvino_library as library

    model = library._OpenVinoModel(
        _Compiled(ran_on), Ports(inputs=(), outputs=(), constants={}), asked, {}
    )
    (place,) = model.get_placement()
    assert (place.device, place.is_fallback) == (device, is_fallback)
    assert (asked in place.reason) is is_fallback


class _OrtSession:
    """A session of an onnxruntime whose GPU provider started or not, and says so or not."""

    def __init__(self, providers: list[str]) -> None:
        self.get_providers = lambda: providers


def test_a_provider_that_onnxruntime_could_not_start_is_told() -> None:
    pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers.onnxruntime_library import OnnxRuntimeModel

    model = OnnxRuntimeModel(
        _OrtSession(["CPUExecutionProvider"]),
        (),
        (),
        "CUDAExecutionProvider",
    )
    cuda, cpu = model.get_placement()
    assert (cuda.ep_name, cuda.node_count) == ("CUDAExecutionProvider", 0)
    assert "left it out" in cuda.reason
    assert (cpu.ep_name, cpu.node_count, cpu.is_fallback) == ("CPUExecutionProvider", None, True)


def test_a_release_of_onnxruntime_that_tells_no_placement_is_said_to() -> None:
    pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers.onnxruntime_library import OnnxRuntimeModel

    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    model = OnnxRuntimeModel(_OrtSession(providers), (), (), providers[0])
    (place,) = model.get_placement()
    assert (place.ep_name, place.node_count) == ("CUDAExecutionProvider", None)
    assert "does not tell which of them its CPU provider runs" in place.reason


def test_what_a_wheels_provider_compiles_for_a_context_has_everything_inside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers import onnxruntime_contexts
    from ortpkg.runtime.providers.onnxruntime_library import OnnxRuntimeModel

    class Compiler:
        """Stands for onnxruntime's: what does not go into the model goes into a file beside it."""

        def __init__(
            self, _options: Any, source: bytes, *, embed_compiled_data_into_model: bool, flags: Any
        ) -> None:
            assert flags == onnxruntime.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
            self._made = source + (
                b" with its context" if embed_compiled_data_into_model else b" that names a file"
            )

        def compile_to_bytes(self) -> bytes:
            return self._made

    library = EpLibrary(
        ep_name="AcmeExecutionProvider",
        distribution="acme",
        version="1",
        path=str(tmp_path / "a.so"),
    )
    target = EpLibraryTarget(
        library=library,
        ep_devices=tuple(onnxruntime.get_ep_devices()[:1]),
        options={},
        device="CPU",
        architecture="unknown",
    )
    monkeypatch.setattr(onnxruntime, "ModelCompiler", Compiler)
    monkeypatch.setattr(onnxruntime_contexts, "ep_library_of", lambda _name: library)
    monkeypatch.setattr(onnxruntime_contexts, "ep_library_target", lambda *_: target)
    acme = onnxruntime_contexts.open_onnxruntime(library.ep_name)
    assert isinstance(acme, onnxruntime_contexts.WheelLibrary)
    compiled = OnnxRuntimeModel(_OrtSession([]), ("x",), ("y",), library.ep_name)
    parts = acme.export_model(compiled, NativeModel(data=b"a model", inputs=("x",), outputs=("y",)))
    assert parts["model"] == b"a model with its context"


class OnlyCompiling(NativeLibrary):
    backend = "acme"

    def compile_model(self, model: NativeModel) -> CompiledModel:
        raise AssertionError(model)


def test_a_library_that_only_compiles_says_so_where_contexts_are_asked_of_it() -> None:
    provider = NativeExecutionProvider("AcmeExecutionProvider", OnlyCompiling())
    body = Graph("p0")
    fused = FusedNode(node=body.add_node("Acme", ["x"], ["y"]), body=body)
    descriptor = ContextDescriptor(ep=provider.name, sdk_version="1", device="CPU")
    entry = ContextEntry(name="p0", descriptor=descriptor, parts={})

    with pytest.raises(CompileError, match="cannot keep what it compiled"):
        provider.describe_environment()
    with pytest.raises(TypeError, match="its library loads no contexts"):
        provider.import_context(entry, fused)


def test_cuda_runs_on_the_device_that_was_chosen_with_nvidias_libraries_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers import onnxruntime_contexts

    cuda = "CUDAExecutionProvider"
    build = SimpleNamespace(get_available_providers=lambda: [cuda], __version__="1.31.1")
    prepared: list[object] = []
    monkeypatch.setattr(onnxruntime_contexts, "onnxruntime", build)
    monkeypatch.setattr(onnxruntime_contexts, "prepare_nvidia_libraries", prepared.append)
    gpu = HardwareDevice(type=DeviceType.GPU, vendor="NVIDIA")
    chosen = EpDevice(ep_name=cuda, device=gpu, ep_options={"device_id": "1"})

    library = onnxruntime_contexts.open_onnxruntime(
        cuda, ep_devices=[chosen], options={"cudnn_conv_algo_search": "DEFAULT"}
    )

    assert library._own_options() == {"device_id": "1", "cudnn_conv_algo_search": "DEFAULT"}
    assert prepared == [build]
    own = onnxruntime_contexts.open_onnxruntime(
        cuda, ep_devices=[chosen], options={"device_id": "0"}
    )
    assert own._own_options() == {"device_id": "0"}


def test_a_library_that_keeps_nothing_says_that_it_makes_no_contexts() -> None:
    class Library(NativeLibrary):
        """Compiles, and keeps nothing."""

        def compile_model(self, model: NativeModel) -> CompiledModel:
            raise NotImplementedError

    provider = NativeExecutionProvider("CUDAExecutionProvider", Library())
    with pytest.raises(CompileError, match="cannot keep what it compiled: it makes no contexts"):
        provider.describe_environment()
