"""PCI numbers that identify devices: vendors, displays that cannot compute, unusual NPUs.

Source: the PCI ID Repository (pci-ids.ucw.cz) for vendors and devices; the kernel's amdxdna driver
for AMD's NPUs.
"""

from __future__ import annotations

VENDOR_NAMES: dict[int, str] = {
    0x1002: "AMD",
    0x1022: "AMD",
    0x10DE: "NVIDIA",
    0x106B: "Apple",
    0x13B5: "Arm",
    0x14E4: "Broadcom",
    0x17CB: "Qualcomm",
    0x19E5: "Huawei",
    0x1AC1: "Google",
    0x1DA3: "Habana Labs",
    0x1E60: "Hailo",
    0x1ED5: "Moore Threads",
    0x4D4F4351: "Qualcomm",  # the ACPI id "QCOM" as ONNX Runtime reports it on Windows
    0x8086: "Intel",
}

#: Vendors of display adapters that only draw: management controllers of servers, and hypervisors.
DISPLAY_ONLY_VENDORS: dict[int, str] = {
    0x1013: "Cirrus Logic",
    0x102B: "Matrox",
    0x1234: "QEMU",
    0x1414: "Microsoft Hyper-V",
    0x15AD: "VMware",
    0x1A03: "ASPEED",
    0x1AF4: "virtio",
    0x1B36: "QEMU QXL",
    0x80EE: "VirtualBox",
}

#: NPUs whose PCI class is not "processing accelerator" (0x12): AMD's XDNA has "signal processing
#: controller".
NPU_DEVICES: dict[tuple[int, int], str] = {
    (0x1022, 0x1502): "AMD XDNA NPU (Phoenix, Hawk Point)",
    (0x1022, 0x17F0): "AMD XDNA 2 NPU (Strix)",
}

#: AMD's integrated GPUs; amdgpu assigns them a part of the machine's memory.
AMD_INTEGRATED_GPUS: dict[int, str] = {
    0x1114: "AMD Radeon Graphics (Krackan)",
    0x13C0: "AMD Radeon Graphics (Granite Ridge)",
    0x150E: "AMD Radeon 880M / 890M (Strix)",
    0x1586: "AMD Radeon 8050S / 8060S (Strix Halo)",
    0x15BF: "AMD Radeon 760M / 780M (Phoenix)",
    0x15C8: "AMD Radeon 740M (Phoenix 2)",
    0x1638: "AMD Radeon Graphics (Cezanne)",
    0x164E: "AMD Radeon Graphics (Raphael)",
    0x1681: "AMD Radeon 660M / 680M (Rembrandt)",
    0x1900: "AMD Radeon 760M / 780M (Hawk Point)",
    0x1901: "AMD Radeon 740M (Hawk Point 2)",
}

INTEL = 0x8086
AMD = 0x1002
NVIDIA = 0x10DE


def vendor_name(vendor_id: int) -> str:
    """Return the vendor's short name; "" if the number is not in the table."""
    return VENDOR_NAMES.get(vendor_id, DISPLAY_ONLY_VENDORS.get(vendor_id, ""))
