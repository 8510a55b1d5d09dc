"""What Linux knows about a machine's CPU, GPUs and NPUs, read from sysfs and procfs. Nothing is executed or loaded.

Sources: proc(5) for cpuinfo and meminfo; Documentation/ABI/testing/sysfs-bus-pci (class, vendor, device, driver),
sysfs-devices-system-cpu, Documentation/accel (the accel class), the amdgpu documentation (mem_info_vram_total,
mem_info_vram_vendor) and NVIDIA's driver README (/proc/driver/nvidia). Every path is under ``root``, so that a test can
hand in a tree. What cannot be read is None, never an error.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ortpkg.devices.hardware import DeviceType, HardwareDevice
from ortpkg.devices.machine import Machine
from ortpkg.devices.pci_vendors import AMD, DISPLAY_ONLY_VENDORS, INTEL, NPU_DEVICES, NVIDIA, vendor_name

_MOST_BYTES_READ = 1 << 16
_DISPLAY_CLASS = 0x03
_ACCELERATOR_CLASS = 0x12
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: drm drivers that only draw: no compute runs on them.
_DISPLAY_ONLY_DRIVERS = frozenset({"simple-framebuffer", "simpledrm", "vkms", "vc4", "efi-framebuffer", "udl"})


def probe_linux(root: Path) -> Machine:
    """Reads the machine under ``root`` ("/" for this one). Takes a few milliseconds; raises nothing."""
    gpus, npus, notes = _probe_pci(root)
    gpus += [*_probe_platform_class(root, "drm", DeviceType.GPU), *_probe_wsl(root)]
    npus += _probe_platform_class(root, "accel", DeviceType.NPU)
    release = _text(root / "proc/sys/kernel/osrelease")
    return Machine(os="linux", os_version=release, hardware=(_probe_cpu(root), *gpus, *npus), notes=tuple(notes))


# --- CPU -------------------------------------------------------------------------------------------------------------


def _probe_cpu(root: Path) -> HardwareDevice:
    facts = _first_processor(root)
    vendor_text = facts.get("vendor_id", "")
    vendor, vendor_id = {"GenuineIntel": ("Intel", INTEL), "AuthenticAMD": ("AMD", 0x1022)}.get(vendor_text, ("", 0))
    metadata = {"instruction_sets": facts.get("flags", facts.get("Features", ""))}
    for key, path in (("logical_cores", "online"), ("possible_cores", "possible")):
        count = _count_of_cpu_list(_text(root / "sys/devices/system/cpu" / path))
        if count is not None:
            metadata[key] = str(count)
    return HardwareDevice(
        type=DeviceType.CPU,
        name=facts.get("model name", facts.get("Hardware", "")),
        vendor=vendor or vendor_text,
        vendor_id=vendor_id,
        memory_nbytes=_memory_nbytes(root),
        metadata={key: value for key, value in metadata.items() if value},
        source="procfs",
    )


def _first_processor(root: Path) -> dict[str, str]:
    """The first block of cpuinfo; the rest repeats it, and on a large machine reading it takes long."""
    facts: dict[str, str] = {}
    for line in (_text(root / "proc/cpuinfo", nbytes=_MOST_BYTES_READ // 4) or "").splitlines():
        if not line.strip() and facts:
            break
        key, _, value = line.partition(":")
        facts[key.strip()] = value.strip()
    return facts


def _memory_nbytes(root: Path) -> int | None:
    found = re.search(r"^MemTotal:\s*(\d{1,15}) kB", _text(root / "proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _count_of_cpu_list(text: str | None) -> int | None:
    """The number of CPUs in the kernel's list form, e.g. "0-7,16"; None where the text is not one."""
    if not text or not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", text):
        return None
    spans = [span.partition("-") for span in text.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


# --- PCI -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _PciFunction:
    address: str
    directory: Path
    pci_class: int
    vendor_id: int
    device_id: int


def _probe_pci(root: Path) -> tuple[list[HardwareDevice], list[HardwareDevice], list[str]]:
    accelerators = _addresses_of_class(root, "accel")
    gpus: list[HardwareDevice] = []
    npus: list[HardwareDevice] = []
    notes: list[str] = []
    for function in _pci_functions(root):
        is_npu = (
            function.pci_class == _ACCELERATOR_CLASS
            or function.address in accelerators
            or (function.vendor_id, function.device_id) in NPU_DEVICES
        )
        if not is_npu and function.pci_class != _DISPLAY_CLASS:
            continue
        if function.vendor_id in DISPLAY_ONLY_VENDORS:
            notes.append(f"{function.address}: {vendor_name(function.vendor_id)} display adapter, not for computing")
            continue
        device = _pci_device(root, function, DeviceType.NPU if is_npu else DeviceType.GPU)
        (npus if is_npu else gpus).append(device)
        if "driver" not in device.metadata:
            notes.append(f"{function.address}: {device.name} has no driver")
    return gpus, npus, notes


def _pci_functions(root: Path) -> list[_PciFunction]:
    """Every PCI function in order of address; those whose numbers cannot be read are left out."""
    found = []
    for directory in _entries(root / "sys/bus/pci/devices"):
        numbers = [_hexadecimal(directory / name) for name in ("class", "vendor", "device")]
        if None not in numbers:
            pci_class, vendor_id, device_id = (number or 0 for number in numbers)
            found.append(
                _PciFunction(
                    address=directory.name,
                    directory=directory,
                    pci_class=pci_class >> 16,
                    vendor_id=vendor_id,
                    device_id=device_id,
                )
            )
    return found


def _pci_device(root: Path, function: _PciFunction, device_type: DeviceType) -> HardwareDevice:
    vendor = vendor_name(function.vendor_id)
    nvidia = _nvidia_model(root, function) if function.vendor_id == NVIDIA else None
    known = NPU_DEVICES.get((function.vendor_id, function.device_id))
    numbers = f"{function.vendor_id:04x}:{function.device_id:04x}"
    return HardwareDevice(
        type=device_type,
        name=nvidia or known or f"{vendor or 'unknown'} {device_type.value.upper()} [{numbers}]",
        vendor=vendor,
        vendor_id=function.vendor_id,
        device_id=function.device_id,
        is_discrete=_is_discrete(function) if device_type is DeviceType.GPU else None,
        memory_nbytes=_vram_nbytes(function),
        metadata={"pci_address": function.address, **_driver_facts(root, function.directory)},
        source="sysfs",
    )


def _is_discrete(function: _PciFunction) -> bool | None:
    """Whether a GPU has memory of its own; None where sysfs does not tell.

    Intel's integrated GPU is a function of the root bus. NVIDIA's PCI GPUs are all discrete. amdgpu shows the vendor
    of the video memory only for memory chips of the card's own.
    """
    if function.vendor_id == NVIDIA:
        return True
    if function.vendor_id == INTEL:
        return function.address.split(":")[1] != "00"
    if function.vendor_id == AMD and (function.directory / "mem_info_vram_vendor").is_file():
        return True
    return None


def _vram_nbytes(function: _PciFunction) -> int | None:
    text = _text(function.directory / "mem_info_vram_total")  # amdgpu
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else None


def _nvidia_model(root: Path, function: _PciFunction) -> str | None:
    text = _text(root / "proc/driver/nvidia/gpus" / function.address / "information") or ""
    found = re.search(r"^Model:\s*(\S.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else None


def _driver_facts(root: Path, directory: Path) -> dict[str, str]:
    """The driver's name and version; a driver without a version of its own has the kernel's, and says so."""
    driver = _link_name(directory / "driver")
    if driver is None:
        return {}
    version = _text(root / "sys/module" / driver.replace("-", "_") / "version")
    release = _text(root / "proc/sys/kernel/osrelease")
    if version is None and release is not None:
        version = f"kernel {release}"
    return {"driver": driver, **({"driver_version": version} if version else {})}


# --- devices that are not on PCI (systems on a chip) -----------------------------------------------------------------


def _probe_platform_class(root: Path, kind: str, device_type: DeviceType) -> list[HardwareDevice]:
    """Devices of /sys/class/``kind`` that no PCI function stands for, e.g. Adreno, Mali or Tegra GPUs."""
    pattern = re.compile(r"card\d+" if kind == "drm" else r"accel\d+")
    found = {}
    for entry in _entries(root / "sys/class" / kind):
        target = _link_name(entry / "device")
        if not pattern.fullmatch(entry.name) or target is None or _PCI_ADDRESS.fullmatch(target):
            continue
        driver = _driver_facts(root, entry / "device")
        if driver and driver["driver"] not in _DISPLAY_ONLY_DRIVERS:
            found[target] = HardwareDevice(
                type=device_type,
                name=f"{driver['driver']} {device_type.value.upper()} ({target})",
                is_discrete=False if device_type is DeviceType.GPU else None,
                metadata={"platform_device": target, **driver},
                source="sysfs",
            )
    return list(found.values())


def _probe_wsl(root: Path) -> list[HardwareDevice]:
    """Under the Windows Subsystem for Linux, GPUs stand behind one device file without further facts."""
    if not (root / "dev/dxg").exists():
        return []
    return [
        HardwareDevice(type=DeviceType.GPU, name="GPU of the Windows host", metadata={"driver": "dxg"}, source="dxg")
    ]


def _addresses_of_class(root: Path, kind: str) -> frozenset[str]:
    targets = (_link_name(entry / "device") for entry in _entries(root / "sys/class" / kind))
    return frozenset(target for target in targets if target is not None and _PCI_ADDRESS.fullmatch(target))


# --- reading ---------------------------------------------------------------------------------------------------------


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _link_name(link: Path) -> str | None:
    """The last part of where a symbolic link points; None where there is no link."""
    try:
        return os.path.basename(os.readlink(link))  # noqa: PTH115, PTH119 - the text of the link, not what it resolves to
    except OSError:
        return None


def _text(path: Path, *, nbytes: int = _MOST_BYTES_READ) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(nbytes).decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def _hexadecimal(path: Path) -> int | None:
    try:
        return int(_text(path, nbytes=32) or "", 16)
    except ValueError:
        return None
