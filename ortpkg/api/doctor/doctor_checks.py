"""Checks of ``ortpkg doctor``: from gathered facts to complaints, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.api.doctor.missing_eps import REMEDIES, missing_eps
from ortpkg.api.doctor.situation import Situation
from ortpkg.foundations.ep_names import is_named
from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.foundations.versions import is_outside, requirement_name
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES, IMPLIED_VENDORS
from ortpkg.runtime.providers.ep_discovery.library_refusals import HALF_INSTALLED, split_refusal
from ortpkg.runtime.providers.provider_trials import provider_of_library_file


class Gravity(StrEnum):
    """Severity of a complaint.

    ERROR: something that is installed or plugged in cannot be used. WARNING: it works, but not as
    well as it could.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A problem.

    Attributes:
        check: stable name, e.g. "unclaimed-device".
        gravity: its severity.
        message: the problem in words.
        remedy: what to do; "" if there is nothing to do.
    """

    check: str
    gravity: Gravity
    message: str
    remedy: str = ""


#: Part of a library's name → vendor and kind of its device. Without such a device it need not load.
_LIBRARY_DEVICES: dict[str, tuple[str, DeviceType]] = {
    "intel_gpu": ("Intel", DeviceType.GPU),
    "intel_npu": ("Intel", DeviceType.NPU),
    "providers_cuda": ("NVIDIA", DeviceType.GPU),
    "providers_tensorrt": ("NVIDIA", DeviceType.GPU),
    "providers_nv_tensorrt_rtx": ("NVIDIA", DeviceType.GPU),
    "providers_migraphx": ("AMD", DeviceType.GPU),
    "providers_rocm": ("AMD", DeviceType.GPU),
    "providers_vitisai": ("AMD", DeviceType.NPU),
    "Qnn": ("Qualcomm", DeviceType.NPU),
}
#: Text in a failure that a wheel would fix.
_INSTALL = ": pip install "
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
)


def examine(situation: Situation) -> tuple[Complaint, ...]:
    """Return every complaint, errors first; within one severity in the order of the checks."""
    complaints = [complaint for check in CHECKS for complaint in check(situation)]
    return tuple(sorted(complaints, key=lambda complaint: list(Gravity).index(complaint.gravity)))


def _overlapping_distributions(situation: Situation) -> Iterator[Complaint]:
    if situation.overlapping:
        names = ", ".join(situation.overlapping)
        yield Complaint(
            check="overlapping-onnxruntime",
            gravity=Gravity.ERROR,
            message=(
                "several distributions install the module onnxruntime and overwrite each other:"
                f" {names}"
            ),
            remedy=(
                f"pip uninstall -y {' '.join(situation.overlapping)}, then install the one that you"
                " need"
            ),
        )


def _failed_backends(situation: Situation) -> Iterator[Complaint]:
    for failure in situation.failures:
        (message, remedy), gravity = _with_remedy(failure), Gravity.ERROR
        if vendor := _absent_vendor(situation, failure):
            remedy, gravity = f"nothing, as long as there is no {vendor} device", Gravity.INFO
        elif _INSTALL in failure and _is_spared(situation, failure):
            remedy += ", if you want it: another execution provider runs there"
            gravity = Gravity.INFO
        yield Complaint(check="failed-backend", gravity=gravity, message=message, remedy=remedy)


def _with_remedy(failure: str) -> tuple[str, str]:
    """Return what failed, and the remedy that the sentence on it names; else a general one."""
    message, remedy = split_refusal(failure)
    if remedy:
        return message, remedy
    for end in (_INSTALL, HALF_INSTALLED):
        message, _, wheels = failure.partition(end)
        if wheels:
            return message, f"pip install {end.partition('pip install ')[2]}{wheels}"
    return failure, "install it again, or update its driver; ORTPKG_PROBE_AGAIN=1 asks it again"


def _displaced_libraries(situation: Situation) -> Iterator[Complaint]:
    for message, remedy in situation.displaced.items():
        yield Complaint(
            check="displaced-library", gravity=Gravity.INFO, message=message, remedy=remedy
        )


def _absent_vendor(situation: Situation, failure: str) -> str:
    """Return the vendor of a failed EP's devices; "" if it has a device on this machine."""
    vendor = next((vendor for ep, vendor in IMPLIED_VENDORS.items() if is_named(ep, failure)), "")
    is_here = any(device.vendor == vendor for device in situation.machine.hardware)
    return "" if is_here else vendor


