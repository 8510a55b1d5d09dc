"""Values in the memory of the GPU: bound there, handed from run to run, copied as the plan says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ortpkg
from ortpkg import OrtValue
from ortpkg.foundations.errors import InvalidFeedError, UsageError
from ortpkg.runtime.providers.onnxruntime_turns import turn
from tests.vendors.conftest import Loads
from tests.vendors.device_models import DEVICE_MODELS, largest_error
from tests.vendors.webgpu.conftest import WEBGPU
from tests.vendors.webgpu.copies import noted_copies

MEMORY = "WebGpu:0"
_STEPS = 4


def _session(kind: str, ep: str = WEBGPU) -> ortpkg.InferenceSession:
    data = DEVICE_MODELS[kind]().model.SerializeToString()
    return ortpkg.InferenceSession(data, providers=[ep], enable_fallback=False)


def _places(kind: str) -> tuple[set[str], set[str]]:
    """Inputs and outputs that plain onnxruntime has in the memory of the GPU."""
    (device,) = (
        ep_device for ep_device in onnxruntime.get_ep_devices() if ep_device.ep_name == WEBGPU
    )
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices([device], {})
    data = DEVICE_MODELS[kind]().model.SerializeToString()
    with turn(WEBGPU):
        session = onnxruntime.InferenceSession(data, options, enable_fallback=0)
    inputs = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    outputs = zip(session.get_outputs(), session.get_output_memory_infos(), strict=True)
    names = [
        {value.name for value, info in pairs if info.name == "WebGPU_Buf"}
        for pairs in (inputs, outputs)
    ]
    return names[0], names[1]


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes the copies that ortpkg makes."""
    return noted_copies(monkeypatch)


@pytest.mark.parametrize(
    "kind",
    ["convolutional", "segmentation", "attention", "detection", "quantized", "loop", "recurrent"],
)
def test_the_plan_names_the_copies_that_onnxruntime_makes(kind: str, loads: Loads) -> None:
    session = _session(kind)
    planned = session.get_plan().graph.copies
    inputs, outputs = _places(kind)
    assert {copy.value for copy in planned if copy.target == MEMORY} == inputs
    assert {copy.value for copy in planned if copy.source == MEMORY} == outputs
    assert len(planned) == len(inputs) + len(outputs)
    loads(kind, "WebGPU, ortpkg plan", f"{len(inputs)} copies in, {len(outputs)} out")


def test_a_cache_of_keys_and_values_stays_on_the_gpu(copies: list[str], loads: Loads) -> None:
    session, engine = _session("decoder-step"), _session("decoder-step", "cpu")
    feeds = dict(DEVICE_MODELS["decoder-step"]().feeds)
    expected = engine.run(None, feeds)
    past = [OrtValue.ortvalue_from_numpy(feeds[name], "gpu") for name in ("past_k", "past_v")]
    copies.clear()
    for step in range(_STEPS):
        binding = session.io_binding()
        binding.bind_cpu_input("x", feeds["x"])
        binding.bind_ortvalue_input("past_k", past[0])
        binding.bind_ortvalue_input("past_v", past[1])
        binding.bind_output("y")
        binding.bind_output("k", "gpu")
        binding.bind_output("v", "gpu")
        session.run_with_iobinding(binding)
        y, *past = binding.get_outputs()
        assert [value.device_name() for value in (y, *past)] == ["cpu", "webgpu", "webgpu"]
        if step:
            again = {"x": feeds["x"], "past_k": expected[1], "past_v": expected[2]}
            expected = engine.run(None, again)
        assert largest_error([y.numpy()], expected[:1]) < 1e-5
    assert copies == []
    assert largest_error([value.numpy() for value in past], expected[1:]) < 1e-5
    assert copies == ["copy_to_host"] * 2
    loads("decoder-step", "WebGPU, IO binding", f"{_STEPS} steps, the cache never copied")


def test_an_input_that_several_partitions_read_is_copied_once(copies: list[str]) -> None:
    session, engine = _session("ranking"), _session("ranking", "cpu")
    feeds = dict(DEVICE_MODELS["ranking"]().feeds)
    assert largest_error(session.run(None, feeds), engine.run(None, feeds)) == 0
    assert copies == ["copy_from_host"]
    assert len(session.get_partitions()) > 1


