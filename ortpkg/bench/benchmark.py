"""Measure every variant of a package that can run here, for later selections."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ortpkg.api.model_package import ModelPackage
from ortpkg.bench.candidates import candidates_of
from ortpkg.bench.pipeline_recording import recordings
from ortpkg.errors import quoted
from ortpkg.host.directories import bench_lock_path
from ortpkg.host.memory import machine_memory_nbytes
from ortpkg.measuring.bench_candidate import BenchCandidate
from ortpkg.measuring.candidate_making import embedded_candidate
from ortpkg.measuring.fingerprint import default_threads
from ortpkg.measuring.measure import measure_candidates, run_once
from ortpkg.measuring.measured_candidates import CandidateResult, OnStep, Outcome, Plan, Workload
from ortpkg.measuring.record_store import write_quarantine, write_records
from ortpkg.measuring.variant_trial import quarantine_entry
from ortpkg.measuring.workloads import component_workload
from ortpkg.package.package_info import ComponentInfo
from ortpkg.providers.machine_offer import MachineOffer, this_machine
from ortpkg.selection.measurements import Measurement, QuarantineEntry, place_of
from ortpkg.selection.wishes import SelectionWishes
from ortpkg.storage.file_lock import hold_lock

_MEMORY_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """What a benchmark found.

    Attributes:
        package_name: of what.
        results: one per candidate, best first: accurate ones by their median, then the others.
        workloads: component → where its inputs and expected outputs come from.
        plan: how much was measured, with how many threads.
        notes: what could not be done, a sentence each.
        was_interrupted: Ctrl-C ended it; the results are of what was done by then.
        is_recorded: whether selections can use the measurements from now on.
        quarantined: what was put into quarantine.
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
    """What to measure; None stands for all.

    Attributes:
        component, variant, ep, device, backend: filters as in :meth:`ModelPackage.select`, and by
            backend.
        sizes: dimension → size, for inputs that are made up.
        trust: accept options of the package that can reach beyond it.
        threads: for every backend; None: as many as this process may use CPUs.
        record: keep measurements and quarantine.
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

    Only one benchmark of a user runs at a time; another one waits, and ``on_note`` is told.
    Failures (a crash, a hang, an error, wrong outputs) are results, not exceptions, and put the
    variant into quarantine there; passing a limit that is narrower than the default does not.

    Raises what selecting raises for wrong names, and PackageFormatError or UsageError for samples
    that cannot be used.
    """
    plan = _on_this_machine(plan, wishes)
    names = (
        [wishes.component] if wishes.component else [each.name for each in package.component_models]
    )
    components = [package.component(name) for name in names]
    offer = this_machine(ep=wishes.ep, named=_named_eps(components))
    asked = SelectionWishes(variant=wishes.variant, ep=wishes.ep, device=wishes.device)
    notes = list(offer.notes)
    candidates: list[BenchCandidate] = []
    workloads: dict[str, Workload] = {}
    with _only_benchmark(on_note) as problem:
        notes += [problem] if problem else []
        recorded = recordings(package.info, plan, notes, trust=wishes.trust, sizes=wishes.sizes)
        for component in components:
            own = candidates_of(
                package, component, asked, backend=wishes.backend, trust=wishes.trust
            )
            candidates += own
            runnable = [each for each in own if not each.obstacle]
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
    """The plan with threads and memory of this machine, where nobody says otherwise."""
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
    """What selection takes of the results: of those that were measured."""
    return tuple(
        _measurement(each, offer)
        for each in results
        if each.outcome is Outcome.MEASURED and each.times
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
    """The workload with outputs to compare with: expected ones, else the embedded engine's."""
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
    """Order results: usable ones by their median, inaccurate ones, those not measured."""
    if result.outcome is Outcome.MEASURED and result.times:
        return 0, result.times.p50_s
    if result.times:
        return 1, result.times.p50_s
    return 2, list(Outcome).index(result.outcome)


def _measurement(result: CandidateResult, offer: MachineOffer) -> Measurement:
    assert result.times is not None
    candidate = result.candidate
    place = place_of(
        candidate.component_name, candidate.variant_name, candidate.ep_device, offer.ep_devices
    )
    found = result.distance
    is_finite = found is not None and found.max_abs_error != float("inf")
    return Measurement(
        component_name=place.component_name,
        variant_name=place.variant_name,
        ep_name=place.ep_name,
        backend=place.backend,
        device=place.device,
        p50_s=result.times.p50_s,
        p95_s=result.times.p95_s,
        throughput_per_s=result.times.throughput_per_s,
        cold_start_s=result.cold_start_s,
        first_run_s=result.first_run_s,
        peak_memory_nbytes=result.peak_memory_nbytes,
        max_abs_error=found.max_abs_error if found is not None and is_finite else None,
        cosine=found.cosine if found is not None else None,
        is_accurate=found.is_within if found is not None else None,
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
    """Keep what may be kept, and say what may not."""
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
    """Hold the user's lock for benchmarks; yield why that cannot be done, "" where it is held."""
    path = bench_lock_path()

    def tell(waited_s: float) -> None:
        if waited_s == 0:
            on_note("waiting for another benchmark to end: two at a time would measure each other")

    with contextlib.ExitStack() as held:
        problem = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(hold_lock(path, timeout_s=math.inf, while_waiting=tell))
        except OSError as error:
            problem = (
                f"other benchmarks are not kept off: {quoted(path)} cannot be locked ({error})"
            )
        yield problem


def _named_eps(components: Iterable[ComponentInfo]) -> set[str]:
    return {
        each.constraints.ep
        for component in components
        for each in component.variants
        if each.constraints.ep
    }
