"""Probing Windows, from registries constructed from Microsoft's documentation of the keys."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from collections.abc import Mapping
from typing import Any

import pytest

from ortpkg.machine.hardware import DeviceType
from ortpkg.machine.windows import COMPUTE_ACCELERATOR_CLASS, DISPLAY_CLASS, probe_windows
from ortpkg.machine.windows_registry import ThisWindows

_ENUM = r"SYSTEM\CurrentControlSet\Enum"
_CLASS = r"SYSTEM\CurrentControlSet\Control\Class"


class _Recorded:
    """A constructed Windows: a registry, and the devices that are plugged in."""

    def __init__(self) -> None:
        self.registry: dict[str, dict[str, Any]] = {
            r"SOFTWARE\Microsoft\Windows NT\CurrentVersion": {
                "CurrentMajorVersionNumber": 10,
                "CurrentBuildNumber": "26100",
                "UBR": 4349,
            }
        }
        for number in range(22):
            self.registry[rf"HARDWARE\DESCRIPTION\System\CentralProcessor\{number}"] = {
                "ProcessorNameString": "Intel(R) Core(TM) Ultra 7 155H ",
                "VendorIdentifier": "GenuineIntel",
            }
        self.devices: dict[str, list[str]] = {}
        self.features = {38, 39, 40}

    def add(self, class_guid: str, instance: str, **driver: Any) -> None:
        number = f"{sum(map(len, self.devices.values())):04d}"
        self.devices.setdefault(class_guid, []).append(instance)
        described = f"@oem7.inf,%x%;{driver.get('DriverDesc', 'a device')}"
        reference = rf"{class_guid}\{number}"
        self.registry[rf"{_ENUM}\{instance}"] = {
            "Driver": reference,
            "DeviceDesc": described,
            "Service": "a_service",
        }
        self.registry[rf"{_CLASS}\{reference}"] = driver

    def values(self, key: str) -> Mapping[str, Any]:
        return self.registry.get(key, {})

    def subkeys(self, key: str) -> list[str]:
        return [
            each.rpartition("\\")[2] for each in self.registry if each.rpartition("\\")[0] == key
        ]

    def present_devices(self, class_guid: str) -> list[str]:
        return self.devices.get(class_guid, [])

    def memory_nbytes(self) -> tuple[int | None, int | None]:
        return 34_000_000_000, 20_000_000_000

    def has_feature(self, number: int) -> bool:
        return number in self.features


@pytest.fixture
def windows() -> _Recorded:
    return _Recorded()


def test_reads_cpu_gpu_and_npu_of_a_laptop(windows: _Recorded) -> None:
    windows.add(
        DISPLAY_CLASS,
        r"PCI\VEN_8086&DEV_7D55&SUBSYS_22128086&REV_08\3&11583659&0&10",
        DriverDesc="Intel(R) Arc(TM) Graphics",
        DriverVersion="32.0.101.6077",
        **{"HardwareInformation.qwMemorySize": 134217728},
    )
    windows.add(
        COMPUTE_ACCELERATOR_CLASS,
        r"PCI\VEN_8086&DEV_7D1D&SUBSYS_22128086&REV_04\3&11583659&0&58",
        DriverDesc="Intel(R) AI Boost",
        DriverVersion="32.0.100.3104",
    )

    machine = probe_windows(windows)

    cpu, gpu, npu = machine.hardware
    assert (machine.os, machine.os_version, machine.notes) == ("windows", "10.0.26100.4349", ())
    assert (cpu.name, cpu.vendor, cpu.metadata["logical_cores"]) == (
        "Intel(R) Core(TM) Ultra 7 155H",
        "Intel",
        "22",
    )
    assert (cpu.memory_nbytes, cpu.free_memory_nbytes) == (34_000_000_000, 20_000_000_000)
    assert (cpu.metadata["instruction_sets"], cpu.source_of("metadata.instruction_sets")) == (
        "sse4_2 avx avx2",
        "kernel32",
    )
    assert (gpu.vendor_id, gpu.device_id, gpu.is_discrete, gpu.memory_nbytes) == (
        0x8086,
        0x7D55,
        False,
        None,
    )
    assert gpu.metadata == {"driver": "a_service", "driver_version": "32.0.101.6077"}
    assert (npu.type, npu.name, npu.device_id) == (DeviceType.NPU, "Intel(R) AI Boost", 0x7D1D)
    assert (npu.source, npu.metadata["driver_version"]) == ("registry", "32.0.100.3104")


@pytest.mark.parametrize(
    ("location", "address"),
    [
        (
            r"@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)",
            "0000:01:00.0",
        ),
        (
            r"@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(193,16,1)",
            "0000:c1:10.1",
        ),
        ("PCI bus 3, device 0, function 0", None),
        ("pci (999,0,0)", None),
        ("pci (1,99,0)", None),
        ("(1,0,0)", None),
    ],
)
def test_the_place_on_the_bus_is_written_as_linux_writes_it(
    windows: _Recorded, location: str, address: str | None
) -> None:
    instance = r"PCI\VEN_10DE&DEV_2684&X\4&1"
    windows.add(DISPLAY_CLASS, instance, DriverDesc="NVIDIA GeForce RTX 4090")
    windows.registry[rf"{_ENUM}\{instance}"]["LocationInformation"] = location

    assert probe_windows(windows).hardware[1].metadata.get("pci_address") == address


@pytest.mark.parametrize("memory", [25757220864, (25757220864).to_bytes(8, "little")])
def test_a_cards_memory_is_told_in_64_bits(windows: _Recorded, memory: Any) -> None:
    windows.add(
        DISPLAY_CLASS,
        r"PCI\VEN_10DE&DEV_2684&X\4&1",
        DriverDesc="NVIDIA GeForce RTX 4090",
        **{"HardwareInformation.qwMemorySize": memory},
    )

    assert probe_windows(windows).hardware[1].memory_nbytes == 25757220864


@pytest.mark.parametrize(
    ("name", "instance", "is_discrete"),
    [
        ("NVIDIA GeForce RTX 4090", r"PCI\VEN_10DE&DEV_2684&X\1", True),
        ("Intel(R) Arc(TM) A770 Graphics", r"PCI\VEN_8086&DEV_56A0&X\1", True),
        ("AMD Radeon RX 7900 XTX", r"PCI\VEN_1002&DEV_744C&X\1", True),
        ("AMD Radeon(TM) 890M Graphics", r"PCI\VEN_1002&DEV_150E&X\1", False),
        ("AMD Radeon(TM) Graphics", r"PCI\VEN_1002&DEV_9999&X\1", None),
        ("Snapdragon(R) X Elite - Adreno(TM) GPU", r"ACPI\QCOM0C36\0", False),
    ],
)
def test_tells_discrete_gpus_from_integrated_ones(
    windows: _Recorded, name: str, instance: str, is_discrete: bool | None
) -> None:
    windows.add(DISPLAY_CLASS, instance, DriverDesc=name)

    assert probe_windows(windows).hardware[1].is_discrete is is_discrete


def test_the_npu_of_a_snapdragon_is_known_by_its_acpi_name(windows: _Recorded) -> None:
    windows.add(
        COMPUTE_ACCELERATOR_CLASS, r"ACPI\QCOM0D0A\2&DABA3FF&0", DriverDesc="Hexagon(TM) NPU"
    )

    npu = probe_windows(windows).hardware[1]

    assert (npu.vendor, npu.vendor_id, npu.device_id) == ("Qualcomm", 0x4D4F4351, 0x0D0A)


def test_a_device_without_driver_is_named_by_its_description(windows: _Recorded) -> None:
    windows.add(COMPUTE_ACCELERATOR_CLASS, r"PCI\VEN_1022&DEV_17F0&X\1")
    windows.registry[rf"{_ENUM}\PCI\VEN_1022&DEV_17F0&X\1"]["Driver"] = r"..\..\elsewhere"

    npu = probe_windows(windows).hardware[1]

    assert (npu.name, npu.vendor, npu.metadata) == ("a device", "AMD", {"driver": "a_service"})


@pytest.mark.parametrize(
    "instance", [r"ROOT\BASICDISPLAY\0000", r"PCI\VEN_1414&DEV_008E\1", r"SWD\REMOTE\1"]
)
def test_an_adapter_that_only_draws_is_a_note(windows: _Recorded, instance: str) -> None:
    windows.add(DISPLAY_CLASS, instance, DriverDesc="Microsoft Basic Display Adapter")

    machine = probe_windows(windows)

    assert len(machine.hardware) == 1
    assert machine.notes == ("Microsoft Basic Display Adapter: display adapter, not for computing",)


def test_values_of_another_type_and_length_are_borne(windows: _Recorded) -> None:
    windows.add(
        DISPLAY_CLASS,
        r"PCI\VEN_10DE&DEV_2684&X\1",
        DriverDesc="x" * 10_000,
        DriverVersion=7,
        **{"HardwareInformation.qwMemorySize": ["a", "b"]},
    )

    gpu = probe_windows(windows).hardware[1]

    assert (len(gpu.name), gpu.memory_nbytes, "driver_version" in gpu.metadata) == (
        256,
        None,
        False,
    )


def test_a_windows_that_tells_nothing_is_a_cpu_and_a_note() -> None:
    class Silent(_Recorded):
        def memory_nbytes(self) -> tuple[int | None, int | None]:
            return None, None

    silent = Silent()
    silent.registry, silent.features = {}, set()

    machine = probe_windows(silent)

    assert [(each.type, each.name, each.memory_nbytes) for each in machine.hardware] == [
        (DeviceType.CPU, "", None)
    ]
    assert machine.os_version is None
    assert machine.notes == (
        "Windows lists no display adapter and no compute accelerator: GPUs and NPUs are unknown",
    )


class _Library:
    """Stands for cfgmgr32 and kernel32, as Microsoft documents the functions called."""

    def __init__(self, _name: str) -> None:
        self.listed = "PCI\\A\0ACPI\\B\0\0"

    def CM_Get_Device_ID_List_SizeW(self, length: Any, _class: str, flags: int) -> int:  # noqa: N802
        assert flags == 0x300
        length._obj.value = len(self.listed)
        return 0

    def CM_Get_Device_ID_ListW(self, _class: str, texts: Any, _length: Any, _flags: int) -> int:  # noqa: N802
        for place, character in enumerate(self.listed):
            texts[place] = character
        return 0

    def IsProcessorFeaturePresent(self, number: int) -> int:  # noqa: N802
        return int(number == 40)


def test_the_functions_of_windows_are_called_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    winreg: Any = types.ModuleType("winreg")
    winreg.HKEY_LOCAL_MACHINE = 0
    winreg.OpenKey = lambda _root, _key: contextlib.nullcontext("opened")
    winreg.QueryInfoKey = lambda _key: (1, 2, 0)
    winreg.EnumValue = lambda _key, number: (f"name{number}", number, 4)
    winreg.EnumKey = lambda _key, number: f"key{number}"
    monkeypatch.setitem(sys.modules, "winreg", winreg)
    monkeypatch.setattr(ctypes, "WinDLL", _Library, raising=False)
    here = ThisWindows()

    assert here.values("X") == {"name0": 0, "name1": 1}
    assert here.subkeys("X") == ["key0"]
    assert here.present_devices(DISPLAY_CLASS) == ["PCI\\A", "ACPI\\B"]
    assert (here.has_feature(40), here.has_feature(41)) == (True, False)


@pytest.mark.skipif(sys.platform == "win32", reason="asks where there is nothing to ask")
def test_elsewhere_every_question_has_an_empty_answer() -> None:
    here = ThisWindows()

    assert (here.values("X"), here.subkeys("X"), here.present_devices(DISPLAY_CLASS)) == (
        {},
        [],
        [],
    )
    assert not here.has_feature(40)
