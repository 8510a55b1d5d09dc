"""The compatibility string of compiled machine code: written by the provider, rated by its factory.

Imports neither numpy nor onnx.

``llvm;abi=1;compiler=3;target=linux-x86_64_v3;extras=avx512_vnni;version=0.1.0``

Code that rounds what it multiplies says so, ``precision=bf16``, and comes after code that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortpkg.devices.hardware import HardwareDevice
from ortpkg.devices.machine_probe import probe
from ortpkg.errors import UsageError
from ortpkg.machine_code.abi import ABI_VERSION, COMPILER_VERSION, reason_against_compiler
from ortpkg.machine_code.cpu_targets import (
    FULL_PRECISION,
    TARGETS,
    CpuTarget,
    extras_of,
    reason_against,
    target_named,
    targets_of,
)
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.version import __version__

_KIND = "llvm"
_LONGEST_INFO = 1000


def compatibility_info(
    target: CpuTarget,
    extras: Sequence[str] = (),
    *,
    precision: str = FULL_PRECISION,
    version: str = __version__,
) -> str:
    """What code for a target needs, as ``ep_compatibility_info``."""
    fields = {
        "abi": str(ABI_VERSION),
        "compiler": str(COMPILER_VERSION),
        "target": target.name,
        "extras": ",".join(extras),
        "precision": "" if precision == FULL_PRECISION else precision,
        "version": version,
    }
    return ";".join([_KIND, *(f"{key}={value}" for key, value in fields.items() if value)])


def rate(
    devices: Sequence[HardwareDevice], info: str, *, os: str, can_compile: bool
) -> CompiledModelCompatibility:
    """Rates a compatibility string on devices of a machine under an operating system.

    OPTIMAL for the nearest target that the devices run, and for every older one where nothing here
    could compile for a newer one; PREFER_RECOMPILATION for an older target where that could be
    done; UNSUPPORTED where a feature is missing, for another system or ABI, where the compiler that
    made it is known to make wrong code, and for what is no such string.
    """
    read = _read(info)
    if read is None or not devices:
        return CompiledModelCompatibility.UNSUPPORTED
    if refusal(devices, info, os=os):
        return CompiledModelCompatibility.UNSUPPORTED
    is_nearest = all(targets_of(each, os)[0] is read.target for each in devices)
    if is_nearest or not can_compile:
        return CompiledModelCompatibility.OPTIMAL
    return CompiledModelCompatibility.PREFER_RECOMPILATION


def refusal(devices: Sequence[HardwareDevice], info: str, *, os: str) -> str:
    """Why devices do not run the code, such as each feature that they lack; "" where they do."""
    read = _read(info)
    if read is None:
        return f"it is no compatibility string of ABI {ABI_VERSION}"
    if reason := reason_against_compiler(read.compiler):
        return reason
    reasons = (reason_against(read.target, each, os, read.extras) for each in devices)
    return next(filter(None, reasons), "")


def why_recompile(devices: Sequence[HardwareDevice], info: str, *, os: str) -> str:
    """For which older CPU code is that devices run; "" where they have no nearer target."""
    read = _read(info)
    if read is None:
        return ""
    nearest = (targets_of(each, os)[0] for each in devices)
    newer = next((each.name for each in nearest if each is not read.target), None)
    return f"it is for {read.target.name}, and this CPU runs {newer}" if newer else ""


def distance(devices: Sequence[HardwareDevice], info: str, *, os: str) -> int:
    """How many targets are nearer to the devices than that of a string that is OPTIMAL.

    Code for a target with features beyond it is nearer than code without; code that rounds what it
    multiplies comes after all other.
    """
    read = _read(info)
    if read is None:
        return 0
    behind = [targets_of(each, os).index(read.target) for each in devices]
    rounded = 2 * len(TARGETS) if read.precision != FULL_PRECISION else 0
    return rounded + 2 * max(behind, default=0) + (not read.extras)


class _Needs(NamedTuple):
    """What a string says of the code: who made it, for which features, and how exact it is."""

    compiler: str
    target: CpuTarget
    extras: tuple[str, ...]
    precision: str


def _read(info: str) -> _Needs | None:
    """What the string says; None for what is no such string of this ABI."""
    kind, *pairs = info[:_LONGEST_INFO].split(";")
    fields = dict(pair.partition("=")[::2] for pair in pairs)
    if kind != _KIND or fields.get("abi") != str(ABI_VERSION):
        return None
    try:
        target = target_named(fields.get("target", ""))
    except UsageError:
        return None
    extras = tuple(filter(None, fields.get("extras", "").split(",")))
    precision = fields.get("precision", FULL_PRECISION)
    return _Needs(fields.get("compiler", ""), target, extras, precision)


def host_extras(target: CpuTarget) -> tuple[str, ...]:
    """What this machine's CPU has beyond a target, for code that is compiled for it here."""
    return extras_of(target, probe().hardware[0])
