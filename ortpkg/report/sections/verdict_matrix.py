"""Selection as a matrix: variants × EP devices of one machine, and variants × machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.machine.hardware import EpDevice, hardware_label
from ortpkg.package.package_info import ComponentInfo
from ortpkg.report.report_subject import MOST_VARIANTS, MachineSelections
from ortpkg.report.sections.section import left_out
from ortpkg.selection.matching.reasons import ep_device_label, main_verdict
from ortpkg.selection.matching.verdict import ReasonCode, Selection, Verdict

#: Most EP devices of a machine that have a column; the rest is counted.
MOST_COLUMNS = 40
_LONGEST_REASON = 300
_LONGEST_NAME = 120


class Standing(StrEnum):
    """State of a cell, which decides its colour and words.

    OTHER_EP is a rejection, too, but one that every variant has on most EP devices.
    """

    SELECTED = "selected"
    ELIGIBLE = "eligible"
    REJECTED = "rejected"
    OTHER_EP = "other-ep"
    NOT_TRIED = "not-tried"

    @property
    def words(self) -> str:
        """Sign and words, for readers who cannot see colours."""
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
    """Verdict on a variant in one column: standing, reason code and reason.

    The reason has at most 300 characters and includes the verdict's notes.
    """

    standing: Standing
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Column of the matrix.

    Attributes:
        lines: Lines of the head, most important words first.
        label: The same on one line, for tables and notes.
    """

    lines: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedVariant:
    """Variant with its verdict in all columns that have the same one.

    Attributes:
        variant: Its name, cut to 120 characters; the matrix has the whole name.
        places: Labels of the columns; only "all" if all of several columns are the same.
        cell: The verdict.
    """

    variant: str
    places: tuple[str, ...]
    cell: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictMatrix:
    """Row for each variant in declaration order, and sentences on what is not shown.

    Attributes:
        columns: The columns.
        rows: Variant and its cell for each column.
        judged: The same as a table of reasons.
        left_out: Sentences on rows and columns that are not shown.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    judged: tuple[JudgedVariant, ...]
    left_out: tuple[str, ...]


def device_matrix(selection: Selection, component: ComponentInfo, most_cells: int) -> VerdictMatrix:
    """Return the verdicts on the component's variants, with a column for each EP device."""
    shown = selection.ep_devices[:MOST_COLUMNS]
    columns = tuple(map(_ep_device_column, shown)) or (_NOWHERE,)
    column_numbers = {id(ep_device): number for number, ep_device in enumerate(shown)}
    cells = _unjudged(component, len(columns), most_cells)
    for verdict in selection.verdicts:
        row = cells.get(verdict.variant.name)
        if row is None:
            continue
        if verdict.ep_device is None:
            row[:] = [_cell(verdict)] * len(columns)
        elif id(verdict.ep_device) in column_numbers:
            row[column_numbers[id(verdict.ep_device)]] = _cell(verdict)
    more_columns = len(selection.ep_devices) - len(shown)
    return _matrix(columns, cells, len(component.variants), more_columns)


def machine_matrix(
    machines: Sequence[MachineSelections], component: ComponentInfo, most_cells: int
) -> VerdictMatrix:
    """Return the best verdict on each of the component's variants, in a column for each machine."""
    columns = tuple(Column(lines=(machine.name,), label=machine.name) for machine in machines)
    cells = _unjudged(component, len(columns), most_cells)
    for number, machine in enumerate(machines):
        verdicts_by_name: dict[str, list[Verdict]] = {name: [] for name in cells}
        for verdict in machine.selections[component.name].verdicts:
            if verdict.variant.name in verdicts_by_name:
                verdicts_by_name[verdict.variant.name].append(verdict)
        for name, verdicts in verdicts_by_name.items():
            if verdicts:
                leading = main_verdict(verdicts)
                cells[name][number] = _cell(leading, where=_place_words(leading))
    return _matrix(columns, cells, len(component.variants), 0)


def ep_device_words(ep_device: EpDevice) -> str:
    """Return for example "openvino (openvino) on NPU (Intel AI Boost)"."""
    return short_ep_names(ep_device_label(ep_device))


_NOWHERE = Column(lines=("no EP device",), label="no EP device")
_UNJUDGED = Cell(standing=Standing.NOT_TRIED, code="", reason="It was not judged here.")


def _unjudged(component: ComponentInfo, columns: int, most_cells: int) -> dict[str, list[Cell]]:
    """Return an empty row for each variant that is shown, in declaration order."""
    most_rows = min(MOST_VARIANTS, max(1, most_cells // columns))
    return {variant.name: [_UNJUDGED] * columns for variant in component.variants[:most_rows]}


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
    """Return where an eligible variant would run; "" for a rejection, whose reason is enough."""
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
) -> Iterable[JudgedVariant]:
    for name, row in rows:
        labels_by_cell: dict[Cell, list[str]] = {}
        for column, cell in zip(columns, row, strict=True):
            labels_by_cell.setdefault(cell, []).append(column.label)
        for cell, labels in labels_by_cell.items():
            is_everywhere = len(labels) == len(columns) > 1
            yield JudgedVariant(
                variant=shortened(name, _LONGEST_NAME),
                places=("all",) if is_everywhere else tuple(labels),
                cell=cell,
            )
