"""Chooses the values of a pipeline that stay on a device between the runs of its components.

A value stays on a device if every component that reads it, in loops too, reads it there without a
copy. Outputs of the pipeline, collected values and stop conditions are arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep, Step


class _Taken(NamedTuple):
    """Value that is read, and the memory that it is read in; "" for an array."""

    value: str
    memory: str


def kept_values(pipeline: Pipeline, sessions: Mapping[str, Any]) -> Mapping[int, Mapping[str, str]]:
    """Return what each component leaves on a device.

    Args:
        pipeline: its steps.
        sessions: component → session; one without ``get_device_borders`` works on arrays.

    Returns:
        Number of the step (:func:`component_steps`) → output → name of its memory, for the steps
        that leave an output on a device.
    """
    names = _Names(pipeline.steps)
    memories: dict[str, set[str]] = {}
    handed_out = (_Taken(value.name, "") for value in pipeline.outputs)
    for taken in (*handed_out, *_taken(pipeline.steps, sessions)):
        memories.setdefault(names.group(taken.value), set()).add(taken.memory)
    kept: dict[int, dict[str, str]] = {}
    for number, step in enumerate(component_steps(pipeline.steps)):
        leaves = _outputs_of(sessions.get(step.component))
        kept_outputs = {
            output: leaves[output]
            for output, value in step.outputs.items()
            if leaves.get(output) and memories.get(names.group(value)) == {leaves[output]}
        }
        if kept_outputs:
            kept[number] = kept_outputs
    return kept


def component_steps(steps: Sequence[Step]) -> Iterator[ComponentStep]:
    """Yield each step that runs a component, also those inside loops, in order."""
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from component_steps(step.steps)
        else:
            yield step


class _Names:
    """Groups of names that loops carry into each other, and so mean one value."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._groups: dict[str, str] = {}
        self._join(steps)

    def group(self, name: str) -> str:
        """Return the name that stands for the whole group of ``name``."""
        while name in self._groups:
            name = self._groups[name]
        return name

    def _join(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if not isinstance(step, RepeatStep):
                continue
            self._join(step.steps)
            for name, replacement in step.carry.items():
                first, second = self.group(name), self.group(replacement)
                if first != second:
                    self._groups[first] = second


def _taken(steps: Sequence[Step], sessions: Mapping[str, Any]) -> Iterator[_Taken]:
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from (_Taken(name, "") for name in step.collect)
            if step.stop is not None:
                yield _Taken(step.stop.value, "")
            yield from _taken(step.steps, sessions)
        else:
            takes = _inputs_of(sessions.get(step.component))
            for name, value in step.inputs.items():
                yield _Taken(value, takes.get(name, ""))


def _inputs_of(session: Any) -> Mapping[str, str]:
    ask = getattr(session, "get_device_borders", None)
    memories: Mapping[str, str] = {} if ask is None else ask().inputs
    return memories


def _outputs_of(session: Any) -> Mapping[str, str]:
    ask = getattr(session, "get_device_borders", None)
    memories: Mapping[str, str] = {} if ask is None else ask().outputs
    return memories
