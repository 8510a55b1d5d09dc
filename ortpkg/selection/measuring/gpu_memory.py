"""GPU memory that a process holds, as far as the system reports it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_NVIDIA_TIMEOUT_S = 5.0
_FACTORS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def gpu_memory_nbytes(pid: int, *, proc: Path = Path("/proc")) -> int | None:
    """Return the GPU memory that a process holds now, in bytes; None if unknown.

    Sources: the kernel's ``drm-resident-*`` (older: ``drm-memory-*``) of each open device ("DRM
    client usage stats"), for memory that is not the machine's; ``nvidia-smi`` for NVIDIA's driver,
    which has no such entries.
    """
    amounts = [
        nbytes
        for nbytes in (_drm_nbytes(proc / str(pid) / "fdinfo"), _nvidia_nbytes(pid))
        if nbytes is not None
    ]
    return sum(amounts) if amounts else None


def _drm_nbytes(fdinfo: Path) -> int | None:
    clients: dict[tuple[str, str], int] = {}
    try:
        entries = sorted(fdinfo.iterdir())
    except OSError:
        return None
    for entry in entries:
        try:
            pairs = [line.partition(":") for line in entry.read_text(errors="replace").splitlines()]
        except OSError:
            continue
        facts = {key.strip(): value.strip() for key, _, value in pairs}
        if "drm-client-id" in facts:
            # Several descriptors of one client report the same memory.
            clients[facts.get("drm-pdev", ""), facts["drm-client-id"]] = _device_nbytes(facts)
    return sum(clients.values()) if clients else None


def _device_nbytes(facts: dict[str, str]) -> int:
    for prefix in ("drm-resident-", "drm-memory-"):
        regions = {key: value for key, value in facts.items() if key.startswith(prefix)}
        if regions:
            amounts = (
                value
                for key, value in regions.items()
                if key.removeprefix(prefix).startswith(("vram", "local"))
            )
            return sum(map(_nbytes, amounts))
    return 0


def _nbytes(text: str) -> int:
    amount, _, unit = text.partition(" ")
    return int(amount) * _FACTORS.get(unit.strip(), 0) if amount.isdigit() else 0


def _nvidia_nbytes(pid: int) -> int | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=_NVIDIA_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_nvidia_processes(done.stdout, pid)


def parse_nvidia_processes(text: str, pid: int) -> int | None:
    """Return the bytes that ``pid`` holds by nvidia-smi's list of "pid, MiB" lines.

    None if the process is not in the list.
    """
    rows = [line.split(",") for line in text.splitlines()]
    texts = [row[1].strip() for row in rows if len(row) == 2 and row[0].strip() == str(pid)]
    amounts = [int(text) for text in texts if text.isdigit()]  # "[N/A]" inside containers
    return sum(amounts) << 20 if amounts else None
