"""GPUs and NPUs of systems on a chip, on no PCI bus: Adreno, Mali, Tegra, Hexagon, Rockchip, ...

Sources: the kernel's device tree bindings (a platform device is called "<address>.gpu" or
"<address>.npu") and the classes drm and accel; Qualcomm's FastRPC driver, whose device file
/dev/fastrpc-cdsp stands for the Hexagon NPU (as onnxruntime-qnn takes it); NVIDIA's L4T, whose GPU
is called ".gpu", ".ga10b", ".gv11b" or ".gp10b" after its chip.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.linux_files import entries, exists, line, link_name
from ortpkg.machine.linux_pci import PCI_ADDRESS, driver_facts
from ortpkg.machine.pci_vendors import NVIDIA

_QUALCOMM = 0x4D4F4351
#: drm drivers that only draw and cannot compute.
DISPLAY_ONLY_DRIVERS = frozenset(
    {
        "ast",
        "bochs-drm",
        "cirrus",
        "efi-framebuffer",
        "hyperv_drm",
        "mgag200",
        "qxl",
        "simple-framebuffer",
        "simpledrm",
        "udl",
        "vboxvideo",
        "vc4",
        "virtio-gpu",
        "virtio_gpu",
        "vkms",
        "vmwgfx",
    }
)


class _Maker(NamedTuple):
    """Vendor and name of the devices of a driver."""

    vendor: str
    label: str
    vendor_id: int = 0


_MAKERS: dict[str, _Maker] = {
    "adreno": _Maker(vendor="Qualcomm", label="Adreno GPU", vendor_id=_QUALCOMM),
    "asahi": _Maker(vendor="Apple", label="Apple GPU", vendor_id=0x106B),
    "etnaviv": _Maker(vendor="Vivante", label="Vivante GPU"),
    "etnaviv-gpu": _Maker(vendor="Vivante", label="Vivante GPU"),
    "gk20a": _Maker(vendor="NVIDIA", label="Tegra GPU", vendor_id=NVIDIA),
    "lima": _Maker(vendor="Arm", label="Mali GPU", vendor_id=0x13B5),
    "mali": _Maker(vendor="Arm", label="Mali GPU", vendor_id=0x13B5),
    "msm-mdss": _Maker(vendor="Qualcomm", label="Adreno GPU", vendor_id=_QUALCOMM),
    "msm_dpu": _Maker(vendor="Qualcomm", label="Adreno GPU", vendor_id=_QUALCOMM),
    "msm_mdss": _Maker(vendor="Qualcomm", label="Adreno GPU", vendor_id=_QUALCOMM),
    "nvgpu": _Maker(vendor="NVIDIA", label="Tegra GPU", vendor_id=NVIDIA),
    "panfrost": _Maker(vendor="Arm", label="Mali GPU", vendor_id=0x13B5),
    "panthor": _Maker(vendor="Arm", label="Mali GPU", vendor_id=0x13B5),
    "powervr": _Maker(vendor="Imagination", label="PowerVR GPU", vendor_id=0x1010),
    "RKNPU": _Maker(vendor="Rockchip", label="Rockchip NPU"),
    "rocket": _Maker(vendor="Rockchip", label="Rockchip NPU"),
    "tegra-host1x": _Maker(vendor="NVIDIA", label="Tegra GPU", vendor_id=NVIDIA),
    "v3d": _Maker(vendor="Broadcom", label="VideoCore GPU", vendor_id=0x14E4),
}
_GPU_NODE = re.compile(r"[0-9a-f]+\.(gpu|ga10b|gv11b|gp10b|mali)")
_NPU_NODE = re.compile(r"[0-9a-f]+\.npu")


def probe_platform(root: Path) -> tuple[list[HardwareDevice], list[HardwareDevice], list[str]]:
    """Return GPUs, NPUs and notes.

    A display controller whose GPU is a device of its own is not a second GPU.
    """
    notes: list[str] = []
    gpus = _devices_of_bus(root, _GPU_NODE, DeviceType.GPU)
    vendors = {gpu.vendor for gpu in gpus}
    names = {gpu.metadata["platform_device"] for gpu in gpus}
    drawing = _devices_of_class(root, "drm", DeviceType.GPU, notes)
    gpus += [
        gpu
        for gpu in drawing
        if gpu.metadata["platform_device"] not in names
        and (not gpu.vendor or gpu.vendor not in vendors)
    ]
    npus = _devices_of_bus(root, _NPU_NODE, DeviceType.NPU)
    names = {npu.metadata["platform_device"] for npu in npus}
    npus += [
        npu
        for npu in _devices_of_class(root, "accel", DeviceType.NPU, notes)
        if npu.metadata["platform_device"] not in names
    ]
    return [*gpus, *_wsl(root)], [*npus, *_hexagon(root)], notes


def _devices_of_bus(
    root: Path, pattern: re.Pattern[str], device_type: DeviceType
) -> list[HardwareDevice]:
    return [
        _device(root, entry.name, driver, device_type)
        for entry in entries(root / "sys/bus/platform/devices")
        if pattern.fullmatch(entry.name) and (driver := driver_facts(root, entry))
    ]


def _devices_of_class(
    root: Path, kind: str, device_type: DeviceType, notes: list[str]
) -> list[HardwareDevice]:
    """Return the devices of /sys/class/``kind`` that are not PCI functions."""
    pattern = re.compile(r"card\d+" if kind == "drm" else r"accel\d+")
    devices: dict[str, HardwareDevice] = {}
    for entry in entries(root / "sys/class" / kind):
        target = link_name(entry / "device")
        if not pattern.fullmatch(entry.name) or target is None or PCI_ADDRESS.fullmatch(target):
            continue
        driver = driver_facts(root, entry / "device")
        if driver and driver["driver"] in DISPLAY_ONLY_DRIVERS:
            notes.append(f"{target}: {driver['driver']} display adapter, not for computing")
        elif driver:
            devices[target] = _device(root, target, driver, device_type)
    return list(devices.values())


def _device(
    root: Path, node: str, driver: dict[str, str], device_type: DeviceType
) -> HardwareDevice:
    maker = _MAKERS.get(
        driver["driver"], _Maker(vendor="", label=f"{driver['driver']} {device_type.value.upper()}")
    )
    release = _l4t_release(root) if maker.vendor_id == NVIDIA else None
    return HardwareDevice(
        type=device_type,
        name=f"{maker.label} ({node})",
        vendor=maker.vendor,
        vendor_id=maker.vendor_id,
        is_discrete=False if device_type is DeviceType.GPU else None,
        metadata={
            "platform_device": node,
            **driver,
            **({"l4t_release": release} if release else {}),
        },
        source="sysfs",
    )


def _l4t_release(root: Path) -> str | None:
    """Return NVIDIA's release of Linux for Tegra, such as "36.3.0".

    The file says "# R36 (release), REVISION: 3.0, ...".
    """
    match = re.match(
        r"# R(\d{1,3}) \(release\), REVISION: (\d{1,3}\.\d{1,3})",
        line(root / "etc/nv_tegra_release") or "",
    )
    return f"{match[1]}.{match[2]}" if match else None


def _hexagon(root: Path) -> list[HardwareDevice]:
    if not any(exists(root / "dev" / name) for name in ("fastrpc-cdsp", "fastrpc-cdsp-secure")):
        return []
    return [
        HardwareDevice(
            type=DeviceType.NPU,
            name="Qualcomm Hexagon NPU",
            vendor="Qualcomm",
            vendor_id=_QUALCOMM,
            metadata={"driver": "fastrpc"},
            source="fastrpc",
        )
    ]


def _wsl(root: Path) -> list[HardwareDevice]:
    """Return the GPU of the Windows Subsystem for Linux: one device file without further facts."""
    if not exists(root / "dev/dxg"):
        return []
    return [
        HardwareDevice(
            type=DeviceType.GPU,
            name="GPU of the Windows host",
            metadata={"driver": "dxg"},
            source="dxg",
        )
    ]
