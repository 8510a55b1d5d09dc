"""CPU microarchitectures: this machine's (by archspec), and which of them run whose code.

archspec is asked for the running machine only. Its import takes as long as the rest of a probe, so
the answer is stored in the fact cache, keyed by what it depends on.
"""

from __future__ import annotations

import platform
from dataclasses import replace
from functools import cache

from ortpkg.foundations.storage.fact_cache import read_fact, write_fact
from ortpkg.machine.hardware import HardwareDevice


def with_host_architecture(cpu: HardwareDevice) -> HardwareDevice:
    """Return ``cpu`` (a CPU of the running machine) with its microarchitecture.

    It is unchanged if archspec does not know it.
    """
    key = {
        "name": cpu.name,
        "vendor": cpu.vendor,
        "instruction_sets": cpu.metadata.get("instruction_sets", ""),
    }
    name = read_fact("microarchitecture", key)
    if not isinstance(name, str):
        name = _ask_archspec()
        if name is not None:
            write_fact("microarchitecture", key, name)
    if name is None:
        return cpu
    return replace(
        cpu, architecture=name, fact_sources={**cpu.fact_sources, "architecture": "archspec"}
    )


@cache
def host_architecture() -> str:
    """Return the microarchitecture of this machine's CPU.

    It is the family ("x86_64") if archspec does not know the CPU.
    """
    return _ask_archspec() or platform.machine().lower()


def runs_code_for(device_architecture: str, wanted: str) -> bool | None:
    """Return True if a device of one architecture runs code for ``wanted``; None if unknown.

    Equal names match (case does not matter). For CPUs archspec's partial order decides, in which a
    microarchitecture runs whatever its ancestors run.
    """
    device, constraint = device_architecture.lower(), wanted.lower()
    if device == constraint:
        return True
    from archspec.cpu import TARGETS  # takes 20 ms; imported only to check an architecture

    if device not in TARGETS or constraint not in TARGETS:
        return None
    return bool(TARGETS[device] >= TARGETS[constraint])


def architecture_distance(device_architecture: str, wanted: str) -> int | None:
    """Return the number of generations by which ``wanted`` is older than the device's architecture.

    0 for the same one; None if the device does not run it, or if that is unknown.
    """
    device, constraint = device_architecture.lower(), wanted.lower()
    if device == constraint:
        return 0
    if not runs_code_for(device, constraint):
        return None
    from archspec.cpu import TARGETS  # as above

    return max(1, len(TARGETS[device].ancestors) - len(TARGETS[constraint].ancestors))


def _ask_archspec() -> str | None:
    try:
        import archspec.cpu  # takes 20 ms; imported only if the cache has no answer

        return str(archspec.cpu.host().name)
    except Exception:  # noqa: BLE001 - archspec runs foreign tools on some systems; failing means unknown
        return None
