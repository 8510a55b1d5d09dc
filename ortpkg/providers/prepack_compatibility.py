"""The compatibility string of prepacked contexts: written by the provider, rated by its factory.

Imports neither numpy nor onnx.

``prepack;layout=2;architecture=x86_64;version=0.1.0``
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence

from ortpkg.devices.architecture import runs_code_for
from ortpkg.devices.hardware import HardwareDevice
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.version import __version__
from ortpkg.versions import is_same_version

_KIND = "prepack"
#: Equal to ``kernels.op_kernel.KERNEL_LAYOUT_VERSION``, which loads numpy. Contexts hold optimized
#: graphs, so that it goes up too when an operator that fusions put in changes its meaning.
LAYOUT_VERSION = 2
_ALIASES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_LONGEST_INFO = 1000


def machine_architecture() -> str:
    """What layouts depend on: this machine's CPU family, and an unusual byte order."""
    machine = platform.machine().lower()
    name = _ALIASES.get(machine, machine)
    return name if sys.byteorder == "little" else f"{name}-big-endian"


def compatibility_info(*, version: str = __version__) -> str:
    """What a context made here needs, as ``ep_compatibility_info``."""
    return (
        f"{_KIND};layout={LAYOUT_VERSION};architecture={machine_architecture()};version={version}"
    )


def rate(
    devices: Sequence[HardwareDevice], info: str, *, version: str = __version__
) -> CompiledModelCompatibility:
    """Rates a compatibility string.

    OPTIMAL for this version of ortpkg, PREFER_RECOMPILATION for another one whose kernels have the
    same layout, UNSUPPORTED where it is another EP's, damaged, of another layout, or for another
    family of CPUs than ``devices``.
    """
    kind, *pairs = info[:_LONGEST_INFO].split(";")
    fields = dict(pair.partition("=")[::2] for pair in pairs)
    if kind != _KIND or fields.get("layout") != str(LAYOUT_VERSION):
        return CompiledModelCompatibility.UNSUPPORTED
    if not all(
        _fits(device, fields.get("architecture", "")) for device in devices
    ) or not fields.get("architecture"):
        return CompiledModelCompatibility.UNSUPPORTED
    if not is_same_version(fields.get("version", ""), version):
        return CompiledModelCompatibility.PREFER_RECOMPILATION
    return CompiledModelCompatibility.OPTIMAL


def _fits(device: HardwareDevice, architecture: str) -> bool:
    known = runs_code_for(device.architecture, architecture) if device.architecture else None
    return architecture == machine_architecture() if known is None else known
