"""Read pipeline.json: how the component models of a package work together.

Each value has one maker: an input of the pipeline, a component step, or the collection of a loop's
rounds. Values made in the body of a loop are visible in that body only. ``carry`` maps a value from
before the loop to the value of the body that replaces it in the next round; after the loop the name
stands for the last round's value. Without a pipeline.json, components run in manifest order,
connected by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import FindingCollector, json_pointer, listed
from ortpkg.foundations.documents.frozen import EMPTY, FrozenMapping, freeze
from ortpkg.foundations.errors import Finding, PackageFormatError, quoted
from ortpkg.package.package_info import PackageInfo, ValueInfo, read_value_infos
from ortpkg.package.paths.path_resolver import PathResolver
from ortpkg.package.rules import (
    REPEAT_TOO_DEEP,
    STEP_COMPONENT,
    STEP_SHAPE,
    VALUE_MADE_TWICE,
    VALUE_NOT_AVAILABLE,
)
from ortpkg.package.sidecar import PIPELINE, read_sidecar

_DEEPEST_REPEAT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStep:
    """Step that runs a component model once.

    Attributes:
        component: name of the component model.
        inputs: name of the model's input → value of the pipeline that feeds it.
        outputs: name of the model's output → value of the pipeline that it makes.
    """

    component: str
    inputs: Mapping[str, str] = EMPTY
    outputs: Mapping[str, str] = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCondition:
    """End of a loop: after the round in which every element of ``value`` equals ``equals``."""

    value: str
    equals: int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatStep:
    """Step that runs other steps several times.

    Attributes:
        times: rounds at most, 1 to 1,000,000.
        steps: the body.
        carry: value from before the loop → value of the body that replaces it in the next round.
        collect: values of the body whose rounds are gathered along a new leading axis under the
            same name.
        stop: ends the loop early.
    """

    times: int
    steps: tuple[Step, ...]
    carry: Mapping[str, str] = EMPTY
    collect: tuple[str, ...] = ()
    stop: StopCondition | None = None


Step = ComponentStep | RepeatStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Checked pipeline: every value is made before it is used, and every component exists."""

    schema_version: tuple[int, int]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    steps: tuple[Step, ...]
    description: str | None = None
    additional_metadata: Any = None


def read_pipeline(package: PackageInfo) -> Pipeline | None:
    """Return the package's pipeline; None if it has no pipeline.json.

    Raises:
        PackageFormatError: pipeline.json is not valid; ``findings`` has everything that is wrong.
    """
    pipeline, findings = check_pipeline(
        package.root, [component.name for component in package.components]
    )
    if findings:
        raise PackageFormatError.from_findings(findings, path=package.root / PIPELINE)
    return pipeline


def check_pipeline(
    root: Path, components: Iterable[str]
) -> tuple[Pipeline | None, tuple[Finding, ...]]:
    """Read the pipeline of the package in ``root`` with these components.

    Returns:
        The pipeline (None if there is none or it is wrong) and everything that is wrong with it.
    """
    collector = FindingCollector()
    value = read_sidecar(
        PIPELINE, schema="pipeline", resolver=PathResolver(root), collector=collector
    )
    if value is None:
        return None, collector.findings
    pipeline = _PipelineReader(frozenset(components), collector).read(value)
    return None if collector.has_errors else pipeline, collector.findings


