"""Whether a variant fits: its recorded facts and measurements against the limits of the caller and
of the device.

These rules follow those of ``matches_variant``. They are about a variant itself rather than about
what it requires, so that they are asked of a variant only when its turn has come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.errors import quoted, unquoted
from ortpkg.graph.operator_scan import NOTHING, ModelOperators
from ortpkg.package.frozen import EMPTY
from ortpkg.package.package_info import VariantInfo
from ortpkg.quantities import nbytes_text
from ortpkg.selection.operators import OperatorEvidence, judge_operators
from ortpkg.selection.variant_facts import (
    PEAK_MEMORY_FACT,
    SIZE_FACT,
    peak_memory_of,
    precision_of,
    size_of,
)
from ortpkg.selection.verdict import ReasonCode
from ortpkg.selection.wished_limits import NO_LIMITS, Limits, meets_condition, recorded_fact

if TYPE_CHECKING:
    from ortpkg.selection.measurements import Measurement, SelectionRecords
    from ortpkg.selection.record_index import RecordIndex, Rejection

#: What of a device's free memory counts; the rest is for what else starts while the model runs.
MEMORY_HEADROOM = 0.9
#: What is free on a GPU that a probe leaves open is asked where a variant needs more of it than
#: this, and counts then.
MUCH_OF_A_GPU = 0.25

_ESTIMATED = "memory judged by the size of its files, a lower bound: no peak memory is recorded"
_UNKNOWN = "memory not checked: neither its peak memory nor its size is recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """How much memory a variant may need on one EP device, and why in words; up to ``least_nbytes``
    it may always.
    """

    nbytes: int
    text: str
    least_nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """How much memory a variant needs, and who says so; an estimate is a lower bound."""

    nbytes: int
    source: str
    is_estimate: bool = False

    @property
    def text(self) -> str:
        """For a reason: how much, and who says so."""
        return (
            f"it needs {'at least ' if self.is_estimate else ''}{nbytes_text(self.nbytes)} of"
            f" memory ({self.source})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitContext:
    """What is the same for every variant of one selection.

    Attributes:
        limits: the caller's.
        ep_devices: in the order of the selection.
        budgets: of each EP device; None where its memory is unknown.
        smallest_nbytes: of all budgets; None where there is none.
        sizes: variant → bytes of its files, where the package does not record them.
        records: what was measured and what failed here; None where nothing was.
        operators: what models need and EP devices have; None where that is not looked at.
        package_version: that of variants which state none of their own.
    """

    limits: Limits
    ep_devices: tuple[EpDevice, ...]
    budgets: tuple[MemoryBudget | None, ...]
    smallest_nbytes: int | None
    sizes: Mapping[str, int]
    records: RecordIndex | None
    operators: OperatorEvidence | None = None
    package_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """What is to be said of a variant's fit.

    Attributes:
        rejection: what holds on every EP device.
        need: memory, as far as the package tells.
        notes: for the verdict on every EP device, where nothing else need be looked at.
        unchecked: limits that could not be checked.
        recorded: the variant's name where there are records of it.
        operators: what its model needs that not everybody has.
    """

    rejection: Rejection | None = None
    need: MemoryNeed | None = None
    notes: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    recorded: str | None = None
    operators: ModelOperators = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOutcome:
    """What the rules of this module say of a variant on one EP device."""

    rejection: Rejection | None = None
    notes: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    measurement: Measurement | None = None


_UNKNOWN_FITS = Concern(notes=(_UNKNOWN,))


def fit_context(
    component_name: str,
    ep_devices: Sequence[EpDevice],
    *,
    limits: Limits = NO_LIMITS,
    sizes: Mapping[str, int] = EMPTY,
    records: SelectionRecords | None = None,
    asked_memory: Collection[HardwareDevice] = (),
    operators: OperatorEvidence | None = None,
    package_version: str | None = None,
) -> FitContext | None:
    """The context of one selection; None where there is nothing that a variant's facts could be
    compared with.

    What is free on the devices of ``asked_memory`` counts only for variants because of which one
    would have asked.
    """
    budgets = tuple(_budget_of(ep_device.device, asked_memory) for ep_device in ep_devices)
    known = [budget.nbytes for budget in budgets if budget is not None]
    index = None
    if records is not None:
        from ortpkg.selection.record_index import index_records  # most machines have no records

        index = index_records(records, component_name, ep_devices)
    if not known and index is None and operators is None and limits == NO_LIMITS:
        return None
    return FitContext(
        limits=NO_LIMITS if limits == NO_LIMITS else limits,
        ep_devices=tuple(ep_devices),
        budgets=budgets,
        smallest_nbytes=min(known, default=None),
        sizes=sizes,
        records=index,
        operators=operators,
        package_version=package_version,
    )


def concern_of(variant: VariantInfo, context: FitContext) -> Concern | None:
    """What is to be said of the variant's fit; None if nothing, on any EP device."""
    concern = _concern_without_operators(variant, context)
    needed = None if context.operators is None else context.operators.needs(variant)
    return replace(concern or Concern(), operators=needed) if needed else concern


