"""Parsing the JSON document that PowerShell prints; the texts are constructed from the public CIM reference."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ortpkg.devices.hardware import DeviceType
from ortpkg.devices.windows import parse_windows

_PROCESSOR = {
    "Name": "Intel(R) Core(TM) Ultra 7 155H ",
    "Manufacturer": "GenuineIntel",
    "NumberOfCores": 16,
    "NumberOfLogicalProcessors": 22,
}


def _document(**parts: Any) -> str:
    found = {
        "os": [{"Version": "10.0.26100"}],
        "computer": [{"TotalPhysicalMemory": 34000000000}],
        "processors": [_PROCESSOR],
        "video": [],
        "accelerators": [],
    }
    return json.dumps({**found, **parts})


def test_reads_cpu_gpu_and_npu_of_a_laptop() -> None:
    video = {
        "Name": "Intel(R) Arc(TM) Graphics",
        "PNPDeviceID": r"PCI\VEN_8086&DEV_7D55&SUBSYS_22128086&REV_08\3&11583659&0&10",
        "AdapterRAM": 134217728,
        "DriverVersion": "32.0.101.6077",
    }
    npu = {"Name": "Intel(R) AI Boost", "PNPDeviceID": r"PCI\VEN_8086&DEV_7D1D&SUBSYS_0\3&1", "Manufacturer": "Intel"}

    machine = parse_windows(_document(video=[video], accelerators=[npu]))

    cpu, gpu, accelerator = machine.hardware
    assert (machine.os, machine.os_version) == ("windows", "10.0.26100")
    assert (cpu.name, cpu.memory_nbytes, cpu.metadata["logical_cores"]) == (
        "Intel(R) Core(TM) Ultra 7 155H",
        34000000000,
        "22",
    )
    assert (gpu.vendor_id, gpu.device_id, gpu.is_discrete) == (0x8086, 0x7D55, False)
    assert gpu.metadata == {"driver_version": "32.0.101.6077"}
    assert (accelerator.type, accelerator.name, accelerator.device_id) == (DeviceType.NPU, "Intel(R) AI Boost", 0x7D1D)


def test_a_list_of_one_that_powershell_unwrapped_is_read() -> None:
    assert len(parse_windows(_document(processors=_PROCESSOR)).hardware) == 1


@pytest.mark.parametrize(
    ("name", "identity", "is_discrete"),
    [
        ("NVIDIA GeForce RTX 4090", r"PCI\VEN_10DE&DEV_2684&X", True),
        ("Intel(R) Arc(TM) A770 Graphics", r"PCI\VEN_8086&DEV_56A0&X", True),
        ("AMD Radeon RX 7900 XTX", r"PCI\VEN_1002&DEV_744C&X", True),
        ("AMD Radeon(TM) Graphics", r"PCI\VEN_1002&DEV_150E&X", None),
        ("Snapdragon(R) X Elite - Adreno(TM) GPU", r"ACPI\QCOM0C36\0", False),
    ],
)
def test_tells_discrete_gpus_from_integrated_ones(name: str, identity: str, is_discrete: bool | None) -> None:
    _, gpu = parse_windows(_document(video=[{"Name": name, "PNPDeviceID": identity}])).hardware

    assert gpu.is_discrete is is_discrete


def test_a_memory_size_that_does_not_fit_its_field_is_unknown() -> None:
    video = {"Name": "NVIDIA", "PNPDeviceID": r"PCI\VEN_10DE&DEV_2684&X", "AdapterRAM": 4293918720}

    assert parse_windows(_document(video=[video])).hardware[1].memory_nbytes is None


def test_a_basic_display_adapter_is_a_note() -> None:
    video = {"Name": "Microsoft Basic Display Adapter", "PNPDeviceID": r"ROOT\BASICDISPLAY\0000"}

    machine = parse_windows(_document(video=[video]))

    assert len(machine.hardware) == 1
    assert machine.notes == ("Microsoft Basic Display Adapter: display adapter, not for computing",)


@pytest.mark.parametrize("text", [None, "", "[]", "{", "[" * 100000])
def test_a_powershell_that_does_not_answer_is_noted(text: str | None) -> None:
    machine = parse_windows(text)

    assert [device.type for device in machine.hardware] == [DeviceType.CPU]
    assert machine.notes == ("PowerShell did not answer: devices are unknown",)
