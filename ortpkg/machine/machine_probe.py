"""Probe a machine: CPU, GPUs and NPUs as the operating system knows them.

Loads no driver and no backend.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ortpkg.machine.architecture import with_host_architecture
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.machine import Machine


def probe(root: Path | str = "/") -> Machine:
    """Probe this machine. Never raises: unknown facts are None, or a note.

    The free memory of NVIDIA's GPUs is left open, because only their tool reports it, slowly; see
    :func:`with_free_memory`.

    Args:
        root: a directory tree to read instead of this machine's ``/sys`` and ``/proc``, in Linux's
            layout. Such a tree is read on every platform; its CPU's microarchitecture is unknown,
            because archspec knows only this machine.
    """
    if Path(root) != Path("/"):
        from ortpkg.machine.linux import probe_linux  # each platform loads its own module only

        return probe_linux(Path(root))
    machine = _probe_this_platform()
    hardware = tuple(
        with_host_architecture(device) if device.type is DeviceType.CPU else device
        for device in machine.hardware
    )
    return replace(machine, hardware=_with_tools(hardware))


def with_free_memory(machine: Machine) -> Machine:
    """Return ``machine`` (this one, as probed) with the free memory of its devices.

    Devices that do not report it are unchanged. May take seconds.
    """
    from ortpkg.machine.nvidia_smi import with_free_nvidia_memory  # imported only on demand

    return replace(machine, hardware=with_free_nvidia_memory(machine.hardware))


def _with_tools(hardware: Sequence[HardwareDevice]) -> tuple[HardwareDevice, ...]:
    if all(device.vendor != "NVIDIA" for device in hardware):
        return tuple(hardware)
    from ortpkg.machine.nvidia_smi import (
        with_nvidia_facts,
    )  # imported only on machines with such a GPU

    return with_nvidia_facts(hardware)


def _probe_this_platform() -> Machine:
    if sys.platform == "win32":
        from ortpkg.machine.windows import probe_windows  # each platform loads its own module only

        return probe_windows()
    if sys.platform == "darwin":
        from ortpkg.machine.macos import probe_macos  # each platform loads its own module only

        return probe_macos()
    from ortpkg.machine.linux import probe_linux  # each platform loads its own module only

    return probe_linux(Path("/"))