def _is_spared(situation: Situation, failure: str) -> bool:
    """Return True if another EP runs on the devices that the failed one is for."""
    ep_name = failure.partition(" ")[0]
    return any(
        offer.device is not None
        and offer.device.vendor == IMPLIED_VENDORS.get(ep_name)
        and offer.device.type is IMPLIED_DEVICE_TYPES.get(ep_name)
        for offer in situation.ep_devices
    )


def _old_software(situation: Situation) -> Iterator[Complaint]:
    for requirement in situation.requirements:
        name = requirement_name(requirement)
        installed = situation.software.get(name, "")
        if installed and is_outside(installed, requirement):
            yield Complaint(
                check="unsupported-version",
                gravity=Gravity.WARNING,
                message=f"{name} {unquoted(installed)} is installed; ortpkg needs {requirement}",
                remedy=f"pip install {quoted(requirement)}",
            )


def _refused_libraries(situation: Situation) -> Iterator[Complaint]:
    for library, reason in situation.refused_libraries.items():
        if _is_judged(situation, provider_of_library_file(library)):
            continue
        device = next(
            (device for part, device in _LIBRARY_DEVICES.items() if part in library), None
        )
        is_needed = device is None or _has(situation, *device)
        yield Complaint(
            check="missing-library",
            gravity=Gravity.ERROR if is_needed else Gravity.INFO,
            message=f"{library} cannot be loaded: {unquoted(reason)}",
            remedy=(
                (
                    REMEDIES.get(device, "")
                    if device
                    else "install it with the system's package manager"
                )
                if is_needed
                else (
                    f"nothing, as long as there is no {device[0]} {device[1].upper()}"
                    if device
                    else ""
                )
            ),
        )


def _is_judged(situation: Situation, ep_name: str | None) -> bool:
    """Return True if an EP was tried: it has a device, or there is a message of its failure."""
    return ep_name is not None and (
        any(offer.ep_name == ep_name and offer.device for offer in situation.ep_devices)
        or any(is_named(ep_name, failure.partition(": ")[0]) for failure in situation.failures)
    )


def _unclaimed_devices(situation: Situation) -> Iterator[Complaint]:
    for missing in missing_eps(situation.machine.hardware, situation.ep_devices):
        yield Complaint(
            check="unclaimed-device",
            gravity=Gravity.WARNING,
            message=(
                f"no execution provider here runs on the {missing.device.type.upper()}"
                f" {quoted(missing.device.name)}"
            ),
            remedy=missing.remedy,
        )


def _devices_without_driver(situation: Situation) -> Iterator[Complaint]:
    if situation.machine.os != "linux":
        return
    for note in situation.machine.notes:
        if note.endswith("not for computing"):
            continue
        yield Complaint(
            check="unusable-device",
            gravity=Gravity.WARNING,
            message=note,
            remedy="install the vendor's driver" if "driver" in note else "",
        )


def _forbidden_device_files(situation: Situation) -> Iterator[Complaint]:
    for file in situation.device_files:
        if file.is_usable:
            continue
        yield Complaint(
            check="forbidden-device-file",
            gravity=Gravity.ERROR,
            message=f"this user may not use {file.name}",
            remedy=(
                f"sudo usermod -aG {file.group} $USER, then log in again"
                if file.group
                else "ask the administrator"
            ),
        )


def _missing_device_files(situation: Situation) -> Iterator[Complaint]:
    """Yield devices with a driver, but without a file in /dev: the usual state of a container."""
    if situation.machine.os != "linux":
        return
    present = tuple(file.name for file in situation.device_files)
    for device in situation.machine.hardware:
        wanted = _wanted_files(device)
        if wanted and not any(name.startswith(wanted) for name in present):
            yield Complaint(
                check="missing-device-file",
                gravity=Gravity.WARNING,
                message=(
                    f"{quoted(device.name)} has a driver, but there is no {wanted}*: a container"
                    " without it?"
                ),
                remedy=(
                    "docker run --gpus all"
                    if wanted == "/dev/nvidia"
                    else f"docker run --device {wanted}..."
                ),
            )


