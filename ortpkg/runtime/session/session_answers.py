"""Properties of a session: inputs and outputs, providers, plan and profile."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Collection, Mapping

from ortpkg.compiler.machine_code.compilation_stages import SHOWN_STAGES, Stage, StageTexts
from ortpkg.foundations.errors import SessionError
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.session.isolated_session import IsolatedSession
from ortpkg.runtime.session.node_args import ModelMetadata, NodeArg
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.placement import Placement, create_placement
from ortpkg.runtime.session.session_plan import SessionPlan, describe_plan
from ortpkg.runtime.session.session_state import SessionState


class SessionAnswers(ABC):
    """Base of InferenceSession with the methods that report on a session.

    It sets the attributes.
    """

    _options: SessionOptions
    _providers: list[ExecutionProvider]
    _state: SessionState | IsolatedSession
    _profiler: Profiler | None
    _inputs: list[NodeArg]
    _overridable: list[NodeArg]
    _declared: list[NodeArg]
    _outputs: list[NodeArg]
    _metadata: ModelMetadata
    _is_closed: bool

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that must be fed."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return the model's outputs, in its order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs with a default value."""
        return list(self._overridable)

    def get_declared_inputs(self) -> list[NodeArg]:
        """Return all inputs, with and without default values, in the model's order."""
        return list(self._declared)

    def get_modelmeta(self) -> ModelMetadata:
        """Return the model's metadata: names, version, and its own entries."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """Return a copy of the options that the session was created with."""
        return copy.deepcopy(self._options)

    def get_providers(self) -> list[str]:
        """Return the names of the providers in order of priority."""
        return list(dict.fromkeys(provider.name for provider in self._providers))

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider by its name."""
        return {provider.name: dict(provider.options) for provider in reversed(self._providers)}

    def get_partitions(self) -> tuple[Partition, ...]:
        """Return the partitions of the model, each with the provider that runs it."""
        return self._state.partitions

    def get_plan(self, sizes: Mapping[str, int] | None = None) -> SessionPlan:
        """Return the plan: partitions, steps in order, and the location of each value.

        Args:
            sizes: symbolic dimension → size; figures are then those of runs with these sizes.
        """
        if isinstance(self._state, IsolatedSession):
            return self._state.get_plan(sizes)
        return describe_plan(self._state, tuple(self.get_providers()), sizes)

    def get_compiled_texts(
        self, stages: Collection[Stage] = SHOWN_STAGES, kernel: str | None = None
    ) -> Mapping[str, StageTexts]:
        """Return the texts of each compiled partition, by the name of its fused node and by stage.

        The session must have been created with the config entry ``ortpkg.llvm_keep_text`` = "1".
        Providers without such texts are left out, and so are those in child processes.

        Args:
            stages: the stages to return.
            kernel: name of the one kernel to return, in stages with a text per kernel.

        Raises:
            SessionError: the session is closed.
            CompileError: LLVM failed.
        """
        self._check_open()
        if isinstance(self._state, IsolatedSession):
            return {}
        by_name = {provider.name: provider for provider in reversed(self._providers)}
        texts_by_node = {
            partition.fused_node: by_name[partition.provider].get_compiled_texts(
                partition.fused_node, stages, kernel
            )
            for partition in self._state.partitions
            if partition.fused_node
        }
        return {name: texts for name, texts in texts_by_node.items() if texts}

    def get_placement(self) -> Placement:
        """Return the nodes, weights and, with profiling, time of each execution provider.

        Raises:
            SessionError: the session is closed.
        """
        self._check_open()
        if isinstance(self._state, IsolatedSession):
            return self._state.get_placement()
        durations_s = None if self._profiler is None else self._profiler.node_durations_s()
        return create_placement(self._providers, self._state.partitions, durations_s)

    # --- profile ----------------------------------------------------------------------------------

    def get_profiling_start_time_ns(self) -> int:
        """Return the start of profiling on ``time.perf_counter_ns``'s clock; 0 if it is off."""
        if isinstance(self._state, IsolatedSession):
            return int(self._state.facts["profiling_start_ns"])
        return 0 if self._profiler is None else self._profiler.origin_ns

    def end_profiling(self) -> str:
        """Write the profile (a Chrome trace) and return its path.

        Returns:
            "" if profiling is off, or was ended before.

        Raises:
            SessionError: the file cannot be written.
        """
        if isinstance(self._state, IsolatedSession):
            return self._state.end_profiling()
        if self._profiler is None:
            return ""
        return self._profiler.end(self._options.profile_file_prefix)

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionError("the session is closed")
