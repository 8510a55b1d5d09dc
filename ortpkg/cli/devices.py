"""``ortpkg devices``: what this machine has, and what execution providers offer on it."""

from __future__ import annotations

from ortpkg.cli.parameters import JsonOption
from ortpkg.cli.rendering import Column, Output, nbytes_text
from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.devices.json_form import ep_device_to_json, hardware_device_to_json
from ortpkg.errors import ExitCode
from ortpkg.selection.machine import this_machine


def command(as_json: JsonOption = False) -> int:
    """Show the machine's devices, and the execution providers that can use them."""
    output = Output(is_json=as_json)
    offer = this_machine()
    if as_json:
        output.json(
            "devices",
            {
                "os": offer.machine.os,
                "os_version": offer.machine.os_version,
                "hardware": [hardware_device_to_json(device) for device in offer.hardware],
                "ep_devices": [ep_device_to_json(ep_device) for ep_device in offer.ep_devices],
                "notes": [*offer.machine.notes, *offer.notes],
            },
        )
        return ExitCode.DONE
    output.table(
        [Column("device"), Column("name"), Column("architecture"), Column("memory", is_numeric=True), Column("source")],
        [_hardware_row(device) for device in offer.hardware],
        title="Hardware",
    )
    output.table(
        [Column("execution provider"), Column("backend"), Column("version"), Column("device"), Column("name")],
        [_ep_device_row(ep_device) for ep_device in offer.ep_devices],
        title="Execution providers",
    )
    for note in (*offer.machine.notes, *offer.notes):
        output.note(f"note: {note}")
    return ExitCode.DONE


def _hardware_row(device: HardwareDevice) -> tuple[str, ...]:
    memory = "unknown" if device.memory_nbytes is None else nbytes_text(device.memory_nbytes)
    kind = device.type.value
    if device.is_discrete is not None:
        kind += " (discrete)" if device.is_discrete else " (integrated)"
    return kind, device.name or "unknown", device.architecture or "unknown", memory, device.source


def _ep_device_row(ep_device: EpDevice) -> tuple[str, ...]:
    device = ep_device.device
    kind, name = (device.type.value, device.name) if device is not None else ("not reported", "")
    return ep_device.ep_name, ep_device.backend, ep_device.ep_version or "unknown", kind, name
