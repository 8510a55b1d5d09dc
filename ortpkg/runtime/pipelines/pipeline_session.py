"""Session that runs the component models of a package one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from ortpkg.foundations.errors import InvalidFeedError, RunError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep, Step, read_pipeline
from ortpkg.package.package_info import PackageInfo, ValueInfo
from ortpkg.runtime.pipelines.kept_values import component_steps, kept_values
from ortpkg.runtime.pipelines.run_limits import SharedRunOptions
from ortpkg.runtime.session.options import RunOptions

if TYPE_CHECKING:
    from ortpkg.runtime.session.placement import Placement


OnRound = Callable[[Mapping[str, Any]], None]
"""Receives the outputs of a loop's round by name."""


class ComponentSession(Protocol):
    """Part of a component session's interface that a pipeline needs."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Run the model; see :meth:`InferenceSession.run`."""

    def get_inputs(self) -> Sequence[Any]:
        """Return the inputs in order; each has ``name``, ``type`` and ``shape``."""

    def get_outputs(self) -> Sequence[Any]:
        """Return the outputs in order, with the same attributes."""

    def get_placement(self) -> Placement:
        """Return where each node runs."""


class DeviceSession(Protocol):
    """Component session whose outputs may stay on a device."""

    def run_with_values_left(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        left: Mapping[str, str],
        run_options: Any = None,
    ) -> list[Any]:
        """Run the model; see :meth:`InferenceSession.run_with_values_left`."""


class PipelineSession:
    """Session over several component models; runs like an :class:`~ortpkg.InferenceSession`.

    Args:
        package: The package, whose pipeline.json defines the steps. Without one the components run
            in manifest order: each input of a component is fed by the caller or by the output of
            that name of an earlier component, and the outputs that no later component uses are the
            pipeline's.
        sessions: Session of each component by name.

    Attributes:
        on_component: Called with a component and the seconds of each of its runs, on the run's
            thread.

    Raises:
        PackageFormatError: pipeline.json is not valid.
    """

    def __init__(self, package: PackageInfo, sessions: Mapping[str, ComponentSession]) -> None:
        self.sessions = dict(sessions)
        self.on_component: Callable[[str, float], None] | None = None
        self.pipeline: Pipeline = read_pipeline(package) or wire_by_name(self.sessions)
        on_device = kept_values(self.pipeline, self.sessions)
        #: Outputs that stay on a device until another component uses them, by the step's identity.
        self._device_outputs = {
            id(step): on_device[number]
            for number, step in enumerate(component_steps(self.pipeline.steps))
            if number in on_device
        }

    @property
    def gathered_outputs(self) -> tuple[str, ...]:
        """Outputs that a loop produces, one part in each round."""
        gathered = {
            name
            for step in self.pipeline.steps
            if isinstance(step, RepeatStep)
            for name in step.collect
        }
        return tuple(value.name for value in self.pipeline.outputs if value.name in gathered)

    def get_inputs(self) -> tuple[ValueInfo, ...]:
        """Return the inputs of the whole pipeline, in the order of pipeline.json."""
        return self.pipeline.inputs

    def get_outputs(self) -> tuple[ValueInfo, ...]:
        """Return the outputs of the whole pipeline, in the order of pipeline.json."""
        return self.pipeline.outputs

    def get_placement(self) -> dict[str, Placement]:
        """Return where each node runs, by component."""
        return {component: session.get_placement() for component, session in self.sessions.items()}

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
        *,
        on_round: OnRound | None = None,
    ) -> list[Any]:
        """Run the pipeline once.

        Args:
            output_names: Outputs to return; None for all, in order.
            input_feed: Value for each of the pipeline's inputs.
            run_options: ``timeout_s`` and ``memory_limit_nbytes`` apply to the whole run, including
                all rounds of its loops; ``terminate`` ends it, also between two components.
            on_round: Called with the :attr:`gathered_outputs` of each round of a loop as soon as
                they exist; for a nested loop, when the round of the outer loop ends.

        Raises:
            InvalidFeedError: The pipeline has no input or output of a name.
            LimitExceededError: A limit is exceeded.
            CancelledError: The caller ended the run.
            Exception: Any error of the components' sessions.
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
        input_names = [value.name for value in self.pipeline.inputs]
        for name in feed:
            if name not in input_names:
                raise InvalidFeedError(
                    f"the pipeline has no input {quoted(name)}{did_you_mean(name, input_names)}",
                    name=name,
                )
        for name in input_names:
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
        """Run ``steps`` on ``values``.

        ``collected_nbytes`` is the size of what the surrounding loops have collected so far.
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
        on_device = self._device_outputs.get(id(step))
        if on_device is None:
            return session.run(names, feed, limits)
        results = cast("DeviceSession", session).run_with_values_left(
            names, feed, on_device, limits
        )
        return [
            result.value if name in on_device else result
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
        # While the rounds are stacked, everything that was collected exists twice.
        limits.held_nbytes = 2 * collected_nbytes + _nbytes(values.values())
        limits.check()
        values.update({name: _stack(name, rounds) for name, rounds in collected.items()})


def _nbytes(values: Iterable[Any]) -> int:
    """Return the size of ``values``, each counted once; sizes of Python objects are unknown."""
    return sum(
        getattr(value, "nbytes", 0) for value in {id(value): value for value in values}.values()
    )


def _stack(name: str, rounds: Sequence[Any]) -> Any:
    try:
        return np.stack(rounds)
    except ValueError as error:
        shapes = sorted({np.shape(value) for value in rounds})
        raise RunError(
            f"cannot collect {quoted(name)}: its shape differs from round to round: {shapes}"
        ) from error


def wire_by_name(sessions: Mapping[str, ComponentSession]) -> Pipeline:
    """Return the pipeline of components without a pipeline.json, in the order of ``sessions``.

    Values are matched by name.
    """
    inputs: dict[str, ValueInfo] = {}
    produced: dict[str, ValueInfo] = {}
    used: set[str] = set()
    steps: list[Step] = []
    for component, session in sessions.items():
        needs = [argument.name for argument in session.get_inputs()]
        for argument in session.get_inputs():
            if argument.name in produced:
                used.add(argument.name)
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
            produced[value.name] = value
            used.discard(value.name)
    outputs = tuple(value for name, value in produced.items() if name not in used)
    return Pipeline(
        schema_version=(1, 0), inputs=tuple(inputs.values()), outputs=outputs, steps=tuple(steps)
    )


def _value_info(argument: Any) -> ValueInfo:
    shape = None if argument.shape is None else tuple(argument.shape)
    return ValueInfo(name=argument.name, type=argument.type, shape=shape)
