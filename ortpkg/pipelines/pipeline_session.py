"""Runs the component models of a package one after another: by pipeline.json, or by names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from ortpkg.errors import InvalidFeedError, RunError, quoted
from ortpkg.names import did_you_mean
from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep, Step, read_pipeline
from ortpkg.package.package_info import PackageInfo, ValueInfo
from ortpkg.pipelines.kept_values import component_steps, kept_values
from ortpkg.pipelines.run_limits import SharedRunOptions
from ortpkg.session.options import RunOptions

if TYPE_CHECKING:
    from ortpkg.session.placement import Placement


OnRound = Callable[[Mapping[str, Any]], None]
"""Told what a round of a loop gives: output → its part of it."""


class ComponentSession(Protocol):
    """What a pipeline needs of a component's session."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """As :meth:`InferenceSession.run`."""

    def get_inputs(self) -> Sequence[Any]:
        """What it takes, in order; each has ``name``, ``type`` and ``shape``."""

    def get_outputs(self) -> Sequence[Any]:
        """What it gives, in order, likewise."""

    def get_placement(self) -> Placement:
        """What of it runs where."""


class DeviceSession(Protocol):
    """A component's session whose outputs may stay on a device."""

    def run_with_values_left(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        left: Mapping[str, str],
        run_options: Any = None,
    ) -> list[Any]:
        """Run as :meth:`InferenceSession.run_with_values_left` does."""


class PipelineSession:
    """A session over several component models; runs like an :class:`~ortpkg.InferenceSession`.

    Args:
        package: the package; its pipeline.json says what runs when. Without one the components run
            in manifest order: each input of a component is fed by the caller or by the output of
            that name of an earlier component, and the outputs that no later component takes are the
            pipeline's.
        sessions: component name → session.

    Attributes:
        on_component: told a component and the seconds of each of its runs, on the run's thread.

    Raises PackageFormatError where pipeline.json is not valid.
    """

    def __init__(self, package: PackageInfo, sessions: Mapping[str, ComponentSession]) -> None:
        self.sessions = dict(sessions)
        self.on_component: Callable[[str, float], None] | None = None
        self.pipeline: Pipeline = read_pipeline(package) or wire_by_name(self.sessions)
        kept = kept_values(self.pipeline, self.sessions)
        #: Outputs that stay on a device until another component takes them, by the step's identity.
        self._kept = {
            id(step): kept[number]
            for number, step in enumerate(component_steps(self.pipeline.steps))
            if number in kept
        }

    @property
    def gathered_outputs(self) -> tuple[str, ...]:
        """The outputs that a loop makes, a part in each of its rounds."""
        gathered = {
            name
            for step in self.pipeline.steps
            if isinstance(step, RepeatStep)
            for name in step.collect
        }
        return tuple(each.name for each in self.pipeline.outputs if each.name in gathered)

    def get_inputs(self) -> tuple[ValueInfo, ...]:
        """What the whole pipeline takes, in the order of pipeline.json."""
        return self.pipeline.inputs

    def get_outputs(self) -> tuple[ValueInfo, ...]:
        """What the whole pipeline gives, in the order of pipeline.json."""
        return self.pipeline.outputs

    def get_placement(self) -> dict[str, Placement]:
        """Component → what runs where of its session."""
        return {component: session.get_placement() for component, session in self.sessions.items()}

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
        *,
        on_round: OnRound | None = None,
    ) -> list[Any]:
        """Runs the pipeline once.

        Args:
            output_names: which of the pipeline's outputs to return; None for all, in order.
            input_feed: a value for each of the pipeline's inputs.
            run_options: ``timeout_s`` and ``memory_limit_nbytes`` hold for the whole run, all
                rounds of its loops included; ``terminate`` ends it, between two components too.
            on_round: told what each round of a loop gives of the :attr:`gathered_outputs`, output →
                value, as soon as it is there; of a loop in a loop, when the round around it ends.

        Raises InvalidFeedError for an input or output name that the pipeline does not have,
        LimitExceededError for a limit that is passed, CancelledError, and what the components'
        sessions raise.
        """
        names = [value.name for value in self.pipeline.outputs]
        for name in output_names or ():
            if name not in names:
                raise InvalidFeedError(
                    f"the pipeline has no output {quoted(name)}{did_you_mean(name, names)}",
                    name=name,
                )
        self._check_feed(input_feed)
        values = dict(input_feed)
        limits = SharedRunOptions.of(RunOptions() if run_options is None else run_options)
        with limits.whole_time():
            self._run_steps(self.pipeline.steps, values, limits, 0, on_round)
        return [values[name] for name in (output_names or names)]

    def _check_feed(self, feed: Mapping[str, Any]) -> None:
        known = [value.name for value in self.pipeline.inputs]
        for name in feed:
            if name not in known:
                raise InvalidFeedError(
                    f"the pipeline has no input {quoted(name)}{did_you_mean(name, known)}",
                    name=name,
                )
        for name in known:
            if name not in feed:
                raise InvalidFeedError(f"the pipeline's input {quoted(name)} is not fed", name=name)

    def _run_steps(
        self,
        steps: Sequence[Step],
        values: dict[str, Any],
        limits: SharedRunOptions,
        collected_nbytes: int,
        on_round: OnRound | None = None,
    ) -> None:
        """Runs ``steps`` on ``values``.

        ``collected_nbytes``: what the loops around them have collected so far.
        """
        for step in steps:
            if isinstance(step, RepeatStep):
                self._run_repeat(step, values, limits, collected_nbytes, on_round)
                continue
            limits.held_nbytes = collected_nbytes + _nbytes(values.values())
            limits.check()
            feed = {name: values[source] for name, source in step.inputs.items()}
            began_s = time.perf_counter()
            results = self._run_component(step, feed, limits)
            if self.on_component is not None:
                self.on_component(step.component, time.perf_counter() - began_s)
            values.update(zip(step.outputs.values(), results, strict=True))

    def _run_component(
        self, step: ComponentStep, feed: Mapping[str, Any], limits: SharedRunOptions
    ) -> list[Any]:
        session, names = self.sessions[step.component], list(step.outputs)
        kept = self._kept.get(id(step))
        if kept is None:
            return session.run(names, feed, limits)
        results = cast("DeviceSession", session).run_with_values_left(names, feed, kept, limits)
        return [
            result.value if name in kept else result
            for name, result in zip(names, results, strict=True)
        ]

    def _run_repeat(
        self,
        step: RepeatStep,
        values: dict[str, Any],
        limits: SharedRunOptions,
        collected_nbytes: int,
        on_round: OnRound | None,
    ) -> None:
        carried = {name: values[name] for name in step.carry}
        collected: dict[str, list[Any]] = {name: [] for name in step.collect}
        for _ in range(step.times):
            inside = {**values, **carried}
            limits.check()
            self._run_steps(step.steps, inside, limits, collected_nbytes)
            carried = {name: inside[replacement] for name, replacement in step.carry.items()}
            for name, rounds in collected.items():
                rounds.append(inside[name])
                collected_nbytes += _nbytes([inside[name]])
            if on_round is not None:
                gathered = self.gathered_outputs
                on_round({name: inside[name] for name in step.collect if name in gathered})
            if step.stop is not None and bool(
                np.all(np.asarray(inside[step.stop.value]) == step.stop.equals)
            ):
                break
        values.update(carried)
        # Stacked beside the rounds, everything that was collected is there twice for a moment.
        limits.held_nbytes = 2 * collected_nbytes + _nbytes(values.values())
        limits.check()
        values.update({name: _stack(name, rounds) for name, rounds in collected.items()})


