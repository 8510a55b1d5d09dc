"""Devices of a machine as Ray counts them: GPUs by its own name, NPUs as a custom resource."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from ortpkg.devices.hardware import DeviceType, EpDevice

#: Device type → Ray's name.
NAMES = {DeviceType.GPU: "GPU", DeviceType.NPU: "NPU"}


def device_resources(ep_devices: Sequence[EpDevice]) -> dict[str, int]:
    """Ray's name → how many there are, of what execution providers can use.

    Several execution providers may offer the same device, each under a name of its own: what counts
    is the one that offers most.
    """
    found: dict[str, int] = {}
    for kind, name in NAMES.items():
        offered = Counter(
            (each.ep_name, each.backend)
            for each in ep_devices
            if each.device is not None and each.device.type is kind
        )
        if offered:
            found[name] = max(offered.values())
    return found


def ray_start_options(resources: dict[str, int]) -> str:
    """What ``ray start`` on that machine takes, so that workers can ask for its devices."""
    custom = {name: count for name, count in resources.items() if name != "GPU"}
    return f"--num-gpus={resources.get('GPU', 0)} --resources='{json.dumps(custom)}'"
