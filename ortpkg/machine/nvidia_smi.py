"""Facts that only NVIDIA's own tool reports: memory, free memory, compute capability of GPUs.

``nvidia-smi --query-gpu`` runs as a process of its own with a time limit, so that a driver that
hangs or crashes does no harm. Source: ``nvidia-smi --help-query-gpu``. The tool is looked up where
drivers install it, never on PATH.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ortpkg.foundations.storage.fact_cache import read_fact, write_fact
from ortpkg.machine.hardware import HardwareDevice
from ortpkg.machine.pci_vendors import NVIDIA
from ortpkg.machine.system_command import output_of

_QUERY = "pci.bus_id,memory.total,memory.free,compute_cap,driver_version"
_TIMEOUT_S = 10.0
_SOURCE = "nvidia-smi"
#: NVIDIA's own driver on Linux and on Windows.
_DRIVERS = frozenset({"nvidia", "nvlddmkm"})

Ask = Callable[[], str | None]


def ask_nvidia_smi() -> str | None:
    """Return the tool's output; None if it is not installed, fails or hangs."""
    tool = next((path for path in _tool_paths() if Path(path).is_file()), None)
    if tool is None:
        return None
    return output_of(
        [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"], timeout_s=_TIMEOUT_S
    )


def with_nvidia_facts(
    hardware: Sequence[HardwareDevice], ask: Ask = ask_nvidia_smi
) -> tuple[HardwareDevice, ...]:
    """Return ``hardware`` of this machine with its NVIDIA GPUs' memory and architecture.

    The tool runs only if a GPU has NVIDIA's driver, and once per driver version.
    """
    gpus = [device for device in hardware if _can_be_asked(device)]
    if not gpus:
        return tuple(hardware)
    key = {
        "gpus": [[_address(gpu), gpu.name, gpu.metadata.get("driver_version", "")] for gpu in gpus]
    }
    rows = read_fact("nvidia_smi", key)
    if not _is_rows(rows):
        answer = ask()
        rows = None if answer is None else parse_rows(answer)
        if rows:
            write_fact(
                "nvidia_smi",
                key,
                [[address, total, None, arch, v] for address, total, _, arch, v in rows],
            )
    return _filled(hardware, rows or [])


def with_free_nvidia_memory(
    hardware: Sequence[HardwareDevice], ask: Ask = ask_nvidia_smi
) -> tuple[HardwareDevice, ...]:
    """Return ``hardware`` with the free memory of its NVIDIA GPUs.

    Runs the tool each time, if there is such a GPU.
    """
    if not any(_can_be_asked(device) for device in hardware):
        return tuple(hardware)
    answer = ask()
    return tuple(hardware) if answer is None else _filled(hardware, parse_rows(answer))


Row = list[str | int | None]


def parse_rows(answer: str) -> list[Row]:
    """Return one row per GPU.

    A row is [PCI address as in sysfs, all bytes, free bytes, architecture, driver version].
    """
    rows: list[Row] = []
    for text in answer.splitlines():
        cells = [cell.strip() for cell in text.split(",")]
        address = re.fullmatch(
            r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])", cells[0]
        )
        if address is None or len(cells) != 5:
            continue
        capability = re.fullmatch(r"(\d{1,2})\.(\d)", cells[3])
        rows.append(
            [
                f"{int(address[1], 16):04x}:{address[2].lower()}",
                _mebibytes(cells[1]),
                _mebibytes(cells[2]),
                f"sm_{capability[1]}{capability[2]}" if capability else None,
                cells[4] if re.fullmatch(r"[0-9.]{1,20}", cells[4]) else None,
            ]
        )
    return rows


def _filled(hardware: Sequence[HardwareDevice], rows: Sequence[Row]) -> tuple[HardwareDevice, ...]:
    by_address = {row[0]: row for row in rows}
    return tuple(
        _with_row(device, by_address[_address(device)])
        if _can_be_asked(device) and _address(device) in by_address
        else device
        for device in hardware
    )


def _with_row(device: HardwareDevice, row: Row) -> HardwareDevice:
    _, total, free, architecture, _ = row
    facts = {"memory_nbytes": total, "free_memory_nbytes": free, "architecture": architecture}
    known_facts = {name: value for name, value in facts.items() if value is not None}
    sources = {**device.fact_sources, **dict.fromkeys(known_facts, _SOURCE)}
    return replace(device, **known_facts, fact_sources=sources)  # type: ignore[arg-type]  # parse_rows made them


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, list) and len(row) == 5 for row in value)


def _can_be_asked(device: HardwareDevice) -> bool:
    return (
        device.vendor_id == NVIDIA
        and device.metadata.get("driver") in _DRIVERS
        and bool(_address(device))
    )


def _address(device: HardwareDevice) -> str:
    return device.metadata.get("pci_address", "")


def _mebibytes(text: str) -> int | None:
    return int(text) << 20 if re.fullmatch(r"[0-9]{1,9}", text) else None


def _tool_paths() -> tuple[str, ...]:
    if sys.platform == "win32":
        windows = os.environ.get("SYSTEMROOT", r"C:\Windows")
        return (os.path.join(windows, "System32", "nvidia-smi.exe"),)  # noqa: PTH118
    return (
        "/usr/bin/nvidia-smi",
        "/usr/local/bin/nvidia-smi",
        "/run/current-system/sw/bin/nvidia-smi",
        "/usr/local/nvidia/bin/nvidia-smi",  # where clusters mount the driver into containers
        "/usr/lib/wsl/lib/nvidia-smi",
    )
