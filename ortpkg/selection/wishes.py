"""What a caller asks of a selection, in the caller's words: device types and execution providers, checked for typos."""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.devices.hardware import DeviceType
from ortpkg.ep_names import is_known_ep, resolve_ep_name, suggest_ep_name
from ortpkg.errors import UsageError, quoted


def device_type_named(text: str) -> DeviceType:
    """The device type of that name. UsageError with the list otherwise."""
    try:
        return DeviceType(text.lower())
    except ValueError:
        known = ", ".join(device.value for device in DeviceType)
        raise UsageError(f"there is no device type {quoted(text)}; known are: {known}") from None


def ep_named(text: str, named: Collection[str]) -> str:
    """The full name of an execution provider.

    Args:
        text: a full name or an alias.
        named: names that the machine or the package has, beside those of ONNX Runtime.

    Raises UsageError for a name that nobody knows, which is a typo.
    """
    name = resolve_ep_name(text)
    if is_known_ep(name) or name in named:
        return name
    suggestion = suggest_ep_name(text, tuple(sorted(named)))
    hint = f"; did you mean {suggestion!r}?" if suggestion else ""
    raise UsageError(f"there is no execution provider {quoted(text)}{hint}")
