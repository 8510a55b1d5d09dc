"""Every session knows what ran where, the silent fallbacks of its backends included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.foundations.errors import SessionError
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import BackendPlacement
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.providers.native_library import CompiledModel, NativeLibrary, NativeModel
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.placement import EpPlacement, Placement, create_placement

CUDA_EP = "CUDAExecutionProvider"
AZURE_EP = "AzureExecutionProvider"
H200 = HardwareDevice(type=DeviceType.GPU, name="NVIDIA H200")

SHARED_WEIGHT = """
<ir_version: 10, opset_import: ["" : 17]>
g (float[N,4] x, bool c) => (float[N,4] y)
<float[4,4] w = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}> {
    a = MatMul(x, w)
    b = Softmax(a)
    y = If(c) <
        then_branch = then_graph () => (float[N,4] t) { t = MatMul(b, w) },
        else_branch = else_graph () => (float[N,4] e) { e = Identity(b) }
    >
}
"""
STRINGS = """
<ir_version: 10, opset_import: ["" : 17]>
g (string[N] x) => (string[N] y) { y = Identity(x) }
"""
UNKNOWN_OPERATOR = """
<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
g (int64[N] x) => (string[N] y) { y = ai.onnx.ml.CategoryMapper <cats_int64s = [1], cats_strings = ["a"]>(x) }
"""
FEEDS = {"x": np.ones((2, 4), np.float32), "c": np.array(True)}


def bytes_of(text: str) -> bytes:
    data: bytes = onnx.parser.parse_model(text).SerializeToString()
    return data


def session_of(text: str, *, profiled: bool = False, **arguments: Any) -> InferenceSession:
    return InferenceSession(bytes_of(text), SessionOptions(enable_profiling=profiled), **arguments)


class Library(NativeLibrary):
    backend = "bridge"

    def compile_model(self, model: NativeModel) -> CompiledModel:
        raise NotImplementedError


class Bridge(NativeExecutionProvider):
    """Stands for a backend with a GPU that tells where its nodes went."""

    def __init__(self, places: Sequence[BackendPlacement]) -> None:
        device = EpDevice(ep_name=CUDA_EP, device=H200, backend="bridge")
        super().__init__(CUDA_EP, Library(), ep_devices=[device])
        self.places = places

    def get_placement(self, fused_node: str) -> Sequence[BackendPlacement]:
        assert fused_node == "CUDA_0"
        return self.places


def place_on(
    places: Sequence[BackendPlacement], durations_s: Mapping[tuple[str, str], float] | None = None
) -> Any:
    """The placement of four nodes with weights of 1, 10, 100, 1000 bytes on ``places``."""
    partition = Partition(
        provider=CUDA_EP,
        node_names=("n0", "n1", "n2", "n3"),
        op_types=("Add",) * 4,
        fused_node="CUDA_0",
        weights_of={"n0": 1, "n1": 10, "n2": 100, "n3": 1000},
    )
    embedded = CPUExecutionProvider(is_requested=False)
    return create_placement([Bridge(places), embedded], [partition], durations_s)


def test_the_embedded_engine_counts_nodes_and_each_weight_once() -> None:
    with session_of(SHARED_WEIGHT) as session:
        assert session.get_placement() == Placement(
            entries=(
                EpPlacement(
                    ep_name=CPU_EP,
                    backend="embedded",
                    device="CPU",
                    node_count=5,
                    weight_nbytes=4 * 4 * 4,
                ),
            )
        )


@pytest.mark.parametrize(
    ("backend", "ep_name"), [("openvino", OPENVINO_EP), ("onnxruntime", CPU_EP)]
)
def test_a_whole_model_is_on_its_backend_alone(backend: str, ep_name: str) -> None:
    pytest.importorskip(backend)
    with session_of(SHARED_WEIGHT, backend=backend) as session:
        placement = session.get_placement()
    assert (
        placement.describe()
        == f"1 of 1 EPs: {ep_name} ({backend}, CPU): 3 of 3 nodes, 64 B of weights"
    )
    assert placement.offload_percent == 100.0
    assert placement.idle_eps == ()


def test_the_fallback_of_onnxruntime_to_its_own_cpu_provider_shows() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if AZURE_EP not in onnxruntime.get_available_providers():
        pytest.skip("this build of onnxruntime has no provider that leaves every node to the CPU")
    with session_of(SHARED_WEIGHT, providers=[AZURE_EP], allow_fallback=True) as session:
        placement = session.get_placement()
    azure, cpu = placement.entries
    assert (azure.ep_name, azure.backend, azure.node_count, azure.weight_nbytes) == (
        AZURE_EP,
        "onnxruntime",
        0,
        0,
    )
    assert (cpu.ep_name, cpu.backend, cpu.is_fallback, cpu.weight_nbytes) == (
        CPU_EP,
        "onnxruntime",
        True,
        64,
    )
    assert placement.node_count == cpu.node_count >= 3
    assert placement.offload_percent == 0.0
    assert placement.describe().startswith(
        f"1 of 2 EPs: {AZURE_EP} (onnxruntime): no node (onnxruntime "
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (STRINGS, "it cannot take or give values of the type of 'x'"),
        (UNKNOWN_OPERATOR, "it cannot take or give values of the type of 'y'"),
    ],
)
def test_a_requested_provider_that_takes_no_node_is_named_with_the_reason(
    text: str, reason: str
) -> None:
    pytest.importorskip("openvino")
    with session_of(text, providers=[OPENVINO_EP], allow_fallback=True) as session:
        placement = session.get_placement()
    idle, cpu = placement.entries
    assert (idle.ep_name, idle.node_count, idle.reason) == (OPENVINO_EP, 0, reason)
    assert (cpu.ep_name, cpu.backend, cpu.node_count, cpu.is_fallback) == (
        CPU_EP,
        "embedded",
        1,
        True,
    )
    assert placement.offload_percent == 0.0
    assert placement.idle_eps == (idle,)


def test_a_device_that_openvino_cannot_open_is_told_in_openvinos_words() -> None:
    pytest.importorskip("openvino")
    with session_of(
        SHARED_WEIGHT,
        providers=[(OPENVINO_EP, {"device_type": "NO_SUCH_DEVICE"})],
        allow_fallback=True,
    ) as session:
        reason = session.get_placement().entries[0].reason
    assert "cannot compile the model" in reason
    assert "NO_SUCH_DEVICE" in reason
    assert "core.cpp" not in reason


def test_a_cpu_provider_that_was_asked_for_shows_although_it_has_nothing_to_do() -> None:
    pytest.importorskip("openvino")
    with session_of(SHARED_WEIGHT, providers=[OPENVINO_EP, CPU_EP]) as session:
        names = [(entry.ep_name, entry.node_count) for entry in session.get_placement().entries]
    assert names == [(OPENVINO_EP, 3), (CPU_EP, 0)]


@pytest.mark.parametrize("device", ["AUTO", "AUTO:CPU", "HETERO:CPU", "CPU"])
def test_a_virtual_device_says_which_real_one_it_took(device: str) -> None:
    pytest.importorskip("openvino")
    with session_of(SHARED_WEIGHT, providers=[(OPENVINO_EP, {"device_type": device})]) as session:
        (entry,) = session.get_placement().entries
    assert (entry.device, entry.node_count, entry.is_fallback) == ("CPU", 3, False)


def test_nodes_that_a_backend_left_to_its_cpu_count_as_fallback() -> None:
    placement = place_on(
        [
            BackendPlacement(ep_name=CUDA_EP, node_count=3, node_names=frozenset({"n0", "n1"})),
            BackendPlacement(
                ep_name=CPU_EP, node_count=1, node_names=frozenset({"n3"}), is_fallback=True
            ),
        ]
    )
    gpu, cpu = placement.entries
    # n2 was merged into a node that has another name now: its weights go with most nodes.
    assert (gpu.device, gpu.node_count, gpu.weight_nbytes) == ("GPU (NVIDIA H200)", 3, 111)
    assert (cpu.device, cpu.node_count, cpu.weight_nbytes) == ("CPU", 1, 1000)
    assert placement.offload_percent == 75.0
    assert (
        placement.describe()
        == "2 of 2 EPs: CUDAExecutionProvider (bridge, GPU (NVIDIA H200)): 3 of 4 nodes, 111 B of"
        " weights; CPUExecutionProvider (bridge, CPU): 1 of 4 nodes, 1 kB of weights, in place"
        " of what was asked for"
    )


def test_one_provider_on_two_devices_is_one_ep_with_two_entries() -> None:
    placement = place_on(
        [
            BackendPlacement(ep_name=CUDA_EP, device="GPU", node_count=1),
            BackendPlacement(
                ep_name=CUDA_EP, device="CPU", node_count=3, is_fallback=True, reason="too large"
            ),
        ]
    )
    assert placement.describe().startswith(
        "1 of 1 EPs: CUDAExecutionProvider (bridge, GPU (NVIDIA H200)): 1 of 4"
    )
    assert placement.describe().endswith("in place of what was asked for (too large)")
    assert placement.offload_percent == 25.0


def test_the_time_of_a_fused_node_goes_to_the_one_place_that_ran_it_or_to_nobody() -> None:
    spent = {(CUDA_EP, "CUDA_0"): 0.25, (CPU_EP, "n0"): 8.0}
    alone = [
        BackendPlacement(ep_name=CUDA_EP, node_count=0),
        BackendPlacement(ep_name=CPU_EP, node_count=4),
    ]
    shared = [
        BackendPlacement(ep_name=CUDA_EP, node_count=2),
        BackendPlacement(ep_name=CPU_EP, node_count=2),
    ]
    assert [entry.duration_s for entry in place_on([], spent).entries] == [0.25]
    assert [entry.duration_s for entry in place_on(alone, spent).entries] == [0.0, 0.25]
    assert [entry.duration_s for entry in place_on(shared, spent).entries] == [None, None]
    assert "4 of 4 nodes, 1.11 kB of weights, 250 ms" in place_on([], spent).describe()


@pytest.mark.parametrize("backend", ["embedded", "openvino", "onnxruntime"])
def test_with_profiling_the_time_of_all_runs_is_told(backend: str) -> None:
    if backend != "embedded":
        pytest.importorskip(backend)
    with session_of(SHARED_WEIGHT, profiled=True, backend=backend) as session:
        assert [entry.duration_s for entry in session.get_placement().entries] == [0.0]
        session.run(None, FEEDS)
        (first,) = session.get_placement().entries
        session.run(None, FEEDS)
        (second,) = session.get_placement().entries
    assert first.duration_s is not None
    assert second.duration_s is not None
    assert 0 < first.duration_s < second.duration_s < 60


def test_the_time_inside_a_loop_counts_for_the_nodes_of_its_body_only() -> None:
    profiler = Profiler()
    profiler._events = [  # the loop takes 100 ms, of which its body's two nodes take 30 and 50
        {
            "cat": "Node",
            "tid": 1,
            "ts": 0.0,
            "dur": 100_000.0,
            "name": "loop_kernel_time",
            "args": {"provider": "A"},
        },
        {
            "cat": "Node",
            "tid": 1,
            "ts": 5.0,
            "dur": 30_000.0,
            "name": "x_kernel_time",
            "args": {"provider": "B"},
        },
        {
            "cat": "Node",
            "tid": 1,
            "ts": 40_000.0,
            "dur": 50_000.0,
            "name": "x_kernel_time",
            "args": {"provider": "B"},
        },
        {
            "cat": "Node",
            "tid": 2,
            "ts": 10.0,
            "dur": 1_000.0,
            "name": "y_kernel_time",
            "args": {"provider": "B"},
        },
        {"cat": "Session", "tid": 1, "ts": 0.0, "dur": 200_000.0, "name": "model_run", "args": {}},
    ]
    assert profiler.node_durations_s() == pytest.approx(
        {("A", "loop"): 0.02, ("B", "x"): 0.08, ("B", "y"): 0.001}
    )


def test_a_closed_session_has_no_placement() -> None:
    session = session_of(SHARED_WEIGHT)
    session.close()
    with pytest.raises(SessionError, match="the session is closed"):
        session.get_placement()
