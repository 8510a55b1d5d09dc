"""Facts that ``ortpkg doctor`` examines, gathered into one value for its checks."""

from __future__ import annotations

import os
import platform
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from ortpkg.api.devices import software_versions
from ortpkg.api.doctor.native_libraries import refused_libraries
from ortpkg.distribution.better_variants import BetterVariant, better_variants
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.host.directories import cache_directory
from ortpkg.foundations.isolation.backend_probe import doubting_refusals
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.machine_probe import probe, with_free_memory
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    NO_DEVICE,
    displacement_remedies,
    emulation_notes,
)
from ortpkg.runtime.providers.machine_offer import discover_ep_devices
from ortpkg.runtime.providers.onnxruntime_factory import installed_distributions
from ortpkg.runtime.providers.plugins import installed_plugins

#: Environment variables that change how fast or where models run. Their values are numbers and
#: names, never secrets.
VARIABLES: tuple[str, ...] = (
    *(
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    *(
        "OPENBLAS_CORETYPE",
        "OMP_PROC_BIND",
        "OMP_WAIT_POLICY",
        "GOMP_CPU_AFFINITY",
        "KMP_AFFINITY",
        "KMP_BLOCKTIME",
    ),
    *(
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ONEAPI_DEVICE_SELECTOR",
    ),
    *("ORTPKG_PROBE_TIMEOUT", "ORTPKG_PROBE_AGAIN", "ORT_DISABLE_ALL_OPTIMIZATION"),
)
#: Variables whose values may be paths of a user: the report only says that they are set.
PATH_VARIABLES: tuple[str, ...] = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "ORTPKG_CACHE_DIR",
    "ORTPKG_PYTHON",
    "PYTHONPATH",
)
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_,.:=+-]{0,64}")
#: Device files through which user space uses GPUs and NPUs.
_DEVICE_FILES = (
    "dri/renderD*",
    "accel/accel*",
    "kfd",
    "nvidia[0-9]*",
    "nvidiactl",
    "fastrpc-cdsp*",
    "dxg",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFile:
    """A device file.

    Attributes:
        name: path of the file.
        is_usable: True if this process may read and write it.
        group: group that may use it if this process may not; "" for none.
    """

    name: str
    is_usable: bool
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that the checks examine.

    Attributes:
        machine, ep_devices: the machine, and the offers of execution providers on it.
        failures: backends and plug-ins that were left out, each with the reason.
        displaced: sentence on a library that another one replaces → what to do.
        software: distribution → version.
        requirements: versions that ortpkg needs of installed distributions, e.g.
            "openvino>=2025.0".
        overlapping: distributions that install the same module ``onnxruntime``.
        plugins: plug-ins of other distributions.
        refused_libraries: native library ("onnxruntime/capi/x.so") → message of the system's
            loader, for those that it refuses.
        device_files: existing device files under /dev.
        variables: relevant environment variables; None if the report only says that one is set.
        usable_cores: number of cores that this process may use; None if unknown.
        is_cache_usable: True if facts can be stored.
        better_variants: variants of installed packages that would be chosen now and are not
            installed.
        platform: texts about the system and the interpreter, in order.
    """

    machine: Machine
    ep_devices: tuple[EpDevice, ...] = ()
    failures: tuple[str, ...] = ()
    displaced: Mapping[str, str] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    overlapping: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    refused_libraries: Mapping[str, str] = field(default_factory=dict)
    device_files: tuple[DeviceFile, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    usable_cores: int | None = None
    is_cache_usable: bool = True
    better_variants: tuple[BetterVariant, ...] = ()
    platform: Mapping[str, str] = field(default_factory=dict)


def _is_failure(note: str) -> bool:
    is_remark = note.startswith("several distributions") or note.endswith(NO_DEVICE)
    return not is_remark and note not in emulation_notes()


def gather() -> Situation:
    """Gather the facts on this machine, this environment and this process.

    Backends are asked in child processes.
    """
    with doubting_refusals():
        machine = with_free_memory(probe())
        offer = discover_ep_devices(machine, named=installed_plugins())
    remedies = displacement_remedies()
    overlapping = tuple(distribution.name for distribution in installed_distributions())
    return Situation(
        machine=machine,
        ep_devices=offer.ep_devices,
        failures=tuple(note for note in offer.notes if _is_failure(note) and note not in remedies),
        displaced={note: remedies[note] for note in offer.notes if note in remedies},
        software=software_versions(),
        requirements=_requirements(),
        overlapping=overlapping if len(overlapping) > 1 else (),
        plugins=tuple(str(plugin) for plugin in installed_plugins().values()),
        refused_libraries=refused_libraries() if sys.platform == "linux" else {},
        device_files=device_files(),
        variables=_variables(os.environ),
        usable_cores=usable_cores(),
        is_cache_usable=_is_writable(cache_directory()),
        better_variants=better_variants(),
        platform=_platform(),
    )


def device_files(root: Path = Path("/")) -> tuple[DeviceFile, ...]:
    """Return the device files of GPUs and NPUs under ``root``.

    Each says whether this process may use it.
    """
    files = []
    for pattern in _DEVICE_FILES:
        for path in sorted((root / "dev").glob(pattern)):
            try:
                status = path.stat()
            except OSError:
                continue
            usable = os.access(path, os.R_OK | os.W_OK)
            group = (
                "" if usable or not status.st_mode & stat.S_IRGRP else _group_name(status.st_gid)
            )
            files.append(
                DeviceFile(
                    name=f"/dev/{path.relative_to(root / 'dev').as_posix()}",
                    is_usable=usable,
                    group=group,
                )
            )
    return tuple(files)


def _group_name(number: int) -> str:
    try:
        import grp  # not on Windows

        return grp.getgrgid(number).gr_name
    except (ImportError, KeyError):
        return str(number)


def _requirements() -> tuple[str, ...]:
    """Return the requirements in ortpkg's own metadata, including extras, without markers."""
    try:
        requirements = metadata.requires("ortpkg") or []
    except metadata.PackageNotFoundError:  # not installed
        return ()
    return tuple(
        dict.fromkeys(requirement.partition(";")[0].strip() for requirement in requirements)
    )


def _variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for name in VARIABLES:
        if name in environment:
            values[name] = environment[name] if _PLAIN_VALUE.fullmatch(environment[name]) else None
    return values | {name: None for name in PATH_VARIABLES if environment.get(name)}


def _is_writable(directory: Path) -> bool:
    """Return True if the directory can be written, or created if it does not exist yet."""
    for folder in (directory, *directory.parents):
        if folder.exists():
            return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return False


def _platform() -> dict[str, str]:
    libc = " ".join(platform.libc_ver()).strip()
    bits = sys.maxsize.bit_length() + 1
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()} ({bits} bits)",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **({"libc": libc} if libc else {}),
        "environment": "virtual" if sys.prefix != sys.base_prefix else "system",
    }
