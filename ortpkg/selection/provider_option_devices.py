"""Which device types a variant's provider options ask for (requirement K09). Text in, types out.

Sources: OpenVINO's ``device_type`` ("NPU", "GPU.1", "AUTO", "HETERO:GPU,CPU", "MULTI:NPU,GPU", "BATCH:GPU", and with a
precision as old releases wrote it, "CPU_FP32"); QNN's ``backend_type`` ("cpu", "gpu", "htp", where htp is the NPU).
"""

from __future__ import annotations

import re

from ortpkg.devices.hardware import DeviceType
from ortpkg.ep_names import OPENVINO_EP, QNN_EP, stated_ep
from ortpkg.package.package_info import VariantInfo
from ortpkg.package.variants import Alike

_DEVICE_OPTIONS: dict[str, str] = {OPENVINO_EP: "device_type", QNN_EP: "backend_type"}
_OPENVINO_DEVICE = re.compile(r"(CPU|GPU|NPU)(\.[0-9]+)*(\([0-9]+\))?(_FP32|_FP16|_U8)?")
_QNN_BACKENDS = {"cpu": DeviceType.CPU, "gpu": DeviceType.GPU, "htp": DeviceType.NPU}


def device_option_of(variant: VariantInfo | Alike) -> tuple[str, str] | None:
    """The provider option that names device types, as (key, value); None where the variant has none.

    Without an ``ep`` constraint both keys count, because the option itself tells the EP.
    """
    ep = stated_ep(variant.constraints.ep)
    for ep_name, key in _DEVICE_OPTIONS.items():
        if (ep is None or ep == ep_name) and key in variant.provider_options:
            return key, str(variant.provider_options[key])
    return None


def named_device_types(key: str, value: str) -> frozenset[DeviceType] | None:
    """The device types that the option allows; None where it leaves the choice open, or says nothing that is known.

    >>> sorted(named_device_types("device_type", "HETERO:GPU.1,CPU") or ())
    [<DeviceType.CPU: 'cpu'>, <DeviceType.GPU: 'gpu'>]
    """
    if key == "backend_type":
        backend = _QNN_BACKENDS.get(value.strip().lower())
        return None if backend is None else frozenset({backend})
    mode, _, listed = value.strip().upper().rpartition(":")
    if mode not in {"", "AUTO", "HETERO", "MULTI", "BATCH"} or (not mode and listed in {"AUTO", "HETERO", "MULTI"}):
        return None
    found = set()
    for text in listed.split(","):
        device = _OPENVINO_DEVICE.fullmatch(text.strip().removeprefix("-"))
        # "AUTO:-CPU" excludes a device: what remains is open.
        if device is None or text.strip().startswith("-"):
            return None
        found.add(DeviceType(device[1].lower()))
    return frozenset(found)
