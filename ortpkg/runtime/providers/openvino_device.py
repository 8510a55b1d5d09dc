"""Name by which OpenVINO knows the device of a session; OpenVINO is not loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.machine.hardware import EpDevice


def openvino_device(ep_devices: Sequence[EpDevice], options: Mapping[str, str]) -> str:
    """Return the option's device; for a mere type ("GPU") the EP device's exacter name ("GPU.1").

    Several EP devices are one virtual device, whose first takes what it can.
    """
    names = list(
        dict.fromkeys(
            filter(None, (ep_device.ep_options.get("device_type", "") for ep_device in ep_devices))
        )
    )
    offered = f"HETERO:{','.join(names)}" if len(names) > 1 else "".join(names)
    requested = options.get("device_type", "")
    if not requested or offered.partition(".")[0] == requested:
        return offered or "CPU"
    return requested
