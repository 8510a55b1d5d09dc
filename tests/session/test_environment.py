"""What the module keeps per process, as onnxruntime: providers, loggers, seed, threads."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    UnknownExecutionProviderError,
    UsageError,
)
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.session.environment import global_thread_pool_sizes
from ortpkg.runtime.session.values.ort_ep_device import OrtEpDevice
from tests.session.conftest import model_of, session_of

pytestmark = pytest.mark.usefixtures("warm_processes")

_EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "example_plugin"
_CPU_MEMORY = ("Cpu", ortpkg.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ortpkg.OrtMemType.DEFAULT)
NOISE = "g (float[4] x) => (float[4] y) { n = RandomNormalLike(x) y = Add(x, n) }"


# --- execution providers and devices --------------------------------------------------------------


def test_all_providers_are_those_of_the_release() -> None:
    onnxruntime = pytest.importorskip("onnxruntime", minversion="1.31")
    is_ours = onnxruntime.__version__.startswith("1.31.")
    gone = set() if is_ours else {"NvTensorRTRTXExecutionProvider", "ACLExecutionProvider"}
    kept = [each for each in ortpkg.get_all_providers() if each not in gone]
    assert kept == onnxruntime.get_all_providers()


def test_available_providers_end_with_the_cpu_and_make_a_session() -> None:
    available = ortpkg.get_available_providers()
    assert available[-1] == "CPUExecutionProvider"
    assert len(available) == len(set(available))
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }").SerializeToString()
    with ortpkg.InferenceSession(model, providers=available) as session:
        assert session.run(None, {"x": np.array([1, 2], np.float32)})[0].tolist() == [-1, -2]


def test_ep_devices_name_a_provider_and_a_device_once_with_the_release_s_numbers() -> None:
    devices = ortpkg.get_ep_devices()
    cpu = [each for each in devices if each.ep_name == "CPUExecutionProvider"]
    assert len(cpu) == 1
    assert cpu[0].ep_metadata["backend"] == "embedded"
    assert cpu[0].device.type is ortpkg.OrtHardwareDeviceType.CPU
    assert int(cpu[0].device.type) == 0
    assert cpu[0].memory_info(ortpkg.OrtDeviceMemoryType.DEFAULT) is None
    assert {each.ep_name for each in devices} <= set(ortpkg.get_available_providers())


def test_an_ep_device_says_what_its_provider_says_of_it() -> None:
    hardware = HardwareDevice(
        type=DeviceType.NPU, name="Tensor unit", vendor="Acme", vendor_id=0x1ACE, device_id=7
    )
    ours = EpDevice(
        ep_name="AcmeExecutionProvider",
        ep_vendor="Acme Inc.",
        ep_version="2.1",
        backend="acme",
        device=hardware,
        ep_metadata={"firmware": "9"},
        ep_options={"id": "1"},
    )

    device = OrtEpDevice(ours)

    assert (device.ep_name, device.ep_vendor) == ("AcmeExecutionProvider", "Acme Inc.")
    assert device.ep_metadata == {"version": "2.1", "backend": "acme", "firmware": "9"}
    assert device.ep_options == {"id": "1"}
    assert (device.device.type.name, device.device.vendor) == ("NPU", "Acme")
    assert (device.device.vendor_id, device.device.device_id) == (0x1ACE, 7)


def test_an_ep_device_has_no_streams() -> None:
    with pytest.raises(UsageError, match="has no streams"):
        ortpkg.get_ep_devices()[0].create_sync_stream()


def test_hardware_devices_include_the_cpu() -> None:
    assert ortpkg.OrtHardwareDeviceType.CPU in {
        device.type for device in ortpkg.get_hardware_devices()
    }


def test_why_a_provider_cannot_use_a_device() -> None:
    cpu, *_ = [
        each
        for each in ortpkg.get_hardware_devices()
        if each.type is ortpkg.OrtHardwareDeviceType.CPU
    ]
    details = ortpkg.get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", cpu)
    assert details == {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    other = ortpkg.OrtHardwareDevice(HardwareDevice(type=DeviceType.NPU, name="somebody else's"))
    assert (cpu == other, cpu == cpu.hardware) == (False, False)
    assert cpu == ortpkg.OrtHardwareDevice(cpu.hardware)
    details = ortpkg.get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", other)
    assert details["reasons_bitmask"] == ortpkg.OrtDeviceEpIncompatibilityReason.DEVICE_INCOMPATIBLE
    with pytest.raises(UnknownExecutionProviderError):
        ortpkg.get_hardware_device_ep_incompatibility_details("", cpu)


def test_device_is_the_cpu() -> None:
    assert ortpkg.get_device() == "CPU"


def test_compatibility_of_a_string_that_is_nobody_s() -> None:
    cpu = [each for each in ortpkg.get_ep_devices() if each.ep_name == "CPUExecutionProvider"]
    rating = ortpkg.get_model_compatibility_for_ep_devices(cpu, "a string of no compiler")
    assert rating is ortpkg.OrtCompiledModelCompatibility.EP_NOT_APPLICABLE


def test_compatibility_needs_devices_of_one_provider_and_a_text() -> None:
    with pytest.raises(UsageError, match="exactly one execution provider"):
        ortpkg.get_model_compatibility_for_ep_devices([], "info")
    with pytest.raises(TypeError):
        ortpkg.get_model_compatibility_for_ep_devices(ortpkg.get_ep_devices(), None)  # type: ignore[arg-type]


def test_compatibility_string_of_a_model(tmp_path: Path) -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    onnx.helper.set_model_props(model, {"ep_compatibility_info.AcmeEP": "acme-2"})
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert ortpkg.get_compatibility_info_from_model(str(path), "AcmeEP") == "acme-2"
    assert ortpkg.get_compatibility_info_from_model_bytes(path.read_bytes(), "AcmeEP") == "acme-2"
    assert ortpkg.get_compatibility_info_from_model_bytes(path.read_bytes(), "OtherEP") is None


def test_compatibility_string_of_no_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        ortpkg.get_compatibility_info_from_model("", "AcmeEP")
    with pytest.raises(UsageError):
        ortpkg.get_compatibility_info_from_model_bytes(b"data", "")
    with pytest.raises(UsageError, match=r"none\.onnx"):
        ortpkg.get_compatibility_info_from_model(str(tmp_path / "none.onnx"), "AcmeEP")
    with pytest.raises(UsageError, match="cannot be read"):
        ortpkg.get_compatibility_info_from_model_bytes(b"this is no model", "AcmeEP")


# --- plug-ins -------------------------------------------------------------------------------------

_REGISTERS = """
import numpy as np, onnx.parser, ortpkg as ort
assert "AcmeExecutionProvider" not in ort.get_available_providers()
ort.register_execution_provider_library("mine", "acme_ep.factory:AcmeEpFactory")
print("AcmeExecutionProvider" in ort.get_available_providers())
device = next(each for each in ort.get_ep_devices() if each.ep_name == "AcmeExecutionProvider")
print(device.ep_vendor, ort.get_model_compatibility_for_ep_devices([device], "acme-1").name)
model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) '
                                '{ y = Relu(x) }').SerializeToString()
