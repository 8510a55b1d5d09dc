"""Choose the best variant that survives a try in a child process, and remember the outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    NoSuitableVariantError,
    OrtpkgError,
    quoted,
)
from ortpkg.foundations.host.memory import machine_memory_nbytes
from ortpkg.package.package_info import ComponentInfo, PackageInfo
from ortpkg.package.trust.package_verification import PackageVerifier
from ortpkg.runtime.providers.machine_offer import MachineOffer, this_machine
from ortpkg.selection.matching.measurements import (
    CanaryFailure,
    CanaryPass,
    VariantOnDeviceKey,
    VersionedVariant,
    versioned_variant,
)
from ortpkg.selection.matching.reasons import no_suitable_variant_message
from ortpkg.selection.matching.verdict import Selection, Verdict
from ortpkg.selection.measuring.candidate_making import candidate_of
from ortpkg.selection.measuring.fingerprint import default_threads
from ortpkg.selection.measuring.measured_candidates import Plan, Workload
from ortpkg.selection.measuring.record_store import (
    has_passed_canary,
    now_text,
    write_canary_pass,
    write_quarantine,
)
from ortpkg.selection.measuring.variant_trial import CanaryResult, check_variant, quarantine_entry
from ortpkg.selection.measuring.workloads import component_samples, component_workload

CANARY_TIMEOUT_S = 120.0
_MEMORY_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryWishes:
    """Settings for trying a variant in a child process.

    Attributes:
        verify: True to compare the files with digests.json first, so that damage is not mistaken
            for a backend's failure.
        timeout_s: seconds after which a child is ended; that counts against the variant unless the
            limit is narrower than CANARY_TIMEOUT_S.
        verify_timeout_s: most seconds for comparing a variant's files; None: no limit.
        memory_limit_nbytes: most bytes of a child before it is ended, which does not count against
            the variant; None: most of the machine's memory, and then it does.
        on_note: called with a sentence for each failure.
    """

    verify: bool = True
    timeout_s: float = CANARY_TIMEOUT_S
    verify_timeout_s: float | None = None
    memory_limit_nbytes: int | None = None
    on_note: Callable[[str], None] = lambda _text: None


def select_by_canary(
    package: PackageInfo,
    component: ComponentInfo,
    select: Callable[[Sequence[CanaryFailure]], Selection],
    wishes: CanaryWishes,
    *,
    backend: str = "auto",
    trust: bool = False,
) -> Selection:
    """Return the selection whose best variant has loaded and run one sample in a child process.

    A variant that crashes, hangs, fails or gives wrong outputs is CANARY_FAILED in the returned
    selection and goes into quarantine, so that later selections have it as QUARANTINED; the next
    best is tried. A variant that passed before with the same versions of EP and driver is not tried
    again. Without samples the input is random, and the outputs are not judged.

    Args:
        package, component: the package and its component.
        select: selects a variant of the component, given the variants that just failed.
        wishes: settings of the tries.
        backend: backend to use; "auto" for any.
        trust: True to accept options of the package that can reach beyond it.

    Raises:
        NoSuitableVariantError: no variant is left.
        DigestMismatchError: a file is not as recorded.
    """
    offer = this_machine(
        named={variant.constraints.ep for variant in component.variants if variant.constraints.ep}
    )
    failures: dict[VariantOnDeviceKey, CanaryFailure] = {}
    while True:
        selection = select(tuple(failures.values()))
        verdict = next(_candidates(selection, backend, offer, failures), None)
        if verdict is None:
            raise _nothing_left(component, selection, has_tried=bool(failures))
        if wishes.verify and package.compat is None:
            PackageVerifier(package, timeout_s=wishes.verify_timeout_s).verify_variant(
                verdict.variant
            )
        plan = _plan(wishes.timeout_s, wishes.memory_limit_nbytes)
        problem = _try(
            package, verdict, offer, _requested_options(selection, verdict), trust=trust, plan=plan
        )
        if not problem:
            return selection if verdict == selection.best else replace(selection, best=verdict)
        failure = CanaryFailure(**asdict(_versioned_variant(verdict, offer)), reason=problem)
        failures[failure.key] = failure
        wishes.on_note(
            f"{quoted(verdict.variant.name)} is not used on {failure.ep_name} ({failure.backend}):"
            f" its first try in a child process failed: {problem}"
        )


def try_first_use(
    package: PackageInfo, verdict: Verdict, selection: Selection, *, trust: bool
) -> None:
    """Try a verdict's variant in a child process before it is used here for the first time.

    A variant that passed before with the same versions of EP and driver is not tried again; one
    that fails goes into quarantine.

    Raises:
        ExecutionProviderError: the variant must not be used; the message has the reason.
    """
    assert verdict.ep_device is not None
    ep_name = verdict.ep_device.ep_name
    offer = this_machine(named={ep_name})
    plan = _plan(CANARY_TIMEOUT_S, None)
    problem = _try(
        package, verdict, offer, _requested_options(selection, verdict), trust=trust, plan=plan
    )
    if problem:
        raise ExecutionProviderError(
            f"variant {quoted(verdict.variant.name)} was compiled for a device that was not there,"
            f" and is not used here: its first try in a child process failed: {problem}",
            ep_name=ep_name,
        )


def _nothing_left(
    component: ComponentInfo, selection: Selection, *, has_tried: bool
) -> NoSuitableVariantError:
    what = no_suitable_variant_message(selection)
    if has_tried:
        tried = (
            f"every variant of component {quoted(component.name)} that could run here failed its"
            " first try"
        )
        what = f"{tried} in a child process\n{what}"
    return NoSuitableVariantError(what, selection=selection)


def _candidates(
    selection: Selection,
    backend: str,
    offer: MachineOffer,
    failures: Mapping[VariantOnDeviceKey, CanaryFailure],
) -> Iterator[Verdict]:
    """Yield eligible verdicts on ``backend`` that were not tried, the best first.

    A release's policy does not know of failures.
    """
    for verdict in selection.verdicts:
        ep_device = verdict.ep_device
        is_wanted = (
            verdict.is_eligible and ep_device is not None and backend in {"auto", ep_device.backend}
        )
        if is_wanted and _versioned_variant(verdict, offer).key not in failures:
            yield verdict


def _versioned_variant(verdict: Verdict, offer: MachineOffer) -> VersionedVariant:
    assert verdict.ep_device is not None
    return versioned_variant(
        verdict.variant.component_name, verdict.variant.name, verdict.ep_device, offer.ep_devices
    )


def canary(
    package: PackageInfo,
    verdict: Verdict,
    *,
    plan: Plan | None = None,
    trust: bool = False,
    provider_options: Mapping[str, str] = EMPTY,
) -> CanaryResult:
    """Try a verdict's variant on its EP device, in a child process within ``plan``'s limits.

    ``provider_options`` replace the package's of the same key.
    """
    samples = component_samples(package, verdict.variant.component_name)
    candidate = candidate_of(package, verdict, samples, trust)
    candidate = replace(
        candidate, provider_options={**candidate.provider_options, **provider_options}
    )
    workload = (
        Workload(feeds=[])
        if candidate.obstacle or candidate.model_path is None
        else component_workload(package, candidate.component_name, [candidate])
    )
    return check_variant(candidate, workload, plan or _plan(CANARY_TIMEOUT_S, None))


def _plan(timeout_s: float, memory_limit_nbytes: int | None) -> Plan:
    generous_nbytes = int(machine_memory_nbytes() * _MEMORY_SHARE)
    return Plan(
        timeout_s=timeout_s,
        threads=default_threads(),
        memory_limit_nbytes=min(generous_nbytes, memory_limit_nbytes or generous_nbytes),
        patience_s=CANARY_TIMEOUT_S,
        generous_nbytes=generous_nbytes,
    )


def _requested_options(selection: Selection, verdict: Verdict) -> Mapping[str, str]:
    assert verdict.ep_device is not None
    return selection.provider_options.get(verdict.ep_device.ep_name, EMPTY)


def _try(
    package: PackageInfo,
    verdict: Verdict,
    offer: MachineOffer,
    requested: Mapping[str, str],
    *,
    trust: bool,
    plan: Plan,
) -> str:
    """Return the reason why the verdict's variant must not be used; "" if it may.

    The outcome is recorded, except with ``requested`` options of the caller, which other callers
    have not asked for.
    """
    versioned = _versioned_variant(verdict, offer)
    if not requested and has_passed_canary(package, versioned):
        return ""
    try:
        outcome = canary(package, verdict, plan=plan, trust=trust, provider_options=requested)
    except OrtpkgError as error:
        return str(error)
    if requested:
        return outcome.reason
    if outcome.cause is not None:
        write_quarantine(package, [quarantine_entry(outcome.result, offer)])
    elif outcome.has_passed:
        write_canary_pass(package, CanaryPass(**asdict(versioned), recorded_at=now_text()))
    return outcome.reason
