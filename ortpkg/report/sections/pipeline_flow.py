"""What flows between the component models of a package: its pipeline as cards with lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.errors import PackageFormatError
from ortpkg.package.formats.pipeline import (
    ComponentStep,
    Pipeline,
    RepeatStep,
    Step,
    read_pipeline,
)
from ortpkg.package.package_info import PackageInfo, ValueInfo
from ortpkg.report.report_subject import ReportSubject


class CardKind(StrEnum):
    """What a card stands for."""

    INPUTS = "inputs"
    COMPONENT = "component"
    REPEAT = "repeat"
    OUTPUTS = "outputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLine:
    """A value that a card takes or gives.

    Attributes:
        value: its name in the pipeline.
        is_taken: taken, else given.
        label: what the line says: the value's name, with the model's own where that differs.
        note: the value's type, or what becomes of it.
    """

    value: str
    is_taken: bool
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCard:
    """A step of the pipeline, or its inputs or outputs.

    Attributes:
        kind: which of them.
        title: the component's name, or what is done.
        lines: what it takes, then what it gives; of a loop what is done after each round.
        body: the steps of a loop.
    """

    kind: CardKind
    title: str
    lines: tuple[FlowLine, ...] = ()
    body: tuple[FlowCard, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep:
    """A card of a component as a row of a table: the loops round it, what it takes and gives."""

    component: str
    loops: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFlow:
    """A whole pipeline.

    Attributes:
        cards: in execution order; none where nothing is known of it.
        obstacle: why values are not shown, a sentence; "" where they are.
    """

    cards: tuple[FlowCard, ...]
    obstacle: str = ""


def pipeline_flow(subject: ReportSubject) -> PipelineFlow:
    """How the package's component models follow one another, and what each gives to others.

    By pipeline.json; without one, by the names of the planned models' inputs and outputs.
    """
    info = subject.info
    types = _types_of_values(subject)
    try:
        pipeline = read_pipeline(info) if info.has_pipeline else _wired(subject)
    except PackageFormatError:
        return PipelineFlow(cards=(), obstacle="pipeline.json is not valid; the findings say why.")
    if pipeline is None:
        return _in_order(info)
    return PipelineFlow(
        cards=(
            FlowCard(
                kind=CardKind.INPUTS, title="inputs", lines=_end_lines(pipeline.inputs, False)
            ),
            *_cards(pipeline.steps, types),
            FlowCard(
                kind=CardKind.OUTPUTS, title="outputs", lines=_end_lines(pipeline.outputs, True)
            ),
        )
    )


def flow_steps(cards: Sequence[FlowCard], loops: tuple[str, ...] = ()) -> Iterator[FlowStep]:
    """The components' cards in order, those in loops among them."""
    for card in cards:
        if card.kind is CardKind.COMPONENT:
            yield FlowStep(
                component=card.title,
                loops=", ".join(loops),
                takes=tuple(each.label for each in card.lines if each.is_taken),
                gives=tuple(
                    f"{each.label} {each.note}".strip() for each in card.lines if not each.is_taken
                ),
            )
        elif card.kind is CardKind.REPEAT:
            yield from flow_steps(card.body, (*loops, card.title))


def card_count(cards: Sequence[FlowCard]) -> int:
    """How many cards there are, those in loops among them."""
    return sum(1 + card_count(card.body) for card in cards)


def type_text(value: ValueInfo) -> str:
    """E.g. "float [batch, 1, 8, 8]"; what is no tensor as ONNX Runtime writes it."""
    kind = value.type.removeprefix("tensor(").removesuffix(")") if _is_tensor(value) else value.type
    if value.shape is None:
        return kind
    return f"{kind} [{', '.join('?' if size is None else str(size) for size in value.shape)}]"


def _is_tensor(value: ValueInfo) -> bool:
    return value.type.startswith("tensor(") and value.type.endswith(")")


