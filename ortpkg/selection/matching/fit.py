"""Judge whether a variant fits the limits of caller and device, by facts and measurements.

These rules follow those of ``matches_variant``. They concern a variant itself rather than its
requirements, and may read its model, so that they run only when its turn has come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.package.derived_variants import is_derived
from ortpkg.package.package_info import VariantInfo
from ortpkg.selection.matching.candidate import Judgement
from ortpkg.selection.matching.operators import judge_operators
from ortpkg.selection.matching.request import SelectionRequest
from ortpkg.selection.matching.variant_facts import (
    peak_memory_of,
    precision_of,
    size_of,
)
from ortpkg.selection.matching.verdict import ReasonCode
from ortpkg.selection.matching.wished_limits import Limits, meets_condition, recorded_fact

if TYPE_CHECKING:
    from ortpkg.selection.matching.measurements import Measurement
    from ortpkg.selection.matching.record_index import RecordIndex, Rejection

#: Usable share of a device's free memory; the rest is for other programs that start meanwhile.
MEMORY_HEADROOM = 0.9
#: If the probe does not tell a GPU's free memory, it is queried for variants that need more than
#: this share of the GPU's memory.
MUCH_OF_A_GPU = 0.25

_ESTIMATED = "memory judged by the size of its files, a lower bound: no peak memory is recorded"
_UNKNOWN = "memory not checked: neither its peak memory nor its size is recorded"

_ABSENT = Judgement(
    code=ReasonCode.VARIANT_ABSENT,
    reason=(
        "its files are not here: this is a part of the package; ortpkg install or ortpkg pull"
        " with --variant fetches them"
    ),
)

_NO_SOURCE = "no record of the model that it was compiled of: whether that is older cannot be told"
_RENEW = "ortpkg compile --renew makes it anew"


class MemoryNeed(NamedTuple):
    """Memory that a variant needs.

    Attributes:
        nbytes: the number of bytes; an estimate is a lower bound.
        source: where the number comes from.
        is_estimate: True for an estimate.
    """

    nbytes: int
    source: str
    is_estimate: bool = False

    @property
    def text(self) -> str:
        """Text for a reason: the number of bytes and its source."""
        return (
            f"it needs {'at least ' if self.is_estimate else ''}{nbytes_text(self.nbytes)} of"
            f" memory ({self.source})"
        )


def judge_fit(
    variant: VariantInfo, ep_device_at: int, request: SelectionRequest, index: RecordIndex | None
) -> Judgement:
    """Judge a variant on one EP device: its source, its operators, its facts, and its presence.

    ``index``: records of the request; None if there are none. The operators of a variant whose
    files are absent are unknown.
    """
    if refusal := request.why_stale(variant):
        return Judgement(code=ReasonCode.SOURCE_CHANGED, reason=f"{refusal}; {_RENEW}")
    evidence = request.operators
    needs = None if evidence is None or variant.is_absent else evidence.needs(variant)
    judgement = Judgement()
    if needs and evidence is not None:
        judgement = judge_operators(needs, request.ep_devices[ep_device_at], evidence)
    if judgement.code is None:
        judgement = judgement.and_then(_judge_facts(variant, ep_device_at, request, index))
    sources = needs.context_sources if needs else ()
    is_compiled = bool(variant.constraints.ep_compatibility_info or sources)
    if judgement.code is None and is_compiled and (refusal := request.why_refused(variant)):
        judgement = judgement.and_then(Judgement(code=ReasonCode.NEEDS_TRUST, reason=refusal))
    if judgement.code is None and variant.is_absent and not request.includes_absent:
        judgement = judgement.and_then(_ABSENT)
    return judgement


def _judge_facts(
    variant: VariantInfo, ep_device_at: int, request: SelectionRequest, index: RecordIndex | None
) -> Judgement:
    """Judge the facts of a variant, its memory, and then measurements and failures there."""
    limits, key = request.limits, (variant.name, ep_device_at)
    device = request.ep_devices[ep_device_at].device
    measurement = None if index is None else index.measurements.get(key)
    need = _need_there(variant, measurement, device, request.sizes)
    memory = _memory_notes(need, device, request)
    fact_rejections, unchecked = _check_facts(variant, request)
    unknown = (*unchecked, *(memory if limits.max_memory_nbytes is not None else ()))
    unmeasured = tuple(_unmeasured(measurement, limits))
    rejection = (
        next(iter(fact_rejections), None)
        or _memory_rejection(need, device, request)
        or (None if index is None else index.limit_rejection(key, limits))
        or (_strict_rejection(unknown, unmeasured) if limits.strict_facts else None)
        or (None if index is None else index.failure_rejection(key))
    )
    code, reason = rejection or (None, "")
    measured = () if index is None else index.measured_notes(key)
    unrecorded = (_NO_SOURCE,) if _is_of_unknown_source(variant) else ()
    return Judgement(
        code=code,
        reason=reason,
        notes=measured if rejection else (*measured, *memory, *unchecked, *unmeasured, *unrecorded),
        unchecked=(*unknown, *unmeasured),
        measurement=measurement,
    )


def _is_of_unknown_source(variant: VariantInfo) -> bool:
    return bool(variant.constraints.ep_compatibility_info) and not is_derived(variant)


# --- memory ---------------------------------------------------------------------------------------


def _usable_nbytes(
    device: HardwareDevice | None, probed_memory: Collection[HardwareDevice]
) -> int | None:
    """Return the free memory with headroom.

    If unknown, all of the device's or the machine's memory.

    The free memory of the devices in ``probed_memory`` counts only for variants that would have
    caused the query.
    """
    if device is None:
        return None
    if device.free_memory_nbytes is not None:
        asked_from_nbytes = (device.memory_nbytes or 0) * MUCH_OF_A_GPU
        least_nbytes = int(asked_from_nbytes) if device in probed_memory else 0
        return max(int(device.free_memory_nbytes * MEMORY_HEADROOM), least_nbytes)
    has_own = device.is_discrete or device.type is DeviceType.CPU
    return device.memory_nbytes or None if has_own else None


def _memory_text(device: HardwareDevice) -> str:
    if device.free_memory_nbytes is None:
        return f"this device has {nbytes_text(device.memory_nbytes or 0)} in all"
    return (
        f"{nbytes_text(device.free_memory_nbytes)} are free here, of which"
        f" {MEMORY_HEADROOM:.0%} count"
    )


def memory_need_of(variant: VariantInfo, sizes: Mapping[str, int]) -> MemoryNeed | None:
    """Return the memory that a variant needs according to its package; None if unknown.

    ``sizes``: variant → bytes of its files, for those that the package does not record.
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
    need: MemoryNeed | None, device: HardwareDevice | None, request: SelectionRequest
) -> tuple[str, ...]:
    """Return notes on unknown memory, if there is a limit of it.

    An estimate is noted if the caller sets the limit.
    """
    is_limited = request.limits.max_memory_nbytes is not None
    if need is not None:
        return (_ESTIMATED,) if is_limited and need.is_estimate else ()
    is_known = is_limited or _usable_nbytes(device, request.probed_memory) is not None
    return (_UNKNOWN,) if is_known else ()


