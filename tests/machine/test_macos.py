"""Parsing what macOS's tools print; the texts are constructed from their public documentation."""

from __future__ import annotations

import json

import pytest

from ortpkg.machine.hardware import DeviceType
from ortpkg.machine.macos import parse_macos

_APPLE_SYSCTL = """hw.logicalcpu: 12
hw.physicalcpu: 12
hw.memsize: 38654705664
hw.optional.arm64: 1
kern.osproductversion: 15.1
machdep.cpu.brand_string: Apple M3 Pro
"""
_APPLE_DISPLAYS = json.dumps(
    {
        "SPDisplaysDataType": [
            {
                "_name": "Apple M3 Pro",
                "spdisplays_vendor": "sppci_vendor_Apple",
                "sppci_bus": "spdisplays_builtin",
                "sppci_cores": "18",
                "sppci_model": "Apple M3 Pro",
            }
        ]
    }
)
_INTEL_SYSCTL = """hw.logicalcpu: 16
hw.memsize: 34359738368
machdep.cpu.brand_string: Intel(R) Core(TM) i9-9880H CPU @ 2.30GHz
machdep.cpu.vendor: GenuineIntel
machdep.cpu.features: FPU SSE4.2 AVX1.0
machdep.cpu.leaf7_features: AVX2 BMI1
"""
_AMD_DISPLAYS = json.dumps(
    {
        "SPDisplaysDataType": [
            {
                "spdisplays_device-id": "0x7340",
                "spdisplays_vendor": "AMD (0x1002)",
                "spdisplays_vram": "4 GB",
                "sppci_bus": "spdisplays_pcie_device",
                "sppci_model": "AMD Radeon Pro 5500M",
            }
        ]
    }
)


def test_apple_silicon_has_a_gpu_in_its_memory_and_a_neural_engine() -> None:
    machine = parse_macos(_APPLE_SYSCTL, _APPLE_DISPLAYS)

    cpu, gpu, npu = machine.hardware
    assert (machine.os, machine.os_version) == ("macos", "15.1")
    assert (cpu.name, cpu.vendor, cpu.metadata["logical_cores"]) == ("Apple M3 Pro", "Apple", "12")
    assert (gpu.type, gpu.vendor, gpu.is_discrete, gpu.memory_nbytes) == (
        DeviceType.GPU,
        "Apple",
        False,
        38654705664,
    )
    assert gpu.metadata == {"cores": "18"}
    assert (npu.type, npu.source) == (DeviceType.NPU, "concluded from Apple silicon")


def test_an_intel_mac_has_a_discrete_gpu_and_no_npu() -> None:
    cpu, gpu = parse_macos(_INTEL_SYSCTL, _AMD_DISPLAYS).hardware

    assert (cpu.vendor, cpu.metadata["instruction_sets"]) == (
        "Intel",
        "fpu sse4.2 avx1.0 avx2 bmi1",
    )
    assert (gpu.vendor, gpu.vendor_id, gpu.device_id, gpu.is_discrete) == (
        "AMD",
        0x1002,
        0x7340,
        True,
    )
    assert gpu.memory_nbytes == 4 << 30


_VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               10000.
Pages active:                            300000.
Pages inactive:                           20000.
Pages speculative:                         1000.
Pages purgeable:                            500.
"""


def test_free_memory_metal_and_the_neural_engines_driver_are_told_with_their_source() -> None:
    displays = json.loads(_APPLE_DISPLAYS)
    displays["SPDisplaysDataType"][0]["spdisplays_mtlgpufamilysupport"] = "spdisplays_metal3"
    engine = (
        "+-o H11ANE  <class H11ANEIn, id 0x1000003a1, registered, matched, active, busy 0 (9 ms),"
        " retain 12>"
    )

    cpu, gpu, npu = parse_macos(
        _APPLE_SYSCTL, json.dumps(displays), pages=_VM_STAT, engine=engine
    ).hardware

    assert cpu.free_memory_nbytes == 31_500 * 16384
    assert cpu.source_of("free_memory_nbytes") == "vm_stat"
    assert gpu.metadata == {"cores": "18", "metal": "3"}
    assert npu.source == "ioreg"


@pytest.mark.parametrize(
    "pages", [None, "", "Pages free: 12.", "page size of 16384 bytes\nPages active: 1."]
)
def test_free_memory_that_is_not_told_is_unknown(pages: str | None) -> None:
    assert (
        parse_macos(_APPLE_SYSCTL, _APPLE_DISPLAYS, pages=pages).hardware[0].free_memory_nbytes
        is None
    )


def test_tools_that_do_not_answer_are_noted() -> None:
    machine = parse_macos(None, "not JSON")

    assert [device.type for device in machine.hardware] == [DeviceType.CPU]
    assert machine.notes == (
        "sysctl did not answer: the CPU's facts are unknown",
        "system_profiler did not answer: GPUs are unknown",
    )
