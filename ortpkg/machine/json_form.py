"""JSON objects of devices and machines, with the same keys wherever they are printed or stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice


def hardware_device_to_json(device: HardwareDevice) -> dict[str, Any]:
    """Return the lasting facts of a device, which can be part of a fingerprint.

    ``type`` is lower case; a null is "unknown"; PCI numbers are integers, 0 if unknown.
    """
    return {
        "type": device.type.value,
        "name": device.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "is_discrete": device.is_discrete,
        "memory_nbytes": device.memory_nbytes,
        "architecture": device.architecture,
        "metadata": _sorted(device.metadata),
        "source": device.source,
    }


def hardware_device_from_json(body: Mapping[str, Any]) -> HardwareDevice:
    """Return the device from another process's :func:`hardware_device_to_json`."""
    return HardwareDevice(**{**body, "type": DeviceType(body["type"])})


def known_facts_to_json(device: HardwareDevice) -> dict[str, Any]:
    """Return all facts of a device, with ``free_memory_nbytes`` and the source of each."""
    return {
        **hardware_device_to_json(device),
        "free_memory_nbytes": device.free_memory_nbytes,
        "fact_sources": _sorted(device.fact_sources),
    }


def ep_device_to_json(ep_device: EpDevice) -> dict[str, Any]:
    """Return an EP device; ``device`` is null if the execution provider reports no devices."""
    return {
        "ep": ep_device.ep_name,
        "ep_vendor": ep_device.ep_vendor,
        "ep_version": ep_device.ep_version,
        "backend": ep_device.backend,
        "device": None if ep_device.device is None else hardware_device_to_json(ep_device.device),
        "ep_metadata": _sorted(ep_device.ep_metadata),
        "ep_options": _sorted(ep_device.ep_options),
    }


def ep_device_from_json(body: Mapping[str, Any]) -> EpDevice:
    """Return the EP device from another process's :func:`ep_device_to_json`."""
    return EpDevice(
        ep_name=body["ep"],
        device=None if body["device"] is None else hardware_device_from_json(body["device"]),
        ep_vendor=body["ep_vendor"],
        ep_version=body["ep_version"],
        backend=body["backend"],
        ep_metadata=body["ep_metadata"],
        ep_options=body["ep_options"],
    )


def _sorted(items: Mapping[str, str]) -> dict[str, str]:
    return {key: items[key] for key in sorted(items)}
