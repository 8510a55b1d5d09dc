"""A selection as a matrix: variants × EP devices of one machine, and variants × machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.devices.hardware import EpDevice, hardware_label
from ortpkg.drawing.svg import shortened
from ortpkg.ep_names import short_ep_names
from ortpkg.package.package_info import ComponentInfo
from ortpkg.report.report_subject import MOST_VARIANTS, MachineSelections
from ortpkg.report.sections.section import left_out
from ortpkg.selection.reasons import ep_device_label, main_verdict
from ortpkg.selection.verdict import ReasonCode, Selection, Verdict

#: EP devices of a machine that have a column; the rest are counted.
MOST_COLUMNS = 40
_LONGEST_REASON = 300
_LONGEST_NAME = 120


class Standing(StrEnum):
    """How a cell is coloured, and which words say the same.

    OTHER_EP is a rejection, too, but one that every variant has on most EP devices.
    """

    SELECTED = "selected"
    ELIGIBLE = "eligible"
    REJECTED = "rejected"
    OTHER_EP = "other-ep"
    NOT_TRIED = "not-tried"

    @property
    def words(self) -> str:
        """A sign and a word or two, for who sees no colours."""
        return _WORDS[self]


_WORDS: Mapping[Standing, str] = {
    Standing.SELECTED: "✔ chosen",
    Standing.ELIGIBLE: "○ can run",
    Standing.REJECTED: "✕ rejected",
    Standing.OTHER_EP: "· other EP",
    Standing.NOT_TRIED: "– not tried",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a selection says of a variant in one column: the standing, the code and the reason.

    The reason has at most 300 characters; the notes of the verdict follow it.
    """

    standing: Standing
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Where variants were judged.

    Attributes:
        lines: the head of the column, the most important words first.
        label: the same in one line, for tables and notes.
    """

    lines: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A variant with its judgement in all columns where it is the same.

    Attributes:
        variant: its name, at most 120 letters of it, since the matrix has it whole.
        places: labels of the columns; "all" alone where it is the same in all of several.
        cell: what is said there.
    """

    variant: str
    places: tuple[str, ...]
    cell: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictMatrix:
    """A row for each variant in declaration order, and what those say that are not shown.

    Attributes:
        rows: (variant, a cell for each column).
        judged: the same as a table of reasons.
        left_out: sentences on rows and columns that are not shown.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    judged: tuple[Judged, ...]
    left_out: tuple[str, ...]


def device_matrix(selection: Selection, component: ComponentInfo, most_cells: int) -> VerdictMatrix:
    """The verdicts on the component's variants, a column for each EP device of the machine."""
    shown = selection.ep_devices[:MOST_COLUMNS]
    columns = tuple(map(_ep_device_column, shown)) or (_NOWHERE,)
    places = {id(ep_device): place for place, ep_device in enumerate(shown)}
    cells = _unjudged(component, len(columns), most_cells)
    for verdict in selection.verdicts:
        row = cells.get(verdict.variant.name)
        if row is None:
            continue
        if verdict.ep_device is None:
            row[:] = [_cell(verdict)] * len(columns)
        elif id(verdict.ep_device) in places:
            row[places[id(verdict.ep_device)]] = _cell(verdict)
    more_columns = len(selection.ep_devices) - len(shown)
    return _matrix(columns, cells, len(component.variants), more_columns)


def machine_matrix(
    machines: Sequence[MachineSelections], component: ComponentInfo, most_cells: int
) -> VerdictMatrix:
    """The best verdict on each of the component's variants, a column for each machine."""
    columns = tuple(Column(lines=(each.name,), label=each.name) for each in machines)
    cells = _unjudged(component, len(columns), most_cells)
    for place, machine in enumerate(machines):
        found: dict[str, list[Verdict]] = {name: [] for name in cells}
        for verdict in machine.selections[component.name].verdicts:
            if verdict.variant.name in found:
                found[verdict.variant.name].append(verdict)
        for name, verdicts in found.items():
            if verdicts:
                leading = main_verdict(verdicts)
                cells[name][place] = _cell(leading, where=_place_words(leading))
    return _matrix(columns, cells, len(component.variants), 0)


def ep_device_words(ep_device: EpDevice) -> str:
    """E.g. "openvino (openvino) on NPU (Intel AI Boost)"."""
    return short_ep_names(ep_device_label(ep_device))


_NOWHERE = Column(lines=("no EP device",), label="no EP device")
_UNJUDGED = Cell(standing=Standing.NOT_TRIED, code="", reason="It was not judged here.")


def _unjudged(component: ComponentInfo, columns: int, most_cells: int) -> dict[str, list[Cell]]:
    """A row for each variant that is shown, in declaration order."""
    most_rows = min(MOST_VARIANTS, max(1, most_cells // columns))
    return {each.name: [_UNJUDGED] * columns for each in component.variants[:most_rows]}


def _ep_device_column(ep_device: EpDevice) -> Column:
    device = ep_device.device
    where = "no reported device" if device is None else hardware_label(device)
    return Column(
        lines=(short_ep_names(ep_device.ep_name), ep_device.backend, where),
        label=ep_device_words(ep_device),
    )


def _cell(verdict: Verdict, *, where: str = "") -> Cell:
    reason = "; ".join((f"{where}{verdict.reason}", *verdict.notes))
    return Cell(
        standing=_standing(verdict),
        code=verdict.code.value,
        reason=shortened(short_ep_names(reason), _LONGEST_REASON),
    )


def _standing(verdict: Verdict) -> Standing:
    if verdict.code is ReasonCode.SELECTED:
        return Standing.SELECTED
    if verdict.is_eligible:
        return Standing.ELIGIBLE
    if verdict.ep_device is None:
        return Standing.NOT_TRIED
    return Standing.OTHER_EP if verdict.code is ReasonCode.EP_MISMATCH else Standing.REJECTED


def _place_words(verdict: Verdict) -> str:
    """Where what can run would run there; for a rejection the reason says enough."""
    if verdict.ep_device is None or not verdict.is_eligible:
        return ""
    return f"on {ep_device_words(verdict.ep_device)}: "


def _matrix(
    columns: tuple[Column, ...],
    cells: Mapping[str, Sequence[Cell]],
    variant_count: int,
    more_columns: int,
) -> VerdictMatrix:
    sentences = (
        left_out(variant_count - len(cells), "variants", "ortpkg select --explain"),
        left_out(more_columns, "EP devices", "ortpkg select --explain"),
    )
    return VerdictMatrix(
        columns=columns,
        rows=tuple((name, tuple(row)) for name, row in cells.items()),
        judged=tuple(_judged(columns, cells.items())),
        left_out=tuple(filter(None, sentences)),
    )


def _judged(
    columns: Sequence[Column], rows: Iterable[tuple[str, Sequence[Cell]]]
) -> Iterable[Judged]:
    for name, row in rows:
        places: dict[Cell, list[str]] = {}
        for column, cell in zip(columns, row, strict=True):
            places.setdefault(cell, []).append(column.label)
        for cell, labels in places.items():
            is_everywhere = len(labels) == len(columns) > 1
            yield Judged(
                variant=shortened(name, _LONGEST_NAME),
                places=("all",) if is_everywhere else tuple(labels),
                cell=cell,
            )
