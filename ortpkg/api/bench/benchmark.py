"""Measure every variant of a package that can run here, for later selections."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ortpkg.api.bench.candidate_choice import candidates_of
from ortpkg.api.bench.pipeline_recording import recordings
from ortpkg.api.model_package import ModelPackage
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.host.directories import bench_lock_path
from ortpkg.foundations.host.memory import machine_memory_nbytes
from ortpkg.foundations.storage.process_lock import hold_lock
from ortpkg.package.package_info import ComponentInfo
from ortpkg.runtime.providers.machine_offer import MachineOffer, this_machine
from ortpkg.selection.matching.measurements import Measurement, QuarantineEntry, versioned_variant
from ortpkg.selection.matching.wishes import SelectionWishes
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.candidate_making import embedded_candidate
from ortpkg.selection.measuring.fingerprint import default_threads
from ortpkg.selection.measuring.measure import measure_candidates, run_once
from ortpkg.selection.measuring.measured_candidates import (
    CandidateResult,
    OnStep,
    Outcome,
    Plan,
    Workload,
)
from ortpkg.selection.measuring.record_store import write_quarantine, write_records
from ortpkg.selection.measuring.variant_trial import quarantine_entry
from ortpkg.selection.measuring.workloads import component_workload

_MEMORY_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """Results of a benchmark.

    Attributes:
        package_name: name of the package.
        results: one per candidate, the best first: accurate ones by their median, then the others.
        workloads: component → origin of its inputs and expected outputs.
        plan: amount of measuring, and number of threads.
        notes: sentences on what could not be done.
        was_interrupted: True if Ctrl-C ended it; the results are those until then.
        is_recorded: True if selections can use the measurements from now on.
        quarantined: entries that were added to the quarantine.
    """

    package_name: str
    results: tuple[CandidateResult, ...]
    workloads: Mapping[str, str]
    plan: Plan
    notes: tuple[str, ...] = ()
    was_interrupted: bool = False
    is_recorded: bool = False
    quarantined: tuple[QuarantineEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchWishes:
    """Choice of what to measure; None stands for all.

    Attributes:
        component, variant, ep, device, backend: filters as in :meth:`ModelPackage.select`, and by
            backend.
        sizes: dimension → size, for random inputs.
        trust: True to accept options of the package that can reach beyond it.
        threads: threads of every backend; None: as many as this process may use CPUs.
        record: True to record measurements and quarantine.
    """

    component: str | None = None
    variant: str | None = None
    ep: str | None = None
    device: str | None = None
    backend: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    trust: bool = False
    threads: int | None = None
    record: bool = True


#: Everything that can run here.
ALL = BenchWishes()
DEFAULT_PLAN = Plan()


def bench(
    package: ModelPackage,
    wishes: BenchWishes = ALL,
    plan: Plan = DEFAULT_PLAN,
    *,
    on_step: OnStep = lambda _step: None,
    on_note: Callable[[str], None] = lambda _text: None,
) -> BenchReport:
    """Measure each variant on each EP device that can run it, each in a child process of its own.

    Only one benchmark of a user runs at a time; another one waits, and calls ``on_note``. Failures
    (a crash, a hang, an error, wrong outputs) are results, not exceptions, and put the variant into
    quarantine on that device; exceeding a limit that is narrower than the default does not.

    Raises:
        PackageFormatError, UsageError: samples that cannot be used.
        OrtpkgError: as selecting, for wrong names.
    """
    plan = _on_this_machine(plan, wishes)
    names = (
        [wishes.component]
        if wishes.component
        else [model.name for model in package.component_models]
    )
    components = [package.component(name) for name in names]
    offer = this_machine(ep=wishes.ep, named=_named_eps(components))
    selection_wishes = SelectionWishes(variant=wishes.variant, ep=wishes.ep, device=wishes.device)
    notes = list(offer.notes)
    candidates: list[BenchCandidate] = []
    workloads: dict[str, Workload] = {}
    with _only_benchmark(on_note) as problem:
        notes += [problem] if problem else []
        recorded = recordings(package.info, plan, notes, trust=wishes.trust, sizes=wishes.sizes)
        for component in components:
            component_candidates = candidates_of(
                package, component, selection_wishes, backend=wishes.backend, trust=wishes.trust
            )
            candidates += component_candidates
            runnable = [candidate for candidate in component_candidates if not candidate.obstacle]
            if runnable:
                workload = recorded.get(component.name) or component_workload(
                    package.info, component.name, runnable, sizes=wishes.sizes
                )
                workloads[component.name] = _with_reference(
                    workload, component, runnable, offer, plan, notes
                )
        results, was_interrupted = measure_candidates(candidates, workloads, plan, on_step)
    report = BenchReport(
        package_name=package.name,
        results=tuple(sorted(results, key=_order)),
        workloads={name: workload.description for name, workload in workloads.items()},
        plan=plan,
        was_interrupted=was_interrupted,
        quarantined=tuple(_quarantine_entries(results, offer)),
    )
    return _recorded(package, report, offer, wishes, notes)


def _on_this_machine(plan: Plan, wishes: BenchWishes) -> Plan:
    """Return the plan with this machine's threads and memory, unless they are given."""
    generous_nbytes = int(machine_memory_nbytes() * _MEMORY_SHARE)
    return replace(
        plan,
        threads=wishes.threads or default_threads(),
        memory_limit_nbytes=plan.memory_limit_nbytes or generous_nbytes,
        generous_nbytes=generous_nbytes,
    )


