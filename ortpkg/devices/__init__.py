"""Hardware of a machine.

Public are ``probe``, ``read_profile`` and the values that they return.

Other folders may import: ``architecture``, ``hardware``, ``implied_device_types``, ``json_form``,
``machine``, ``machine_probe``, ``pci_vendors``, ``profiles``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortpkg.public_names import MODULE_OF_DEVICES_NAME, devices_object

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


def __getattr__(name: str) -> Any:
    value = devices_object(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(MODULE_OF_DEVICES_NAME)
