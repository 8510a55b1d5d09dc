"""Which variant of each component model this machine and others would run, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.drawing.svg import shortened
from ortpkg.ep_names import short_ep_names
from ortpkg.package.package_info import ComponentInfo
from ortpkg.report.report_subject import MachineSelections, ReportSubject
from ortpkg.report.sections.path_picture import path_picture
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out
from ortpkg.report.sections.verdict_matrix import (
    Standing,
    VerdictMatrix,
    device_matrix,
    ep_device_words,
    machine_matrix,
)
from ortpkg.report.sections.winner_path import WinnerPath, winner_path
from ortpkg.selection.policies import device_kind
from ortpkg.selection.reasons import asked_for
from ortpkg.selection.verdict import Selection

#: Component models whose choice is shown; the rest are counted.
_MOST_COMPONENTS = 40
#: Cells of all matrices of one kind together.
_MOST_CELLS = 1600
_MOST_HEADLINES = 3
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentChoice:
    """What is selected of one component model.

    Attributes:
        name: the component's.
        chosen: the winner; "" where nothing fits this machine.
        place: where it runs, in words.
        asked_for: the wishes, in words.
        warnings: of this machine, a sentence each.
        other_warnings: (machine, sentence) of the others.
        ties: names of variants that declaration order alone puts behind the winner.
        devices: variants × EP devices of this machine.
        machines: variants × machines; None where there is but one.
        path: how the winner was found.
        picture: the same, drawn.
    """

    name: str
    chosen: str
    place: str
    asked_for: str
    warnings: tuple[str, ...]
    other_warnings: tuple[tuple[str, str], ...]
    ties: tuple[str, ...]
    devices: VerdictMatrix
    machines: VerdictMatrix | None
    path: WinnerPath
    picture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSection(Section):
    """The choice of every component model.

    Attributes:
        choices: in execution order.
        left_out: how many more components there are, in a sentence.
        standings: what a cell may be, for the legend.
    """

    choices: tuple[ComponentChoice, ...]
    left_out: str
    standings: tuple[Standing, ...] = tuple(Standing)


def selection_section(subject: ReportSubject) -> SelectionSection:
    """The selections on this machine and on those that were asked for."""
    components = subject.info.components
    shown = components[:_MOST_COMPONENTS]
    most_cells = _MOST_CELLS // max(len(shown), 1)
    here = subject.here.selections
    return SelectionSection(
        headline=_headline(subject.here),
        status=_status(subject.here),
        choices=tuple(
            _choice(number, component, subject, most_cells)
            for number, component in enumerate(shown)
            if component.name in here
        ),
        left_out=left_out(
            len(components) - len(shown), "component models", "ortpkg select --explain"
        ),
    )


def _headline(here: MachineSelections) -> str:
    selections = list(here.selections.values())
    lacking = [each for each in selections if each.best is None]
    if not selections:
        return "No component models"
    if len(lacking) == len(selections):
        return "Nothing fits this machine"
    if lacking:
        return f"{len(lacking)} of {len(selections)} component models do not fit this machine"
    words = [_short_choice(each) for each in selections[:_MOST_HEADLINES]]
    if len(selections) > 1:
        words = [
            f"{shortened(each.component_name, _LONGEST_NAME)}: {choice}"
            for each, choice in zip(selections, words, strict=False)
        ]
    more = len(selections) - len(words)
    return "; ".join(words) + (f"; and {more} more" if more > 0 else "")


def _short_choice(selection: Selection) -> str:
    """E.g. "cpu-fp32 on CPU (onnxruntime)"."""
    best = selection.best
    if best is None or best.ep_device is None:
        return "nothing" if best is None else shortened(best.variant.name, _LONGEST_NAME)
    kind = device_kind(best.ep_device, selection.hardware).value
    name = shortened(best.variant.name, _LONGEST_NAME)
    return f"{name} on {kind} ({best.ep_device.backend})"


def _status(here: MachineSelections) -> Status:
    selections = here.selections.values()
    if any(each.best is None for each in selections):
        return Status.BAD
    return Status.WARN if any(each.warnings for each in selections) else Status.GOOD


def _choice(
    number: int, component: ComponentInfo, subject: ReportSubject, most_cells: int
) -> ComponentChoice:
    selection = subject.here.selections[component.name]
    path = winner_path(selection)
    best = selection.best
    return ComponentChoice(
        name=component.name,
        chosen="" if best is None else best.variant.name,
        place="" if best is None or best.ep_device is None else ep_device_words(best.ep_device),
        asked_for=asked_for(selection),
        warnings=tuple(map(short_ep_names, selection.warnings)),
        other_warnings=tuple(_other_warnings(subject, component.name)),
        ties=tuple(selection.ties[:MOST_ROWS]),
        devices=device_matrix(selection, component, most_cells),
        machines=(
            machine_matrix(subject.machines, component, most_cells)
            if len(subject.machines) > 1
            else None
        ),
        path=path,
        picture=path_picture(
            path,
            name=f"path-{number}",
            title=f"How the choice for {shortened(component.name, _LONGEST_NAME)} was made",
        ),
    )


def _other_warnings(subject: ReportSubject, component: str) -> Iterator[tuple[str, str]]:
    """What is said of this machine, too, is not said again."""
    said = set(subject.here.selections[component].warnings)
    for machine in subject.machines:
        for warning in machine.selections[component].warnings:
            if warning not in said:
                yield machine.name, short_ep_names(warning)
