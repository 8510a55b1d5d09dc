"""What was measured and what failed on this machine, as values that a selection takes.

``ortpkg.measuring`` makes and keeps these records; they come into a selection as an argument.
Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.versions import are_same_versions

PlaceKey = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantPlace:
    """A variant on an EP device, as records name it.

    Attributes:
        component_name, variant_name: which variant.
        ep_name, backend, device: where: ONNX Runtime's name of the EP, what runs it, and
            :func:`device_key`.
    """

    component_name: str
    variant_name: str
    ep_name: str
    backend: str
    device: str

    @property
    def key(self) -> PlaceKey:
        """What tells places apart, whatever else is known of them."""
        return self.component_name, self.variant_name, self.ep_name, self.backend, self.device


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedPlace(VariantPlace):
    """The same with one version of the EP and one of the device's driver; "" where unknown."""

    ep_version: str
    driver_version: str

    def is_of_version(self, ep_device: EpDevice) -> bool:
        """Whether EP and driver of ``ep_device`` have these versions."""
        here = ep_device.ep_version, driver_version_of(ep_device)
        return are_same_versions((self.ep_version, self.driver_version), here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(VariantPlace):
    """One variant, measured on one EP device by one backend.

    Attributes:
        p50_s, p95_s: median and 95th percentile of the time of one run.
        lowest_s, highest_s: the least and the greatest median of a round, the interval in which
            ``p50_s`` is certain; None in records of older versions.
        batch_times: (rows, seconds of one run of so many), the fewest rows first, where that was
            measured.
        throughput_per_s: runs per second.
        cold_start_s: from nothing loaded to a session.
        first_run_s: the first run of that session.
        peak_memory_nbytes: the most memory that was in use; None where it could not be measured.
        max_abs_error, cosine: distance from the package's expected outputs; None where it has none.
        is_accurate: whether the outputs are within the package's tolerance; None where it states
            none.
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
    """Why a variant must not run on an EP."""

    CRASH = "CRASH"
    HANG = "HANG"
    WRONG_OUTPUT = "WRONG_OUTPUT"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry(VersionedPlace):
    """A variant that failed there. It says nothing of other versions.

    Attributes:
        cause: how it failed.
        detail: one sentence for people.
        recorded_at: when, in ISO 8601 with a time zone.
    """

    cause: QuarantineCause
    detail: str
    recorded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPass(VersionedPlace):
    """A variant that ran there in a child process, and gave what it should.

    ``recorded_at``: when, in ISO 8601 with a time zone.
    """

    recorded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryFailure(VersionedPlace):
    """A variant whose first try in a child process failed just now, in this very process.

    It comes from no record. ``reason`` is one sentence for people.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRecords:
    """All that is recorded of one package on one machine.

    Attributes:
        measurements: at most one per variant and EP device.
        quarantined: what must not run.
        package_digest: of the package that was measured.
        fingerprint: of the machine that it was measured on, as it is now.
        stale_reason: why the measurements no longer count, e.g. "the driver of the GPU changed"; ""
            where they do. Entries of ``quarantined`` name their versions themselves, and count even
            then.
        canary_failures: what was tried just now and failed.
        problem: what is wrong with the records themselves, which every selection warns of; "" for
            nothing.
    """

    measurements: tuple[Measurement, ...] = ()
    quarantined: tuple[QuarantineEntry, ...] = ()
    canary_failures: tuple[CanaryFailure, ...] = ()
    package_digest: str = ""
    fingerprint: str = ""
    stale_reason: str = ""
    problem: str = ""


def place_of(
    component: str, variant: str, ep_device: EpDevice, ep_devices: Sequence[EpDevice]
) -> VersionedPlace:
    """How records name ``variant`` on ``ep_device``, one of ``ep_devices``."""
    return VersionedPlace(
        component_name=component,
        variant_name=variant,
        ep_name=ep_device.ep_name,
        backend=ep_device.backend,
        device=device_key(ep_device, ep_devices),
        ep_version=ep_device.ep_version,
        driver_version=driver_version_of(ep_device),
    )


def device_key(ep_device: EpDevice, ep_devices: Sequence[EpDevice] = ()) -> str:
    """The text by which records name the device of ``ep_device``.

    The same for every order of discovery.

    E.g. "gpu:8086:7d55", "cpu:8086:0000:Intel(R) Xeon(R) Processor" (named where it has no number),
    "none" for an EP that reports no devices.

    Args:
        ep_device: one offer of an EP.
        ep_devices: all offers, so that equal devices of one EP and backend can be told apart: the
            second by address (else by option of the EP) ends in "#1", the third in "#2".
    """
    plain = _plain_key(ep_device)
    equals = [
        each
        for each in ep_devices
        if (each.ep_name, each.backend) == (ep_device.ep_name, ep_device.backend)
        and _plain_key(each) == plain
    ]
    number = sum(_order(each) < _order(ep_device) for each in equals)
    return f"{plain}#{number}" if number else plain


def driver_version_of(ep_device: EpDevice) -> str:
    """The version of the device's driver, as the system tells it; "" where unknown."""
    return "" if ep_device.device is None else ep_device.device.metadata.get("driver_version", "")


def _plain_key(ep_device: EpDevice) -> str:
    device = ep_device.device
    if device is None:
        return "none"
    key = f"{device.type.value}:{device.vendor_id:04x}:{device.device_id:04x}"
    return key if device.device_id else f"{key}:{device.name}"


def _order(ep_device: EpDevice) -> tuple[object, ...]:
    """What orders equal devices."""
    return (
        _address(ep_device.device),
        sorted(ep_device.ep_options.items()),
        sorted(ep_device.ep_metadata.items()),
    )


def _address(device: HardwareDevice | None) -> str:
    """Where the device sits, by the system or by onnxruntime."""
    if device is None:
        return ""
    return device.metadata.get("pci_address") or device.metadata.get("pci_bus_id") or ""
