"""Explanations of a selection: a tree for people, and a JSON object with the same content.

``cli`` prints them. Every text in the tree is safe to print: names from a package are quoted and
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ortpkg.foundations.errors import quoted
from ortpkg.machine.json_form import ep_device_to_json, hardware_device_to_json
from ortpkg.selection.matching.reasons import asked_for, ep_device_label, main_verdict
from ortpkg.selection.matching.verdict import ReasonCode, Selection, Verdict

SELECTION_SCHEMA_VERSION = 1


class Status(StrEnum):
    """Style of a line in the tree."""

    SELECTED = "selected"
    ELIGIBLE = "eligible"
    REJECTED = "rejected"
    WARNING = "warning"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One line of the tree: a label, a verdict's reason code, and the lines under it."""

    label: str
    status: Status = Status.PLAIN
    code: str = ""
    children: tuple[Explanation, ...] = ()


def explain(selection: Selection) -> Explanation:
    """Return the decision as a tree: the request, the machine, every variant with its reasons."""
    parts = [_machine(selection), *_variants(selection)]
    if selection.ties:
        names = ", ".join(quoted(name) for name in selection.ties)
        parts.append(_line(f"tied with the winner, declared later: {names}", Status.WARNING))
    parts += [_line(warning, Status.WARNING) for warning in selection.warnings]
    return Explanation(
        label=_headline(selection), status=_headline_status(selection), children=tuple(parts)
    )


def selection_to_json(selection: Selection) -> dict[str, Any]:
    """Return the decision as a JSON object. Keys are only added while ``schema_version`` stays.

    ``selected`` and each entry of ``verdicts`` refer by ``ep_device`` to an index of ``ep_devices``
    (null if no EP device could be tried). ``rank`` has a number per criterion, in the order in
    which they decide; smaller is better.
    """
    positions = {id(ep_device): position for position, ep_device in enumerate(selection.ep_devices)}
    return {
        "schema_version": SELECTION_SCHEMA_VERSION,
        "component": selection.component_name,
        "policy": selection.policy,
        "device": selection.device,
        "ep": selection.ep,
        "backend": selection.backend,
        "check_architecture": selection.check_architecture,
        "provider_options": {
            ep: dict(options) for ep, options in selection.provider_options.items()
        },
        "limits": list(selection.limits),
        "machine": selection.machine or None,
        "selected": (
            None
            if selection.best is None
            else _verdict_to_json(selection.best, selection, positions)
        ),
        "verdicts": [
            _verdict_to_json(verdict, selection, positions) for verdict in selection.verdicts
        ],
        "ties": list(selection.ties),
        "unpredictable": list(selection.unpredictable),
        "warnings": list(selection.warnings),
        "hardware": [hardware_device_to_json(device) for device in selection.hardware],
        "ep_devices": [ep_device_to_json(ep_device) for ep_device in selection.ep_devices],
    }


# --- the tree -------------------------------------------------------------------------------------


def _headline(selection: Selection) -> str:
    component = f"component {quoted(selection.component_name)}"
    if selection.machine:
        component += f" on machine {quoted(selection.machine)}"
    if selection.best is None:
        return f"{component}: no variant fits"
    return (
        f"{component}: {quoted(selection.best.variant.name)} on"
        f" {ep_device_label(selection.best.ep_device)}"
    )


def _headline_status(selection: Selection) -> Status:
    return Status.REJECTED if selection.best is None else Status.SELECTED


def _machine(selection: Selection) -> Explanation:
    offers = tuple(_line(ep_device_label(ep_device)) for ep_device in selection.ep_devices)
    return Explanation(
        label=f"considered, in the order of preference (asked for: {asked_for(selection)})",
        children=offers or (_line("no execution provider is available"),),
    )


def _variants(selection: Selection) -> Iterable[Explanation]:
    """Yield one branch per variant: eligible ones by their best rank, then as declared."""
    by_name: dict[str, list[Verdict]] = {}
    for verdict in selection.verdicts:
        by_name.setdefault(verdict.variant.name, []).append(verdict)
    for name, verdicts in by_name.items():
        leading = main_verdict(verdicts)
        yield Explanation(
            label=f"{quoted(name)}: {leading.reason}",
            status=_status(leading),
            code=leading.code.value,
            children=tuple(_verdict_lines(verdicts, leading)),
        )


def _verdict_lines(verdicts: Sequence[Verdict], leading: Verdict) -> Iterable[Explanation]:
    """Yield a line per distinct judgement.

    EP devices with the same judgement are named together, those of other EPs are counted.
    """
    groups: dict[tuple[ReasonCode, str, tuple[str, ...]], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.code, verdict.reason, verdict.notes), []).append(verdict)
    # The most informative judgement comes first; the others stay in the order of the EP devices.
    for (code, reason, notes), members in sorted(
        groups.items(), key=lambda group: group[0][1] != leading.reason
    ):
        if code is ReasonCode.EP_MISMATCH and len(groups) > 1:
            where = (
                f"{len(members)} of another EP"
                if len(members) > 1
                else ep_device_label(members[0].ep_device)
            )
        else:
            where = "; ".join(ep_device_label(member.ep_device) for member in members)
        label = where if reason == leading.reason else f"{where}: {reason}"
        rating = members[0].compatibility
        details = tuple(_line(note) for note in notes)
        if members[0].variant.constraints.ep_compatibility_info:
            details = (_line(f"compatibility: {rating.value}"), *details)
        yield Explanation(
            label=label, status=_status(members[0]), code=code.value, children=details
        )


def _status(verdict: Verdict) -> Status:
    if verdict.code is ReasonCode.SELECTED:
        return Status.SELECTED
    return Status.ELIGIBLE if verdict.is_eligible else Status.REJECTED


def _line(text: str, status: Status = Status.PLAIN) -> Explanation:
    return Explanation(label=text, status=status)


def _verdict_to_json(
    verdict: Verdict, selection: Selection, positions: dict[int, int]
) -> dict[str, Any]:
    ep_device = verdict.ep_device
    return {
        "variant": verdict.variant.name,
        "ep": None if ep_device is None else ep_device.ep_name,
        "backend": None if ep_device is None else ep_device.backend,
        "device": (
            None if ep_device is None or ep_device.device is None else ep_device.device.type.value
        ),
        "ep_device": None if ep_device is None else positions[id(ep_device)],
        "code": verdict.code.value,
        "reason": verdict.reason,
        "eligible": verdict.is_eligible,
        "compatibility": verdict.compatibility.value,
        "rank": (
            None
            if verdict.rank is None
            else dict(zip(selection.criteria, verdict.rank, strict=True))
        ),
        "decided_by": verdict.decided_by,
        "notes": list(verdict.notes),
    }
