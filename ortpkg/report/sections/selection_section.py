"""Variant of each component model that this machine and others would run, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.machine.policies import device_kind
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
from ortpkg.selection.matching.reasons import asked_for
from ortpkg.selection.matching.verdict import Selection

#: Most component models whose selection is shown; the rest is counted.
_MOST_COMPONENTS = 40
#: Most cells of all matrices of one kind together.
_MOST_CELLS = 1600
_MOST_HEADLINES = 3
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentChoice:
    """Selection of one component model.

    Attributes:
        name: Name of the component.
        chosen: The winner; "" if nothing fits this machine.
        ep_device: EP device that runs it, in words.
        asked_for: Options of the selection, in words.
        warnings: Sentences about this machine.
        other_warnings: Machine and sentence, about others.
        ties: Names of variants that only declaration order puts behind the winner.
        devices: Matrix of variants × EP devices of this machine.
        machines: Matrix of variants × machines; None with only one.
        path: How the winner was found.
        picture: The same as a picture.
    """

    name: str
    chosen: str
    ep_device: str
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
    """Selection of every component model.

    Attributes:
        choices: Components in execution order.
        left_out: Sentence on the number of further components.
        standings: Possible states of a cell, for the legend.
    """

    choices: tuple[ComponentChoice, ...]
    left_out: str
    standings: tuple[Standing, ...] = tuple(Standing)


def selection_section(subject: ReportSubject) -> SelectionSection:
    """Return the selections on this machine and on the requested ones."""
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
    lacking = [selection for selection in selections if selection.best is None]
    if not selections:
        return "No component models"
    if len(lacking) == len(selections):
        return "Nothing fits this machine"
    if lacking:
        return f"{len(lacking)} of {len(selections)} component models do not fit this machine"
    words = [_short_choice(selection) for selection in selections[:_MOST_HEADLINES]]
    if len(selections) > 1:
        words = [
            f"{shortened(selection.component_name, _LONGEST_NAME)}: {choice}"
            for selection, choice in zip(selections, words, strict=False)
        ]
    more = len(selections) - len(words)
    return "; ".join(words) + (f"; and {more} more" if more > 0 else "")


def _short_choice(selection: Selection) -> str:
    """Return for example "cpu-fp32 on CPU (onnxruntime)"."""
    best = selection.best
    if best is None or best.ep_device is None:
        return "nothing" if best is None else shortened(best.variant.name, _LONGEST_NAME)
    kind = device_kind(best.ep_device, selection.hardware).value
    name = shortened(best.variant.name, _LONGEST_NAME)
    return f"{name} on {kind} ({best.ep_device.backend})"


def _status(here: MachineSelections) -> Status:
    selections = here.selections.values()
    if any(selection.best is None for selection in selections):
        return Status.BAD
    return Status.WARN if any(selection.warnings for selection in selections) else Status.GOOD


def _choice(
    number: int, component: ComponentInfo, subject: ReportSubject, most_cells: int
) -> ComponentChoice:
    selection = subject.here.selections[component.name]
    path = winner_path(selection)
    best = selection.best
    return ComponentChoice(
        name=component.name,
        chosen="" if best is None else best.variant.name,
        ep_device="" if best is None or best.ep_device is None else ep_device_words(best.ep_device),
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
    """Yield the warnings of other machines that this machine does not have."""
    here = set(subject.here.selections[component].warnings)
    for machine in subject.machines:
        for warning in machine.selections[component].warnings:
            if warning not in here:
                yield machine.name, short_ep_names(warning)
