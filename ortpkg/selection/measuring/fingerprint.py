"""Fingerprint of a machine: named facts on which measurements depend besides the package.

Facts: the operating system, each device with its driver, the CPU's microarchitecture, the number of
threads, variables that steer the linear-algebra library, versions of ortpkg, numpy, onnx and of the
EPs that were measured. Names allow to say what changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.version import __version__
from ortpkg.foundations.versions import are_same_versions
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine

Fingerprint = Mapping[str, str]

#: Environment variables that change which kernels run, or on how many threads.
STEERING_VARIABLES: tuple[str, ...] = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "KMP_AFFINITY",
)
_LIBRARIES = ("numpy", "onnx")
_EP = "EP "
#: Prefixes of facts that identify the machine; other facts are states of the same machine.
_IDENTITY = ("operating system", "device ", "microarchitecture")
#: Prefixes of facts that are a version, or words and a version ("i915 6.1").
_VERSIONS = ("version of ", "release of ", "driver of ", _EP)
_UNKNOWN = "unknown"


def default_threads() -> int:
    """Return the number of threads that a benchmark gives every backend: one per usable CPU."""
    return usable_cores()


def fingerprint_of(machine: Machine, ep_devices: Iterable[EpDevice]) -> dict[str, str]:
    """Return the facts on this process and ``machine``, with versions of the given EPs."""
    release = ".".join((machine.os_version or "").split(".")[:2])
    facts = {
        "operating system": machine.os,
        "release of the operating system": release or _UNKNOWN,
        "threads": str(default_threads()),
        "version of ortpkg": __version__,
    }
    facts |= {f"version of {name}": _version(name) for name in _LIBRARIES}
    facts |= {f"variable {name}": os.environ.get(name, "") for name in STEERING_VARIABLES}
    for number, device in enumerate(machine.hardware):
        facts |= _device_facts(f"{number} ({device.type})", device)
    for ep_device in ep_devices:
        facts[f"{_EP}{ep_device.ep_and_backend}"] = ep_device.ep_version or _UNKNOWN
    return facts


def _device_facts(label: str, device: HardwareDevice) -> dict[str, str]:
    facts = {
        f"device {label}": f"{device.name} [{device.vendor_id:04x}:{device.device_id:04x}]",
        f"driver of device {label}": " ".join(
            device.metadata[key] for key in ("driver", "driver_version") if key in device.metadata
        ),
    }
    if device.architecture:
        facts[f"microarchitecture of device {label}"] = device.architecture
    return facts


def fingerprint_text(fingerprint: Fingerprint) -> str:
    """Return a short name of the fingerprint."""
    return hashlib.sha256(json.dumps(dict(fingerprint), sort_keys=True).encode()).hexdigest()[:16]


def changes(then: Fingerprint, now: Fingerprint) -> tuple[str, ...]:
    """Return the differences between two fingerprints.

    One is, for example, "EP OpenVINOExecutionProvider (openvino) was 2025.1, is 2026.4". Versions
    are compared as versions: "1.31" and "1.31.0" are equal. An EP that was not measured before, or
    is no longer here, does not count: its variants are rejected for that reason.
    """
    texts = []
    for name in sorted({*then, *now}):
        if name.startswith(_EP) and (name not in then or name not in now):
            continue
        if then.get(name) == now.get(name) or (
            name.startswith(_VERSIONS) and _are_same_words(name, then, now)
        ):
            continue
        texts.append(f"{name} was {_shown(then, name)}, is {_shown(now, name)}")
    return tuple(texts)


def is_same_machine(then: Fingerprint, now: Fingerprint) -> bool:
    """Return True if the devices are the same, whatever happened to drivers and libraries."""
    return _identity(then) == _identity(now)


def nearest(fingerprints: Sequence[Fingerprint], now: Fingerprint) -> int:
    """Return the index of the most similar fingerprint: same machine first, later ones first."""
    return min(
        range(len(fingerprints)),
        key=lambda at: (
            not is_same_machine(fingerprints[at], now),
            len(changes(fingerprints[at], now)),
            -at,
        ),
    )


def _are_same_words(name: str, then: Fingerprint, now: Fingerprint) -> bool:
    return are_same_versions(then.get(name, "").split(), now.get(name, "").split())


def _identity(fingerprint: Fingerprint) -> dict[str, str]:
    return {name: value for name, value in fingerprint.items() if name.startswith(_IDENTITY)}


def _shown(fingerprint: Fingerprint, name: str) -> str:
    return fingerprint.get(name) or "unset"


@cache
def _version(distribution: str) -> str:
    from importlib import metadata  # takes 15 ms; imported only if something is recorded

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return _UNKNOWN
