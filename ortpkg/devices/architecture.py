"""CPU microarchitectures: this machine's (by archspec), and which of them run whose code.

archspec is asked for the running machine only; its import takes as long as the rest of a probe, so
that its answer is kept in the fact cache, keyed by what it depends on.
"""

from __future__ import annotations

import platform
from dataclasses import replace
from functools import cache

from ortpkg.devices.hardware import HardwareDevice
from ortpkg.storage.fact_cache import read_fact, write_fact


def with_host_architecture(cpu: HardwareDevice) -> HardwareDevice:
    """``cpu`` (a CPU of the running machine) with its microarchitecture.

    Unchanged where archspec does not know it.
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
    """The microarchitecture of this machine's CPU.

    The family ("x86_64") where archspec does not know it.
    """
    return _ask_archspec() or platform.machine().lower()


def runs_code_for(device_architecture: str, wanted: str) -> bool | None:
    """Whether a device of one architecture runs what was made for ``wanted``.

    None where their relation is unknown.

    Equal names always do (case does not matter); for CPUs archspec's partial order decides, in
    which a microarchitecture runs whatever its ancestors run.
    """
    device, constraint = device_architecture.lower(), wanted.lower()
    if device == constraint:
        return True
    from archspec.cpu import TARGETS  # 20 ms; only where an architecture is to be checked

    if device not in TARGETS or constraint not in TARGETS:
        return None
    return bool(TARGETS[device] >= TARGETS[constraint])


def architecture_distance(device_architecture: str, wanted: str) -> int | None:
    """How many generations ``wanted`` is behind the device's own architecture; 0 for the same.

    None where the device does not run it, or where that is unknown.
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
        import archspec.cpu  # 20 ms; only where the cache does not know

        return str(archspec.cpu.host().name)
    except Exception:  # noqa: BLE001 - archspec runs foreign tools on some systems; no answer is an answer here
        return None