session = ort.InferenceSession(model, providers=["AcmeExecutionProvider"])
print(session.get_providers(), session.run(None, {"x": np.float32([-1, 2])})[0].tolist())
ort.unregister_execution_provider_library("mine")
print("AcmeExecutionProvider" in ort.get_available_providers())
"""


def test_a_registered_plug_in_is_a_provider_until_it_is_unregistered(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(_EXAMPLE), "ORTPKG_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _REGISTERS],
        capture_output=True,
        text=True,
        check=False,
        env=variables,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "True",
        "Acme EP_SUPPORTED_PREFER_RECOMPILATION",
        "['AcmeExecutionProvider', 'CPUExecutionProvider'] [0.0, 2.0]",
        "False",
    ]


def test_a_native_library_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"package\.module:factory"):
        ortpkg.register_execution_provider_library(
            "native", "/opt/lib/libonnxruntime_providers_acme.so"
        )


def test_a_plug_in_that_cannot_be_loaded_is_not_registered() -> None:
    with pytest.raises(ExecutionProviderError, match="cannot be loaded"):
        ortpkg.register_execution_provider_library("broken", "no_such_module_at_all:Factory")
    with pytest.raises(UsageError, match="was registered as 'broken'"):
        ortpkg.unregister_execution_provider_library("broken")


# --- memory ---------------------------------------------------------------------------------------


def test_memory_info_says_what_it_was_made_with() -> None:
    info = ortpkg.OrtMemoryInfo(*_CPU_MEMORY)
    assert (info.name, info.device_id, info.device_vendor_id) == ("Cpu", 0, 0)
    assert info.mem_type is ortpkg.OrtMemType.DEFAULT
    assert info.allocator_type is ortpkg.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    assert info.device_mem_type is ortpkg.OrtDeviceMemoryType.DEFAULT


def test_an_empty_tensor_is_made_in_the_memory_of_the_host_alone() -> None:
    host = ortpkg.OrtMemoryInfo(*_CPU_MEMORY)
    value = ortpkg.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, memory_info=host)
    assert (value.shape(), value.data_type()) == ([2, 3], "tensor(float)")
    assert ortpkg.OrtValue.ortvalue_from_shape_and_type([], 7).data_type() == "tensor(int64)"
    with pytest.raises(UsageError, match="no negative sizes"):
        ortpkg.OrtValue.ortvalue_from_shape_and_type([2, -1], np.float32)
    with pytest.warns(UserWarning, match="mean nothing beside memory_info"):
        ortpkg.OrtValue.ortvalue_from_shape_and_type([2], np.float32, "cuda", memory_info=host)


def test_what_is_not_said_of_an_arena_is_left_to_the_allocator() -> None:
    def said(arena: ortpkg.OrtArenaCfg) -> tuple[int, ...]:
        return (
            arena.max_mem,
            arena.arena_extend_strategy,
            arena.initial_chunk_size_bytes,
            arena.max_dead_bytes_per_chunk,
            arena.initial_growth_chunk_size_bytes,
            arena.max_power_of_two_extend_bytes,
        )

    assert (
        said(ortpkg.OrtArenaCfg(8))
        == said(ortpkg.OrtArenaCfg({"max_mem": 8}))
        == (8, -1, -1, -1, -1, -1)
    )
    assert said(ortpkg.OrtArenaCfg({})) == (0, -1, -1, -1, -1, -1)
    assert said(ortpkg.OrtArenaCfg(1, 2, 3, 4)) == (1, 2, 3, 4, -1, -1)
    with pytest.raises(UsageError, match="OrtArenaCfg has no option 'max_memory'"):
        ortpkg.OrtArenaCfg({"max_memory": 1})
    with pytest.raises(UsageError, match="max_mem is a whole number, not 'True'"):
        ortpkg.OrtArenaCfg(True)


def test_memory_info_of_an_unknown_name_needs_the_second_form() -> None:
    with pytest.raises(UsageError, match="create_v2 takes any name"):
        ortpkg.OrtMemoryInfo("Test", *_CPU_MEMORY[1:])
    info = ortpkg.OrtMemoryInfo.create_v2(
        "Test",
        ortpkg.OrtMemoryInfoDeviceType.GPU,
        0x10DE,
        3,
        ortpkg.OrtDeviceMemoryType.HOST_ACCESSIBLE,
        64,
        ortpkg.OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
    )
    assert (info.name, info.device_vendor_id, info.device_id) == ("Test", 0x10DE, 3)
    assert info.mem_type is ortpkg.OrtMemType.CPU_OUTPUT


def test_arena_configuration_from_numbers_and_from_names() -> None:
    by_number = ortpkg.OrtArenaCfg(8, 0, 4, 2)
    assert (by_number.max_mem, by_number.arena_extend_strategy) == (8, 0)
    assert (by_number.initial_chunk_size_bytes, by_number.max_dead_bytes_per_chunk) == (4, 2)
    by_name = ortpkg.OrtArenaCfg({"max_mem": 16, "max_power_of_two_extend_bytes": 17})
    assert (
        by_name.max_mem,
        by_name.max_power_of_two_extend_bytes,
        by_name.arena_extend_strategy,
    ) == (16, 17, -1)


@pytest.mark.parametrize("options", [{"max_memory": 1}, {"max_mem": "1"}, {"max_mem": True}])
def test_arena_configuration_refuses_what_it_has_not(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="OrtArenaCfg"):
        ortpkg.OrtArenaCfg(options)


def test_allocators_are_checked() -> None:
    info = ortpkg.OrtMemoryInfo(*_CPU_MEMORY)
    ortpkg.create_and_register_allocator(info, None)
    ortpkg.create_and_register_allocator_v2(
        "CPUExecutionProvider", info, {}, ortpkg.OrtArenaCfg(0, -1, -1, -1)
    )
    with pytest.raises(ExecutionProviderError, match="no allocator"):
        ortpkg.create_and_register_allocator_v2("CUDAExecutionProvider", info, {}, None)
    with pytest.raises(TypeError):
        ortpkg.create_and_register_allocator("Cpu", None)  # type: ignore[arg-type]


# --- settings -------------------------------------------------------------------------------------


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("ortpkg")
    level = found.level
    yield found
    found.setLevel(level)


def test_severity_is_the_level_of_our_loggers(logger: logging.Logger) -> None:
    levels = []
    for severity in range(5):
        ortpkg.set_default_logger_severity(severity)
        levels.append(logger.level)
    assert levels == [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]


@pytest.mark.parametrize("severity", [-1, 5])
def test_no_such_severity(severity: int, logger: logging.Logger) -> None:
    with pytest.raises(UsageError, match="from 0 to 4"):
        ortpkg.set_default_logger_severity(severity)


@pytest.mark.parametrize(
    "function",
    [ortpkg.set_default_logger_severity, ortpkg.set_default_logger_verbosity, ortpkg.set_seed],
)
@pytest.mark.parametrize("value", ["3", 2.5, None, 2**70, -(2**63) - 1])
def test_numbers_are_whole(function: object, value: object) -> None:
    assert callable(function)
    with pytest.raises(TypeError, match=r"a whole number of (32|64) bits"):
        function(value)


@pytest.mark.usefixtures("seeded", "logger")
def test_numbers_have_as_many_bits_as_in_onnxruntime() -> None:
    ortpkg.set_seed(2**63 - 1)
    ortpkg.set_seed(-(2**63))
    ortpkg.set_default_logger_verbosity(-(2**31))
    ortpkg.set_default_logger_severity(True)
    with pytest.raises(TypeError, match="verbosity: a whole number of 32 bits"):
        ortpkg.set_default_logger_verbosity(2**31)
    with pytest.raises(TypeError, match="seed: a whole number of 64 bits is wanted, not"):
        ortpkg.set_seed(2**63)


@pytest.fixture
def seeded() -> Iterator[None]:
    yield
    from ortpkg.runtime.kernels import random_seed

    random_seed._seed = None


@pytest.mark.usefixtures("seeded")
def test_seed_makes_sessions_draw_the_same_stream() -> None:
    zeros = np.zeros(4, np.float32)
    streams = []
    for _ in range(2):
        ortpkg.set_seed(7)
        with session_of(NOISE) as session:
            streams.append([session.run(None, {"x": zeros})[0].tolist() for _ in range(3)])
    assert streams[0] == streams[1]
    assert streams[0][0] != streams[0][1]
    ortpkg.set_seed(8)
    with session_of(NOISE) as session:
        assert session.run(None, {"x": zeros})[0].tolist() != streams[0][0]


def test_without_a_seed_sessions_differ() -> None:
    drawn = [
        session_of(NOISE).run(None, {"x": np.zeros(4, np.float32)})[0].tolist() for _ in range(2)
    ]
    assert drawn[0] != drawn[1]


def test_shared_threads_are_kept_and_checked() -> None:
    ortpkg.set_global_thread_pool_sizes(2, 3)
    assert global_thread_pool_sizes() == (2, 3)
    with pytest.raises(UsageError, match="0 or more"):
        ortpkg.set_global_thread_pool_sizes(-1, 0)
    assert global_thread_pool_sizes() == (2, 3)
    ortpkg.set_global_thread_pool_sizes()
    assert global_thread_pool_sizes() == (0, 0)


def test_what_it_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert ortpkg.get_version_string() == ortpkg.__version__
    assert f"ortpkg={ortpkg.__version__}" in ortpkg.get_build_info()
    assert "Build Info" in ortpkg.get_build_info()
    assert not ortpkg.has_collective_ops()
    ortpkg.print_debug_info()
    assert "CPUExecutionProvider (embedded)" in capsys.readouterr().out


def test_calls_that_have_nothing_to_do_here_are_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    ortpkg.disable_telemetry_events()
    ortpkg.enable_telemetry_events()
    ortpkg.preload_dlls()
    assert capfd.readouterr() == ("", "")
