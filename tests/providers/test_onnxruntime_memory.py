"""Tests for values of onnxruntime sessions on devices, with a stand-in for onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from ortpkg.runtime.kernels.kernel_registry import DeviceSlots
from ortpkg.runtime.providers import device_memories, onnxruntime_memory
from ortpkg.runtime.providers.device_memories import DeviceNumbers, open_memory_of
from ortpkg.runtime.providers.onnxruntime_memory import DeviceRuns, OnnxRuntimeMemory, device_memory

EP = "AcmeExecutionProvider"
_DEVICE = SimpleNamespace(name="Acme", device_id=0, device_vendor_id=0)
_HOST = SimpleNamespace(name="Cpu", device_id=0, device_vendor_id=0)


class _Session:
    """Takes ``x`` and ``n``, makes ``y`` and ``m``; ``x`` and ``y`` lie on the device."""

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="x"), SimpleNamespace(name="n")]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="m"), SimpleNamespace(name="y")]

    def get_input_memory_infos(self) -> list[Any]:
        return [_DEVICE, _HOST]

    def get_output_memory_infos(self) -> list[Any]:
        return [_HOST, _DEVICE]


@pytest.fixture(autouse=True)
def _device_that_keeps_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace onnxruntime by a stand-in with a device; no memory is open before or after."""
    monkeypatch.setattr(device_memories, "_open", {})

    def make(shape: Any, kind: int, memory_info: Any) -> Any:
        assert memory_info is _DEVICE
        del kind
        return _Value(np.zeros(shape, np.float32))

    def copy(sources: list[Any], targets: list[Any]) -> None:
        targets[0].array[...] = sources[0].array

    stand_in = SimpleNamespace(
        OrtDevice=SimpleNamespace(make=_device_maker({"cuda": 0x10DE, "cann": 0x19E5})),
        OrtValue=SimpleNamespace(ortvalue_from_shape_and_type=make, ortvalue_from_numpy=_Value),
        copy_tensors=copy,
        OrtDeviceMemoryType=SimpleNamespace(DEFAULT=0),
    )
    monkeypatch.setattr(onnxruntime_memory, "onnxruntime", stand_in)


def _device_maker(vendors: Mapping[str, int]) -> Callable[[str, int], Any]:
    """Return ``OrtDevice.make`` of an onnxruntime whose names of devices have these vendors."""

    def make(word: str, device_id: int) -> Any:
        return SimpleNamespace(
            device_type=lambda: 3 if word in ("npu", "cann") else 1,
            device_vendor_id=lambda: vendors.get(word, 0),
            device_id=lambda: device_id,
        )

    return make


class _Value:
    def __init__(self, array: Any) -> None:
        self.array = array

    def shape(self) -> list[int]:
        return list(self.array.shape)

    def element_type(self) -> int:
        return 1

    def device_name(self) -> str:
        return "acme"


def _memory() -> OnnxRuntimeMemory:
    return OnnxRuntimeMemory(EP, _DEVICE, "GPU")


def test_values_lie_where_the_session_says_in_the_order_of_the_model() -> None:
    runs = DeviceRuns(_Session(), ["n", "x"], ["y", "m"], _memory())
    assert runs.slots == DeviceSlots(inputs=frozenset({1}), outputs=frozenset({0}))


def test_a_memory_is_open_from_the_first_session_on() -> None:
    numbers = DeviceNumbers(1, 0, 0)
    memory = _memory()
    assert open_memory_of(numbers) is None
    DeviceRuns(_Session(), ["x"], ["y"], memory)
    assert open_memory_of(numbers) is memory
    assert memory.device_name == "acme"


def test_a_memory_may_be_opened_while_another_thread_looks_for_one() -> None:
    class Opening(OnnxRuntimeMemory):
        def __getattribute__(self, name: str) -> Any:
            if name == "name":
                device_memories.open_memory(DeviceNumbers(1, 0, 7), _memory())
            return super().__getattribute__(name)

    device_memories.open_memory(DeviceNumbers(1, 0, 3), Opening(EP, _DEVICE, "GPU"))
    assert device_memories.memory_named("no such memory") is None


def test_a_device_that_gives_other_numbers_back_keeps_no_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnxruntime_memory.onnxruntime, "copy_tensors", lambda *_: None)
    assert DeviceRuns(_Session(), ["x"], ["y"], _memory()).slots == DeviceSlots()
    assert open_memory_of(DeviceNumbers(1, 0, 0)) is None


def test_a_device_that_copies_nothing_keeps_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no data transfer registered")

    monkeypatch.setattr(onnxruntime_memory.onnxruntime, "copy_tensors", refuse)
    assert DeviceRuns(_Session(), ["x"], ["y"], _memory()).slots == DeviceSlots()


def test_a_session_that_does_not_say_keeps_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("not initialized")

    monkeypatch.setattr(_Session, "get_output_memory_infos", refuse)
    assert DeviceRuns(_Session(), ["x"], ["y"], _memory()).slots == DeviceSlots()


def test_outputs_of_a_vendor_that_a_binding_cannot_name_are_arrays() -> None:
    info = SimpleNamespace(name="Acme", device_id=0, device_vendor_id=0x1234)
    memory = _memory()
    memory.word = OnnxRuntimeMemory(EP, info, "GPU").word
    assert memory.word is None
    runs = DeviceRuns(_Session(), ["x"], ["y"], memory)
    assert runs.slots == DeviceSlots(inputs=frozenset({0}))


@pytest.mark.parametrize(
    ("vendors", "word"),
    [
        ({"cuda": 0x10DE}, "gpu"),
        # As in onnxruntime-gpu: by "gpu", outputs would go to CUDA's memory, which others lack.
        ({"cuda": 0x10DE, "gpu": 0x10DE}, "webgpu"),
        ({"cuda": 0x10DE, "gpu": 0x10DE, "webgpu": 0x10DE}, None),
    ],
)
def test_outputs_are_bound_by_the_name_that_this_package_has_for_the_device(
    vendors: Mapping[str, int], word: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimpleNamespace(make=_device_maker(vendors))
    monkeypatch.setattr(onnxruntime_memory.onnxruntime, "OrtDevice", device)
    assert _memory().word == word


@pytest.mark.parametrize(
    ("kind", "ask", "is_found"),
    [
        ("GPU", lambda _: _DEVICE, True),
        ("NPU", lambda _: _DEVICE, True),
        ("CPU", lambda _: _DEVICE, False),
        ("GPU", lambda _: None, False),
    ],
)
def test_only_gpus_and_npus_have_a_memory_of_their_own(kind: str, ask: Any, is_found: bool) -> None:
    device = SimpleNamespace(
        device=SimpleNamespace(type=SimpleNamespace(name=kind)), memory_info=ask
    )
    assert (device_memory(EP, device) is not None) is is_found


def test_a_library_that_fails_to_describe_its_memory_has_none() -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no such memory")

    device = SimpleNamespace(
        device=SimpleNamespace(type=SimpleNamespace(name="GPU")), memory_info=fail
    )
    assert device_memory(EP, device) is None
