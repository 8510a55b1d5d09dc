"""Results of a selection: a verdict per variant × EP device with a reason code, and the winner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility

if TYPE_CHECKING:
    from ortpkg.package.package_info import VariantInfo


class ReasonCode(StrEnum):
    """Reason why a variant was selected, outranked or rejected on one EP device.

    Stable: scripts may match on them.
    """

    SELECTED = "SELECTED"
    LOWER_RANK = "LOWER_RANK"
    PREFERS_RECOMPILATION = "PREFERS_RECOMPILATION"
    EP_MISMATCH = "EP_MISMATCH"
    EP_NOT_AVAILABLE = "EP_NOT_AVAILABLE"
    EP_NOT_REQUESTED = "EP_NOT_REQUESTED"
    BACKEND_NOT_REQUESTED = "BACKEND_NOT_REQUESTED"
    DEVICE_MISMATCH = "DEVICE_MISMATCH"
    DEVICE_NOT_PRESENT = "DEVICE_NOT_PRESENT"
    DEVICE_NOT_REQUESTED = "DEVICE_NOT_REQUESTED"
    PROVIDER_OPTION_DEVICE_CONFLICT = "PROVIDER_OPTION_DEVICE_CONFLICT"
    COMPILED_MODEL_UNSUPPORTED = "COMPILED_MODEL_UNSUPPORTED"
    ARCHITECTURE_MISMATCH = "ARCHITECTURE_MISMATCH"
    VARIANT_ABSENT = "VARIANT_ABSENT"
    SOURCE_CHANGED = "SOURCE_CHANGED"
    NEEDS_TRUST = "NEEDS_TRUST"
    OPERATOR_NOT_AVAILABLE = "OPERATOR_NOT_AVAILABLE"
    METADATA_MISMATCH = "METADATA_MISMATCH"
    SIZE_TOO_LARGE = "SIZE_TOO_LARGE"
    PRECISION_TOO_LOW = "PRECISION_TOO_LOW"
    MEMORY_TOO_LARGE = "MEMORY_TOO_LARGE"
    MEMORY_TOO_SMALL = "MEMORY_TOO_SMALL"
    LATENCY_TOO_HIGH = "LATENCY_TOO_HIGH"
    ERROR_TOO_LARGE = "ERROR_TOO_LARGE"
    FACT_UNKNOWN = "FACT_UNKNOWN"
    NOT_MEASURED = "NOT_MEASURED"
    CANARY_FAILED = "CANARY_FAILED"
    QUARANTINED = "QUARANTINED"
    # Only under the rules of a release of onnxruntime:
    PACKAGE_REFUSED = "PACKAGE_REFUSED"
    NO_EP_GIVEN = "NO_EP_GIVEN"
    EP_UNSET = "EP_UNSET"
    COMPATIBILITY_CHECK_FAILED = "COMPATIBILITY_CHECK_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement of one variant on one EP device.

    Attributes:
        variant: the variant judged.
        ep_device: the EP device; None if none could be tried (its EP is not available here).
        code: the reason code; SELECTED, LOWER_RANK and PREFERS_RECOMPILATION are eligible, every
            other one is a rejection.
        reason: one sentence for people, complete by itself.
        compatibility: the EP's rating of ``ep_compatibility_info``.
        rank: the sort key (smaller is better); None for a rejection.
        decided_by: for an eligible variant, the criterion on which it lost to the winner.
        notes: checks that were skipped or not possible ("device rule skipped: the EP reports no
            devices").
    """

    variant: VariantInfo
    ep_device: EpDevice | None
    code: ReasonCode
    reason: str
    compatibility: CompiledModelCompatibility = CompiledModelCompatibility.NOT_APPLICABLE
    rank: tuple[int, ...] | None = None
    decided_by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_eligible(self) -> bool:
        """True if the variant may be selected on this EP device."""
        return self.rank is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The result for one component: the winner, if there is one, and every verdict.

    Attributes:
        component_name: name of the component.
        policy: name of the policy.
        verdicts: all verdicts, the best first, rejections last, in declaration order.
        criteria: meaning of each number of a verdict's rank, in the order in which they decide.
        best: the winning verdict (code SELECTED), or None.
        device, ep, backend: the requested filters; None for no filter.
        check_architecture: True if architecture constraints were evaluated.
        provider_options: EP → requested options; a session on the winner uses them before the
            package's.
        limits: the requested limits, in words.
        machine: name of the machine profile; "" for this machine.
        ties: variants that only declaration order separates from the winner.
        unpredictable: names of variants, including the winner, among which the rules do not decide.
        hardware: the devices that were considered.
        ep_devices: the EP devices that were considered, in the policy's order.
        warnings: sentences, e.g. that no variant covers a CPU.
    """

    component_name: str
    policy: str
    verdicts: Sequence[Verdict]
    criteria: tuple[str, ...]
    best: Verdict | None = None
    device: str | None = None
    ep: str | None = None
    backend: str | None = None
    check_architecture: bool = False
    provider_options: Mapping[str, Mapping[str, str]] = EMPTY
    limits: tuple[str, ...] = ()
    machine: str = ""
    ties: Sequence[str] = ()
    unpredictable: tuple[str, ...] = ()
    hardware: tuple[HardwareDevice, ...] = ()
    ep_devices: tuple[EpDevice, ...] = ()
    warnings: tuple[str, ...] = ()
