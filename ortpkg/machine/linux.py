"""Probe of a Linux machine's CPU, GPUs and NPUs, from sysfs and procfs.

Nothing is executed or loaded. Every path is under ``root``, so that a test can pass a tree. What
cannot be read is None, never an error.
"""

from __future__ import annotations

from pathlib import Path

from ortpkg.machine.linux_cpu import probe_cpu
from ortpkg.machine.linux_files import exists, line
from ortpkg.machine.linux_pci import probe_pci
from ortpkg.machine.linux_platform import probe_platform
from ortpkg.machine.machine import Machine


def probe_linux(root: Path) -> Machine:
    """Read the machine under ``root`` ("/" for this one).

    Takes a few milliseconds; raises nothing.
    """
    pci = probe_pci(root)
    gpus, npus, notes = probe_platform(root)
    if not exists(root / "sys/bus"):
        notes.append(
            "/sys shows no bus, as in some containers: GPUs and NPUs may be there and not be seen"
        )
    return Machine(
        os="linux",
        os_version=line(root / "proc/sys/kernel/osrelease"),
        hardware=(probe_cpu(root), *pci.gpus, *gpus, *pci.npus, *npus),
        notes=tuple(dict.fromkeys([*pci.notes, *notes])),
    )
