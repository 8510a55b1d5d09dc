"""Probe of a Mac: ``sysctl`` for the CPU, ``system_profiler -json`` for the GPUs.

Sources: sysctl(3) for the names; ``system_profiler -json SPDisplaysDataType`` for the keys
``sppci_*`` and ``spdisplays_*``; vm_stat(1) for free pages; ioreg(8) for the Neural Engine's
driver. Every Mac with Apple silicon has a Neural Engine: if ioreg does not show it, it is inferred
from ``hw.optional.arm64``, and its source says so. Parsers take text, so that tests run anywhere.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.pci_vendors import vendor_name
from ortpkg.machine.system_command import output_of

_SYSCTL_NAMES = (
    "hw.logicalcpu",
    "hw.physicalcpu",
    "hw.memsize",
    "hw.optional.arm64",
    "kern.osproductversion",
    "machdep.cpu.brand_string",
    "machdep.cpu.vendor",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)
_TIMEOUT_S = 10.0
_APPLE = 0x106B


def probe_macos() -> Machine:
    """Ask the system's tools (about 0.3 s); unanswered facts are left out and noted."""
    # -i ignores names that this kind of Mac does not have.
    sysctl = output_of(["/usr/sbin/sysctl", "-i", *_SYSCTL_NAMES], timeout_s=_TIMEOUT_S)
    displays = output_of(
        ["/usr/sbin/system_profiler", "-json", "SPDisplaysDataType"], timeout_s=_TIMEOUT_S
    )
    pages = output_of(["/usr/bin/vm_stat"], timeout_s=_TIMEOUT_S)
    engine = output_of(["/usr/sbin/ioreg", "-r", "-d", "1", "-c", "H11ANEIn"], timeout_s=_TIMEOUT_S)
    return parse_macos(sysctl, displays, pages=pages, engine=engine)


def parse_macos(
    sysctl: str | None, displays: str | None, *, pages: str | None = None, engine: str | None = None
) -> Machine:
    """Return a machine from the output of sysctl, system_profiler, vm_stat and ioreg.

    None stands for a tool that did not answer.
    """
    facts = dict(re.findall(r"^([\w.]+): (.*)$", sysctl or "", re.MULTILINE))
    is_apple_silicon = facts.get("hw.optional.arm64") == "1"
    hardware = [_cpu(facts, is_apple_silicon=is_apple_silicon, free_nbytes=_free_nbytes(pages))]
    notes = [] if sysctl else ["sysctl did not answer: the CPU's facts are unknown"]
    gpus = _gpus(displays, memory_nbytes=_integer(facts.get("hw.memsize")))
    if gpus is None:
        notes.append("system_profiler did not answer: GPUs are unknown")
    hardware += gpus or []
    if is_apple_silicon:
        hardware.append(
            HardwareDevice(
                type=DeviceType.NPU,
                name="Apple Neural Engine",
                vendor="Apple",
                vendor_id=_APPLE,
                source="ioreg" if "H11ANE" in (engine or "") else "concluded from Apple silicon",
            )
        )
    version = facts.get("kern.osproductversion")
    return Machine(os="macos", os_version=version, hardware=tuple(hardware), notes=tuple(notes))


def _free_nbytes(pages: str | None) -> int | None:
    """Return the bytes that vm_stat counts as free or reclaimable; None if it does not say."""
    size = re.search(r"page size of (\d{1,7}) bytes", pages or "")
    counts = dict(re.findall(r"^Pages ([a-z]+): +(\d{1,15})\.$", pages or "", re.MULTILINE))
    if size is None or "free" not in counts:
        return None
    return int(size[1]) * sum(
        int(counts.get(kind, 0)) for kind in ("free", "inactive", "speculative", "purgeable")
    )


def _cpu(
    facts: dict[str, str], *, is_apple_silicon: bool, free_nbytes: int | None
) -> HardwareDevice:
    vendor = (
        "Apple"
        if is_apple_silicon
        else {"GenuineIntel": "Intel"}.get(facts.get("machdep.cpu.vendor", ""), "")
    )
    features = " ".join(
        facts.get(name, "") for name in ("machdep.cpu.features", "machdep.cpu.leaf7_features")
    )
    metadata = {
        "logical_cores": facts.get("hw.logicalcpu", ""),
        "physical_cores": facts.get("hw.physicalcpu", ""),
        "instruction_sets": features.lower().strip(),
    }
    return HardwareDevice(
        type=DeviceType.CPU,
        name=facts.get("machdep.cpu.brand_string", ""),
        vendor=vendor,
        vendor_id=_APPLE if is_apple_silicon else (0x8086 if vendor == "Intel" else 0),
        memory_nbytes=_integer(facts.get("hw.memsize")),
        free_memory_nbytes=free_nbytes,
        metadata={key: value for key, value in metadata.items() if value},
        source="sysctl",
        fact_sources={} if free_nbytes is None else {"free_memory_nbytes": "vm_stat"},
    )


def _gpus(displays: str | None, *, memory_nbytes: int | None) -> list[HardwareDevice] | None:
    try:
        entries = json.loads(displays or "")["SPDisplaysDataType"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(entries, list):
        return None
    return [_gpu(entry, memory_nbytes) for entry in entries if isinstance(entry, dict)]


def _gpu(entry: dict[str, Any], machine_memory_nbytes: int | None) -> HardwareDevice:
    vendor_text = str(entry.get("spdisplays_vendor", ""))
    numbered = re.search(r"0x([0-9a-fA-F]{4})", vendor_text)
    vendor_id = (
        int(numbered[1], 16) if numbered else (_APPLE if "apple" in vendor_text.lower() else 0)
    )
    device_text = re.fullmatch(r"0x([0-9a-fA-F]{4})", str(entry.get("spdisplays_device-id", "")))
    is_discrete = None if "sppci_bus" not in entry else entry["sppci_bus"] != "spdisplays_builtin"
    memory = _mebibytes(entry.get("spdisplays_vram"))
    if memory is None and vendor_id == _APPLE:
        memory = machine_memory_nbytes  # one memory for CPU and GPU
    return HardwareDevice(
        type=DeviceType.GPU,
        name=str(entry.get("sppci_model", entry.get("_name", ""))),
        vendor=vendor_name(vendor_id),
        vendor_id=vendor_id,
        device_id=int(device_text[1], 16) if device_text else 0,
        is_discrete=is_discrete,
        memory_nbytes=memory,
        metadata=_gpu_facts(entry),
        source="system_profiler",
    )


def _gpu_facts(entry: dict[str, Any]) -> dict[str, str]:
    """Return the number of cores, and the Metal version of the driver ("spdisplays_metal3")."""
    metal = re.fullmatch(
        r"spdisplays_metal(\d{0,2})", str(entry.get("spdisplays_mtlgpufamilysupport", ""))
    )
    return {
        **({"cores": str(entry["sppci_cores"])} if "sppci_cores" in entry else {}),
        **({"metal": metal[1] or "1"} if metal else {}),
    }


def _mebibytes(text: object) -> int | None:
    match = re.fullmatch(r"([0-9]{1,9}) (MB|GB)", str(text))
    return int(match[1]) * (1 << (20 if match[2] == "MB" else 30)) if match else None


def _integer(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else None
