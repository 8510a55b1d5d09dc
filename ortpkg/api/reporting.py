"""Content of a report: selections on machines, sessions that are never run, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.api.model_variant import ModelVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import NoSuitableVariantError, OrtpkgError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.machine.profiles import MachineProfile, read_profile
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.report.page import report_html
from ortpkg.report.report_subject import (
    MOST_VARIANTS,
    MachineSelections,
    PlannedModel,
    ReportSubject,
)
from ortpkg.report.report_wishes import DrawnGraphs, ReportWishes
from ortpkg.runtime.providers.ep_registry import ep_known_here
from ortpkg.runtime.providers.machine_offer import asked_once, this_machine
from ortpkg.selection.choosing.package_selection import (
    THIS_MACHINE,
    records_read_once,
    select_component,
)
from ortpkg.selection.matching.request import backend_named
from ortpkg.selection.matching.verdict import Selection
from ortpkg.selection.matching.wishes import SelectionWishes
from ortpkg.selection.measuring.record_store import load_recorded_state

if TYPE_CHECKING:
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.options import SessionOptions
    from ortpkg.runtime.session.session_plan import SessionPlan

#: Most other machines in one report.
_MOST_MACHINES = 32
#: Most variants whose graphs are planned and drawn; the rest are counted.
_MOST_GRAPHS = 64

Select = Callable[[str, str | MachineProfile | None], Selection]


def make_report(
    info: PackageInfo,
    select: Select,
    wishes: ReportWishes,
    *,
    trust: bool,
    sess_options: SessionOptions | None = None,
) -> str:
    """Return the HTML page of a package.

    ``select``: (component, profile) → selection. For errors see
    :meth:`~ortpkg.ModelPackage.report`.
    """
    _verify_wishes(wishes)
    with asked_once(), records_read_once():
        machines = tuple(_machines(info, select, wishes.profiles))
        with _planned_models(info, machines[0], wishes, trust, sess_options) as models:
            return report_html(
                ReportSubject(
                    info=info,
                    title=info.name,
                    machines=machines,
                    models=models,
                    unplanned_count=max(
                        sum(1 for _ in _drawn(info, machines[0], wishes.graphs)) - _MOST_GRAPHS, 0
                    ),
                    findings=validate(info.root, compat=info.compat),
                    results=tuple(wishes.results),
                    recorded=load_recorded_state(info, this_machine()),
                    trust=trust,
                    verifies_all=wishes.verifies_all,
                    made_at=datetime.now(UTC),
                )
            )


def _verify_wishes(wishes: ReportWishes) -> None:
    """Raise UsageError for wishes that are wrong for any package."""
    if len(wishes.profiles) > _MOST_MACHINES:
        raise UsageError(
            f"a report shows at most {_MOST_MACHINES} other machines, not {len(wishes.profiles)}"
        )
    if wishes.eps and wishes.backend is not None:
        raise UsageError(
            "execution providers and a backend were named for the graphs: name the one or the other"
        )
    for name in wishes.eps:
        ep_known_here(name)
    if wishes.backend is not None:
        backend_named(wishes.backend, this_machine().ep_devices)


def _machines(
    info: PackageInfo, select: Select, profiles: Sequence[str | MachineProfile]
) -> Iterator[MachineSelections]:
    machines: list[tuple[str, MachineProfile | None]] = [("this machine", None)]
    for profile_or_name in profiles:
        if profile_or_name != THIS_MACHINE:
            other = (
                read_profile(profile_or_name)
                if isinstance(profile_or_name, str | Path)
                else profile_or_name
            )
            machines.append((other.name, other))
    for name, profile in machines:
        selections = {
            component.name: select(component.name, profile) for component in info.components
        }
        if profile is not None:
            selections = {
                component.name: _limited_to_shown(
                    selections[component.name], component, info, profile
                )
                for component in info.components
            }
        yield MachineSelections(name=name, is_here=profile is None, selections=selections)


def _limited_to_shown(
    selection: Selection, component: ComponentInfo, info: PackageInfo, profile: MachineProfile
) -> Selection:
    """Return the selection with verdicts on only the winner and the variants that a page shows.

    Formulating a verdict on each of ten thousand variants takes seconds per machine.
    """
    if len(component.variants) <= MOST_VARIANTS:
        return selection
    shown = component.variants[:MOST_VARIANTS]
    best = selection.best
    if best is not None and best.variant.name not in {variant.name for variant in shown}:
        shown = (*shown, best.variant)
    narrowed = replace(component, variants=shown)
    judged = select_component(info, narrowed, SelectionWishes(profile=profile))
    return replace(selection, verdicts=judged.verdicts)


@contextmanager
def _planned_models(
    info: PackageInfo,
    here: MachineSelections,
    wishes: ReportWishes,
    trust: bool,
    sess_options: SessionOptions | None,
) -> Iterator[tuple[PlannedModel, ...]]:
    """Yield sessions on the variants to draw; they are closed when the page is made."""
    with ExitStack() as sessions:
        models = []
        for component, variant in islice(_drawn(info, here, wishes.graphs), _MOST_GRAPHS):
            model = _planned(
                component, variant, here.selections[component], info, wishes, trust, sess_options
            )
            if model.session is not None:
                sessions.callback(model.session.close)
            models.append(model)
        _verify_sizes(wishes, models)
        yield tuple(models)


def _drawn(
    info: PackageInfo, here: MachineSelections, graphs: DrawnGraphs
) -> Iterator[tuple[str, VariantInfo | None]]:
    """Yield (component, variant) of what is drawn; None for the variant if none fits here."""
    for component in info.components:
        best = here.selections[component.name].best
        if graphs is DrawnGraphs.CHOSEN:
            yield component.name, None if best is None else best.variant
        elif graphs is DrawnGraphs.ALL:
            for variant in component.variants:
                yield component.name, variant


def _planned(
    component: str,
    variant: VariantInfo | None,
    selection: Selection,
    info: PackageInfo,
    wishes: ReportWishes,
    trust: bool,
    sess_options: SessionOptions | None,
) -> PlannedModel:
    if variant is None:
        return PlannedModel(
            component_name=component,
            variant_name="",
            planned_for="",
            obstacle="No variant fits this machine.",
        )
    model = ModelVariant(variant, selection, package=info, trust=trust)
    try:
        session, planned_for = _session(model, info, wishes, trust, sess_options)
        sizes = _sizes(session, wishes)
        plan = _plan(session, sizes)
    except OrtpkgError as error:
        return PlannedModel(
            component_name=component,
            variant_name=variant.name,
            planned_for="",
            obstacle=" ".join(str(error).split()),
        )
    return PlannedModel(
        component_name=component,
        variant_name=variant.name,
        planned_for=planned_for,
        session=session,
        plan=plan,
        sizes=sizes,
        model_path=model.model_path,
    )


def _sizes(session: InferenceSession, wishes: ReportWishes) -> dict[str, int]:
    """Return the sizes for figures in bytes: the wished sizes of the inputs' dimensions, else 1."""
    names = (size for value in session.get_declared_inputs() for size in value.shape)
    return {name: wishes.sizes.get(name, 1) for name in names if isinstance(name, str)}