def _need_there(
    variant: VariantInfo,
    measurement: Measurement | None,
    device: HardwareDevice | None,
    sizes: Mapping[str, int],
) -> MemoryNeed | None:
    """Return the memory needed on a device: measured, else declared.

    Discrete GPUs: declared only.
    """
    measured = None if measurement is None else measurement.peak_memory_nbytes
    if measured is None or (device is not None and device.is_discrete):
        return memory_need_of(variant, sizes)
    return MemoryNeed(nbytes=measured, source="measured here")


def _memory_rejection(
    need: MemoryNeed | None, device: HardwareDevice | None, request: SelectionRequest
) -> Rejection | None:
    if need is None:
        return None
    limit = request.limits.max_memory_nbytes
    if limit is not None and need.nbytes > limit:
        request_text = f"at most {nbytes_text(limit)} was asked for"
        return ReasonCode.MEMORY_TOO_LARGE, f"{need.text}; {request_text}"
    usable = _usable_nbytes(device, request.probed_memory)
    if device is not None and usable is not None and need.nbytes > usable:
        return ReasonCode.MEMORY_TOO_SMALL, f"{need.text}; {_memory_text(device)}"
    return None


# --- facts ----------------------------------------------------------------------------------------


def _check_facts(
    variant: VariantInfo, request: SelectionRequest
) -> tuple[list[Rejection], list[str]]:
    """Check the variant's facts against the limits.

    Return rejections in order, and unchecked ones.
    """
    limits = request.limits
    unchecked: list[str] = []
    rejections: list[Rejection] = [*_where_rejections(variant, request)]
    if limits.max_size_nbytes is not None:
        size = _size_of(variant, request.sizes)
        if size is None:
            unchecked.append("size not checked: it is not recorded")
        elif size > limits.max_size_nbytes:
            request_text = f"at most {nbytes_text(limits.max_size_nbytes)} was asked for"
            rejections.append(
                (ReasonCode.SIZE_TOO_LARGE, f"its files have {nbytes_text(size)}; {request_text}")
            )
    if limits.min_precision is not None:
        precision = precision_of(variant.metadata)
        if precision is None:
            unchecked.append(
                "precision not checked: neither quantization nor data types are recorded"
            )
        elif precision < limits.min_precision:
            request_text = f"{limits.min_precision.label} or more was asked for"
            rejections.append(
                (ReasonCode.PRECISION_TOO_LOW, f"it computes in {precision.label}; {request_text}")
            )
    return rejections, unchecked


def _where_rejections(variant: VariantInfo, request: SelectionRequest) -> Iterator[Rejection]:
    for key, value in request.limits.where:
        is_recorded, recorded = recorded_fact(variant, key, package_version=request.package_version)
        request_text = f"{unquoted(key)}={unquoted(value)} was asked for"
        if not is_recorded:
            yield ReasonCode.METADATA_MISMATCH, f"{request_text}, and it records no {quoted(key)}"
        elif not meets_condition(key, recorded, value):
            yield (
                ReasonCode.METADATA_MISMATCH,
                f"{request_text}; it records {quoted(_shown(recorded))}",
            )


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
