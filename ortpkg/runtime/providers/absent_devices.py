"""Devices that a library of an EP compiles for although this machine does not have them.

onnxruntime calls them virtual: a library that is registered under a name ending in ``.virtual`` may
list devices that the machine does not have. Models can be compiled for them, not run on them.

Source: "Cross-compilation with a plugin EP" (EP context design), ``onnxruntime_env_config_keys.h``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortpkg.foundations.ep_names import resolve_ep_name
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    NoSuitableVariantError,
    UsageError,
    quoted,
)
from ortpkg.foundations.isolation.backend_probe import ask_backend
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.profiles import BUILT_IN_PROFILES, read_profile
from ortpkg.runtime.providers.ep_discovery.ep_libraries import EpLibrary, ep_library_of
from ortpkg.runtime.providers.ep_discovery.library_refusals import (
    REFUSALS,
    refusal_of,
    refusal_sentence,
)
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.onnxruntime_factory import installed_distributions

_LIST_FUNCTION = "ortpkg.runtime.providers.onnxruntime_probe:list_absent_devices"
_RATE_FUNCTION = "ortpkg.runtime.providers.onnxruntime_probe:rate_for_absent_device"
#: Metadata about the library, not the device.
_OF_LIBRARY = frozenset({"library_path", "version", "supported_ops", "weightless_support"})
_TYPES = {device_type.value: device_type for device_type in DeviceType}


def absent_devices(library: EpLibrary) -> list[EpDevice]:
    """Return the absent devices that a library compiles for; a child process asks it.

    Raises:
        ExecutionProviderError: the library fails.
    """
    answer = ask_backend(
        _LIST_FUNCTION,
        library.arguments(),
        fingerprint=_fingerprint(library),
        refusals=REFUSALS,
    ).require(library.ep_name)
    if reason := refusal_of(answer):
        message = refusal_sentence(library.with_all_eps, reason)
        raise ExecutionProviderError(message, ep_name=library.ep_name)
    entries = answer if isinstance(answer, list) else []
    listed = [_ep_device(library, entry) for entry in entries if _is_device(entry)]
    return [
        ep_device
        for ep_device in listed
        if ep_device.device is not None and ep_device.device.is_absent
    ]


def find_absent_device(ep: str, wanted: str) -> EpDevice:
    """Return the one absent device that ``wanted`` describes.

    Args:
        ep: name or alias of the EP.
        wanted: a kind ("npu") and facts of the device (KEY=VALUE), separated by commas, or a
            machine profile with the device.

    Raises:
        NoSuitableVariantError: no such library, or no such device; the message lists devices.
        UsageError: several devices fit; the message lists them.
        ProfileError: the profile cannot be read.
    """
    name = resolve_ep_name(ep)
    library = ep_library_of(name)
    if library is None:
        raise NoSuitableVariantError(
            f"{name} compiles for no device that is not here: no library of it for onnxruntime is"
            " installed"
        )
    offered = absent_devices(library)
    if not offered:
        raise NoSuitableVariantError(
            f"{name} ({library}) compiles for devices of this machine alone"
        )
    matching = _matching(name, wanted, offered)
    if len(matching) == 1:
        return matching[0]
    listed = "; ".join(map(absent_device_text, matching or offered))
    if not matching:
        raise NoSuitableVariantError(
            f"{name} ({library}) compiles for no {quoted(wanted)}; it does for: {listed}"
        )
    raise UsageError(f"{quoted(wanted)} may be several devices of {name}; name one of: {listed}")


def rate_for_absent(
    library: EpLibrary, device: HardwareDevice, info: str
) -> CompiledModelCompatibility:
    """Return a library's rating of a compiled model for an absent device.

    UNKNOWN if the library does not list the device, or gives no rating.

    Args:
        library: the EP's library.
        device: the absent device.
        info: compatibility string of the compiled model.
    """
    listed = [
        index
        for index, ep_device in enumerate(absent_devices(library))
        if ep_device.device is not None and _numbers(ep_device.device) == _numbers(device)
    ]
    if len(listed) != 1 or not device.device_id:
        return CompiledModelCompatibility.UNKNOWN
    arguments = {**library.arguments(), "index": listed[0], "info": info}
    rating = ask_backend(_RATE_FUNCTION, arguments, fingerprint=_fingerprint(library)).require(
        library.ep_name
    )
    ratings = {member.value: member for member in CompiledModelCompatibility}
    return ratings.get(str(rating), CompiledModelCompatibility.UNKNOWN)


def absent_device_text(ep_device: EpDevice) -> str:
    """Return a text with kind and facts of a device that :func:`find_absent_device` takes.

    >>> from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
    >>> npu = HardwareDevice(type=DeviceType.NPU, vendor_id=0x8086, device_id=0x643E)
    >>> absent_device_text(EpDevice(ep_name="X", device=npu, ep_metadata={"platform": "4000"}))
    'npu,platform=4000,device_id=8086:643e'
    """
    facts = [f"{key}={text}" for key, text in _facts(ep_device).items() if "," not in text]
    return ",".join([_type_of(ep_device), *facts])


def _matching(ep_name: str, wanted: str, offered: Sequence[EpDevice]) -> list[EpDevice]:
    if wanted in BUILT_IN_PROFILES or Path(wanted).suffix == ".json":
        return _of_profile(ep_name, wanted, offered)
    matching = list(offered)
    for condition in wanted.split(","):
        key, separator, value = condition.strip().partition("=")
        if separator:
            matching = [ep_device for ep_device in matching if _facts(ep_device).get(key) == value]
        elif key.lower() in _TYPES:
            matching = [ep_device for ep_device in matching if _type_of(ep_device) == key.lower()]
        else:
            raise UsageError(
                f"{quoted(key)} is no kind of device (cpu, gpu, npu), no KEY=VALUE and no machine"
                " profile"
            )
    return matching


def _of_profile(ep_name: str, name: str, offered: Sequence[EpDevice]) -> list[EpDevice]:
    """Return the offered devices that a profile has for the EP, compared by their numbers."""
    numbers = {
        _numbers(ep_device.device)
        for ep_device in read_profile(name).ep_devices
        if ep_device.ep_name == ep_name
        and ep_device.device is not None
        and ep_device.device.device_id
    }
    return [
        ep_device
        for ep_device in offered
        if ep_device.device and _numbers(ep_device.device) in numbers
    ]


def _numbers(device: HardwareDevice) -> tuple[DeviceType, int, int]:
    return device.type, device.vendor_id, device.device_id


def _type_of(ep_device: EpDevice) -> str:
    return "" if ep_device.device is None else ep_device.device.type.value


def _facts(ep_device: EpDevice) -> dict[str, str]:
    """Return the metadata that tells a device from others of its kind."""
    device = ep_device.device
    facts = {key: text for key, text in ep_device.ep_metadata.items() if key not in _OF_LIBRARY}
    if device is None or not device.device_id:
        return facts
    return {**facts, "device_id": f"{device.vendor_id:04x}:{device.device_id:04x}"}


def _ep_device(library: EpLibrary, entry: Mapping[str, Any]) -> EpDevice:
    return EpDevice(
        ep_name=library.ep_name,
        device=HardwareDevice(
            type=_TYPES[entry["type"]],
            vendor=str(entry.get("vendor", "")),
            vendor_id=int(entry.get("vendor_id", 0)),
            device_id=int(entry.get("device_id", 0)),
            metadata=_strings(entry.get("metadata")),
            source=f"listed by {library}",
        ),
        ep_vendor=str(entry.get("ep_vendor", "")),
        ep_version=library.version,
        backend="onnxruntime",
        ep_metadata=_strings(entry.get("ep_metadata")),
        ep_options=_strings(entry.get("ep_options")),
    )


def _is_device(entry: object) -> bool:
    return (
        isinstance(entry, Mapping)
        and entry.get("type") in _TYPES
        and all(isinstance(entry.get(key, 0), int) for key in ("vendor_id", "device_id"))
    )


def _strings(items: object) -> dict[str, str]:
    return (
        {str(key): str(value) for key, value in items.items()} if isinstance(items, Mapping) else {}
    )


def _fingerprint(library: EpLibrary) -> dict[str, object]:
    runtimes = [[runtime.name, runtime.version] for runtime in installed_distributions()]
    return {"distributions": runtimes, **library.fingerprint()}
