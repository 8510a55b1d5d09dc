"""Runs in a child process: what a plug-in answers when it is asked.

Whatever it does stays in there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.devices.json_form import (
    ep_device_from_json,
    ep_device_to_json,
    hardware_device_from_json,
)
from ortpkg.errors import quoted
from ortpkg.providers.ep_factory import CompiledModelCompatibility, EpFactory


def load(group: str, name: str, value: str) -> Any:
    """What the entry point's object returns."""
    from importlib.metadata import EntryPoint  # 15 ms; the way of ortpkg select leads by here

    return EntryPoint(name=name, value=value, group=group).load()()


def check_plugin(group: str, name: str, value: str) -> dict[str, Any]:
    """``{"is_factory", "type", "ep_name", "backend", "vendor", "version"}`` of an entry point."""
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
    """``{"is_available", "ep_devices": [...]}``.

    A device that is one of ``hardware`` is told by its position.

    Raises TypeError for what is no EP device of the plug-in's own.
    """
    factory = load(group, name, value)
    if not factory.is_available():
        return {"is_available": False, "ep_devices": []}
    devices = [hardware_device_from_json(each) for each in hardware]
    offered = factory.get_supported_devices(list(devices))
    offers = list(offered) if isinstance(offered, list | tuple) else [offered]
    for each in offers:
        if not is_own_offer(factory, each):
            raise TypeError(
                f"reported {quoted(each)} where an EpDevice of its own name and backend belongs"
            )
    return {"is_available": True, "ep_devices": [_placed(each, devices) for each in offers]}


def rate_compatibility(
    group: str, name: str, value: str, devices: Sequence[Mapping[str, Any]], info: str
) -> dict[str, str]:
    """``{"rating": ...}``: the plug-in's rating of a compatibility string on ``devices``.

    TypeError for no rating.
    """
    factory = load(group, name, value)
    rating = factory.validate_compiled_model_compatibility_info(
        [hardware_device_from_json(each) for each in devices], info
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
    """``{"is_made"}``: whether the plug-in makes an execution provider.

    One that compiles describes its environment.

    That it raises is no matter here: it will say so to the session, in words of its own.
    """
    from ortpkg.providers.compiling_provider import (
        CompilingProvider,  # numpy; only where a session is to be made
    )
    from ortpkg.providers.execution_provider import ExecutionProvider

    try:
        made: object = load(group, name, value).create(
            [ep_device_from_json(each) for each in devices], dict(options)
        )
        if isinstance(made, CompilingProvider):
            made.describe_environment()
    except (Exception, SystemExit):  # noqa: BLE001 - as above
        return {"is_made": False}
    return {"is_made": isinstance(made, ExecutionProvider)}


def is_own_offer(factory: EpFactory, offer: object) -> bool:
    """Whether ``offer`` is what ``factory`` may report."""
    return (
        isinstance(offer, EpDevice)
        and (offer.ep_name, offer.backend) == (factory.ep_name, factory.backend)
        and (offer.device is None or isinstance(offer.device, HardwareDevice))
    )


def _placed(offer: EpDevice, hardware: Sequence[HardwareDevice]) -> dict[str, Any]:
    place = hardware.index(offer.device) if offer.device in hardware else None
    return {**ep_device_to_json(offer), "place": place}
