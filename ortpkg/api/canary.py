"""Choose the best variant that survives a try in a child process, and remember which did and which did not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ortpkg.api.bench import quarantine_entry
from ortpkg.api.bench_candidates import candidate_of
from ortpkg.api.bench_feeds import component_samples, sample_workload, synthetic_workload
from ortpkg.api.model_package import ModelPackage
from ortpkg.api.model_variant import ModelVariant
from ortpkg.benchmarking.canary import CanaryResult, check_variant
from ortpkg.benchmarking.candidate import Candidate
from ortpkg.benchmarking.fingerprint import default_threads
from ortpkg.benchmarking.measure import Plan, Workload
from ortpkg.benchmarking.record_format import CanaryPass
from ortpkg.benchmarking.record_store import (
    EpDevicePlace,
    has_passed_canary,
    now_text,
    place_of,
    write_canary_pass,
    write_quarantine,
)
from ortpkg.engine.run_control import machine_memory_nbytes
from ortpkg.errors import NoSuitableVariantError, OrtpkgError, quoted
from ortpkg.graph.model_signature import read_model_signature
from ortpkg.selection.machine import MachineOffer, this_machine
from ortpkg.selection.verdict import Verdict

CANARY_TIMEOUT_S = 120.0
_MEMORY_SHARE = 0.9


def best_variant_by_canary(
    package: ModelPackage,
    component: str | None = None,
    *,
    backend: str = "auto",
    trust: bool = False,
    verify: bool = True,
    timeout_s: float = CANARY_TIMEOUT_S,
    on_note: Callable[[str], None] = lambda _text: None,
    **wishes: Any,
) -> ModelVariant:
    """As :meth:`ModelPackage.best_variant`, but a variant must first load and run one sample in a child process.

    One that crashes, hangs, fails or gives wrong outputs goes into quarantine there, ``on_note`` is told, and the next
    best is tried. One that passed before with the same versions of EP and driver is not tried again. Without samples
    the input is made up, and what the model gives is not judged.

    Args:
        package, component, wishes: as for ``best_variant``.
        backend: only what runs on it; "auto": any.
        trust: accept options of the package that can reach beyond it.
        verify: first compare what is loaded with digests.json, so that damage is not taken for a backend's failure.
        timeout_s: a child that takes longer hangs.
        on_note: told what failed, in a sentence each.

    Raises NoSuitableVariantError where none is left, DigestMismatchError for a file that is not as recorded.
    """
    best = package.best_variant(component, **wishes)
    info = package.component(component)
    offer = this_machine(named={each.constraints.ep for each in info.variants if each.constraints.ep})
    for verdict in best.selection.verdicts:
        ep_device = verdict.ep_device
        if not verdict.is_eligible or ep_device is None or backend not in {"auto", ep_device.backend}:
            continue
        chosen = ModelVariant(verdict.variant, replace(best.selection, best=verdict), package=package.info, trust=trust)
        if verify and package.info.compat is None:
            chosen.verify()
        problem = _try(package, verdict, offer, trust=trust, timeout_s=timeout_s)
        if not problem:
            return chosen
        on_note(
            f"{quoted(verdict.variant.name)} is not used on {ep_device.ep_name} ({ep_device.backend}): its first try "
            f"in a child process failed: {problem}"
        )
    raise NoSuitableVariantError(
        f"every variant of component {quoted(info.name)} that could run here failed its first try in a child process",
        selection=best.selection,
    )


def canary(
    package: ModelPackage, verdict: Verdict, *, trust: bool = False, timeout_s: float = CANARY_TIMEOUT_S
) -> CanaryResult:
    """Tries one verdict's variant on its EP device in a child process; keeps nothing."""
    samples = component_samples(package.info, verdict.variant.component_name)
    candidate = candidate_of(package, verdict, samples, trust)
    plan = Plan(
        timeout_s=timeout_s,
        threads=default_threads(),
        memory_limit_nbytes=int(machine_memory_nbytes() * _MEMORY_SHARE),
    )
    return check_variant(candidate, _workload(package, candidate), plan)


def _try(package: ModelPackage, verdict: Verdict, offer: MachineOffer, *, trust: bool, timeout_s: float) -> str:
    """Why the verdict's variant must not be used; "" where it may. What is found out is kept."""
    assert verdict.ep_device is not None
    place = place_of(verdict.variant.component_name, verdict.variant.name, verdict.ep_device, offer.ep_devices)
    if has_passed_canary(package.info, place):
        return ""
    try:
        found = canary(package, verdict, trust=trust, timeout_s=timeout_s)
    except OrtpkgError as error:
        return str(error)
    if found.cause is not None:
        write_quarantine(package.info, [quarantine_entry(found.result, offer)])
    elif found.has_passed:
        write_canary_pass(package.info, _pass_of(place))
    return found.reason


def _pass_of(place: EpDevicePlace) -> CanaryPass:
    return CanaryPass(
        component_name=place.component_name,
        variant_name=place.variant_name,
        ep_name=place.ep_name,
        backend=place.backend,
        device=place.device,
        ep_version=place.ep_version,
        driver_version=place.driver_version,
        recorded_at=now_text(),
    )


def _workload(package: ModelPackage, candidate: Candidate) -> Workload:
    if candidate.obstacle or candidate.model_path is None:
        return Workload(feeds=[])
    inputs = read_model_signature(candidate.model_path).inputs
    samples = component_samples(package.info, candidate.component_name)
    if samples:
        return sample_workload(samples, inputs)
    return synthetic_workload(package.info, inputs, sizes={}, why="there are no samples")
