"""GPUs and NPUs on the PCI bus of a Linux machine, with their drivers and memory.

Sources: Documentation/ABI/testing/sysfs-bus-pci (class, vendor, device, driver),
Documentation/accel (the accel class); the amdgpu documentation (mem_info_vram_total,
mem_info_vram_used, mem_info_vram_vendor, product_name), the KFD topology (gfx_target_version),
amdxdna (vbnv, fw_version), xe (tile0/physical_vram_size_bytes), i915 (lmem_total_bytes) and
NVIDIA's driver README (/proc/driver/nvidia).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.linux_files import entries, hexadecimal, integer, line, link_name, text
from ortpkg.machine.pci_ids import pci_ids_name
from ortpkg.machine.pci_vendors import (
    AMD,
    AMD_INTEGRATED_GPUS,
    DISPLAY_ONLY_VENDORS,
    INTEL,
    NPU_DEVICES,
    NVIDIA,
    vendor_name,
)

PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_DISPLAY_CLASS = 0x03
_ACCELERATOR_CLASS = 0x12
#: PCI classes to look at; 0x11 is signal processing controllers, the class of AMD's NPUs.
_CLASSES_OF_INTEREST = frozenset({_DISPLAY_CLASS, _ACCELERATOR_CLASS, 0x11})
#: Drivers that hold a device on which no backend can compute → note.
_DRIVERS_WITHOUT_COMPUTE = {
    "nouveau": "the driver nouveau draws only; no execution provider computes on it",
    "vfio-pci": "it is handed to a virtual machine (vfio-pci)",
    "pciback": "it is handed to a virtual machine (pciback)",
    "xen-pciback": "it is handed to a virtual machine (xen-pciback)",
}


class PciFunction(NamedTuple):
    """A function of the bus, with the numbers that identify it."""

    address: str
    directory: Path
    pci_class: int
    vendor_id: int
    device_id: int


class BusDevices(NamedTuple):
    """Devices of a bus; notes name devices that do not count, or cannot be used."""

    gpus: list[HardwareDevice]
    npus: list[HardwareDevice]
    notes: list[str]


def probe_pci(root: Path) -> BusDevices:
    """Return every GPU and NPU, in order of address."""
    devices = BusDevices(gpus=[], npus=[], notes=[])
    accelerators = _addresses_of_class(root, "accel")
    architectures = _kfd_architectures(root)
    for function in _pci_functions(root, accelerators):
        numbers = (function.vendor_id, function.device_id)
        is_npu = (
            function.pci_class == _ACCELERATOR_CLASS
            or function.address in accelerators
            or numbers in NPU_DEVICES
        )
        if not is_npu and function.pci_class != _DISPLAY_CLASS:
            continue
        if function.vendor_id in DISPLAY_ONLY_VENDORS:
            vendor = vendor_name(function.vendor_id)
            devices.notes.append(f"{function.address}: {vendor} display adapter, not for computing")
            continue
        device_type = DeviceType.NPU if is_npu else DeviceType.GPU
        device = _pci_device(root, function, device_type, architectures.get(function.address))
        (devices.npus if is_npu else devices.gpus).append(device)
        if note := _driver_note(device):
            devices.notes.append(f"{function.address}: {device.name}: {note}")
    addresses = {gpu.metadata["pci_address"] for gpu in devices.gpus}
    devices.gpus.extend(
        gpu for gpu in _nvidia_without_sysfs(root) if gpu.metadata["pci_address"] not in addresses
    )
    return devices


def driver_facts(root: Path, directory: Path) -> dict[str, str]:
    """Return the driver's name and version.

    A driver without a version of its own has the kernel's, marked as such.
    """
    driver = link_name(directory / "driver")
    if driver is None:
        return {}
    version = line(root / "sys/module" / driver.replace("-", "_") / "version")
    if version is None and driver == "nvidia":
        version = nvidia_driver_version(root)
    release = line(root / "proc/sys/kernel/osrelease")
    if version is None and release is not None:
        version = f"kernel {release}"
    return {"driver": driver, **({"driver_version": version} if version else {})}


def nvidia_driver_version(root: Path) -> str | None:
    """Return the version in /proc/driver/nvidia/version, which needs no /sys/module."""
    match = re.search(
        r"Kernel Module\S*(?: for \S+)?\s+([0-9][0-9.]{2,20})",
        text(root / "proc/driver/nvidia/version") or "",
    )
    return match[1] if match else None


def _driver_note(device: HardwareDevice) -> str:
    driver = device.metadata.get("driver")
    return (
        "no driver is bound to it" if driver is None else _DRIVERS_WITHOUT_COMPUTE.get(driver, "")
    )


def _pci_functions(root: Path, accelerators: frozenset[str]) -> list[PciFunction]:
    """Return the PCI functions that may be GPUs or NPUs, in order of address.

    Functions whose numbers cannot be read are left out. A server has hundreds of functions, and
    each file takes time: functions of another class are not read further.
    """
    functions = []
    for directory in entries(root / "sys/bus/pci/devices"):
        pci_class = hexadecimal(directory / "class")
        if pci_class is None or (
            pci_class >> 16 not in _CLASSES_OF_INTEREST and directory.name not in accelerators
        ):
            continue
        vendor_id, device_id = (hexadecimal(directory / name) for name in ("vendor", "device"))
        if vendor_id is not None and device_id is not None:
            functions.append(
                PciFunction(
                    address=directory.name,
                    directory=directory,
                    pci_class=pci_class >> 16,
                    vendor_id=vendor_id,
                    device_id=device_id,
                )
            )
    return functions


def _pci_device(
    root: Path, function: PciFunction, device_type: DeviceType, kfd: str | None
) -> HardwareDevice:
    name, name_source = _name(root, function, device_type)
    total, free = _device_memory(function)
    firmware = line(function.directory / "fw_version")  # amdxdna
    sources = {"name": name_source} if name_source else {}
    if kfd:
        sources["architecture"] = "kfd"
    return HardwareDevice(
        type=device_type,
        name=name,
        vendor=vendor_name(function.vendor_id),
        vendor_id=function.vendor_id,
        device_id=function.device_id,
        is_discrete=_is_discrete(function) if device_type is DeviceType.GPU else None,
        memory_nbytes=total,
        free_memory_nbytes=free,
        architecture=kfd,
        metadata={
            "pci_address": function.address,
            **driver_facts(root, function.directory),
            **({"firmware_version": firmware} if firmware else {}),
        },
        source="sysfs",
        fact_sources=sources,
    )


def _name(root: Path, function: PciFunction, device_type: DeviceType) -> tuple[str, str]:
    """Return the name of a device, and its source if that is not sysfs."""
    numbers = (function.vendor_id, function.device_id)
    if function.vendor_id == NVIDIA and (
        model := _nvidia_facts(root, function.address).get("Model")
    ):
        return model, "nvidia driver"
    product = line(function.directory / "product_name")  # amdgpu, where the board says it
    if product and function.vendor_id == AMD:
        return product, ""
    table_name = NPU_DEVICES.get(numbers) or (
        AMD_INTEGRATED_GPUS.get(function.device_id) if numbers[0] == AMD else None
    )
    if table_name:
        return table_name, "pci.ids"
    if listed := pci_ids_name(root, *numbers):
        return f"{vendor_name(function.vendor_id)} {listed}".strip(), "pci.ids"
    vendor = vendor_name(function.vendor_id) or "unknown"
    return f"{vendor} {device_type.value.upper()} [{numbers[0]:04x}:{numbers[1]:04x}]", ""


def _is_discrete(function: PciFunction) -> bool | None:
    """Return True if a GPU has memory of its own; None if sysfs does not tell.

    Intel's integrated GPU is a function of the root bus. NVIDIA's PCI GPUs are all discrete. amdgpu
    shows the vendor of the video memory only for memory chips of the card's own; integrated ones
    are known by number.
    """
    if function.vendor_id == NVIDIA:
        return True
    if function.vendor_id == INTEL and PCI_ADDRESS.fullmatch(function.address):
        return function.address.split(":")[1] != "00"
    if function.vendor_id == AMD and function.device_id in AMD_INTEGRATED_GPUS:
        return False
    if function.vendor_id == AMD and (function.directory / "mem_info_vram_vendor").is_file():
        return True
    return None


def _device_memory(function: PciFunction) -> tuple[int | None, int | None]:
    """Return total and free bytes of the device's own memory."""
    total = integer(function.directory / "mem_info_vram_total")  # amdgpu
    used = integer(function.directory / "mem_info_vram_used")
    if total is None:
        total = _hexadecimal_nbytes(function.directory / "tile0/physical_vram_size_bytes")  # xe
    if total is None:
        cards = [
            card_entry
            for card_entry in entries(function.directory / "drm")
            if re.fullmatch(r"card\d+", card_entry.name)
        ]
        # i915
        total = next((size for card in cards if (size := integer(card / "lmem_total_bytes"))), None)
    return total, None if total is None or used is None else max(0, total - used)


