"""Check that the values between components fit their models (ORT501 to 503)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ortpkg.authoring.checks.checked_package import CheckedPackage
from ortpkg.authoring.rules import pipeline_rules
from ortpkg.foundations.documents.finding_collector import finding, json_pointer, listed
from ortpkg.foundations.errors import Finding, PackageFormatError, quoted
from ortpkg.graph.model_signature import ModelSignature, ValueSignature
from ortpkg.graph.types import Shape
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.pipeline import ComponentStep, RepeatStep, Step, read_pipeline
from ortpkg.package.package_info import ValueInfo
from ortpkg.package.sidecar import PIPELINE


@dataclass(frozen=True, slots=True)
class FlowingValue:
    """Type of a value in a pipeline ("" for unknown) and its shape (None for an unknown rank)."""

    type: str
    shape: Shape | None

    @classmethod
    def of(cls, value: ValueInfo | ValueSignature) -> FlowingValue:
        """Return the type and shape that a document, or a model, states."""
        return cls(value.type, value.shape)

    def why_not_for(self, taker: FlowingValue, *, sizes: bool = True) -> str | None:
        """Return why this value cannot go where ``taker`` is expected; None if it can.

        Set ``sizes`` to False to ignore fixed sizes.
        """
        if self.type and taker.type and self.type != taker.type:
            return f"is {quoted(self.type)}, where {quoted(taker.type)} is expected"
        if self.shape is None or taker.shape is None:
            return None
        if len(self.shape) != len(taker.shape):
            return f"has the rank {len(self.shape)}, where {len(taker.shape)} is expected"
        for axis, (size, expected) in enumerate(zip(self.shape, taker.shape, strict=True)):
            if sizes and isinstance(size, int) and isinstance(expected, int) and size != expected:
                return f"has {size} elements on axis {axis}, where {expected} are expected"
        return None


_Values = dict[str, FlowingValue]
_Path = tuple[str | int, ...]


def check_pipeline(package: CheckedPackage) -> Iterator[Finding]:
    """Check that the values between components fit, by pipeline.json or, without one, by name."""
    if not package.info.has_pipeline:
        yield from _check_wiring_by_name(package)
        return
    try:
        pipeline = read_pipeline(package.info)
    except PackageFormatError:
        return  # pipeline.json changed since the package was opened
    if pipeline is None:
        return
    values = {value.name: FlowingValue.of(value) for value in pipeline.inputs}
    yield from _check_steps(package, pipeline.steps, values, ("steps",))
    for index, value in enumerate(pipeline.outputs):
        reason = (
            values[value.name].why_not_for(FlowingValue.of(value)) if value.name in values else None
        )
        if reason is not None:
            yield _misfit(
                f"output {quoted(value.name)} {reason} by its declaration", ("outputs", index)
            )


def _check_steps(
    package: CheckedPackage, steps: Sequence[Step], values: _Values, path: _Path
) -> Iterator[Finding]:
    """Follow ``values`` through the steps, and add the values that they make."""
    for index, step in enumerate(steps):
        step_path = (*path, index)
        if isinstance(step, RepeatStep):
            yield from _check_repeat(package, step, values, (*step_path, "repeat"))
            continue
        signature = package.signature_of(step.component)
        if signature is None:  # GenAI, or an unreadable model: its values are unknown
            values.update(dict.fromkeys(step.outputs.values(), FlowingValue("", None)))
            continue
        yield from _check_inputs(step, signature, values, step_path)
        yield from _check_outputs(step, signature, values, step_path)


def _check_inputs(
    step: ComponentStep, signature: ModelSignature, values: Mapping[str, FlowingValue], path: _Path
) -> Iterator[Finding]:
    takers = {value.name: FlowingValue.of(value) for value in signature.inputs}
    for name, source in step.inputs.items():
        if name not in takers:
            yield _unknown(step, "input", name, signature.inputs, (*path, "inputs", name))
        elif source in values and (reason := values[source].why_not_for(takers[name])):
            message = (
                f"value {quoted(source)}, which feeds {quoted(name)} of {quoted(step.component)},"
                f" {reason}"
            )
            yield _misfit(message, (*path, "inputs", name))
    for name in takers:
        if name not in step.inputs:
            message = f"a step of {quoted(step.component)} does not feed its input {quoted(name)}"
            pointer = json_pointer(*path, "inputs")
            yield finding(pipeline_rules.PIPELINE_INPUT_NOT_FED, PIPELINE, message, pointer=pointer)


def _check_outputs(
    step: ComponentStep, signature: ModelSignature, values: _Values, path: _Path
) -> Iterator[Finding]:
    makers = {value.name: FlowingValue.of(value) for value in signature.outputs}
    for name, value_name in step.outputs.items():
        if name not in makers:
            yield _unknown(step, "output", name, signature.outputs, (*path, "outputs", name))
        values[value_name] = makers.get(name, FlowingValue("", None))


def _check_repeat(
    package: CheckedPackage, step: RepeatStep, values: _Values, path: _Path
) -> Iterator[Finding]:
    inside = dict(values)
    yield from _check_steps(package, step.steps, inside, (*path, "steps"))
    for initial, replacement in step.carry.items():
        # Sizes may grow from round to round.
        reason = inside[replacement].why_not_for(values[initial], sizes=False)
        if reason is not None:
            message = (
                f"value {quoted(replacement)}, which takes the place of {quoted(initial)}, {reason}"
            )
            yield _misfit(message, (*path, "carry", initial))
        values[initial] = replace(values[initial], shape=inside[replacement].shape)
    for name in step.collect:
        shape = inside[name].shape
        rounds = step.times if step.stop is None else None
        values[name] = replace(inside[name], shape=None if shape is None else (rounds, *shape))


def _check_wiring_by_name(package: CheckedPackage) -> Iterator[Finding]:
    """Check components without pipeline.json: an output feeds later inputs of its name."""
    made: dict[str, tuple[str, FlowingValue]] = {}
    for component in package.info.components if len(package.info.components) > 1 else ():
        signature = package.signature_of(component.name)
        for value in signature.inputs if signature is not None else ():
            maker, flowing = made.get(value.name, ("", FlowingValue("", None)))
            if reason := flowing.why_not_for(FlowingValue.of(value)):
                message = (
                    f"value {quoted(value.name)}, which {quoted(maker)} makes and"
                    f" {quoted(component.name)} takes, {reason}"
                )
                yield finding(pipeline_rules.PIPELINE_VALUE_MISFITS, MANIFEST, message)
        for value in signature.outputs if signature is not None else ():
            made[value.name] = component.name, FlowingValue.of(value)


def _unknown(
    step: ComponentStep, kind: str, name: str, values: Sequence[ValueSignature], path: _Path
) -> Finding:
    available = listed([f"{value.name}: {value.type}" for value in values]) or "none"
    message = (
        f"a step of {quoted(step.component)} uses the {kind} {quoted(name)}; there is {available}"
    )
    return finding(
        pipeline_rules.PIPELINE_VALUE_UNKNOWN, PIPELINE, message, pointer=json_pointer(*path)
    )


def _misfit(message: str, path: _Path) -> Finding:
    return finding(
        pipeline_rules.PIPELINE_VALUE_MISFITS, PIPELINE, message, pointer=json_pointer(*path)
    )