def _concern_without_operators(variant: VariantInfo, context: FitContext) -> Concern | None:
    has_records = context.records is not None and variant.name in context.records.variants
    if context.limits is NO_LIMITS and not has_records:
        return _plain_concern(variant, context)
    rejections, unchecked = _check_facts(variant, context)
    return Concern(
        rejection=next(iter(rejections), None),
        need=memory_need_of(variant, context.sizes),
        unchecked=tuple(unchecked),
        recorded=variant.name if has_records else None,
    )


def judge_fit(concern: Concern, ep_device_at: int, context: FitContext) -> FitOutcome:
    """The variant on one EP device: its operators, then all else; what could not be told of them is
    for the verdict.
    """
    if not concern.operators or context.operators is None:
        return _judge_facts(concern, ep_device_at, context)
    outcome = judge_operators(
        concern.operators, context.ep_devices[ep_device_at], context.operators
    )
    if outcome.rejection is not None:
        return FitOutcome(rejection=outcome.rejection)
    found = _judge_facts(concern, ep_device_at, context)
    return replace(
        found,
        notes=(*outcome.unchecked, *found.notes),
        unchecked=(*outcome.unchecked, *found.unchecked),
    )


def _judge_facts(concern: Concern, ep_device_at: int, context: FitContext) -> FitOutcome:
    """Its facts, its memory there, then what was measured and what failed there."""
    if concern.notes:
        return FitOutcome(notes=() if context.budgets[ep_device_at] is None else concern.notes)
    # most variants come with nothing that is asked here
    from ortpkg.selection.record_index import (
        canary_rejection,
        error_rejection,
        latency_rejection,
        measured_note,
        quarantine_rejection,
    )

    limits, index, place = context.limits, context.records, (concern.recorded or "", ep_device_at)
    measurement = None if index is None else index.measurements.get(place)
    need = _need_there(concern, measurement, context.ep_devices[ep_device_at])
    memory = _memory_notes(need, ep_device_at, context)
    unknown = (*concern.unchecked, *(memory if limits.max_memory_nbytes is not None else ()))
    unmeasured = tuple(_unmeasured(measurement, limits))
    rejection = (
        concern.rejection
        or _memory_rejection(need, ep_device_at, context)
        or latency_rejection(measurement, limits)
        or error_rejection(measurement, limits)
        or (_strict_rejection(unknown, unmeasured) if limits.strict_facts else None)
        or canary_rejection(
            None if index is None else index.canary_failures.get(place), measurement
        )
        or quarantine_rejection(None if index is None else index.quarantined.get(place))
    )
    measured = () if measurement is None else (measured_note(measurement),)
    notes = measured if rejection else (*measured, *memory, *concern.unchecked, *unmeasured)
    return FitOutcome(
        rejection=rejection, notes=notes, unchecked=(*unknown, *unmeasured), measurement=measurement
    )


# --- memory ---------------------------------------------------------------------------------------


def _plain_concern(variant: VariantInfo, context: FitContext) -> Concern | None:
    """Where nothing but the devices' memory can speak against a variant; on the way of every
    selection.
    """
    smallest_nbytes, facts = context.smallest_nbytes, variant.metadata
    if smallest_nbytes is None:
        return None
    stated = facts.get(PEAK_MEMORY_FACT)
    if stated is None:
        stated = facts.get(SIZE_FACT)
    if type(stated) is int and 0 <= stated <= smallest_nbytes:
        return None
    need = memory_need_of(variant, context.sizes) if stated is not None or context.sizes else None
    if need is None:
        return _UNKNOWN_FITS
    return Concern(need=need) if need.nbytes > smallest_nbytes else None


def _budget_of(
    device: HardwareDevice | None, asked_memory: Collection[HardwareDevice]
) -> MemoryBudget | None:
    """Free memory with headroom; where it is unknown, all memory of a device that has its own, or
    of the machine.
    """
    if device is None:
        return None
    if device.free_memory_nbytes is not None:
        text = (
            f"{nbytes_text(device.free_memory_nbytes)} are free here, of which"
            f" {MEMORY_HEADROOM:.0%} count"
        )
        return MemoryBudget(
            nbytes=int(device.free_memory_nbytes * MEMORY_HEADROOM),
            text=text,
            least_nbytes=(
                int((device.memory_nbytes or 0) * MUCH_OF_A_GPU) if device in asked_memory else 0
            ),
        )
    if device.memory_nbytes and (device.is_discrete or device.type is DeviceType.CPU):
        return MemoryBudget(
            nbytes=device.memory_nbytes,
            text=f"this device has {nbytes_text(device.memory_nbytes)} in all",
        )
    return None


