"""Select a variant: judge every variant on every EP device, rank what is eligible, say why.

Pure; opens no file.

Selection is a policy of its own, apart from the package: what it needs comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.ep_names import ep_named
from ortpkg.errors import quoted
from ortpkg.package.frozen import EMPTY
from ortpkg.package.package_info import ComponentInfo
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.candidate import Candidate, best_first
from ortpkg.selection.fit import fit_context
from ortpkg.selection.judging import Judges
from ortpkg.selection.lazy_tuple import LazyTuple
from ortpkg.selection.matches_variant import CompatibilityOf, MatchContext
from ortpkg.selection.policies import find_policy
from ortpkg.selection.provider_option_wishes import ProviderOptionWishes, provider_options_by_ep
from ortpkg.selection.ranking import (
    CRITERIA,
    MEASURED_CRITERIA,
    deciding_criterion,
    order_devices,
)
from ortpkg.selection.reasons import lower_rank_reason
from ortpkg.selection.request import SelectionRequest, backend_named, device_type_named
from ortpkg.selection.selection_warnings import selection_warnings
from ortpkg.selection.verdict import ReasonCode, Selection, Verdict
from ortpkg.selection.wished_limits import NO_LIMITS, Limits, check_where_keys

if TYPE_CHECKING:
    from ortpkg.selection.measurements import SelectionRecords
    from ortpkg.selection.operators import OperatorEvidence


def select_variant(
    component: ComponentInfo, ep_devices: Sequence[EpDevice], request: SelectionRequest
) -> Selection:
    """The best variant of ``component`` on what the machine offers, and a verdict on everything
    else.

    The order of ``ep_devices``, which execution providers offer, does not matter. That nothing fits
    is no error: ``best`` is then None. Raises UsageError where ``request.limits`` name metadata
    that no variant has.
    """
    return select_ep_devices(
        component, order_devices(ep_devices, request.policy, request.hardware), request
    )


def make_request(
    component: ComponentInfo,
    ep_devices: Sequence[EpDevice],
    *,
    hardware: Sequence[HardwareDevice],
    compatibility: CompatibilityOf,
    policy: str = "default",
    device: str | None = None,
    ep: str | None = None,
    backend: str = "auto",
    check_architecture: bool = False,
    provider_options: ProviderOptionWishes | None = None,
    notes: Sequence[str] = (),
    limits: Limits = NO_LIMITS,
    sizes: Mapping[str, int] = EMPTY,
    records: SelectionRecords | None = None,
    machine: str = "",
    asked_memory: Collection[HardwareDevice] = (),
    operators: OperatorEvidence | None = None,
    package_version: str | None = None,
) -> SelectionRequest:
    """The request that a caller's words become.

    Args:
        component, ep_devices: what is selected of, and on; they may name EPs that ONNX Runtime does
            not know.
        hardware, compatibility, check_architecture, notes: see :class:`SelectionRequest`.
        policy: a name of ``policies.POLICIES``.
        device, ep, backend: filters in the caller's words; an EP may be an alias, and backend
            "auto" is any.
        provider_options: options of an execution provider, see :func:`provider_options_by_ep`.
        limits, sizes, records, machine, asked_memory, operators, package_version: see
            :class:`SelectionRequest`.

    Raises UsageError for an unknown policy, device, EP or backend, and for options of which it
    cannot be told whose.
    """
    named = _names_of(component, ep_devices)
    ep = None if ep is None else ep_named(ep, named)
    return SelectionRequest(
        policy=find_policy(policy),
        hardware=tuple(hardware),
        compatibility=compatibility,
        device=None if device is None else device_type_named(device),
        ep=ep,
        backend=None if backend == "auto" else backend_named(backend, ep_devices),
        check_architecture=check_architecture,
        provider_options=provider_options_by_ep(provider_options, ep=ep, named=named),
        notes=tuple(notes),
        limits=limits,
        sizes=sizes,
        records=records,
        machine=machine,
        asked_memory=asked_memory,
        operators=operators,
        package_version=package_version,
    )


def select_ep_devices(
    component: ComponentInfo, ordered: Sequence[EpDevice], request: SelectionRequest
) -> Selection:
    """The variant and the EP device that are best together, of EP devices in the policy's order.

    Raises UsageError where ``request.limits`` name metadata that no variant has.
    """
    context = MatchContext(
        ep_devices=tuple(ordered),
        hardware=request.hardware,
        compatibility=request.compatibility,
        device=request.device,
        ep=request.ep,
        backend=request.backend,
        check_architecture=request.check_architecture,
        provider_options=request.provider_options,
    )
    limits = request.limits
    if limits.where:
        check_where_keys(limits.where, component.variants, package_version=request.package_version)
    fit = fit_context(
        component.name,
        ordered,
        limits=limits,
        sizes=request.sizes,
        records=request.records,
        asked_memory=request.asked_memory,
        operators=request.operators,
        package_version=request.package_version,
    )
    judges = Judges(component.variants, context, request.policy, fit)
    winner = judges.winner()
    criteria = MEASURED_CRITERIA if request.policy.uses_measurements else CRITERIA
    best = None if winner is None else _eligible_verdict(winner, winner, criteria)
    return Selection(
        component_name=component.name,
        policy=request.policy.name,
        verdicts=LazyTuple(partial(_all_verdicts, judges, winner, best, criteria)),
        criteria=criteria,
        best=best,
        device=None if request.device is None else request.device.value,
        ep=request.ep,
        backend=request.backend,
        check_architecture=request.check_architecture,
        provider_options=request.provider_options,
        limits=() if limits is NO_LIMITS else limits.described(),
        machine=request.machine,
        ties=() if winner is None else LazyTuple(partial(judges.tied_with, winner)),
        hardware=request.hardware,
        ep_devices=context.ep_devices,
        warnings=(*request.notes, *selection_warnings(component.name, judges, winner, request)),
    )


def _names_of(component: ComponentInfo, ep_devices: Sequence[EpDevice]) -> set[str]:
    """The execution providers that the package or the machine names."""
    named = {variant.constraints.ep for variant in component.variants} | {
        device.ep_name for device in ep_devices
    }
    return {name for name in named if name}


# --- verdicts -------------------------------------------------------------------------------------


def _all_verdicts(
    judges: Judges, winner: Candidate | None, best: Verdict | None, criteria: Sequence[str]
) -> tuple[Verdict, ...]:
    """Best first; rejections after, in declaration order."""
    candidates = list(judges.candidates())
    rejections = (_rejection(candidate) for candidate in candidates if candidate.rank is None)
    if winner is None or best is None:
        return tuple(rejections)
    return (
        best,
        *(_eligible_verdict(each, winner, criteria) for each in best_first(candidates)[1:]),
        *rejections,
    )


def _rejection(candidate: Candidate) -> Verdict:
    judgement = candidate.judgement
    assert judgement.code is not None
    return Verdict(
        variant=candidate.variant,
        ep_device=candidate.ep_device,
        code=judgement.code,
        reason=judgement.reason,
        compatibility=judgement.compatibility,
        notes=judgement.notes,
    )


def _eligible_verdict(candidate: Candidate, winner: Candidate, criteria: Sequence[str]) -> Verdict:
    decided_by = None
    code, reason = ReasonCode.SELECTED, "it is the best of all that can run here"
    if candidate is winner and winner.compared is not None:
        from ortpkg.selection.backend_choice import choice_note  # only where something was measured

        reason += choice_note(winner)
    elif candidate is not winner:
        assert candidate.rank is not None
        assert winner.rank is not None
        assert candidate.ep_device is not None
        assert winner.ep_device is not None
        decided_by = deciding_criterion(candidate.rank, winner.rank, criteria)
        which = "it" if candidate.variant is winner.variant else quoted(winner.variant.name)
        code, reason = ReasonCode.LOWER_RANK, _reason_of(candidate, winner, decided_by, which)
        is_old = (
            candidate.judgement.compatibility is CompiledModelCompatibility.PREFER_RECOMPILATION
        )
        if is_old and decided_by == "compatibility":
            code = ReasonCode.PREFERS_RECOMPILATION
    return Verdict(
        variant=candidate.variant,
        ep_device=candidate.ep_device,
        code=code,
        reason=reason,
        compatibility=candidate.judgement.compatibility,
        rank=candidate.rank,
        decided_by=decided_by,
        notes=candidate.judgement.notes,
    )


def _reason_of(candidate: Candidate, winner: Candidate, decided_by: str, which: str) -> str:
    assert candidate.ep_device is not None
    assert winner.ep_device is not None
    if winner.compared is not None or candidate.compared is not None:
        from ortpkg.selection.backend_choice import choice_reason  # as above

        reason = choice_reason(candidate, winner, decided_by, which)
        if reason:
            return reason
    loser, best = (candidate.ep_device, candidate.judgement), (winner.ep_device, winner.judgement)
    return lower_rank_reason(loser, best, decided_by, which)
