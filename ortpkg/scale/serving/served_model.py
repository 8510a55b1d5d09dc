"""One version of a package that is ready to answer: its inputs, outputs and runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ortpkg.foundations.errors import InvalidFeedError, RunError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.runtime.pipelines.pipeline_session import OnRound, PipelineSession
from ortpkg.scale.serving.batching import BatchPlan
from ortpkg.scale.serving.protocol_tensors import (
    MOST_TEXTS,
    Array,
    RequestTensor,
    TensorSpec,
    read_tensor,
    spec_of,
)


class RunnableSession(Protocol):
    """Interface of a session or pipeline that any number of threads may run at once."""

    def run(
        self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Run the model; see :meth:`InferenceSession.run`."""

    def get_inputs(self) -> Sequence[DeclaredValue]:
        """Return the inputs in order."""

    def get_outputs(self) -> Sequence[DeclaredValue]:
        """Return the outputs in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningVariant:
    """Variant of one component model that runs, for logs and metrics.

    Attributes:
        component, variant: Names.
        ep, backend, device: Where it runs; "" if any will do.
    """

    component: str
    variant: str
    ep: str = ""
    backend: str = ""
    device: str = ""


class ServedModel:
    """Package that answers requests under a name and a version.

    Args:
        name: Name for clients.
        version: Version, one of several of that name.
        session: Session of one component model or of a pipeline.
        variants: Variant that each component model runs as.

    Attributes:
        batch_plan: How to join requests into one run; None to run each alone.

    Raises:
        ModelError: An input or output has no datatype in the protocol.
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
        self.inputs = tuple(spec_of(value) for value in session.get_inputs())
        self.outputs = tuple(spec_of(value) for value in session.get_outputs())
        overridable: Sequence[DeclaredValue] = getattr(
            session, "get_overridable_initializers", tuple
        )()
        self._inputs = {value.name: value for value in self.inputs}
        self._takes = {**{value.name: spec_of(value) for value in overridable}, **self._inputs}
        self._gives = {value.name: value for value in self.outputs}

    @property
    def title(self) -> str:
        """Name and version, for messages."""
        return f"{self.name}:{self.version}"

    def read_inputs(self, tensors: Sequence[RequestTensor]) -> dict[str, Array]:
        """Return the arrays of a request, each checked against the model's input.

        Raises:
            InvalidFeedError: A name is unknown, missing or repeated, or see
                :func:`~ortpkg.scale.serving.protocol_tensors.read_tensor`, whose limit of texts
                applies to all inputs together.
        """
        feeds: dict[str, Array] = {}
        texts_left = MOST_TEXTS
        for tensor in tensors:
            spec = self._takes.get(tensor.name)
            if spec is None:
                raise InvalidFeedError(
                    f"model {quoted(self.title)} has no input {quoted(tensor.name)}"
                    f"{did_you_mean(tensor.name, self._takes)}; it takes {_listed(self._inputs)}",
                    name=tensor.name,
                    expected=_listed(self._inputs),
                )
            if tensor.name in feeds:
                raise InvalidFeedError(
                    f"input {quoted(tensor.name)} is given twice", name=tensor.name
                )
            array = feeds[tensor.name] = read_tensor(tensor, spec, texts_left)
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
        """Return the outputs of those names, or all if none is named.

        Raises:
            InvalidFeedError: A name is unknown or repeated.
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
        """Run the model once; return the named outputs, or all, as arrays by name.

        Args:
            inputs: Result of :meth:`read_inputs`.
            output_names: Names from :meth:`output_specs`.
            run_options: :class:`~ortpkg.RunOptions`.
            on_round: Called with the :attr:`gathered_outputs` of each round of a loop.

        Raises:
            Exception: See :meth:`InferenceSession.run`.
        """
        names = list(output_names or self._gives)
        feed = dict(inputs)
        if isinstance(self.session, PipelineSession):
            values = self.session.run(names, feed, run_options, on_round=on_round)
        else:
            began_s = time.perf_counter()
            values = self.session.run(names, feed, run_options)
            self._report_run(time.perf_counter() - began_s)
        return {name: _array(name, value) for name, value in zip(names, values, strict=True)}

    def report_runs(self, on_component: Callable[[str, float], None]) -> None:
        """Call ``on_component`` with the component and the seconds of each run from now on.

        It is called on the threads that run.
        """
        self._on_component = on_component
        if isinstance(self.session, PipelineSession):
            self.session.on_component = on_component

    def _report_run(self, duration_s: float) -> None:
        if self._on_component is not None:
            for variant in self.variants:  # there is one
                self._on_component(variant.component, duration_s)

    @property
    def gathered_outputs(self) -> tuple[str, ...]:
        """Outputs of a pipeline that a loop produces, one part in each round."""
        return self.session.gathered_outputs if isinstance(self.session, PipelineSession) else ()

    def close(self) -> None:
        """Release the memory; nobody may run the model any more."""
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
