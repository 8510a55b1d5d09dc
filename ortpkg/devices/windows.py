"""What Windows knows about a machine: CIM classes, read through PowerShell as one JSON document.

Sources: Win32_Processor, Win32_ComputerSystem, Win32_OperatingSystem, Win32_VideoController and Win32_PnPEntity of
Microsoft's CIM reference. NPUs are the devices of the set-up class "ComputeAccelerator". The parser takes text, so
that tests run anywhere. ``AdapterRAM`` is an unsigned 32-bit number and wrong from 4 GiB on; then it is unknown.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import PureWindowsPath
from typing import Any

from ortpkg.devices.hardware import DeviceType, HardwareDevice
from ortpkg.devices.machine import Machine
from ortpkg.devices.pci_vendors import AMD, DISPLAY_ONLY_VENDORS, INTEL, NVIDIA, vendor_name
from ortpkg.devices.system_command import output_of

_TIMEOUT_S = 30.0
_SCRIPT = """
$ErrorActionPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [System.Text.Encoding]::UTF8
@{
  os = @(Get-CimInstance Win32_OperatingSystem | Select-Object Version)
  computer = @(Get-CimInstance Win32_ComputerSystem | Select-Object TotalPhysicalMemory)
  processors = @(Get-CimInstance Win32_Processor | Select-Object Name, Manufacturer, NumberOfCores, `
    NumberOfLogicalProcessors, Architecture)
  video = @(Get-CimInstance Win32_VideoController | Select-Object Name, PNPDeviceID, AdapterRAM, DriverVersion, Status)
  accelerators = @(Get-CimInstance Win32_PnPEntity -Filter "PNPClass='ComputeAccelerator'" | `
    Select-Object Name, PNPDeviceID, Manufacturer, Status)
} | ConvertTo-Json -Depth 3 -Compress
"""
_ADAPTER_RAM_LIMIT = 0xFFF0_0000


def probe_windows() -> Machine:
    """Asks PowerShell once (about a second); where it does not answer, the machine is a CPU and a note."""
    powershell = PureWindowsPath(
        os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "WindowsPowerShell", "v1.0", "powershell.exe"
    )
    command = [str(powershell), "-NoProfile", "-NonInteractive", "-Command", _SCRIPT]
    return parse_windows(output_of(command, timeout_s=_TIMEOUT_S))


def parse_windows(text: str | None) -> Machine:
    """A machine from the JSON document; None for a PowerShell that did not answer."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        unknown = HardwareDevice(type=DeviceType.CPU, source="assumed")
        return Machine(os="windows", hardware=(unknown,), notes=("PowerShell did not answer: devices are unknown",))
    notes: list[str] = []
    hardware = [_cpu(found), *_gpus(found, notes), *(_npu(entry) for entry in _objects(found, "accelerators"))]
    version = next((_string(entry, "Version") for entry in _objects(found, "os")), "") or None
    return Machine(os="windows", os_version=version, hardware=tuple(hardware), notes=tuple(notes))


def _cpu(found: dict[str, Any]) -> HardwareDevice:
    entry = next(iter(_objects(found, "processors")), {})
    manufacturer = _string(entry, "Manufacturer")
    vendor, vendor_id = {
        "GenuineIntel": ("Intel", INTEL),
        "AuthenticAMD": ("AMD", 0x1022),
        "Qualcomm Technologies Inc": ("Qualcomm", 0x4D4F4351),
    }.get(manufacturer, (manufacturer, 0))
    memory = next((entry.get("TotalPhysicalMemory") for entry in _objects(found, "computer")), None)
    counts = {"physical_cores": entry.get("NumberOfCores"), "logical_cores": entry.get("NumberOfLogicalProcessors")}
    return HardwareDevice(
        type=DeviceType.CPU,
        name=_string(entry, "Name").strip(),
        vendor=vendor,
        vendor_id=vendor_id,
        memory_nbytes=memory if isinstance(memory, int) else None,
        metadata={key: str(count) for key, count in counts.items() if isinstance(count, int)},
        source="cim",
    )


def _gpus(found: dict[str, Any], notes: list[str]) -> list[HardwareDevice]:
    gpus = []
    for entry in _objects(found, "video"):
        vendor_id, device_id = _numbers(entry)
        if vendor_id in DISPLAY_ONLY_VENDORS or not vendor_id:
            notes.append(f"{_string(entry, 'Name')}: display adapter, not for computing")
            continue
        memory = entry.get("AdapterRAM")
        gpus.append(
            HardwareDevice(
                type=DeviceType.GPU,
                name=_string(entry, "Name"),
                vendor=vendor_name(vendor_id),
                vendor_id=vendor_id,
                device_id=device_id,
                is_discrete=_is_discrete(entry, vendor_id),
                memory_nbytes=memory if isinstance(memory, int) and 0 < memory < _ADAPTER_RAM_LIMIT else None,
                metadata={"driver_version": version} if (version := _string(entry, "DriverVersion")) else {},
                source="cim",
            )
        )
    return gpus


def _npu(entry: dict[str, Any]) -> HardwareDevice:
    vendor_id, device_id = _numbers(entry)
    return HardwareDevice(
        type=DeviceType.NPU,
        name=_string(entry, "Name"),
        vendor=vendor_name(vendor_id) or _string(entry, "Manufacturer"),
        vendor_id=vendor_id,
        device_id=device_id,
        source="cim",
    )


def _numbers(entry: dict[str, Any]) -> tuple[int, int]:
    r"""Vendor and device of e.g. ``PCI\VEN_8086&DEV_7D55&...`` or ``ACPI\QCOM0D0A\...``; zeros where it says none."""
    identity = _string(entry, "PNPDeviceID").upper()
    pci = re.match(r"PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", identity)
    if pci:
        return int(pci[1], 16), int(pci[2], 16)
    acpi = re.match(r"ACPI\\(?:VEN_)?([A-Z]{4})(?:&DEV_)?([0-9A-F]{4})", identity)
    # ONNX Runtime's way to make a vendor number of an ACPI name: its letters as little-endian bytes.
    return (int.from_bytes(acpi[1].encode("ascii"), "little"), int(acpi[2], 16)) if acpi else (0, 0)


def _is_discrete(entry: dict[str, Any], vendor_id: int) -> bool | None:
    """As on Linux: NVIDIA's are discrete; Intel's by their name, because Windows gives no bus number here."""
    if vendor_id == NVIDIA:
        return True
    name = _string(entry, "Name")
    if vendor_id == INTEL:
        return re.search(r"Arc\S* [AB]\d{3}|Data Center GPU|Arc\S* Pro", name) is not None
    if vendor_id == AMD and re.search(r"Radeon\S* (RX|PRO W)", name):
        return True
    return False if vendor_id == 0x4D4F4351 else None


def _objects(found: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = found.get(key)
    if isinstance(entries, dict):  # PowerShell 5 unwraps a list of one
        entries = [entries]
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _string(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
