"""Explanation of a selection's winner: rejections, and the criterion by which others lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.quantities import duration_text
from ortpkg.machine.policies import POLICIES, device_kind
from ortpkg.report.sections.verdict_matrix import ep_device_words
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.ranking import backend_preference
from ortpkg.selection.matching.verdict import Selection, Verdict

#: Most candidates that a step names; the rest is counted.
_MOST_NAMES = 5
_LONGEST_NAME = 60
_LONGEST_EXAMPLE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejections:
    """All rejections with one reason code.

    Attributes:
        code: Reason code.
        count: Number of verdicts with it.
        example: First variant among them, with its reason.
    """

    code: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One criterion of the ranking, for candidates that were equal in all criteria before.

    Attributes:
        criterion: Name, as in ``ortpkg select --json``.
        question: What is compared, and what comes first.
        winner: Value of the winner.
        losers: Values of those that lost here, or "".
        fallen: The same with their names.
        fallen_count: Number of those that lost here.
        remaining_count: Number of those that remain, including the winner.
    """

    criterion: str
    question: str
    winner: str
    losers: str
    fallen: str
    fallen_count: int
    remaining_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WinnerPath:
    """Path from all verdicts of a selection to the winner.

    Attributes:
        judged_count: Number of verdicts: variants × EP devices, and one for each variant whose EP
            is missing.
        rejections: Rejections by reason code, most frequent first.
        eligible_count: Number of candidates that can run.
        steps: Criteria in order, up to the one that leaves only the winner; none if nothing can
            run.
        winner: Winning variant and its EP device, or "".
    """

    judged_count: int
    rejections: tuple[Rejections, ...]
    eligible_count: int
    steps: tuple[PathStep, ...]
    winner: str


def winner_path(selection: Selection) -> WinnerPath:
    """Return the path to the selection's winner; without steps if nothing fits."""
    verdicts = selection.verdicts
    eligible = [verdict for verdict in verdicts if verdict.is_eligible]
    best = selection.best
    return WinnerPath(
        judged_count=len(verdicts),
        rejections=tuple(_rejections(verdicts)),
        eligible_count=len(eligible),
        steps=() if best is None else tuple(_steps(selection, best, eligible)),
        winner="" if best is None else _candidate_words(best),
    )


def _rejections(verdicts: Sequence[Verdict]) -> Iterator[Rejections]:
    first: dict[str, Verdict] = {}
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        if not verdict.is_eligible:
            first.setdefault(verdict.code.value, verdict)
            counts[verdict.code.value] += 1
    for code, count in counts.most_common():
        name, reason = first[code].variant.name, short_ep_names(first[code].reason)
        example = f"{shortened(name, _LONGEST_NAME)}: {reason}"
        yield Rejections(code=code, count=count, example=shortened(example, _LONGEST_EXAMPLE))


def _steps(selection: Selection, best: Verdict, eligible: Sequence[Verdict]) -> Iterator[PathStep]:
    losers: dict[str | None, list[Verdict]] = {}
    for verdict in eligible:
        losers.setdefault(verdict.decided_by, []).append(verdict)
    remaining = len(eligible)
    for position, criterion in enumerate(selection.criteria):
        if remaining == 1:
            return
        fallen = losers.get(criterion, [])
        remaining -= len(fallen)
        by_value = _by_value(criterion, position, fallen, selection)
        yield PathStep(
            criterion=criterion,
            question=_question(criterion, selection),
            winner=_value(criterion, position, best, selection),
            losers=_listed(list(by_value)),
            fallen="; ".join(f"{value}: {_listed(names)}" for value, names in by_value.items()),
            fallen_count=len(fallen),
            remaining_count=remaining,
        )


def _by_value(
    criterion: str, position: int, fallen: Sequence[Verdict], selection: Selection
) -> Mapping[str, list[str]]:
    """Return the candidates by their value in the criterion."""
    by_value: dict[str, list[str]] = {}
    for verdict in fallen:
        value = _value(criterion, position, verdict, selection)
        by_value.setdefault(value, []).append(_candidate_words(verdict))
    return by_value


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    listed = ", ".join(names[:_MOST_NAMES])
    return f"{listed} and {more} more" if more > 0 else listed


