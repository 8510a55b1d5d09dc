"""Which values of a pipeline stay on a device from one component's run to the next one's.

A value stays where every component that takes it takes it there without a copy, the rounds of loops
included. What the pipeline hands out, collects or looks at is an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep, Step


class _Taken(NamedTuple):
    """A value that somebody takes, and the memory in which; "" for an array."""

    value: str
    memory: str


def kept_values(pipeline: Pipeline, sessions: Mapping[str, Any]) -> Mapping[int, Mapping[str, str]]:
    """Return what each component leaves on a device.

    Args:
        pipeline: its steps.
        sessions: component → session; those that know no devices take and give arrays.

    Returns one entry per run of a component that leaves any, in the order of its steps: number of
    the step (:func:`component_steps`) → output → memory.
    """
    names = _Names(pipeline.steps)
    memories: dict[str, set[str]] = {}
    handed_out = (_Taken(value.name, "") for value in pipeline.outputs)
    for taken in (*handed_out, *_taken(pipeline.steps, sessions)):
        memories.setdefault(names.group(taken.value), set()).add(taken.memory)
    kept: dict[int, dict[str, str]] = {}
    for number, step in enumerate(component_steps(pipeline.steps)):
        leaves = _outputs_of(sessions.get(step.component))
        found = {
            output: leaves[output]
            for output, value in step.outputs.items()
            if leaves.get(output) and memories.get(names.group(value)) == {leaves[output]}
        }
        if found:
            kept[number] = found
    return kept


def component_steps(steps: Sequence[Step]) -> Iterator[ComponentStep]:
    """Yield the runs of components, those in loops included."""
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from component_steps(step.steps)
        else:
            yield step


class _Names:
    """Names of values that a loop carries into each other: one value has all of them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._groups: dict[str, str] = {}
        self._join(steps)

    def group(self, name: str) -> str:
        """Return one name for all of a group."""
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
    found: Mapping[str, str] = {} if ask is None else ask().inputs
    return found


def _outputs_of(session: Any) -> Mapping[str, str]:
    ask = getattr(session, "get_device_borders", None)
    found: Mapping[str, str] = {} if ask is None else ask().outputs
    return found
