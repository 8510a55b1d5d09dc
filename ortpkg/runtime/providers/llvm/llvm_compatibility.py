"""Compatibility string of compiled machine code: the provider writes it, its factory rates it.

Imports neither numpy nor onnx.

``llvm;abi=1;compiler=3;target=linux-x86_64_v3;extras=avx512_vnni;version=0.1.0``

Code that rounds what it multiplies has ``precision=bf16``, and comes after code that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortpkg.compiler.machine_code.abi import ABI_VERSION, COMPILER_VERSION, reason_against_compiler
from ortpkg.compiler.machine_code.cpu_targets import (
    FULL_PRECISION,
    TARGETS,
    CpuTarget,
    extras_of,
    reason_against,
    target_named,
    targets_of,
)
from ortpkg.foundations.errors import UsageError
from ortpkg.foundations.version import __version__
from ortpkg.machine.hardware import HardwareDevice
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility

_KIND = "llvm"
_LONGEST_INFO = 1000


def compatibility_info(
    target: CpuTarget,
    extras: Sequence[str] = (),
    *,
    precision: str = FULL_PRECISION,
    version: str = __version__,
) -> str:
    """Return the ``ep_compatibility_info`` of code for a target."""
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
    """Rate a compatibility string on devices of a machine under an operating system.

    Returns:
        OPTIMAL for the nearest target that the devices run, and for every older one if nothing here
            could compile for a newer one. PREFER_RECOMPILATION for an older target if that could be
            done. UNSUPPORTED if a feature is missing, for another system or ABI, if the compiler of
            the code is known to make wrong code, and for any other text.
    """
    read = _read(info)
    if read is None or not devices:
        return CompiledModelCompatibility.UNSUPPORTED
    if refusal(devices, info, os=os):
        return CompiledModelCompatibility.UNSUPPORTED
    is_nearest = all(targets_of(device, os)[0] is read.target for device in devices)
    if is_nearest or not can_compile:
        return CompiledModelCompatibility.OPTIMAL
    return CompiledModelCompatibility.PREFER_RECOMPILATION


def refusal(devices: Sequence[HardwareDevice], info: str, *, os: str) -> str:
    """Return why devices do not run the code, such as a feature that they lack; "" if they do."""
    read = _read(info)
    if read is None:
        return f"it is no compatibility string of ABI {ABI_VERSION}"
    if reason := reason_against_compiler(read.compiler):
        return reason
    reasons = (reason_against(read.target, device, os, read.extras) for device in devices)
    return next(filter(None, reasons), "")


def why_recompile(devices: Sequence[HardwareDevice], info: str, *, os: str) -> str:
    """Return for which older CPU the code is; "" if devices have no nearer target."""
    read = _read(info)
    if read is None:
        return ""
    nearest = (targets_of(device, os)[0] for device in devices)
    newer = next((target.name for target in nearest if target is not read.target), None)
    return f"it is for {read.target.name}, and this CPU runs {newer}" if newer else ""


def distance(devices: Sequence[HardwareDevice], info: str, *, os: str) -> int:
    """Return how many targets are nearer to the devices than that of an OPTIMAL string.

    Code for a target with features beyond it is nearer than code without; code that rounds what it
    multiplies comes after all other.
    """
    read = _read(info)
    if read is None:
        return 0
    behind = [targets_of(device, os).index(read.target) for device in devices]
    rounded = 2 * len(TARGETS) if read.precision != FULL_PRECISION else 0
    return rounded + 2 * max(behind, default=0) + (not read.extras)


class _Needs(NamedTuple):
    """Needs of the code in a string: its compiler, its features, and its precision."""

    compiler: str
    target: CpuTarget
    extras: tuple[str, ...]
    precision: str


def _read(info: str) -> _Needs | None:
    """Return the needs in a string; None if it is no such string of this ABI."""
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
    """Return the features of this machine's CPU beyond a target, for code compiled for it here."""
    return extras_of(target, probe().hardware[0])