def _types_of_values(subject: ReportSubject) -> Mapping[tuple[str, str], str]:
    """(component, output of its model) → type, of the models that are planned."""
    return {
        (model.component_name, each.name): type_text(
            ValueInfo(
                name=each.name,
                type=each.type,
                shape=tuple(each.shape),
            )
        )
        for model in subject.models
        if model.session is not None
        for each in model.session.get_outputs()
    }


def _wired(subject: ReportSubject) -> Pipeline | None:
    """The pipeline that names alone make; None where not every model is planned.

    Also where the component models do not run together.
    """
    info = subject.info
    names = [component.name for component in info.components]
    sessions = {
        model.component_name: model.session
        for model in reversed(subject.models)
        if model.session is not None
    }
    if sessions.keys() != set(names) or (len(names) > 1 and not info.is_pipeline):
        return None
    from ortpkg.pipelines.pipeline_session import wire_by_name  # numpy, which sessions have loaded

    return wire_by_name({name: sessions[name] for name in names})


def _in_order(info: PackageInfo) -> PipelineFlow:
    """What is known without models: the order, and what the package says of its ends."""
    ends = len(info.components) == 1
    components = tuple(
        FlowCard(
            kind=CardKind.COMPONENT,
            title=component.name,
            lines=(
                (*_end_lines(info.inputs, True), *_end_lines(info.outputs, False)) if ends else ()
            ),
        )
        for component in info.components
    )
    if ends and (info.inputs or info.outputs):
        return PipelineFlow(
            cards=(
                FlowCard(
                    kind=CardKind.INPUTS, title="inputs", lines=_end_lines(info.inputs, False)
                ),
                *components,
                FlowCard(
                    kind=CardKind.OUTPUTS, title="outputs", lines=_end_lines(info.outputs, True)
                ),
            )
        )
    if not info.is_pipeline:
        return PipelineFlow(cards=())
    return PipelineFlow(
        cards=components,
        obstacle=(
            "Which values flow between them is said by their models, of which not all are planned"
            " here."
        ),
    )


def _end_lines(values: Sequence[ValueInfo], is_taken: bool) -> tuple[FlowLine, ...]:
    return tuple(
        FlowLine(value=each.name, is_taken=is_taken, label=each.name, note=type_text(each))
        for each in values
    )


def _cards(steps: Sequence[Step], types: Mapping[tuple[str, str], str]) -> Iterator[FlowCard]:
    for step in steps:
        if isinstance(step, ComponentStep):
            yield FlowCard(
                kind=CardKind.COMPONENT,
                title=step.component,
                lines=tuple(_component_lines(step, types)),
            )
        else:
            yield FlowCard(
                kind=CardKind.REPEAT,
                title=_repeat_title(step),
                lines=tuple(_repeat_lines(step)),
                body=tuple(_cards(step.steps, types)),
            )


def _component_lines(
    step: ComponentStep, types: Mapping[tuple[str, str], str]
) -> Iterator[FlowLine]:
    for own, value in step.inputs.items():
        label = own if own == value else f"{own} = {value}"
        yield FlowLine(value=value, is_taken=True, label=label)
    for own, value in step.outputs.items():
        label = own if own == value else f"{own} → {value}"
        note = types.get((step.component, own), "")
        yield FlowLine(value=value, is_taken=False, label=label, note=note)


def _repeat_title(step: RepeatStep) -> str:
    if step.stop is None:
        return f"repeat {step.times} times"
    return f"repeat, at most {step.times} times, until {step.stop.value} is {step.stop.equals}"


def _repeat_lines(step: RepeatStep) -> Iterator[FlowLine]:
    for initial, replacement in step.carry.items():
        yield FlowLine(
            value=replacement, is_taken=True, label=replacement, note=f"next round's {initial}"
        )
    for value in step.collect:
        yield FlowLine(value=value, is_taken=True, label=value, note="gathered from all rounds")