def _hexadecimal_nbytes(path: Path) -> int | None:
    content = text(path, nbytes=32)
    return int(content, 16) if content and re.fullmatch(r"0x[0-9a-fA-F]{1,15}", content) else None


def _nvidia_facts(root: Path, address: str) -> dict[str, str]:
    """Return key → value from /proc/driver/nvidia/gpus/<address>/information."""
    rows = (
        text(root / "proc/driver/nvidia/gpus" / address / "information", nbytes=1 << 12) or ""
    ).splitlines()
    pairs = (row.partition(":") for row in rows)
    return {key.strip(): value.strip()[:256] for key, _, value in pairs if value.strip()}


def _nvidia_without_sysfs(root: Path) -> list[HardwareDevice]:
    """Return the GPUs that the NVIDIA driver lists, for containers in which /sys is hidden."""
    gpus = []
    for entry in entries(root / "proc/driver/nvidia/gpus"):
        model = _nvidia_facts(root, entry.name).get("Model")
        if model and PCI_ADDRESS.fullmatch(entry.name):
            version = nvidia_driver_version(root)
            metadata = {"pci_address": entry.name, "driver": "nvidia"}
            gpus.append(
                HardwareDevice(
                    type=DeviceType.GPU,
                    name=model,
                    vendor="NVIDIA",
                    vendor_id=NVIDIA,
                    is_discrete=True,
                    metadata={**metadata, **({"driver_version": version} if version else {})},
                    source="nvidia driver",
                )
            )
    return gpus


def _kfd_architectures(root: Path) -> dict[str, str]:
    """Return PCI address → "gfx1100", from the topology of AMD's compute driver."""
    architectures = {}
    for node in entries(root / "sys/class/kfd/kfd/topology/nodes"):
        properties = dict(
            re.findall(
                r"^(\w+) (\d{1,12})$", text(node / "properties", nbytes=1 << 12) or "", re.MULTILINE
            )
        )
        version, location = (
            int(properties.get(key, 0)) for key in ("gfx_target_version", "location_id")
        )
        if version:
            major, minor, stepping = version // 10000, version // 100 % 100, version % 100
            domain = int(properties.get("domain", 0))
            bus, device, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
            address = f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"
            architectures[address] = f"gfx{major}{minor:x}{stepping:x}"
    return architectures


def _addresses_of_class(root: Path, kind: str) -> frozenset[str]:
    targets = (link_name(entry / "device") for entry in entries(root / "sys/class" / kind))
    return frozenset(
        target for target in targets if target is not None and PCI_ADDRESS.fullmatch(target)
    )
