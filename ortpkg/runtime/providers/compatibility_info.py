"""Compatibility string of contexts that a native library made, and its rating.

Imports neither numpy nor onnx.

``openvino;sdk=2026.4.1;device=CPU;architecture=sapphirerapids;options=1f3a5c7e9b2d``: the backend,
and everything that must be the same. ``options`` is a digest of the provider options that change
the compiled code; it tells strings apart and is not rated, since options belong to a session. A
device other than a CPU has its full name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortpkg.foundations.versions import is_same_minor, is_same_version, release_of
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility

if TYPE_CHECKING:
    from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor

_LONGEST_INFO = 4096
_KINDS = {"CPU": DeviceType.CPU, "GPU": DeviceType.GPU, "NPU": DeviceType.NPU}


def compatibility_text(descriptor: ContextDescriptor, backend: str) -> str:
    """Return the ``ep_compatibility_info`` of contexts that were made in an environment."""
    import hashlib  # 5 ms, which ortpkg select need not pay

    options = hashlib.sha256(
        json.dumps(dict(descriptor.options), sort_keys=True).encode()
    ).hexdigest()[:12]
    fields = {
        "sdk": release_of(descriptor.sdk_version),
        "device": descriptor.device,
        "architecture": descriptor.architecture,
        "driver": descriptor.driver_version,
        "options": options,
    }
    return ";".join(
        [backend, *(f"{key}={_plain(value)}" for key, value in fields.items() if value)]
    )


def is_own_text(info: str, backend: str) -> bool:
    """Return True if :func:`compatibility_text` wrote a string for this backend."""
    return info.startswith(f"{backend};")


def rate_compatibility(
    devices: Sequence[HardwareDevice], info: str, *, backend: str, version: str, takes_patches: bool
) -> CompiledModelCompatibility:
    """Rate a compatibility string.

    Args:
        devices: devices that the variant would run on.
        info: string of the variant.
        backend: backend that would load the context.
        version: version of the installed library.
        takes_patches: True if contexts of another release with the same major and minor version
            load.

    Returns:
        OPTIMAL if everything is the same; PREFER_RECOMPILATION for another patch release, if the
            library takes it; UNSUPPORTED for another backend, release, device or architecture, and
            for any other text.
    """
    fields = dict(pair.partition("=")[::2] for pair in info[:_LONGEST_INFO].split(";")[1:])
    if not is_own_text(info, backend) or not {"sdk", "device", "architecture"} <= fields.keys():
        return CompiledModelCompatibility.UNSUPPORTED
    if not devices or not all(
        _fits(device, fields["device"], fields["architecture"]) for device in devices
    ):
        return CompiledModelCompatibility.UNSUPPORTED
    recorded, installed = fields["sdk"], release_of(version)
    if is_same_version(recorded, installed):
        return CompiledModelCompatibility.OPTIMAL
    if takes_patches and is_same_minor(recorded, installed):
        return CompiledModelCompatibility.PREFER_RECOMPILATION
    return CompiledModelCompatibility.UNSUPPORTED


def _fits(device: HardwareDevice, text: str, architecture: str) -> bool:
    kind, _, full_name = text.partition(" (")
    if _KINDS.get(kind.partition(".")[0]) is not device.type:
        return False
    if device.type is DeviceType.CPU:
        return not device.architecture or device.architecture.lower() == architecture.lower()
    return full_name.removesuffix(")") in {"", device.name}


def _plain(value: str) -> str:
    return value.replace(";", ",").replace("=", ":")
