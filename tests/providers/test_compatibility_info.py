"""The compatibility strings of contexts that native libraries made."""

from __future__ import annotations

import re

import pytest

from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.graph.graph import Graph
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.providers.compatibility_info import compatibility_text, rate_compatibility
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.ep_registry import find_factory
from tests.ep_context.test_native_libraries import BACKENDS, OPENVINO, provider

OPTIMAL = CompiledModelCompatibility.OPTIMAL
PREFER_RECOMPILATION = CompiledModelCompatibility.PREFER_RECOMPILATION
UNSUPPORTED = CompiledModelCompatibility.UNSUPPORTED
CPU = HardwareDevice(type=DeviceType.CPU, name="Xeon", architecture="icelake", source="procfs")
GPU = HardwareDevice(type=DeviceType.GPU, name="Arc", source="sysfs")
INFO = "openvino;sdk=2026.4.1;device=CPU;architecture=icelake;options=0123456789ab"


def rate(
    info: str, *devices: HardwareDevice, version: str = "2026.4.1", takes_patches: bool = False
) -> object:
    return rate_compatibility(
        devices, info, backend=OPENVINO, version=version, takes_patches=takes_patches
    )


def test_the_text_names_what_must_be_as_it_was() -> None:
    descriptor = ContextDescriptor(
        ep=OPENVINO_EP,
        sdk_version="2026.4.1-22982-e2",
        device="GPU.1 (Arc; A770)",
        architecture="xe",
        driver_version="7",
    )
    text = compatibility_text(descriptor, OPENVINO)
    assert text.startswith(
        "openvino;sdk=2026.4.1;device=GPU.1 (Arc, A770);architecture=xe;driver=7;options="
    )


@pytest.mark.requirement("K10")
@pytest.mark.parametrize(
    ("info", "device", "expected"),
    [
        (INFO, CPU, OPTIMAL),
        (INFO, GPU, UNSUPPORTED),
        (INFO.replace("icelake", "zen4"), CPU, UNSUPPORTED),
        (INFO.replace("2026.4.1", "2026.4.0"), CPU, UNSUPPORTED),
        (INFO.replace("openvino;", "onnxruntime;"), CPU, UNSUPPORTED),
        (
            INFO.replace("device=CPU;architecture=icelake", "device=GPU (Arc);architecture=xe"),
            GPU,
            OPTIMAL,
        ),
        (
            INFO.replace("device=CPU;architecture=icelake", "device=GPU (Iris);architecture=xe"),
            GPU,
            UNSUPPORTED,
        ),
        ("openvino;sdk=2026.4.1", CPU, UNSUPPORTED),
        ("", CPU, UNSUPPORTED),
        ("openvino;" + "x" * 100_000, CPU, UNSUPPORTED),
    ],
)
def test_each_difference_counts(info: str, device: HardwareDevice, expected: object) -> None:
    assert rate(info, device) is expected


@pytest.mark.requirement("K10")
def test_another_patch_is_worth_a_recompilation_where_the_library_takes_it() -> None:
    assert rate(INFO, CPU, version="2026.4.7", takes_patches=True) is PREFER_RECOMPILATION
    assert rate(INFO, CPU, version="2026.5.0", takes_patches=True) is UNSUPPORTED
    assert rate(INFO, version="2026.4.1") is UNSUPPORTED


@pytest.mark.requirement("K10", "K11")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_factory_rates_what_its_provider_says_as_optimal_here(backend: str) -> None:
    info = provider(backend).get_compiled_model_compatibility_info(Graph("g"))
    factory = find_factory(OPENVINO_EP if backend == OPENVINO else CPU_EP, backend=backend)
    here = HardwareDevice(type=DeviceType.CPU, name="this", source="procfs")
    assert factory.validate_compiled_model_compatibility_info([here], info) is OPTIMAL
    stale = info.replace("sdk=", "sdk=1")
    assert factory.validate_compiled_model_compatibility_info([here], stale) is UNSUPPORTED
    patched = re.sub(r"(sdk=\d+\.\d+)[^;]*", r"\1.99", info)
    rating = UNSUPPORTED if backend == OPENVINO else PREFER_RECOMPILATION
    assert factory.validate_compiled_model_compatibility_info([here], patched) is rating
