"""Runs in a child process: what the installed onnxruntime offers. The only module of selection that imports it."""

from __future__ import annotations

from typing import Any

from ortpkg.providers.quiet_onnxruntime import load_onnxruntime


def list_offers() -> dict[str, Any]:
    """``{"version", "providers": [name], "ep_devices": [...]}``; builds before 1.22 know no EP devices."""
    onnxruntime = load_onnxruntime()
    ep_devices = onnxruntime.get_ep_devices() if hasattr(onnxruntime, "get_ep_devices") else []
    return {
        "version": onnxruntime.__version__,
        "providers": onnxruntime.get_available_providers(),
        "ep_devices": [_ep_device(ep_device) for ep_device in ep_devices],
    }


def rate_compatibility(ep_name: str, places: list[int], info: str) -> str | None:
    """The name of onnxruntime's rating of a compatibility string on EP devices of one EP, counted among its own.

    None where this build has no function for it, or no longer has the devices.
    """
    onnxruntime = load_onnxruntime()
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    rate = getattr(state, "get_model_compatibility_for_ep_devices", None)
    offered = [each for each in onnxruntime.get_ep_devices() if each.ep_name == ep_name] if rate else []
    if rate is None or not places or max(places) >= len(offered):
        return None
    return str(rate([offered[place] for place in places], info).name)


def _ep_device(ep_device: Any) -> dict[str, Any]:
    device = ep_device.device
    return {
        "ep_name": ep_device.ep_name,
        "ep_vendor": ep_device.ep_vendor,
        "ep_metadata": dict(ep_device.ep_metadata),
        "ep_options": dict(ep_device.ep_options),
        "type": device.type.name.lower(),
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }
