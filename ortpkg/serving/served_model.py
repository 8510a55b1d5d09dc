"""One version of one package, ready to answer: what it takes and gives, and its runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ortpkg.errors import InvalidFeedError, RunError, quoted
from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.names import did_you_mean
from ortpkg.pipelines.pipeline_session import OnRound, PipelineSession
from ortpkg.serving.batching import BatchPlan
from ortpkg.serving.protocol_tensors import (
    MOST_TEXTS,
    Array,
    GivenTensor,
    TensorSpec,
    read_tensor,
    spec_of,
)


class RunnableSession(Protocol):
    """What is needed of a session or a pipeline. Any number of threads may run it at once."""

    def run(
        self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """As :meth:`InferenceSession.run`."""

    def get_inputs(self) -> Sequence[DeclaredValue]:
        """What must be fed, in order."""

    def get_outputs(self) -> Sequence[DeclaredValue]:
        """What it gives, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningVariant:
    """What one component model runs as: for logs and metrics.

    Attributes:
        component, variant: names.
        ep, backend, device: where; "" where any will do.
    """

    component: str
    variant: str
    ep: str = ""
    backend: str = ""
    device: str = ""


class ServedModel:
    """A package that answers requests under a name and a version.

    Args:
        name: what clients call it.
        version: which of several of that name.
        session: what runs it, of one component model or of a pipeline.
        variants: what each component model runs as.

    Attributes:
        batch_plan: how requests are joined into one run; None: they are not.

    Raises ModelError where an input or output has no datatype in the protocol.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        session: RunnableSession,
        variants: Sequence[RunningVariant] = (),
    ) -> None:
        self.name = name
        self.version = version
        self.session = session
        self.variants = tuple(variants)
        self.batch_plan: BatchPlan | None = None
        self._on_component: Callable[[str, float], None] | None = None
        self.inputs = tuple(spec_of(each) for each in session.get_inputs())
        self.outputs = tuple(spec_of(each) for each in session.get_outputs())
        overridable: Sequence[DeclaredValue] = getattr(
            session, "get_overridable_initializers", tuple
        )()
        self._inputs = {each.name: each for each in self.inputs}
        self._takes = {**{each.name: spec_of(each) for each in overridable}, **self._inputs}
        self._gives = {each.name: each for each in self.outputs}

    @property
    def title(self) -> str:
        """Name and version, for messages."""
        return f"{self.name}:{self.version}"

    def read_inputs(self, given: Sequence[GivenTensor]) -> dict[str, Array]:
        """The arrays of a request, each checked against what the model takes.

        Raises InvalidFeedError for a name that is unknown, missing or given twice, and as
        :func:`~ortpkg.serving.protocol_tensors.read_tensor`, whose bound of texts holds for all
        inputs together.
        """
        feeds: dict[str, Array] = {}
        texts_left = MOST_TEXTS
        for each in given:
            spec = self._takes.get(each.name)
            if spec is None:
                raise InvalidFeedError(
                    f"model {quoted(self.title)} has no input {quoted(each.name)}"
                    f"{did_you_mean(each.name, self._takes)}; it takes {_listed(self._inputs)}",
                    name=each.name,
                    expected=_listed(self._inputs),
                )
            if each.name in feeds:
                raise InvalidFeedError(f"input {quoted(each.name)} is given twice", name=each.name)
            array = feeds[each.name] = read_tensor(each, spec, texts_left)
            texts_left -= array.size if spec.datatype == "BYTES" else 0
        for name in self._inputs.keys() - feeds.keys():
            raise InvalidFeedError(
                f"input {quoted(name)} of model {quoted(self.title)} is missing; it takes"
                f" {_listed(self._inputs)}",
                name=name,
                expected=_listed(self._inputs),
            )
        return feeds

    def output_specs(self, names: Sequence[str]) -> tuple[TensorSpec, ...]:
        """The outputs of those names, all where none is named.

        Raises InvalidFeedError for a name that is unknown or asked for twice.
        """
        for name in names:
            if name not in self._gives:
                raise InvalidFeedError(
                    f"model {quoted(self.title)} has no output {quoted(name)}"
                    f"{did_you_mean(name, self._gives)}; it gives {_listed(self._gives)}",
                    name=name,
                    expected=_listed(self._gives),
                )
        if len({*names}) != len(names):
            raise InvalidFeedError(f"an output is asked for twice: {_listed(names)}", name=names[0])
        return tuple(self._gives[name] for name in names) or self.outputs

    def infer(
        self,
        inputs: Mapping[str, Array],
        output_names: Sequence[str] | None = None,
        run_options: Any = None,
        on_round: OnRound | None = None,
    ) -> dict[str, Array]:
        """Runs the model once; output → array, those that are named, or all.

        Args:
            inputs: of :meth:`read_inputs`.
            output_names: of :meth:`output_specs`.
            run_options: as of :class:`~ortpkg.RunOptions`.
            on_round: told what each round of a loop gives of the :attr:`gathered_outputs`.

        Raises as :meth:`InferenceSession.run`.
        """
        names = list(output_names or self._gives)
        feed = dict(inputs)
        if isinstance(self.session, PipelineSession):
            values = self.session.run(names, feed, run_options, on_round=on_round)
        else:
            began_s = time.perf_counter()
            values = self.session.run(names, feed, run_options)
            self._tell_run(time.perf_counter() - began_s)
        return {name: _array(name, value) for name, value in zip(names, values, strict=True)}

    def tell_runs(self, on_component: Callable[[str, float], None]) -> None:
        """Has ``on_component`` hear a component and the seconds of each of its runs from now on.

        It is called on the threads that run.
        """
        self._on_component = on_component
        if isinstance(self.session, PipelineSession):
            self.session.on_component = on_component

    def _tell_run(self, duration_s: float) -> None:
        if self._on_component is not None:
            for each in self.variants:  # it is one
                self._on_component(each.component, duration_s)

    @property
    def gathered_outputs(self) -> tuple[str, ...]:
        """The outputs of a pipeline that a loop makes, a part in each round."""
        return self.session.gathered_outputs if isinstance(self.session, PipelineSession) else ()

    def close(self) -> None:
        """Gives its memory back. Nobody may run it any more."""
        sessions: Mapping[str, Any] = getattr(self.session, "sessions", {"": self.session})
        for session in sessions.values():
            close = getattr(session, "close", None)
            if close is not None:
                close()


def _array(name: str, value: Any) -> Array:
    if value is None:
        raise RunError(f"the model gave nothing for output {quoted(name)}")
    return np.asarray(value)


def _listed(names: Any) -> str:
    return ", ".join(map(quoted, names))
