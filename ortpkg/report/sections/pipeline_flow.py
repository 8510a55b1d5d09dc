"""Data flow between the component models of a package: its pipeline as cards with lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ortpkg.foundations.errors import PackageFormatError
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
    """Kind of a card."""

    INPUTS = "inputs"
    COMPONENT = "component"
    REPEAT = "repeat"
    OUTPUTS = "outputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLine:
    """Value that a card consumes or produces.

    Attributes:
        value: Name in the pipeline.
        is_taken: True if consumed, False if produced.
        label: Text of the line: the value's name, with the model's own if that differs.
        note: Type of the value, or its use.
    """

    value: str
    is_taken: bool
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCard:
    """Step of the pipeline, or its inputs or outputs.

    Attributes:
        kind: Kind of the card.
        title: Name of the component, or what is done.
        lines: Its inputs, then its outputs; for a loop, what happens after each round.
        body: Steps of a loop.
    """

    kind: CardKind
    title: str
    lines: tuple[FlowLine, ...] = ()
    body: tuple[FlowCard, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep:
    """Card of a component as a row of a table: its surrounding loops, inputs and outputs."""

    component: str
    loops: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFlow:
    """Whole pipeline.

    Attributes:
        cards: Cards in execution order; none if nothing is known of it.
        obstacle: Sentence why values are not shown, or "".
    """

    cards: tuple[FlowCard, ...]
    obstacle: str = ""


def pipeline_flow(subject: ReportSubject) -> PipelineFlow:
    """Return how the package's component models follow one another, and the values between them.

    It comes from pipeline.json; without one, from the names of the planned models' inputs and
    outputs.
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
    """Yield the components' cards in order, including those in loops."""
    for card in cards:
        if card.kind is CardKind.COMPONENT:
            yield FlowStep(
                component=card.title,
                loops=", ".join(loops),
                takes=tuple(flow_line.label for flow_line in card.lines if flow_line.is_taken),
                gives=tuple(
                    f"{flow_line.label} {flow_line.note}".strip()
                    for flow_line in card.lines
                    if not flow_line.is_taken
                ),
            )
        elif card.kind is CardKind.REPEAT:
            yield from flow_steps(card.body, (*loops, card.title))


def card_count(cards: Sequence[FlowCard]) -> int:
    """Return the number of cards, including those in loops."""
    return sum(1 + card_count(card.body) for card in cards)


def type_text(value: ValueInfo) -> str:
    """Return for example "float [batch, 1, 8, 8]"; other types as ONNX Runtime writes them."""
    kind = value.type.removeprefix("tensor(").removesuffix(")") if _is_tensor(value) else value.type
    if value.shape is None:
        return kind
    return f"{kind} [{', '.join('?' if size is None else str(size) for size in value.shape)}]"


def _is_tensor(value: ValueInfo) -> bool:
    return value.type.startswith("tensor(") and value.type.endswith(")")


def _types_of_values(subject: ReportSubject) -> Mapping[tuple[str, str], str]:
    """Return the type by component and output, for the planned models."""
    return {
        (model.component_name, output.name): type_text(
            ValueInfo(
                name=output.name,
                type=output.type,
                shape=tuple(output.shape),
            )
        )
        for model in subject.models
        if model.session is not None
        for output in model.session.get_outputs()
    }


def _wired(subject: ReportSubject) -> Pipeline | None:
    """Return the pipeline that names alone make, or None.

    It is None if a model is not planned, or if the component models do not run together.
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
    from ortpkg.runtime.pipelines.pipeline_session import (
        wire_by_name,  # numpy, which sessions have loaded
    )

    return wire_by_name({name: sessions[name] for name in names})


def _in_order(info: PackageInfo) -> PipelineFlow:
    """Return what is known without models: the order, and the package's inputs and outputs."""
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
        FlowLine(value=value.name, is_taken=is_taken, label=value.name, note=type_text(value))
        for value in values
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
    for model_name, value in step.inputs.items():
        label = model_name if model_name == value else f"{model_name} = {value}"
        yield FlowLine(value=value, is_taken=True, label=label)
    for model_name, value in step.outputs.items():
        label = model_name if model_name == value else f"{model_name} → {value}"
        note = types.get((step.component, model_name), "")
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