def test_a_run_writes_into_a_tensor_on_the_gpu(copies: list[str]) -> None:
    session = _session("attention")
    feeds = dict(DEVICE_MODELS["attention"]().feeds)
    target = OrtValue.ortvalue_from_shape_and_type([2, 6, 32], np.float32, "gpu")
    copies.clear()
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    binding.bind_ortvalue_output("y", target)
    session.run_with_iobinding(binding)
    assert copies == []
    assert largest_error([target.numpy()], session.run(None, feeds)) == 0


def test_values_outlive_the_session_that_made_them() -> None:
    session = _session("attention")
    feeds = dict(DEVICE_MODELS["attention"]().feeds)
    (expected,) = session.run(None, feeds)
    (left,) = session.run_with_values_left(["y"], feeds, {"y": MEMORY})
    session.close()
    del session
    np.testing.assert_array_equal(left.numpy(), expected)
    (again,) = _session("attention").run(None, {**feeds, "x": left})
    (right,) = _session("attention").run(None, {**feeds, "x": expected})
    np.testing.assert_array_equal(again, right)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3, 5)])
def test_arrays_come_back_from_the_gpu_as_they_were(dtype: type, shape: tuple[int, ...]) -> None:
    _session("branches")
    array: np.ndarray[Any, Any] = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    value = OrtValue.ortvalue_from_numpy(array, "webgpu")
    assert value.device_name() == "webgpu"
    assert value.shape() == list(shape)
    np.testing.assert_array_equal(value.numpy(), array)
    assert value.numpy().dtype == array.dtype


def test_threads_bring_values_to_the_gpu_run_and_read_them_at_once() -> None:
    session = _session("attention")
    feeds = dict(DEVICE_MODELS["attention"]().feeds)
    expected = session.run(None, feeds)

    def run(_number: int) -> float:
        x = OrtValue.ortvalue_from_numpy(feeds["x"], "gpu")
        (left,) = session.run_with_values_left(["y"], {**feeds, "x": x}, {"y": MEMORY})
        return largest_error([left.numpy()], expected)

    with ThreadPoolExecutor(4) as threads:
        assert max(threads.map(run, range(60))) == 0


def test_parallel_execution_shares_values_on_the_gpu() -> None:
    options = ortpkg.SessionOptions()
    options.execution_mode = ortpkg.ExecutionMode.ORT_PARALLEL
    model = DEVICE_MODELS["ranking"]()
    session = ortpkg.InferenceSession(
        model.model.SerializeToString(), options, providers=[WEBGPU], enable_fallback=False
    )
    expected = _session("ranking", "cpu").run(None, dict(model.feeds))
    x = OrtValue.ortvalue_from_numpy(model.feeds["x"], "gpu")
    for fed in (model.feeds["x"], x):
        assert largest_error(session.run(None, {"x": fed}), expected) == 0


def test_a_session_in_a_child_process_takes_and_gives_arrays() -> None:
    feeds = dict(DEVICE_MODELS["attention"]().feeds)
    expected = _session("attention").run(None, feeds)
    x = OrtValue.ortvalue_from_numpy(feeds["x"], "gpu")
    session = ortpkg.InferenceSession(
        DEVICE_MODELS["attention"]().model.SerializeToString(), providers=[WEBGPU], isolate=True
    )
    assert session.get_device_borders() == ({}, {})
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_cpu_input("mask", feeds["mask"])
    binding.bind_output("y", "gpu")
    session.run_with_iobinding(binding)
    (y,) = binding.get_outputs()
    assert y.device_name() == "webgpu"
    assert largest_error([y.numpy()], expected) == 0


def test_what_does_not_fit_is_refused() -> None:
    session = _session("attention")
    feeds = dict(DEVICE_MODELS["attention"]().feeds)
    with pytest.raises(InvalidFeedError, match="rank 1"):
        session.run(None, {**feeds, "x": OrtValue.ortvalue_from_numpy(feeds["x"][0, 0], "gpu")})
    with pytest.raises(UsageError, match="texts lie in the memory of the CPU"):
        OrtValue.ortvalue_from_numpy(np.array(["a"], object), "gpu")