def _nbytes(values: Iterable[Any]) -> int:
    """The bytes of ``values``, each counted once; those of Python objects are not known."""
    return sum(
        getattr(value, "nbytes", 0) for value in {id(value): value for value in values}.values()
    )


def _stack(name: str, rounds: Sequence[Any]) -> Any:
    try:
        return np.stack(rounds)
    except ValueError as error:
        shapes = sorted({np.shape(each) for each in rounds})
        raise RunError(
            f"cannot collect {quoted(name)}: its shape differs from round to round: {shapes}"
        ) from error


def wire_by_name(sessions: Mapping[str, ComponentSession]) -> Pipeline:
    """The pipeline of components without a pipeline.json, in the order of ``sessions``.

    Values are matched by name.
    """
    inputs: dict[str, ValueInfo] = {}
    made: dict[str, ValueInfo] = {}
    taken: set[str] = set()
    steps: list[Step] = []
    for component, session in sessions.items():
        needs = [argument.name for argument in session.get_inputs()]
        for argument in session.get_inputs():
            if argument.name in made:
                taken.add(argument.name)
            else:
                inputs.setdefault(argument.name, _value_info(argument))
        gives = [_value_info(argument) for argument in session.get_outputs()]
        steps.append(
            ComponentStep(
                component=component,
                inputs={name: name for name in needs},
                outputs={v.name: v.name for v in gives},
            )
        )
        for value in gives:
            made[value.name] = value
            taken.discard(value.name)
    outputs = tuple(value for name, value in made.items() if name not in taken)
    return Pipeline(
        schema_version=(1, 0), inputs=tuple(inputs.values()), outputs=outputs, steps=tuple(steps)
    )


def _value_info(argument: Any) -> ValueInfo:
    shape = None if argument.shape is None else tuple(argument.shape)
    return ValueInfo(name=argument.name, type=argument.type, shape=shape)
