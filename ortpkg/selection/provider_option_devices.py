"""Which device types a variant's provider options ask for.

The options' texts tell; no device is asked. Sources: OpenVINO's ``device_type`` ("NPU", "GPU.1",
"AUTO", "HETERO:GPU,CPU", "MULTI:NPU,GPU", "BATCH:GPU", "AUTO:-CPU" for all but one, and with a
precision as old releases wrote it, "CPU_FP32"); QNN's ``backend_type`` ("cpu", "gpu", "htp", where
htp is the NPU).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ortpkg.devices.hardware import DeviceType, EpDevice
from ortpkg.ep_names import OPENVINO_EP, QNN_EP, stated_ep
from ortpkg.package.formats.variants import Alike
from ortpkg.package.package_info import VariantInfo

_DEVICE_OPTIONS: dict[str, str] = {OPENVINO_EP: "device_type", QNN_EP: "backend_type"}
_OPENVINO_DEVICE = re.compile(r"(CPU|GPU|NPU)(\.[0-9]+)*(\([0-9]+\))?(_FP32|_FP16|_U8)?")
_ORDINAL = re.compile(r"(?:CPU|GPU|NPU)\.[0-9]+", re.IGNORECASE)
_OPENVINO_MODES = ("AUTO", "HETERO", "MULTI", "BATCH")
_QNN_BACKENDS = {"cpu": DeviceType.CPU, "gpu": DeviceType.GPU, "htp": DeviceType.NPU}


def device_option_of(variant: VariantInfo | Alike) -> tuple[str, str] | None:
    """The provider option that names device types, as (key, value).

    None where the variant has none.

    Without an ``ep`` constraint both keys count, because the option itself tells the EP.
    """
    ep = stated_ep(variant.constraints.ep)
    return _device_option_in(variant.provider_options, ep)


def wished_device_option(
    wished: Mapping[str, Mapping[str, str]], ep_device: EpDevice
) -> tuple[str, str] | None:
    """The same of the options that the caller gives to the EP of ``ep_device`` (EP → options)."""
    options = wished.get(ep_device.ep_name)
    return None if options is None else _device_option_in(options, ep_device.ep_name)


def names_other_ordinal(key: str, value: str, ep_device: EpDevice) -> bool:
    """Whether the option names another device by number ("GPU.1") or excludes this ("AUTO:-GPU.1").

    A device without a number is the first of its type.
    """
    own = ep_device.ep_options.get(key, "").upper()
    if not own:
        return False
    numbered = own if "." in own else f"{own}.0"
    if _ORDINAL.fullmatch(value):
        return value.upper() != numbered
    return f"-{numbered}" in _listed(value)


def ep_of_option(key: str) -> str | None:
    """The EP whose option names device types under that key; None where it is no such key."""
    return next((ep_name for ep_name, own in _DEVICE_OPTIONS.items() if own == key), None)


def _device_option_in(options: Mapping[str, Any], ep: str | None) -> tuple[str, str] | None:
    for ep_name, key in _DEVICE_OPTIONS.items():
        if (ep is None or ep == ep_name) and key in options:
            return key, str(options[key])
    return None


def named_device_types(key: str, value: str) -> frozenset[DeviceType] | None:
    """The device types that the option allows.

    None where it leaves the choice open, or says nothing that is known.

    A list allows what it names, or else all types, but for those that it excludes ("AUTO:-CPU"). A
    device that is excluded by its number leaves others of its type.

    >>> sorted(named_device_types("device_type", "HETERO:GPU.1,CPU") or ())
    [<DeviceType.CPU: 'cpu'>, <DeviceType.GPU: 'gpu'>]
    """
    if key == "backend_type":
        backend = _QNN_BACKENDS.get(value.strip().lower())
        return None if backend is None else frozenset({backend})
    mode = value.upper().rpartition(":")[0].strip()
    named, excluded = set(), set()
    for text in _listed(value):
        device = _OPENVINO_DEVICE.fullmatch(text.removeprefix("-"))
        if (
            device is None
            or mode not in {"", *_OPENVINO_MODES}
            or (not mode and text.startswith("-"))
        ):
            return None
        kind = DeviceType(device[1].lower())
        if not text.startswith("-"):
            named.add(kind)
        elif device[2] is None:
            excluded.add(kind)
    return frozenset((named or set(DeviceType)) - excluded)


def unknown_devices(value: str) -> list[str]:
    """What OpenVINO's ``device_type`` names that is no device of it, nor a way to use several."""
    modes = [each.strip() for each in value.upper().split(":")[:-1]]
    found = [each for each in modes if each not in _OPENVINO_MODES]
    for text in _listed(value):
        name = text.removeprefix("-") if modes else text
        if name and name not in _OPENVINO_MODES and not _OPENVINO_DEVICE.fullmatch(name):
            found.append(name)
    return found


def _listed(value: str) -> list[str]:
    """The devices of a list, as OpenVINO writes them; those that it excludes begin with "-"."""
    return [text.strip() for text in value.upper().rpartition(":")[2].split(",")]