def measurements_of(
    results: Iterable[CandidateResult], offer: MachineOffer
) -> tuple[Measurement, ...]:
    """Return the results that were measured, in the form for selection."""
    return tuple(
        _measurement(result, offer)
        for result in results
        if result.outcome is Outcome.MEASURED and result.times
    )


# --- what to measure with -------------------------------------------------------------------------


def _with_reference(
    workload: Workload,
    component: ComponentInfo,
    candidates: Sequence[BenchCandidate],
    offer: MachineOffer,
    plan: Plan,
    notes: list[str],
) -> Workload:
    """Return the workload with outputs to compare with.

    They are the expected ones, or else the embedded engine's.
    """
    if workload.expected:
        return workload
    reference = embedded_candidate(candidates, offer)
    if reference is None:
        notes.append(f"component {quoted(component.name)}: nothing to compare outputs with")
        return replace(workload, has_tolerances=False)
    result, outputs = run_once(reference, workload, plan)
    if not outputs:
        notes.append(
            f"component {quoted(component.name)}: nothing to compare outputs with; {result.reason}"
        )
        return replace(workload, has_tolerances=False)
    description = (
        f"{workload.description}; distances are from what {quoted(reference.variant_name)} gives on"
        " the embedded engine"
    )
    return replace(workload, expected=outputs, has_tolerances=False, description=description)


# --- what came out --------------------------------------------------------------------------------


def _order(result: CandidateResult) -> tuple[int, float]:
    """Return a sort key: usable results by their median, inaccurate ones, unmeasured ones."""
    if result.outcome is Outcome.MEASURED and result.times:
        return 0, result.times.p50_s
    if result.times:
        return 1, result.times.p50_s
    return 2, list(Outcome).index(result.outcome)


def _measurement(result: CandidateResult, offer: MachineOffer) -> Measurement:
    assert result.times is not None
    candidate = result.candidate
    versioned = versioned_variant(
        candidate.component_name, candidate.variant_name, candidate.ep_device, offer.ep_devices
    )
    distance = result.distance
    is_finite = distance is not None and distance.max_abs_error != float("inf")
    return Measurement(
        component_name=versioned.component_name,
        variant_name=versioned.variant_name,
        ep_name=versioned.ep_name,
        backend=versioned.backend,
        device=versioned.device,
        p50_s=result.times.p50_s,
        p95_s=result.times.p95_s,
        throughput_per_s=result.times.throughput_per_s,
        cold_start_s=result.cold_start_s,
        first_run_s=result.first_run_s,
        peak_memory_nbytes=result.peak_memory_nbytes,
        max_abs_error=distance.max_abs_error if distance is not None and is_finite else None,
        cosine=distance.cosine if distance is not None else None,
        is_accurate=distance.is_within if distance is not None else None,
        lowest_s=result.times.lowest_s,
        highest_s=result.times.highest_s,
        batch_times=result.batch_times,
    )


def _quarantine_entries(
    results: Iterable[CandidateResult], offer: MachineOffer
) -> Iterator[QuarantineEntry]:
    for result in results:
        if result.is_held_against:
            yield quarantine_entry(result, offer)


def _recorded(
    package: ModelPackage,
    report: BenchReport,
    offer: MachineOffer,
    wishes: BenchWishes,
    notes: list[str],
) -> BenchReport:
    """Record what may be recorded, and add notes about the rest."""
    if not wishes.record:
        return replace(report, notes=tuple(dict.fromkeys(notes)), quarantined=())
    problem = write_quarantine(package.info, report.quarantined)
    quarantined = () if problem else report.quarantined
    measurements = measurements_of(report.results, offer)
    is_recorded = False
    if report.plan.threads != default_threads():
        notes.append(
            f"the measurements are not recorded: they were made with {report.plan.threads} threads,"
            f" and sessions here use {default_threads()}"
        )
    elif measurements:
        problem = write_records(package.info, offer, measurements) or problem
        is_recorded = not problem
    if problem:
        notes.append(problem)
    return replace(
        report, notes=tuple(dict.fromkeys(notes)), is_recorded=is_recorded, quarantined=quarantined
    )


@contextlib.contextmanager
def _only_benchmark(on_note: Callable[[str], None]) -> Iterator[str]:
    """Hold the user's lock for benchmarks; yield a reason if that fails, else ""."""
    path = bench_lock_path()

    def tell(waited_s: float) -> None:
        if waited_s == 0:
            on_note("waiting for another benchmark to end: two at a time would measure each other")

    with contextlib.ExitStack() as stack:
        problem = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold_lock(path, timeout_s=math.inf, while_waiting=tell))
        except OSError as error:
            problem = (
                f"other benchmarks are not kept off: {quoted(path)} cannot be locked ({error})"
            )
        yield problem


def _named_eps(components: Iterable[ComponentInfo]) -> set[str]:
    return {
        variant.constraints.ep
        for component in components
        for variant in component.variants
        if variant.constraints.ep
    }
