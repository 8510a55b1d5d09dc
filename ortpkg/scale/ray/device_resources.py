"""Devices of a machine as Ray resources: GPUs by Ray's own name, NPUs as a custom resource."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from ortpkg.machine.hardware import DeviceType, EpDevice

#: Ray's name of each device type.
NAMES = {DeviceType.GPU: "GPU", DeviceType.NPU: "NPU"}


def device_resources(ep_devices: Sequence[EpDevice]) -> dict[str, int]:
    """Return the number of devices that execution providers can use, by Ray's names.

    Several execution providers may offer the same device under different names; the one that offers
    most counts.
    """
    counts: dict[str, int] = {}
    for kind, name in NAMES.items():
        offered = Counter(
            (ep_device.ep_name, ep_device.backend)
            for ep_device in ep_devices
            if ep_device.device is not None and ep_device.device.type is kind
        )
        if offered:
            counts[name] = max(offered.values())
    return counts


def ray_start_options(resources: dict[str, int]) -> str:
    """Return the options of ``ray start`` with which workers can ask for the machine's devices."""
    custom = {name: count for name, count in resources.items() if name != "GPU"}
    return f"--num-gpus={resources.get('GPU', 0)} --resources='{json.dumps(custom)}'"
