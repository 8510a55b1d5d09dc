"""CPU of a Linux machine: /proc for names and memory, sysfs for cores, cgroups for limits.

Arm CPUs have no name in cpuinfo but numbers of implementer and part (Arm's MIDR_EL1); the names are
those in Arm's and the vendors' technical reference manuals. The name of the board comes from the
device tree.
"""

from __future__ import annotations

import re
from pathlib import Path

from ortpkg.foundations.host.memory import CONTROL_GROUP_MEMORY
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.linux_files import entries, line, text
from ortpkg.machine.pci_vendors import INTEL

_MOST_CPUINFO_BYTES = 1 << 14
_MOST_CORES = 1024
_X86_VENDORS = {
    "GenuineIntel": ("Intel", INTEL),
    "AuthenticAMD": ("AMD", 0x1022),
    "HygonGenuine": ("Hygon", 0x1D94),
}
_ARM_IMPLEMENTERS = {
    "0x41": "Arm",
    "0x42": "Broadcom",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "NVIDIA",
    "0x51": "Qualcomm",
    "0x61": "Apple",
    "0x6d": "Microsoft",
    "0xc0": "Ampere",
}
_ARM_PARTS = {
    ("0x41", "0xd03"): "Cortex-A53",
    ("0x41", "0xd05"): "Cortex-A55",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd41"): "Cortex-A78",
    ("0x41", "0xd42"): "Cortex-A78AE",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x51", "0x001"): "Oryon",
    ("0xc0", "0xac3"): "Ampere-1",
}
_CPU_DIRECTORY = re.compile(r"cpu\d{1,5}")


def probe_cpu(root: Path) -> HardwareDevice:
    """Return the CPU under ``root``; unknown facts are left out."""
    facts = _first_processor(root)
    name, vendor, vendor_id = _name_and_vendor(facts)
    metadata = {"instruction_sets": facts.get("flags", facts.get("Features", facts.get("isa", "")))}
    sources = {}
    for key, path in (("logical_cores", "online"), ("possible_cores", "possible")):
        count = _count_of_cpu_list(text(root / "sys/devices/system/cpu" / path))
        if count is not None:
            metadata[key] = str(count)
            sources[f"metadata.{key}"] = "sysfs"
    if cores := _physical_cores(root):
        metadata["physical_cores"] = str(cores)
        sources["metadata.physical_cores"] = "sysfs"
    for key, board in _board(root):
        metadata[key] = board
        sources[f"metadata.{key}"] = "device tree" if key == "board" else "dmi"
    total, free, memory_source = _memory(root)
    if memory_source:
        sources |= {"memory_nbytes": memory_source, "free_memory_nbytes": memory_source}
    return HardwareDevice(
        type=DeviceType.CPU,
        name=name,
        vendor=vendor,
        vendor_id=vendor_id,
        memory_nbytes=total,
        free_memory_nbytes=free,
        metadata={key: value for key, value in metadata.items() if value},
        source="procfs",
        fact_sources=sources,
    )


def _first_processor(root: Path) -> dict[str, str]:
    """Return the first block of cpuinfo.

    The other blocks repeat it, and reading them takes long on a large machine.
    """
    facts: dict[str, str] = {}
    for row in (text(root / "proc/cpuinfo", nbytes=_MOST_CPUINFO_BYTES) or "").splitlines():
        if not row.strip() and facts:
            break
        key, _, value = row.partition(":")
        facts[key.strip()] = value.strip()
    return facts


def _name_and_vendor(facts: dict[str, str]) -> tuple[str, str, int]:
    vendor_text = facts.get("vendor_id", "")
    vendor, vendor_id = _X86_VENDORS.get(vendor_text, (vendor_text, 0))
    implementer, part = facts.get("CPU implementer", "").lower(), facts.get("CPU part", "").lower()
    arm_name = _ARM_PARTS.get((implementer, part), "")
    name = (
        facts.get("model name")
        or facts.get("Hardware")
        or facts.get("uarch")
        or facts.get("cpu")
        or arm_name
    )
    if not name and implementer:
        name = f"{_ARM_IMPLEMENTERS.get(implementer, 'Arm')} CPU [{implementer}:{part}]"[:256]
    return name, vendor or _ARM_IMPLEMENTERS.get(implementer, ""), vendor_id


def _physical_cores(root: Path) -> int | None:
    """Return the number of cores by their lists of sibling threads; None if the kernel has none."""
    directories = [
        directory
        for directory in entries(root / "sys/devices/system/cpu")
        if _CPU_DIRECTORY.fullmatch(directory.name)
    ]
    shared = {
        text(directory / "topology/thread_siblings_list", nbytes=256)
        for directory in directories[:_MOST_CORES]
    }
    return len(shared - {None}) or None


def _count_of_cpu_list(cpu_list: str | None) -> int | None:
    """Return the number of CPUs in a list of the kernel, e.g. "0-7,16"; None for other text."""
    if not cpu_list or not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", cpu_list):
        return None
    spans = [span.partition("-") for span in cpu_list.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


def _memory(root: Path) -> tuple[int | None, int | None, str]:
    """Return total and available bytes, and "cgroup" if a limit of our control group is lower."""
    meminfo = text(root / "proc/meminfo") or ""
    total, free = (_kilobytes(meminfo, key) for key in ("MemTotal", "MemAvailable"))
    limits = [
        (limit, used)
        for file, used in CONTROL_GROUP_MEMORY
        if (limit := _nbytes(text(root / file, nbytes=32))) is not None
    ]
    limit, usage_file = min(limits, default=(None, ""))
    if limit is None or (total is not None and limit >= total):
        return total, free, ""
    used = _nbytes(text(root / usage_file, nbytes=32))
    available = None if used is None else max(0, limit - used)
    return (
        limit,
        min((nbytes for nbytes in (free, available) if nbytes is not None), default=None),
        "cgroup",
    )


def _kilobytes(meminfo: str, key: str) -> int | None:
    match = re.search(rf"^{key}:\s*(\d{{1,15}}) kB", meminfo, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _nbytes(digits: str | None) -> int | None:
    return int(digits) if digits and re.fullmatch(r"[0-9]{1,18}", digits) else None


def _board(root: Path) -> list[tuple[str, str]]:
    """Return the name of the machine: from the device tree on Arm, from the firmware elsewhere."""
    board = line(root / "proc/device-tree/model") or line(
        root / "sys/firmware/devicetree/base/model"
    )
    product = line(root / "sys/class/dmi/id/product_name")
    facts = [("board", board), ("product", product)]
    return [(key, value) for key, value in facts if value]
