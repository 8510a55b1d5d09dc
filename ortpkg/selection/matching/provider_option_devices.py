"""Device types that a variant's provider options ask for.

They are read from the options' texts; no device is asked. Sources: OpenVINO's ``device_type``
("NPU", "GPU.1", "AUTO", "HETERO:GPU,CPU", "MULTI:NPU,GPU", "BATCH:GPU", "AUTO:-CPU" for all but
one, and with a precision as old releases wrote it, "CPU_FP32"); QNN's ``backend_type`` ("cpu",
"gpu", "htp", which is the NPU).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ortpkg.foundations.ep_names import OPENVINO_EP, QNN_EP, stated_ep
from ortpkg.machine.hardware import DeviceType, EpDevice
from ortpkg.package.formats.variants import AlikeVariants
from ortpkg.package.package_info import VariantInfo

_DEVICE_OPTIONS: dict[str, str] = {OPENVINO_EP: "device_type", QNN_EP: "backend_type"}
_OPENVINO_DEVICE = re.compile(r"(CPU|GPU|NPU)(\.[0-9]+)*(\([0-9]+\))?(_FP32|_FP16|_U8)?")
_ORDINAL = re.compile(r"(?:CPU|GPU|NPU)\.[0-9]+", re.IGNORECASE)
_OPENVINO_MODES = ("AUTO", "HETERO", "MULTI", "BATCH")
_QNN_BACKENDS = {"cpu": DeviceType.CPU, "gpu": DeviceType.GPU, "htp": DeviceType.NPU}


def device_option_of(variant: VariantInfo | AlikeVariants) -> tuple[str, str] | None:
    """Return the provider option that names device types, as (key, value); None if there is none.

    Without an ``ep`` constraint both keys count, because the option itself implies the EP.
    """
    ep = stated_ep(variant.constraints.ep)
    return _device_option_in(variant.provider_options, ep)


def wished_device_option(
    options_by_ep: Mapping[str, Mapping[str, str]], ep_device: EpDevice
) -> tuple[str, str] | None:
    """Return the same among the caller's options (EP → options) for the EP of ``ep_device``."""
    options = options_by_ep.get(ep_device.ep_name)
    return None if options is None else _device_option_in(options, ep_device.ep_name)


def names_other_ordinal(key: str, value: str, ep_device: EpDevice) -> bool:
    """Return True if the option names another device by number, or excludes this one.

    Examples are "GPU.1" and "AUTO:-GPU.1". A device without a number is the first of its type.
    """
    device = ep_device.ep_options.get(key, "").upper()
    if not device:
        return False
    numbered = device if "." in device else f"{device}.0"
    if _ORDINAL.fullmatch(value):
        return value.upper() != numbered
    return f"-{numbered}" in _listed(value)


def ep_of_option(key: str) -> str | None:
    """Return the EP whose option names device types under this key; None for another key."""
    return next((ep_name for ep_name, option in _DEVICE_OPTIONS.items() if option == key), None)


def _device_option_in(options: Mapping[str, Any], ep: str | None) -> tuple[str, str] | None:
    for ep_name, key in _DEVICE_OPTIONS.items():
        if (ep is None or ep == ep_name) and key in options:
            return key, str(options[key])
    return None


def named_device_types(key: str, value: str) -> frozenset[DeviceType] | None:
    """Return the device types that the option allows; None if it allows any, or is not understood.

    A list allows the types that it names, or else all types except those that it excludes
    ("AUTO:-CPU"). A device that is excluded by its number leaves others of its type.

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
    """Return names in OpenVINO's ``device_type`` that are neither its devices nor its modes."""
    modes = [mode.strip() for mode in value.upper().split(":")[:-1]]
    unknown = [mode for mode in modes if mode not in _OPENVINO_MODES]
    for text in _listed(value):
        name = text.removeprefix("-") if modes else text
        if name and name not in _OPENVINO_MODES and not _OPENVINO_DEVICE.fullmatch(name):
            unknown.append(name)
    return unknown


def _listed(value: str) -> list[str]:
    """Return the devices of an OpenVINO list; excluded ones begin with "-"."""
    return [text.strip() for text in value.upper().rpartition(":")[2].split(",")]
