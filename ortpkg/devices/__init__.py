"""What hardware a machine has.

Public are ``probe``, ``read_profile`` and the values that they return.

For others: ``architecture``, ``hardware``, ``implied_device_types``, ``json_form``, ``labels``,
``machine``, ``machine_probe``, ``pci_vendors``, ``profiles``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortpkg.devices.hardware import DeviceType as DeviceType
    from ortpkg.devices.hardware import EpDevice as EpDevice
    from ortpkg.devices.hardware import HardwareDevice as HardwareDevice
    from ortpkg.devices.machine import Machine as Machine
    from ortpkg.devices.machine_probe import probe as probe
    from ortpkg.devices.machine_probe import with_free_memory as with_free_memory
    from ortpkg.devices.profiles import BUILT_IN_PROFILES as BUILT_IN_PROFILES
    from ortpkg.devices.profiles import MachineProfile as MachineProfile
    from ortpkg.devices.profiles import profile_to_json as profile_to_json
    from ortpkg.devices.profiles import read_profile as read_profile

#: Public name → the module that has it; loaded on first use, so that looking at names costs
#: nothing.
_LAZY = {
    "BUILT_IN_PROFILES": "ortpkg.devices.profiles",
    "DeviceType": "ortpkg.devices.hardware",
    "EpDevice": "ortpkg.devices.hardware",
    "HardwareDevice": "ortpkg.devices.hardware",
    "Machine": "ortpkg.devices.machine",
    "MachineProfile": "ortpkg.devices.profiles",
    "probe": "ortpkg.devices.machine_probe",
    "profile_to_json": "ortpkg.devices.profiles",
    "read_profile": "ortpkg.devices.profiles",
    "with_free_memory": "ortpkg.devices.machine_probe",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ortpkg.devices' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_LAZY)
