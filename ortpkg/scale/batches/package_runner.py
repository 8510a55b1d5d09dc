"""Worker of a batch, which opens the package here and continues without variants that fail."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.api.model_package import ModelPackage
from ortpkg.api.model_variant import ModelVariant
from ortpkg.authoring.opening import opened
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    NoNodeTakenError,
    NoSuitableVariantError,
    OrtpkgError,
    quoted,
)
from ortpkg.package.package_info import ValueInfo
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.runtime.session.options import RunOptions
from ortpkg.scale.batches.batch_size import TRIED_SIZES
from ortpkg.scale.batches.part_run import RunPlan, run_part
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.row_feeds import row_feeds
from ortpkg.scale.batches.rows import Rows
from ortpkg.selection.matching.measurements import (
    CanaryFailure,
    QuarantineCause,
    QuarantineEntry,
    VariantOnDeviceKey,
    versioned_variant,
)
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes
from ortpkg.selection.measuring.batch_times import measure_batches, recorded_batch_times
from ortpkg.selection.measuring.package_digest import package_digest
from ortpkg.selection.measuring.record_store import load_records, now_text, write_quarantine
from ortpkg.selection.measuring.row_axes import RowAxis, row_axes

_MEASURING_S = 2.0
_LOADING_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageUse:
    """Package that a worker opens, and the options of its selection.

    Attributes:
        reference: A folder, a packed package, a name in the store, or a reference to a registry.
        component: One of several components; None for all, as a pipeline.
        wishes: Options of the selection.
        threads: Threads of each session; None for as many as the machine has cores.
        trust: True to accept options of the package that can reach beyond it.
        canary: True to try a variant in a child process first.
        allow_fallback: True to let others run a model if the named one takes no node of it.
        timeout_s, memory_limit_nbytes: Limits of each run; None for no limit, and the machine's.
        allowed: :attr:`ChosenVariant.key` of what may run, if results must be the same everywhere;
            None for anything.
    """

    reference: str
    component: str | None = None
    wishes: SelectionWishes = ANY_VARIANT
    threads: int | None = None
    trust: bool = False
    canary: bool = False
    allow_fallback: bool = False
    timeout_s: float | None = None
    memory_limit_nbytes: int | None = None
    allowed: frozenset[tuple[str, ...]] | None = None

    @property
    def run_options(self) -> RunOptions:
        """Limits of one run."""
        options = RunOptions()
        options.timeout_s = self.timeout_s
        options.memory_limit_nbytes = self.memory_limit_nbytes
        return options

    @property
    def load_options(self) -> RunOptions | None:
        """Limits of loading a model in a child process, which takes longer than a run."""
        if not self.isolates:
            return None
        options = self.run_options
        options.timeout_s = max(_LOADING_S, self.timeout_s or 0.0)
        return options

    @property
    def isolates(self) -> bool:
        """True if libraries run in child processes, where the limits can be enforced."""
        return self.timeout_s is not None or self.memory_limit_nbytes is not None

    def as_json(self) -> dict[str, Any]:
        """Return the options that decide which variants run, and so the results, for a job."""
        wishes = self.wishes
        return {
            "component": self.component,
            "variant": wishes.variant,
            "device": wishes.device,
            "ep": wishes.ep,
            "backend": wishes.backend,
            "policy": wishes.policy,
            "provider_options": wishes.provider_options,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenVariant:
    """Variant that runs a component on a machine, and why."""

    component: str
    variant: str
    ep: str
    backend: str
    device: str
    device_type: str
    reason: str
    version: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Identity of what runs; equal keys give equal results."""
        return self.component, self.variant, self.ep, self.backend, self.device_type

    @property
    def text(self) -> str:
        """Description such as "cpu-fp32 on CPUExecutionProvider (embedded)"."""
        where = f" on {self.ep}" if self.ep else ""
        return f"{self.variant}{where}" + (f" ({self.backend})" if self.backend else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts of the package that a job needs, as a worker read them.

    Attributes:
        identity: Name, version and digest.
        inputs, outputs: Of its session.
        axes: Meaning of the first dimension of each output.
    """

    identity: Mapping[str, Any]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    axes: Mapping[str, RowAxis] = EMPTY


class PackageRunner:
    """Sessions on the best variants here.

    Args:
        use: The package and the options of its selection.

    Attributes:
        chosen: Variants that run now, one for each component.
        notes: Earlier failures here, and other notes for the user.

    Raises:
        OrtpkgError: See :class:`~ortpkg.ModelPackage` and its sessions.
    """

    def __init__(self, use: PackageUse) -> None:
        self._use = use
        self._failures: dict[VariantOnDeviceKey, CanaryFailure] = {}
        self.notes: list[str] = []
        self.package = _opened(use)
        self._start()

    @property
    def facts(self) -> ModelFacts:
        """Facts of the package for a job."""
        ranges = {value.name: value.value_range for value in self.package.inputs}
        info = self.package.info
        return ModelFacts(
            identity={
                "name": info.name,
                "version": info.version,
                "digest": package_digest(info.root),
            },
            inputs=tuple(
                _value(value, ranges.get(value.name)) for value in self.session.get_inputs()
            ),
            outputs=tuple(_value(value) for value in self.session.get_outputs()),
            axes=row_axes(
                self.session.get_inputs(),
                self.session.get_outputs(),
                {name: variant.model_path for name, variant in self._variants.items()},
                getattr(self.session, "pipeline", None),
            ),
        )

    def run(self, part: Part, rows: Rows, plan: RunPlan) -> Rows:
        """Return the outputs of a part; if an execution provider fails, use the next best variant.

        Raises:
            RowFailedError: See :func:`~ortpkg.scale.batches.part_run.run_part`.
            NoSuitableVariantError: No variant is left.
        """
        while True:
            try:
                return run_part(self.session, part, rows, plan, self._use.run_options)
            except ExecutionProviderError as error:
                self._continue_without(error)

    def forbid_other_variants(self) -> None:
        """Let no other variant take over if a current one fails."""
        self._use = replace(self._use, allowed=frozenset(variant.key for variant in self.chosen))

    # --- what is known ----------------------------------------------------------------------------

    def recorded_errors(self) -> dict[str, float | None]:
        """Return the largest error that ``ortpkg bench`` recorded here, by component."""
        offer = this_machine(named={item.ep for item in self.chosen if item.ep})
        records = load_records(self.package.info, offer)
        largest_errors: dict[str, float | None] = {}
        for name, variant in self._variants.items():
            ep_device = variant.verdict(backend=self._use.wishes.backend).ep_device
            largest_errors[name] = None
            if records is not None and not records.stale_reason and ep_device is not None:
                key = versioned_variant(name, variant.name, ep_device, offer.ep_devices).key
                errors = [item.max_abs_error for item in records.measurements if item.key == key]
                largest_errors[name] = next(iter(errors), None)
        return largest_errors

    def recorded_batch_times(self) -> dict[int, float]:
        """Return seconds of a run by number of rows, as ``ortpkg bench`` recorded them.

        They are sums over all components.
        """
        offer = this_machine(named={item.ep for item in self.chosen if item.ep})
        component_times = [
            recorded_batch_times(
                self.package.info, variant.verdict(backend=self._use.wishes.backend), offer
            )
            for variant in self._variants.values()
        ]
        sizes = (
            set.intersection(*(set(times) for times in component_times))
            if component_times
            else set()
        )
        return {size: sum(times[size] for times in component_times) for size in sorted(sizes)}

    def planned_nbytes(self, rows: int) -> int:
        """Return the memory of a run with so many rows, as far as the sessions' plans say."""
        sessions = getattr(self.session, "sessions", {"": self.session})
        total = 0
        for session in sessions.values():
            firsts = {
                input_value.shape[0] for input_value in session.get_inputs() if input_value.shape
            }
            sizes = {name: rows for name in firsts if isinstance(name, str)}
            try:
                total += session.get_plan(sizes).graph.peak_nbytes or 0
            except OrtpkgError:  # an estimate may fail
                continue
        return total

    def measure(self, rows: Rows, plan: RunPlan) -> dict[int, float]:
        """Return seconds of a run by number of rows, measured for a few seconds.

        The inputs are rows of the batch.
        """
        feeds = row_feeds(rows, plan.layout, plan.columns, max(TRIED_SIZES))
        if plan.layout.fixed_rows is not None or not feeds.batches:
            return {}
        first = feeds.feed(feeds.batches[0])
        names = list(plan.layout.outputs)
        try:
            return measure_batches(
                lambda feed: self.session.run(names, feed, self._use.run_options),
                first,
                TRIED_SIZES,
                most_s=_MEASURING_S,
            )
        except OrtpkgError:  # the run itself reports what is wrong, and in which row
            return {}

    # --- variants ---------------------------------------------------------------------------------

    def _start(self) -> None:
        """Select variants and create the session, without variants that cannot be loaded."""
        while True:
            variants = self.package.choose(
                self._use.component,
                self._use.wishes,
                canary=self._use.canary,
                canary_failures=tuple(self._failures.values()),
            )
            try:
                self.session: Any = variants.create_session(self._create)
            except ExecutionProviderError as error:
                if isinstance(error, NoNodeTakenError) and self._names_ep_or_backend:
                    raise  # not into quarantine: the caller may allow others next
                self._variants = variants.variants
                self._quarantine(error)
                continue
            self._variants = variants.variants
            self.chosen = tuple(
                _chosen(variant, self._use) for variant in variants.variants.values()
            )
            self._verify_allowed()
            return

    @property
    def _names_ep_or_backend(self) -> bool:
        """True if the caller named an execution provider or a backend."""
        wishes = self._use.wishes
        return wishes.ep is not None or wishes.backend not in (None, "auto")

    def _verify_allowed(self) -> None:
        allowed = self._use.allowed
        for variant in self.chosen:
            if allowed is not None and variant.key not in allowed:
                failed = "; ".join(self.notes)
                raise NoSuitableVariantError(
                    f"what is left here, {variant.text}, may give other results than the rest of"
                    f" the batch{f' ({failed})' if failed else ''}; --same-results does"
                    " not allow it"
                )

    def _create(self, variant: ModelVariant) -> Any:
        return variant.create_session(
            backend=self._use.wishes.backend,
            threads=self._use.threads,
            isolate=self._use.isolates,
            limits=self._use.load_options,
            allow_fallback=self._use.allow_fallback,
        )

    def _continue_without(self, error: ExecutionProviderError) -> None:
        self._quarantine(error)
        self._start()

    def _quarantine(self, error: ExecutionProviderError) -> None:
        """Exclude the failed execution provider from all later selections of this worker."""
        before = len(self._failures)
        for variant in self._variants.values():
            verdict = variant.verdict(backend=self._use.wishes.backend)
            ep_device = verdict.ep_device
            if ep_device is None or (error.ep_name and ep_device.ep_name != error.ep_name):
                continue
            versioned = versioned_variant(
                variant.component_name, variant.name, ep_device, variant.selection.ep_devices
            )
            failure = CanaryFailure(**asdict(versioned), reason=str(error))
            self._failures[failure.key] = failure
            self.notes.append(
                f"variant {quoted(variant.name)} failed on {ep_device.ep_name}"
                f" ({ep_device.backend}) and is in quarantine: {error}"
            )
            entry = QuarantineEntry(
                **asdict(versioned),
                cause=QuarantineCause.ERROR,
                detail=str(error),
                recorded_at=now_text(),
            )
            write_quarantine(self.package.info, [entry])
        if len(self._failures) == before:
            raise error


#: Unpacked packages stay until the process ends.
_unpacked = ExitStack()
atexit.register(_unpacked.close)


def _opened(use: PackageUse) -> ModelPackage:
    path = Path(use.reference)
    if path.is_file():
        return ModelPackage.of(_unpacked.enter_context(opened(path)), trust=use.trust)
    return ModelPackage(use.reference, trust=use.trust)


def _value(declared: Any, value_range: tuple[float, float] | None = None) -> ValueInfo:
    shape = None if declared.shape is None else tuple(declared.shape)
    return ValueInfo(name=declared.name, type=declared.type, shape=shape, value_range=value_range)


def _chosen(variant: ModelVariant, use: PackageUse) -> ChosenVariant:
    verdict = variant.verdict(backend=use.wishes.backend)
    ep_device = verdict.ep_device
    device = ep_device.device if ep_device is not None else None
    return ChosenVariant(
        component=variant.component_name,
        variant=variant.name,
        ep=ep_device.ep_name if ep_device is not None else "",
        backend=ep_device.backend if ep_device is not None else "",
        device="" if device is None else f"{device.type} {device.name}".strip(),
        device_type="" if device is None else device.type.value,
        reason=verdict.reason,
        version=variant.version or "",
    )