def _verify_sizes(wishes: ReportWishes, models: Sequence[PlannedModel]) -> None:
    """Raise UsageError for the size of a dimension that no planned model has."""
    dimensions = {name: None for model in models for name in model.sizes}
    for name in wishes.sizes:
        if name not in dimensions:
            available = (
                f"they have {', '.join(map(quoted, dimensions))}"
                if dimensions
                else "they have none"
            )
            raise UsageError(
                f"no planned model has the symbolic dimension {quoted(name)}"
                f"{did_you_mean(name, dimensions)}; {available}"
            )


def _plan(session: InferenceSession, sizes: Mapping[str, int]) -> SessionPlan:
    try:
        return session.get_plan(sizes)
    except OrtpkgError:  # a child process that plans may crash
        session.close()
        raise


def _session(
    variant: ModelVariant,
    info: PackageInfo,
    wishes: ReportWishes,
    trust: bool,
    sess_options: SessionOptions | None,
) -> tuple[InferenceSession, str]:
    """Return the session whose plan is drawn, and a text on what it runs on."""
    if wishes.eps:
        names = ", ".join(wishes.eps)
        return _session_among(
            variant, info, wishes.eps, trust, sess_options
        ), f"{names}, in this order" if len(wishes.eps) > 1 else names
    if wishes.backend is not None:
        return (
            variant.create_session(sess_options, backend=wishes.backend, allow_fallback=True),
            "what ortpkg run takes" if wishes.backend == "auto" else f"backend {wishes.backend}",
        )
    try:
        return variant.create_session(sess_options, backend="embedded"), "the embedded engine"
    except NoSuitableVariantError:  # made for another backend, e.g. compiled for an EP
        return variant.create_session(sess_options, allow_fallback=True), "what ortpkg run takes"


def _session_among(
    variant: ModelVariant,
    info: PackageInfo,
    eps: Sequence[str],
    trust: bool,
    sess_options: SessionOptions | None,
) -> InferenceSession:
    # Imports the engine: only if execution providers are named.
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.selection.contexts.context_trust import context_gate

    if variant.model_path is None:
        raise UsageError(f"variant {quoted(variant.name)} is no single model to divide")
    variant.verify()
    return InferenceSession(
        variant.model_path,
        sess_options,
        [ep_known_here(name) for name in eps],
        check_contexts=context_gate(variant.info, info, trust=trust),
        is_confined=True,
        enable_fallback=False,
        allow_fallback=True,
    )
