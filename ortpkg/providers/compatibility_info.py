"""The compatibility string of contexts that a native library made, and how it is rated.

Imports neither numpy nor onnx.

``openvino;sdk=2026.4.1;device=CPU;architecture=sapphirerapids;options=1f3a5c7e9b2d``: the backend,
and what must be as it was. ``options`` is a digest of the provider options that change what is
compiled; it tells strings apart and is not rated, since options belong to a session. A device other
than a CPU is told with its full name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import DeviceType, HardwareDevice
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.versions import is_same_minor, is_same_version, release_of

if TYPE_CHECKING:
    from ortpkg.ep_context.ep_context_descriptor import ContextDescriptor

_LONGEST_INFO = 4096
_KINDS = {"CPU": DeviceType.CPU, "GPU": DeviceType.GPU, "NPU": DeviceType.NPU}


def compatibility_text(descriptor: ContextDescriptor, backend: str) -> str:
    """What contexts made in this environment need, as ``ep_compatibility_info``."""
    import hashlib  # 5 ms; the way of ortpkg select leads by here

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
    """Whether :func:`compatibility_text` wrote it for this backend."""
    return info.startswith(f"{backend};")


def rate_compatibility(
    devices: Sequence[HardwareDevice], info: str, *, backend: str, version: str, takes_patches: bool
) -> CompiledModelCompatibility:
    """Rates a compatibility string.

    Args:
        devices: that the variant would run on.
        info: the string of the variant.
        backend: who asks.
        version: of the library that is installed.
        takes_patches: whether contexts of another release with the same major and minor version
            load.

    OPTIMAL where all is as it was; PREFER_RECOMPILATION for such another release, where the library
    takes it; UNSUPPORTED for another backend, release, device or architecture, and for what is no
    such string.
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
