"""Probe of a Windows machine: the registry, and the devices that are present now.

Nothing is started. Sources: Microsoft's list of device set-up classes (Display,
ComputeAccelerator), the registry keys of a device (``Enum\\<instance>``) and of its driver
(``Control\\Class\\<guid>\\<number>``: DriverDesc, DriverVersion, HardwareInformation.qwMemorySize),
and ``HARDWARE\\DESCRIPTION\\System\\CentralProcessor``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.pci_vendors import (
    AMD,
    AMD_INTEGRATED_GPUS,
    DISPLAY_ONLY_VENDORS,
    INTEL,
    NVIDIA,
    vendor_name,
)
from ortpkg.machine.windows_registry import ThisWindows, Value, WindowsInterfaces

DISPLAY_CLASS = "{4d36e968-e325-11ce-bfc1-08002be10318}"
COMPUTE_ACCELERATOR_CLASS = "{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}"
_ENUM = r"SYSTEM\CurrentControlSet\Enum"
_CLASS = r"SYSTEM\CurrentControlSet\Control\Class"
_CPU = r"HARDWARE\DESCRIPTION\System\CentralProcessor"
_VERSION = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
_QUALCOMM = 0x4D4F4351
_CPU_VENDORS = {
    "GenuineIntel": ("Intel", INTEL),
    "AuthenticAMD": ("AMD", 0x1022),
    "Qualcomm Technologies Inc": ("Qualcomm", _QUALCOMM),
}
#: PF_... numbers of winnt.h → name of the instruction set in /proc/cpuinfo.
_FEATURES = {
    17: "xsave",
    38: "sse4_2",
    39: "avx",
    40: "avx2",
    41: "avx512f",
    43: "asimddp",
    66: "i8mm",
    67: "bf16",
}
_MOST_CHARACTERS = 256


def probe_windows(windows: WindowsInterfaces | None = None) -> Machine:
    """Read this machine (a few milliseconds), or the answers of ``windows``.

    Missing answers are unknown facts, or a note.
    """
    interfaces = ThisWindows() if windows is None else windows
    notes: list[str] = []
    gpus = [
        device
        for instance in interfaces.present_devices(DISPLAY_CLASS)
        for device in _gpu(interfaces, instance, notes)
    ]
    npus = [
        _npu(interfaces, instance)
        for instance in interfaces.present_devices(COMPUTE_ACCELERATOR_CLASS)
    ]
    if not interfaces.present_devices(DISPLAY_CLASS) and not npus:
        notes.append(
            "Windows lists no display adapter and no compute accelerator: GPUs and NPUs are unknown"
        )
    return Machine(
        os="windows",
        os_version=_os_version(interfaces),
        hardware=(_cpu(interfaces), *gpus, *npus),
        notes=tuple(notes),
    )


def _cpu(windows: WindowsInterfaces) -> HardwareDevice:
    facts = windows.values(rf"{_CPU}\0")
    vendor_text = _text(facts, "VendorIdentifier")
    vendor, vendor_id = _CPU_VENDORS.get(vendor_text, (vendor_text, 0))
    total, available = windows.memory_nbytes()
    cores = len(windows.subkeys(_CPU))
    instruction_sets = " ".join(
        name for number, name in _FEATURES.items() if windows.has_feature(number)
    )
    metadata = {"logical_cores": str(cores) if cores else "", "instruction_sets": instruction_sets}
    return HardwareDevice(
        type=DeviceType.CPU,
        name=_text(facts, "ProcessorNameString"),
        vendor=vendor,
        vendor_id=vendor_id,
        memory_nbytes=total,
        free_memory_nbytes=available,
        metadata={key: value for key, value in metadata.items() if value},
        source="registry",
        fact_sources=dict.fromkeys(
            ("memory_nbytes", "free_memory_nbytes", "metadata.instruction_sets"), "kernel32"
        ),
    )


def _gpu(windows: WindowsInterfaces, instance: str, notes: list[str]) -> list[HardwareDevice]:
    """Return the GPU of a display adapter; empty, with a note, if it only draws."""
    driver = _driver(windows, instance)
    name = _name(windows, instance, driver)
    vendor_id, device_id = _numbers(instance)
    if vendor_id in DISPLAY_ONLY_VENDORS or not vendor_id:
        notes.append(f"{name or instance[:_MOST_CHARACTERS]}: display adapter, not for computing")
        return []
    memory = driver.get("HardwareInformation.qwMemorySize")
    if isinstance(memory, bytes):  # some drivers write the number as plain bytes
        memory = int.from_bytes(memory[:8], "little")
    is_discrete = _is_discrete(name, vendor_id, device_id)
    return [
        HardwareDevice(
            type=DeviceType.GPU,
            name=name,
            vendor=vendor_name(vendor_id),
            vendor_id=vendor_id,
            device_id=device_id,
            is_discrete=is_discrete,
            # An integrated GPU reports reserved memory of the machine, which is not its own.
            memory_nbytes=memory
            if isinstance(memory, int) and 0 < memory < 1 << 50 and is_discrete
            else None,
            metadata=_driver_facts(windows, instance, driver),
            source="registry",
        )
    ]


def _npu(windows: WindowsInterfaces, instance: str) -> HardwareDevice:
    driver = _driver(windows, instance)
    vendor_id, device_id = _numbers(instance)
    return HardwareDevice(
        type=DeviceType.NPU,
        name=_name(windows, instance, driver),
        vendor=vendor_name(vendor_id) or _text(driver, "ProviderName"),
        vendor_id=vendor_id,
        device_id=device_id,
        metadata=_driver_facts(windows, instance, driver),
        source="registry",
    )


def _driver(windows: WindowsInterfaces, instance: str) -> Mapping[str, Value]:
    """Return the values of the driver's key, which the device's key names as ``{class}\\0001``."""
    reference = _text(windows.values(rf"{_ENUM}\{instance}"), "Driver")
    if not re.fullmatch(r"\{[0-9A-Fa-f-]{36}\}\\\d{4}", reference):
        return {}
    return windows.values(rf"{_CLASS}\{reference}")


def _driver_facts(
    windows: WindowsInterfaces, instance: str, driver: Mapping[str, Value]
) -> dict[str, str]:
    device = windows.values(rf"{_ENUM}\{instance}")
    facts = {
        "pci_address": _pci_address(_text(device, "LocationInformation")),
        "driver": _text(device, "Service"),
        "driver_version": _text(driver, "DriverVersion"),
    }
    return {key: value for key, value in facts.items() if value}


def _pci_address(location: str) -> str:
    r"""Return the address, as Linux writes it, in "@...\pci.sys,#65536;PCI bus ...;(1,0,0)"."""
    match = re.search(r"pci.*\((\d{1,3}),(\d{1,2}),(\d)\)$", location, re.IGNORECASE)
    if match is None or int(match[1]) > 0xFF or int(match[2]) > 0x1F or int(match[3]) > 7:
        return ""
    return f"0000:{int(match[1]):02x}:{int(match[2]):02x}.{match[3]}"


def _name(windows: WindowsInterfaces, instance: str, driver: Mapping[str, Value]) -> str:
    """Return the driver's description, else the device's ("@oem7.inf,%key%;Intel(R) AI Boost")."""
    described = _text(windows.values(rf"{_ENUM}\{instance}"), "DeviceDesc").rpartition(";")[2]
    return _text(driver, "DriverDesc") or described


def _os_version(windows: WindowsInterfaces) -> str | None:
    facts = windows.values(_VERSION)
    build, revision = _text(facts, "CurrentBuildNumber"), facts.get("UBR")
    if not build:
        return None
    major = facts.get("CurrentMajorVersionNumber")
    text = f"{major if isinstance(major, int) else 10}.0.{build}"
    return f"{text}.{revision}" if isinstance(revision, int) else text


def _numbers(instance: str) -> tuple[int, int]:
    r"""Return the vendor and device numbers of a device instance; zeros if it has none.

    Instances are, for example, ``PCI\VEN_8086&DEV_7D55&...`` or ``ACPI\QCOM0D0A\...``.
    """
    identity = instance.upper()
    pci = re.match(r"PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", identity)
    if pci:
        return int(pci[1], 16), int(pci[2], 16)
    acpi = re.match(r"ACPI\\(?:VEN_)?([A-Z]{4})(?:&DEV_)?([0-9A-F]{4})", identity)
    # ONNX Runtime makes a vendor number of an ACPI name from its letters as little-endian bytes.
    return (int.from_bytes(acpi[1].encode("ascii"), "little"), int(acpi[2], 16)) if acpi else (0, 0)


def _is_discrete(name: str, vendor_id: int, device_id: int) -> bool | None:
    """Return True for a discrete GPU, as on Linux; None if unknown.

    Intel's are recognized by name, because Windows gives no bus number here.
    """
    if vendor_id == NVIDIA:
        return True
    if vendor_id == INTEL:
        return re.search(r"Arc\S* [AB]\d{3}|Data Center GPU|Arc\S* Pro", name) is not None
    if vendor_id == AMD and device_id in AMD_INTEGRATED_GPUS:
        return False
    if vendor_id == AMD and re.search(r"Radeon\S* (RX|PRO W)", name):
        return True
    return False if vendor_id == _QUALCOMM else None


def _text(values: Mapping[str, Value], key: str) -> str:
    value = values.get(key)
    return value.strip()[:_MOST_CHARACTERS] if isinstance(value, str) else ""