def memory_need_of(variant: VariantInfo, sizes: Mapping[str, int]) -> MemoryNeed | None:
    """What the package tells of it; ``sizes``: variant → bytes of its files, where the package does
    not record them.
    """
    peak = peak_memory_of(variant.metadata)
    if peak is not None:
        return MemoryNeed(nbytes=peak, source="declared")
    size = _size_of(variant, sizes)
    return (
        None
        if size is None
        else MemoryNeed(nbytes=size, source="the size of its files", is_estimate=True)
    )


def _size_of(variant: VariantInfo, sizes: Mapping[str, int]) -> int | None:
    recorded = size_of(variant.metadata)
    return recorded if recorded is not None else sizes.get(variant.name)


def _memory_notes(
    need: MemoryNeed | None, ep_device_at: int, context: FitContext
) -> tuple[str, ...]:
    """What is not known of the memory, where somebody limits it; an estimate is worth a word where
    the caller does.
    """
    is_limited = context.limits.max_memory_nbytes is not None
    if need is None:
        return (_UNKNOWN,) if is_limited or context.budgets[ep_device_at] is not None else ()
    return (_ESTIMATED,) if is_limited and need.is_estimate else ()


def _need_there(
    concern: Concern, measurement: Measurement | None, ep_device: EpDevice
) -> MemoryNeed | None:
    """What was measured counts before what is declared, but for a discrete GPU, whose memory is not
    the process's.
    """
    measured = None if measurement is None else measurement.peak_memory_nbytes
    if measured is None or (ep_device.device is not None and ep_device.device.is_discrete):
        return concern.need
    return MemoryNeed(nbytes=measured, source="measured here")


def _memory_rejection(
    need: MemoryNeed | None, ep_device_at: int, context: FitContext
) -> Rejection | None:
    if need is None:
        return None
    limit = context.limits.max_memory_nbytes
    if limit is not None and need.nbytes > limit:
        return (
            ReasonCode.MEMORY_TOO_LARGE,
            f"{need.text}; at most {nbytes_text(limit)} was asked for",
        )
    budget = context.budgets[ep_device_at]
    if budget is not None and need.nbytes > max(budget.nbytes, budget.least_nbytes):
        return ReasonCode.MEMORY_TOO_SMALL, f"{need.text}; {budget.text}"
    return None


# --- facts ----------------------------------------------------------------------------------------


def _check_facts(variant: VariantInfo, context: FitContext) -> tuple[list[Rejection], list[str]]:
    """What limits say of the variant's facts: rejections in the order of the rules, and what could
    not be checked.
    """
    limits = context.limits
    unchecked: list[str] = []
    rejections: list[Rejection] = [*_where_rejections(variant, context)]
    if limits.max_size_nbytes is not None:
        size = _size_of(variant, context.sizes)
        if size is None:
            unchecked.append("size not checked: it is not recorded")
        elif size > limits.max_size_nbytes:
            asked = f"at most {nbytes_text(limits.max_size_nbytes)} was asked for"
            rejections.append(
                (ReasonCode.SIZE_TOO_LARGE, f"its files have {nbytes_text(size)}; {asked}")
            )
    if limits.min_precision is not None:
        precision = precision_of(variant.metadata)
        if precision is None:
            unchecked.append(
                "precision not checked: neither quantization nor data types are recorded"
            )
        elif precision < limits.min_precision:
            asked = f"{limits.min_precision.label} or more was asked for"
            rejections.append(
                (ReasonCode.PRECISION_TOO_LOW, f"it computes in {precision.label}; {asked}")
            )
    return rejections, unchecked


def _where_rejections(variant: VariantInfo, context: FitContext) -> Iterator[Rejection]:
    for key, value in context.limits.where:
        is_recorded, recorded = recorded_fact(variant, key, package_version=context.package_version)
        asked = f"{unquoted(key)}={unquoted(value)} was asked for"
        if not is_recorded:
            yield ReasonCode.METADATA_MISMATCH, f"{asked}, and it records no {quoted(key)}"
        elif not meets_condition(key, recorded, value):
            yield ReasonCode.METADATA_MISMATCH, f"{asked}; it records {quoted(_shown(recorded))}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _unmeasured(measurement: Measurement | None, limits: Limits) -> Iterable[str]:
    if limits.max_latency_s is not None and measurement is None:
        yield "latency not checked: not measured here"
    if limits.max_error is not None and (measurement is None or measurement.max_abs_error is None):
        yield "error not checked: not measured here"


def _strict_rejection(unknown: Sequence[str], unmeasured: Sequence[str]) -> Rejection | None:
    if unknown:
        return ReasonCode.FACT_UNKNOWN, "; ".join(unknown)
    return (ReasonCode.NOT_MEASURED, "; ".join(unmeasured)) if unmeasured else None
