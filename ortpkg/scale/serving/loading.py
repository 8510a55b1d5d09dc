"""Loading of a package as a model that has answered its first request."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ortpkg.api.model_package import ModelPackage
from ortpkg.api.model_variant import ModelVariant
from ortpkg.api.samples.sample_runner import run_samples
from ortpkg.distribution.used_packages import find_used_package
from ortpkg.foundations.errors import OrtpkgError, RunError, quoted, unquoted
from ortpkg.package.formats.samples import SampleSet, read_samples
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.session.options import RunOptions
from ortpkg.scale.serving.batch_choice import BatchChoice, choose_batches
from ortpkg.scale.serving.served_model import RunningVariant, ServedModel
from ortpkg.scale.serving.serving_options import LoadWishes, ServingLimits
from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.matching.verdict import Verdict
from ortpkg.selection.measuring.canary import CanaryWishes
from ortpkg.selection.measuring.variant_precision import precision_of_variant
from ortpkg.selection.measuring.workloads import package_feed

#: Version of a package that states none.
_FIRST_VERSION = "1"
#: Time limit of runs before a model is ready, in seconds. Limits of requests do not apply: the
#: first run of a session takes longer than others, and there may be many samples.
_START_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRun:
    """Result of a model's first run.

    Attributes:
        on: "samples" of the package, or "made-up inputs" if it has none here.
        matches: True if the outputs are the expected ones; None if the package expects nothing.
        duration_s: Time of the run in seconds.
    """

    on: str
    matches: bool | None
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Model that is ready, and how it was loaded.

    Attributes:
        model: The model.
        first_run: Result of its first run.
        batches: How its requests are joined; None if that is not requested.
        warnings: Warnings of the selection of its variants.
        duration_s: Time from the package to the end of the first run, in seconds.
    """

    model: ServedModel
    first_run: FirstRun
    batches: BatchChoice | None
    warnings: tuple[str, ...]
    duration_s: float


def name_and_version(info: PackageInfo) -> tuple[str, str]:
    """Return the name and version of a package for clients.

    They are the name and tag of its installation, or else what the package states.
    """
    used = find_used_package(info.root)
    generation = None if used is None else used.generation
    version = info.version or _FIRST_VERSION
    if generation is None:
        return info.name, version
    return generation.name, generation.tag or version


def load(info: PackageInfo, wishes: LoadWishes, limits: ServingLimits) -> Loaded:
    """Select the variants of a package, create their sessions and run them once.

    Raises:
        ModelError: The protocol cannot carry an input or output.
        RunError: The first run fails.
        OrtpkgError: See :meth:`ModelPackage.create_session`.
    """
    start = time.monotonic()
    package = ModelPackage.of(info, trust=wishes.trust)
    canary = wishes.canary and CanaryWishes(
        verify=wishes.verify, memory_limit_nbytes=limits.memory_limit_nbytes
    )
    chosen = package.choose(wishes.component, wishes.selection, canary=canary)
    backend = wishes.selection.backend
    create = partial(
        ModelVariant.create_session,
        backend=backend,
        verify=wishes.verify,
        isolate=wishes.isolate,
        limits=_start_options(limits),
        threads=wishes.threads,
        allow_fallback=wishes.allow_fallback,
    )
    session: Any = chosen.create_session(create)
    name, version = name_and_version(info)
    variants = [
        _running(component, variant.verdict(backend=backend))
        for component, variant in chosen.variants.items()
    ]
    model = ServedModel(
        name=wishes.name or name, version=version, session=session, variants=variants
    )
    component = None if chosen.is_pipeline else next(iter(chosen.variants))
    samples = _samples(package, component, wishes)
    only = None if component is None else chosen.variants[component].verdict(backend=backend)
    precision = None if only is None else precision_of_variant(only.variant)
    first_run = _first_run(model, samples, info, limits, precision)
    batches: BatchChoice | None = None
    if wishes.batch_latency_s is not None:
        batches = choose_batches(
            model,
            info,
            only,
            samples,
            bound_s=wishes.batch_latency_s,
            models={name: variant.model_path for name, variant in chosen.variants.items()},
        )
        model.batch_plan = batches.plan
    return Loaded(
        model=model,
        first_run=first_run,
        batches=batches,
        warnings=tuple(
            dict.fromkeys(
                warning
                for variant in chosen.variants.values()
                for warning in variant.selection.warnings
            )
        ),
        duration_s=time.monotonic() - start,
    )


def _start_options(limits: ServingLimits) -> RunOptions:
    options = RunOptions()
    options.timeout_s = max(_START_S, limits.timeout_s)
    options.memory_limit_nbytes = limits.memory_limit_nbytes
    return options


def _running(component: str, verdict: Verdict) -> RunningVariant:
    ep_device = verdict.ep_device
    return RunningVariant(
        component=component,
        variant=verdict.variant.name,
        ep="" if ep_device is None else ep_device.ep_name,
        backend="" if ep_device is None else ep_device.backend,
        device="" if ep_device is None or ep_device.device is None else str(ep_device.device.type),
    )


def _samples(
    package: ModelPackage, component: str | None, wishes: LoadWishes
) -> tuple[SampleSet, ...]:
    is_only = len(package.component_models) == 1
    samples = tuple(
        sample_set
        for sample_set in read_samples(package.info)
        if sample_set.component == component or (sample_set.component is None and is_only)
    )
    if samples and wishes.verify:
        package.verify_samples(samples)
    return samples


def _first_run(
    model: ServedModel,
    samples: Sequence[SampleSet],
    info: PackageInfo,
    limits: ServingLimits,
    precision: Precision | None,
) -> FirstRun:
    start = time.monotonic()
    try:
        matches = _run_samples(model, samples, limits, precision) if samples else None
        if not samples:
            _run_made_up(model, info, limits)
    except OrtpkgError as error:
        on = "its samples" if samples else "made-up inputs"
        remedy = (
            ""
            if samples
            else f"; ortpkg samples add {unquoted(info.root)} gives it inputs that it can take"
        )
        raise RunError(
            f"model {quoted(model.title)} is not served, since its first run, on {on},"
            f" failed: {error}{remedy}"
        ) from error
    return FirstRun(
        on="samples" if samples else "made-up inputs",
        matches=matches,
        duration_s=time.monotonic() - start,
    )


def _run_samples(
    model: ServedModel,
    samples: Sequence[SampleSet],
    limits: ServingLimits,
    precision: Precision | None,
) -> bool | None:
    variant = model.variants[0].variant if len(model.variants) == 1 else None
    judged = [
        run_samples(
            model.session,
            item,
            variant=variant,
            precision=precision,
            run_options=_start_options(limits),
        ).matches
        for item in samples
    ]
    known_results = [item for item in judged if item is not None]
    return all(known_results) if known_results else None


def _run_made_up(model: ServedModel, info: PackageInfo, limits: ServingLimits) -> None:
    feed = package_feed(info, model.session.get_inputs())
    model.infer(feed, run_options=_start_options(limits))