def pipeline_components(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the component models in the order in which they first run, each once."""
    names: dict[str, None] = {}
    pending = list(reversed(pipeline.steps))
    while pending:
        step = pending.pop()
        if isinstance(step, ComponentStep):
            names[step.component] = None
        else:
            pending.extend(reversed(step.steps))
    return tuple(names)


class _PipelineReader:
    """Builder of a pipeline from valid JSON that follows each value from its maker to its uses."""

    def __init__(self, components: frozenset[str], collector: FindingCollector) -> None:
        self._components = components
        self._collector = collector
        self._made: set[str] = set()

    def read(self, value: Mapping[str, Any]) -> Pipeline:
        visible: set[str] = set()
        for index, declared in enumerate(value["inputs"]):
            self._make(declared["name"], visible, json_pointer("inputs", index, "name"))
        steps = self._read_steps(value["steps"], visible, ("steps",), depth=0)
        for index, declared in enumerate(value["outputs"]):
            self._require(declared["name"], visible, json_pointer("outputs", index, "name"))
        major, _, minor = value["schema_version"].partition(".")
        return Pipeline(
            schema_version=(int(major), int(minor)),
            inputs=read_value_infos(value["inputs"]),
            outputs=read_value_infos(value["outputs"]),
            steps=steps,
            description=value.get("description"),
            additional_metadata=freeze(value.get("additional_metadata")),
        )

    def _read_steps(
        self,
        declared: list[dict[str, Any]],
        visible: set[str],
        path: tuple[str | int, ...],
        depth: int,
    ) -> tuple[Step, ...]:
        steps: list[Step] = []
        for index, body in enumerate(declared):
            step_path = (*path, index)
            if ("component" in body) == ("repeat" in body):
                self._add(
                    STEP_SHAPE,
                    "is not exactly one of a component and a repeat",
                    json_pointer(*step_path),
                )
            elif "component" in body:
                steps.append(self._read_component_step(body, visible, step_path))
            elif depth == _DEEPEST_REPEAT:
                message = f"is a loop inside {_DEEPEST_REPEAT} others"
                self._add(REPEAT_TOO_DEEP, message, json_pointer(*step_path, "repeat"))
            else:
                steps.append(
                    self._read_repeat(body["repeat"], visible, (*step_path, "repeat"), depth)
                )
        return tuple(steps)

    def _read_component_step(
        self, body: dict[str, Any], visible: set[str], path: tuple[str | int, ...]
    ) -> ComponentStep:
        name = body["component"]
        if name not in self._components:
            available = listed(sorted(self._components)) or "no component models"
            message = f"component model {quoted(name)} does not exist"
            self._add(
                STEP_COMPONENT,
                message,
                json_pointer(*path, "component"),
                f"the package has {available}",
            )
        for key, source in body["inputs"].items():
            self._require(source, visible, json_pointer(*path, "inputs", key))
        for key, made in body["outputs"].items():
            self._make(made, visible, json_pointer(*path, "outputs", key))
        return ComponentStep(
            component=name,
            inputs=FrozenMapping(body["inputs"]),
            outputs=FrozenMapping(body["outputs"]),
        )

    def _read_repeat(
        self, body: dict[str, Any], visible: set[str], path: tuple[str | int, ...], depth: int
    ) -> RepeatStep:
        carry, collect, stop = body.get("carry", {}), body.get("collect", []), body.get("stop")
        for initial in carry:
            self._require(initial, visible, json_pointer(*path, "carry", initial))
        inside = set(visible)
        steps = self._read_steps(body["steps"], inside, (*path, "steps"), depth + 1)
        for initial, replacement in carry.items():
            self._require(replacement, inside, json_pointer(*path, "carry", initial))
        for index, name in enumerate(collect):
            pointer = json_pointer(*path, "collect", index)
            if name in visible:
                self._add(
                    VALUE_MADE_TWICE, f"value {quoted(name)} is not made in the loop", pointer
                )
            self._require(name, inside, pointer)
        if stop is not None:
            self._require(stop["value"], inside, json_pointer(*path, "stop", "value"))
        visible.update(collect)
        return RepeatStep(
            times=int(body["times"]),
            steps=steps,
            carry=FrozenMapping(carry),
            collect=tuple(collect),
            stop=None
            if stop is None
            else StopCondition(value=stop["value"], equals=stop["equals"]),
        )

    def _make(self, name: str, visible: set[str], pointer: str) -> None:
        if name in self._made:
            self._add(VALUE_MADE_TWICE, f"value {quoted(name)} is made twice", pointer)
        self._made.add(name)
        visible.add(name)

    def _require(self, name: str, visible: set[str], pointer: str) -> None:
        if name not in visible:
            self._add(VALUE_NOT_AVAILABLE, f"nothing before makes value {quoted(name)}", pointer)

    def _add(self, rule: Rule, message: str, pointer: str, remedy: str = "") -> None:
        self._collector.add(rule, PIPELINE, message, pointer=pointer, remedy=remedy)
