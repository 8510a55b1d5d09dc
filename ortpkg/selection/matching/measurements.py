"""Measurements and failures on this machine, as values for a selection.

``ortpkg.selection.measuring`` makes and stores these records; a selection takes them as an
argument. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.foundations.versions import are_same_versions
from ortpkg.machine.hardware import EpDevice, HardwareDevice

VariantOnDeviceKey = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantOnDevice:
    """A variant on an EP device, as records name it.

    Attributes:
        component_name, variant_name: the variant.
        ep_name, backend, device: the EP device: ONNX Runtime's name of the EP, the backend, and
            :func:`device_key`.
    """

    component_name: str
    variant_name: str
    ep_name: str
    backend: str
    device: str

    @property
    def key(self) -> VariantOnDeviceKey:
        """Identity: equal keys are the same variant on the same EP device."""
        return self.component_name, self.variant_name, self.ep_name, self.backend, self.device


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedVariant(VariantOnDevice):
    """A variant on an EP device, with the versions of EP and driver; "" if unknown."""

    ep_version: str
    driver_version: str

    def is_of_version(self, ep_device: EpDevice) -> bool:
        """Return True if EP and driver of ``ep_device`` have these versions."""
        here = ep_device.ep_version, driver_version_of(ep_device)
        return are_same_versions((self.ep_version, self.driver_version), here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(VariantOnDevice):
    """A variant, measured on one EP device by one backend.

    Attributes:
        p50_s, p95_s: median and 95th percentile of the time of one run.
        lowest_s, highest_s: least and greatest median of a round, the interval of uncertainty of
            ``p50_s``; None in records of older versions.
        batch_times: (rows, seconds of one run with so many rows), the fewest rows first, if
            measured.
        throughput_per_s: runs per second.
        cold_start_s: time from nothing loaded to a session.
        first_run_s: time of the first run of that session.
        peak_memory_nbytes: most memory in use, in bytes; None if it could not be measured.
        max_abs_error, cosine: distance from the package's expected outputs; None if it has none.
        is_accurate: True if the outputs are within the package's tolerance; None if it states none.
    """

    p50_s: float
    p95_s: float
    throughput_per_s: float
    cold_start_s: float
    first_run_s: float
    peak_memory_nbytes: int | None = None
    max_abs_error: float | None = None
    cosine: float | None = None
    is_accurate: bool | None = None
    lowest_s: float | None = None
    highest_s: float | None = None
    batch_times: tuple[tuple[int, float], ...] = ()


class QuarantineCause(StrEnum):
    """Reason why a variant must not run on an EP."""

    CRASH = "CRASH"
    HANG = "HANG"
    WRONG_OUTPUT = "WRONG_OUTPUT"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry(VersionedVariant):
    """A variant that failed on an EP device; it does not concern other versions.

    Attributes:
        cause: kind of failure.
        detail: one sentence for people.
        recorded_at: time in ISO 8601 with a time zone.
    """

    cause: QuarantineCause
    detail: str
    recorded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPass(VersionedVariant):
    """A variant that ran on an EP device in a child process with correct outputs.

    Attributes:
        recorded_at: time in ISO 8601 with a time zone.
    """

    recorded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryFailure(VersionedVariant):
    """A variant whose first try in a child process just failed, in this very process.

    It is not read from records.

    Attributes:
        reason: one sentence for people.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRecords:
    """Records of one package on one machine.

    Attributes:
        measurements: at most one per variant and EP device.
        quarantined: variants that must not run.
        package_digest: digest of the package that was measured.
        fingerprint: fingerprint of the machine as it is now.
        stale_reason: reason why the measurements no longer count, e.g. "the driver of the GPU
            changed"; "" if they do. Entries of ``quarantined`` name their versions themselves, and
            count even then.
        canary_failures: first tries that just failed.
        problem: a problem of the records themselves, about which every selection warns; "" for
            none.
    """

    measurements: tuple[Measurement, ...] = ()
    quarantined: tuple[QuarantineEntry, ...] = ()
    canary_failures: tuple[CanaryFailure, ...] = ()
    package_digest: str = ""
    fingerprint: str = ""
    stale_reason: str = ""
    problem: str = ""


def versioned_variant(
    component: str, variant: str, ep_device: EpDevice, ep_devices: Sequence[EpDevice]
) -> VersionedVariant:
    """Return the name in records of ``variant`` on ``ep_device``, one of ``ep_devices``."""
    return VersionedVariant(
        component_name=component,
        variant_name=variant,
        ep_name=ep_device.ep_name,
        backend=ep_device.backend,
        device=device_key(ep_device, ep_devices),
        ep_version=ep_device.ep_version,
        driver_version=driver_version_of(ep_device),
    )


def device_key(ep_device: EpDevice, ep_devices: Sequence[EpDevice] = ()) -> str:
    """Return the text that names the device of ``ep_device`` in records.

    It is the same for every order of discovery, e.g. "gpu:8086:7d55", "cpu:8086:0000:Intel(R)
    Xeon(R) Processor" (with a name if it has no number), "none" for an EP that reports no devices.

    Args:
        ep_device: one offer of an EP.
        ep_devices: all offers, to distinguish equal devices of one EP and backend: the second by
            address (else by option of the EP) ends in "#1", the third in "#2".
    """
    plain = _plain_key(ep_device)
    equals = [
        other
        for other in ep_devices
        if (other.ep_name, other.backend) == (ep_device.ep_name, ep_device.backend)
        and _plain_key(other) == plain
    ]
    number = sum(_order(equal) < _order(ep_device) for equal in equals)
    return f"{plain}#{number}" if number else plain


def driver_version_of(ep_device: EpDevice) -> str:
    """Return the version of the device's driver, as the system reports it; "" if unknown."""
    return "" if ep_device.device is None else ep_device.device.metadata.get("driver_version", "")


def _plain_key(ep_device: EpDevice) -> str:
    device = ep_device.device
    if device is None:
        return "none"
    key = f"{device.type.value}:{device.vendor_id:04x}:{device.device_id:04x}"
    return key if device.device_id else f"{key}:{device.name}"


def _order(ep_device: EpDevice) -> tuple[object, ...]:
    """Return a key that orders equal devices."""
    return (
        _address(ep_device.device),
        sorted(ep_device.ep_options.items()),
        sorted(ep_device.ep_metadata.items()),
    )


def _address(device: HardwareDevice | None) -> str:
    """Return the address of the device on its bus, from the system or onnxruntime.

    "" if unknown.
    """
    if device is None:
        return ""
    return device.metadata.get("pci_address") or device.metadata.get("pci_bus_id") or ""