def _candidate_words(verdict: Verdict) -> str:
    name = shortened(verdict.variant.name, _LONGEST_NAME)
    device = verdict.ep_device
    if device is None:
        return name
    return f"{name} on {short_ep_names(device.ep_name)} ({device.backend})"


_QUESTIONS: Mapping[str, str] = {
    "measured": "What was measured on this machine comes before what was not.",
    "latency": "The shortest median time on this machine comes first.",
    "speed": (
        "A compiled variant that was measured here as faster than its plain one comes first; one"
        " that was slower, or whose code covers little of the work, comes last."
    ),
    "compatibility": (
        "How well the EP says that a compiled model suits the device; a model that is not compiled"
        " comes after an optimal one and before one that should be compiled anew."
    ),
    "architecture": "The architecture that is nearest to the device's comes first.",
    "named EP": "A variant that names its EP comes before one that runs on any.",
    "backend": (
        "The backend that is known to be fastest comes first: OpenVINO, onnxruntime, plug-ins, the"
        " embedded engine. Where several were measured here, their times decide."
    ),
    "declaration order": "What the package declares first comes first.",
    "EP device order": "The EP device that this machine prefers comes first.",
}


_RATINGS: Mapping[CompiledModelCompatibility, str] = {
    CompiledModelCompatibility.OPTIMAL: "optimal for the EP",
    CompiledModelCompatibility.NOT_APPLICABLE: "not compiled for an EP",
    CompiledModelCompatibility.UNKNOWN: "not rated by the EP",
    CompiledModelCompatibility.PREFER_RECOMPILATION: "better compiled anew",
    CompiledModelCompatibility.UNSUPPORTED: "not supported by the EP",
}


#: Words by the numbers of ``selection.matching.compiled_speed``; every other number is as usual.
_SPEEDS: Mapping[int, str] = {
    0: "compiled, and the fastest here",
    1: "compiled, and faster here than its plain variant",
    3: "compiled, and slower than its plain variant",
}


def _question(criterion: str, selection: Selection) -> str:
    if criterion == "device" and selection.policy in POLICIES:
        order = ", ".join(kind.value for kind in POLICIES[selection.policy].device_order)
        return f"The kind of device, in the order of policy {selection.policy}: {order}."
    return _QUESTIONS.get(criterion, f"The best {criterion} comes first.")


def _value(criterion: str, position: int, verdict: Verdict, selection: Selection) -> str:
    """Return the candidate's value in the criterion at ``position`` of its rank, in words."""
    number = 0 if verdict.rank is None else verdict.rank[position]
    device = verdict.ep_device
    if device is None:
        return str(number)
    words = {
        "measured": "not measured" if number else "measured here",
        "latency": duration_text(number / 1e9),
        "device": device_kind(device, selection.hardware).value,
        "speed": _SPEEDS.get(number, "as usual"),
        "compatibility": _RATINGS[verdict.compatibility],
        "architecture": _architecture_words(number, verdict),
        "named EP": "for any EP" if number else f"for {short_ep_names(device.ep_name)}",
        "backend": _backend_words(number, device.backend),
        "declaration order": f"declared as number {number + 1}",
        "EP device order": f"number {number + 1}, {ep_device_words(device)}",
    }
    return words.get(criterion, str(number))


def _architecture_words(distance: int, verdict: Verdict) -> str:
    architecture = verdict.variant.constraints.architecture
    if architecture is None:
        return "no architecture stated" if distance else "not compared"
    return f"{shortened(architecture, _LONGEST_NAME)}, {distance} steps from the device's"


def _backend_words(number: int, backend: str) -> str:
    """Return the backend, and that it was measured if that changed its rank."""
    return backend if number == backend_preference(backend) else f"{backend}, by what was measured"
