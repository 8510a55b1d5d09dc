"""The name by which OpenVINO knows the device of a session; without loading OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.devices.hardware import EpDevice


def openvino_device(ep_devices: Sequence[EpDevice], options: Mapping[str, str]) -> str:
    """The option's device; for a mere type ("GPU") the EP device's exacter name ("GPU.1").

    Several EP devices are one virtual device, whose first takes what it can.
    """
    names = list(
        dict.fromkeys(filter(None, (each.ep_options.get("device_type", "") for each in ep_devices)))
    )
    offered = f"HETERO:{','.join(names)}" if len(names) > 1 else "".join(names)
    asked = options.get("device_type", "")
    if not asked or offered.partition(".")[0] == asked:
        return offered or "CPU"
    return asked