def _wanted_files(device: HardwareDevice) -> str:
    driver = device.metadata.get("driver", "")
    if driver in {"i915", "xe", "amdgpu"}:
        return "/dev/dri/renderD"
    if driver in {"intel_vpu", "amdxdna", "qaic", "rocket"}:
        return "/dev/accel/accel"
    return "/dev/nvidia" if driver == "nvidia" else ""


def _threads(situation: Situation) -> Iterator[Complaint]:
    cores = _cores(situation)
    for name in _THREAD_VARIABLES:
        value = situation.variables.get(name)
        if (
            value
            and value.isascii()
            and value.isdigit()
            and len(value) < 6
            and cores
            and int(value) < cores
        ):
            yield Complaint(
                check="few-threads",
                gravity=Gravity.INFO,
                message=f"{name}={value}, so that matrix products use {value} of {cores} cores",
                remedy=f"unset {name} unless that is meant",
            )
    if situation.usable_cores and cores and situation.usable_cores < cores:
        yield Complaint(
            check="few-cores",
            gravity=Gravity.INFO,
            message=(
                f"this process may use {situation.usable_cores} of {cores} logical cores (its CPU"
                " affinity)"
            ),
        )
    if core_type := situation.variables.get("OPENBLAS_CORETYPE"):
        yield Complaint(
            check="pinned-openblas",
            gravity=Gravity.INFO,
            message=(
                f"OPENBLAS_CORETYPE={core_type} makes OpenBLAS use the kernels of that CPU,"
                " whatever this one is"
            ),
            remedy="unset OPENBLAS_CORETYPE unless that is meant",
        )


def _cache(situation: Situation) -> Iterator[Complaint]:
    if not situation.is_cache_usable:
        yield Complaint(
            check="cache-not-writable",
            gravity=Gravity.WARNING,
            message=(
                "the cache directory cannot be written: backends are asked again by every process"
            ),
            remedy="set ORTPKG_CACHE_DIR to a directory that can be written",
        )


def _better_variants(situation: Situation) -> Iterator[Complaint]:
    for better in situation.better_variants:
        yield Complaint(
            check="better-variant",
            gravity=Gravity.WARNING,
            message=(
                f"{quoted(f'{better.component}/{better.variant}')} of {better.name} would be"
                " better on this machine now, and is not installed"
            ),
            remedy=f"{better.how_to_fetch} fetches it",
        )


def _no_engine(situation: Situation) -> Iterator[Complaint]:
    if not {ep_device.backend for ep_device in situation.ep_devices} & {"openvino", "onnxruntime"}:
        yield Complaint(
            check="embedded-engine-only",
            gravity=Gravity.INFO,
            message=(
                "neither onnxruntime nor openvino works here: models run on the embedded engine,"
                " which is slower"
            ),
            remedy=(
                "pip install onnxruntime openvino; or the extra llvm of ortpkg, which compiles"
                " models to machine code"
            ),
        )


CHECKS: tuple[Callable[[Situation], Iterator[Complaint]], ...] = (
    _overlapping_distributions,
    _failed_backends,
    _displaced_libraries,
    _old_software,
    _refused_libraries,
    _forbidden_device_files,
    _missing_device_files,
    _devices_without_driver,
    _unclaimed_devices,
    _cache,
    _no_engine,
    _better_variants,
    _threads,
)


def _has(situation: Situation, vendor: str, device_type: DeviceType) -> bool:
    return any(device.vendor == vendor for device in situation.machine.devices_of(device_type))


def _cores(situation: Situation) -> int | None:
    cpu = next(iter(situation.machine.devices_of(DeviceType.CPU)), None)
    text = cpu.metadata.get("logical_cores", "") if cpu is not None else ""
    return int(text) if text.isascii() and text.isdigit() else None
