"""Choose the values of a pipeline that stay on a device between the runs of its components.

A value stays on a device if every component that reads it, in loops too, reads it there without a
copy. Outputs of the pipeline, collected values and stop conditions are arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep, Step


class _Read(NamedTuple):
    """Value that a component reads, and the memory in which it reads it; "" for an array."""

    value: str
    memory: str


def kept_values(pipeline: Pipeline, sessions: Mapping[str, Any]) -> Mapping[int, Mapping[str, str]]:
    """Return the outputs that each component leaves on a device.

    Args:
        pipeline: The pipeline.
        sessions: Session of each component; one without ``get_device_borders`` works on arrays.

    Returns:
        Memory by output, by the number of the step (:func:`component_steps`), for steps that leave
            an output on a device.
    """
    names = _Names(pipeline.steps)
    memories: dict[str, set[str]] = {}
    handed_out = (_Read(value.name, "") for value in pipeline.outputs)
    for read in (*handed_out, *_reads(pipeline.steps, sessions)):
        memories.setdefault(names.group(read.value), set()).add(read.memory)
    on_device: dict[int, dict[str, str]] = {}
    for number, step in enumerate(component_steps(pipeline.steps)):
        leaves = _outputs_of(sessions.get(step.component))
        step_outputs = {
            output: leaves[output]
            for output, value in step.outputs.items()
            if leaves.get(output) and memories.get(names.group(value)) == {leaves[output]}
        }
        if step_outputs:
            on_device[number] = step_outputs
    return on_device


def component_steps(steps: Sequence[Step]) -> Iterator[ComponentStep]:
    """Yield each step that runs a component, including steps inside loops, in order."""
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from component_steps(step.steps)
        else:
            yield step


class _Names:
    """Groups of names that loops carry into each other, so that they are one value."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._groups: dict[str, str] = {}
        self._join(steps)

    def group(self, name: str) -> str:
        """Return the name that represents the group of ``name``."""
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


def _reads(steps: Sequence[Step], sessions: Mapping[str, Any]) -> Iterator[_Read]:
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from (_Read(name, "") for name in step.collect)
            if step.stop is not None:
                yield _Read(step.stop.value, "")
            yield from _reads(step.steps, sessions)
        else:
            takes = _inputs_of(sessions.get(step.component))
            for name, value in step.inputs.items():
                yield _Read(value, takes.get(name, ""))


def _inputs_of(session: Any) -> Mapping[str, str]:
    ask = getattr(session, "get_device_borders", None)
    memories: Mapping[str, str] = {} if ask is None else ask().inputs
    return memories


def _outputs_of(session: Any) -> Mapping[str, str]:
    ask = getattr(session, "get_device_borders", None)
    memories: Mapping[str, str] = {} if ask is None else ask().outputs
    return memories
