"""Hardware of a machine, and the policies by which its devices are preferred.

Hardware is read from files of the system, without loading a driver, or from a profile of another
machine. Public, as ``ortpkg.devices``, are ``probe``, ``read_profile`` and the values that they
return.

Other folders may import: ``architecture``, ``hardware``, ``implied_device_types``, ``json_form``,
``machine``, ``machine_probe``, ``pci_vendors``, ``policies``, ``profiles``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortpkg.foundations.public_names import MODULE_OF_DEVICES_NAME, devices_object

if TYPE_CHECKING:
    from ortpkg.machine.hardware import DeviceType as DeviceType
    from ortpkg.machine.hardware import EpDevice as EpDevice
    from ortpkg.machine.hardware import HardwareDevice as HardwareDevice
    from ortpkg.machine.machine import Machine as Machine
    from ortpkg.machine.machine_probe import probe as probe
    from ortpkg.machine.machine_probe import with_free_memory as with_free_memory
    from ortpkg.machine.profiles import BUILT_IN_PROFILES as BUILT_IN_PROFILES
    from ortpkg.machine.profiles import MachineProfile as MachineProfile
    from ortpkg.machine.profiles import profile_to_json as profile_to_json
    from ortpkg.machine.profiles import read_profile as read_profile


def __getattr__(name: str) -> Any:
    value = devices_object(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(MODULE_OF_DEVICES_NAME)
