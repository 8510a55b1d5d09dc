"""Asks a plug-in; runs in a child process, so that whatever the plug-in does stays in there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ortpkg.foundations.errors import quoted
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.json_form import (
    ep_device_from_json,
    ep_device_to_json,
    hardware_device_from_json,
)
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, EpFactory


def load(group: str, name: str, value: str) -> Any:
    """Return the result of the entry point's object."""
    from importlib.metadata import EntryPoint  # 15 ms, which ortpkg select need not pay

    return EntryPoint(name=name, value=value, group=group).load()()


def check_plugin(group: str, name: str, value: str) -> dict[str, Any]:
    """Return facts about an entry point's factory.

    Keys: "is_factory", "type", "ep_name", "backend", "vendor", "version".
    """
    factory = load(group, name, value)
    is_factory = isinstance(factory, EpFactory)
    return {
        "is_factory": is_factory,
        "type": type(factory).__name__,
        "ep_name": str(getattr(factory, "ep_name", "")),
        "backend": str(getattr(factory, "backend", "")),
        "vendor": str(factory.vendor) if is_factory else "",
        "version": str(factory.version) if is_factory else "",
    }


def list_offers(
    group: str, name: str, value: str, hardware: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return ``{"is_available", "ep_devices": [...]}``.

    A device that is one of ``hardware`` has its position there.

    Raises:
        TypeError: an offer is no EP device of the plug-in's own.
    """
    factory = load(group, name, value)
    if not factory.is_available():
        return {"is_available": False, "ep_devices": []}
    devices = [hardware_device_from_json(document) for document in hardware]
    offered = factory.get_supported_devices(list(devices))
    offers = list(offered) if isinstance(offered, list | tuple) else [offered]
    for offer in offers:
        if not is_own_offer(factory, offer):
            raise TypeError(
                f"reported {quoted(offer)} where an EpDevice of its own name and backend belongs"
            )
    return {"is_available": True, "ep_devices": [_placed(offer, devices) for offer in offers]}


def rate_compatibility(
    group: str, name: str, value: str, devices: Sequence[Mapping[str, Any]], info: str
) -> dict[str, str]:
    """Return ``{"rating": ...}``: the plug-in's rating of a compatibility string on ``devices``.

    Raises:
        TypeError: the result is no rating.
    """
    factory = load(group, name, value)
    rating = factory.validate_compiled_model_compatibility_info(
        [hardware_device_from_json(document) for document in devices], info
    )
    if not isinstance(rating, CompiledModelCompatibility):
        raise TypeError(
            f"rated a compatibility string {quoted(rating)}, which is no CompiledModelCompatibility"
        )
    return {"rating": rating.value}


def create_provider(
    group: str,
    name: str,
    value: str,
    devices: Sequence[Mapping[str, Any]],
    options: Mapping[str, str],
) -> dict[str, bool]:
    """Return ``{"is_made"}``: True if the plug-in makes an execution provider.

    A provider that compiles describes its environment, too. Errors do not matter here: the session
    gets them in the plug-in's own words.
    """
    from ortpkg.runtime.providers.compiling_provider import (
        CompilingProvider,  # numpy; only where a session is to be made
    )
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider

    try:
        made: object = load(group, name, value).create(
            [ep_device_from_json(document) for document in devices], dict(options)
        )
        if isinstance(made, CompilingProvider):
            made.describe_environment()
    except (Exception, SystemExit):  # noqa: BLE001 - as above
        return {"is_made": False}
    return {"is_made": isinstance(made, ExecutionProvider)}


def is_own_offer(factory: EpFactory, offer: object) -> bool:
    """Return True if ``factory`` may report ``offer``."""
    return (
        isinstance(offer, EpDevice)
        and (offer.ep_name, offer.backend) == (factory.ep_name, factory.backend)
        and (offer.device is None or isinstance(offer.device, HardwareDevice))
    )


def _placed(offer: EpDevice, hardware: Sequence[HardwareDevice]) -> dict[str, Any]:
    position = hardware.index(offer.device) if offer.device in hardware else None
    return {**ep_device_to_json(offer), "place": position}
