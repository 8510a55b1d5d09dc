"""What a session says of itself: inputs and outputs, providers, plan and profile."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Collection, Mapping

from ortpkg.engine.partition import Partition
from ortpkg.engine.profiler import Profiler
from ortpkg.errors import SessionError
from ortpkg.machine_code.compilation_stages import SHOWN_STAGES, Stage, StageTexts
from ortpkg.providers.execution_provider import ExecutionProvider
from ortpkg.session.isolated_session import IsolatedSession
from ortpkg.session.node_args import ModelMetadata, NodeArg
from ortpkg.session.options import SessionOptions
from ortpkg.session.placement import Placement, create_placement
from ortpkg.session.session_plan import SessionPlan, describe_plan
from ortpkg.session.session_state import SessionState


class SessionAnswers(ABC):
    """Base of InferenceSession, which sets the attributes: what a session says of itself."""

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
        """Inputs that must be fed."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, in its order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs with a default value."""
        return list(self._overridable)

    def get_declared_inputs(self) -> list[NodeArg]:
        """Both, in the model's order."""
        return list(self._declared)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself: names, version, its own metadata."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """A copy of the options that the session was made with."""
        return copy.deepcopy(self._options)

    def get_providers(self) -> list[str]:
        """Names of the providers in order of priority."""
        return list(dict.fromkeys(provider.name for provider in self._providers))

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Options by provider name."""
        return {provider.name: dict(provider.options) for provider in reversed(self._providers)}

    def get_partitions(self) -> tuple[Partition, ...]:
        """Which provider runs which nodes."""
        return self._state.partitions

    def get_plan(self, sizes: Mapping[str, int] | None = None) -> SessionPlan:
        """What was fixed before the first run: partitions, steps in order, each value's place.

        ``sizes``: of symbolic dimensions, by name: figures are then what runs of these sizes take.
        """
        if isinstance(self._state, IsolatedSession):
            return self._state.get_plan(sizes)
        return describe_plan(self._state, tuple(self.get_providers()), sizes)

    def get_compiled_texts(
        self, stages: Collection[Stage] = SHOWN_STAGES, kernel: str | None = None
    ) -> Mapping[str, StageTexts]:
        """What each compiled partition became, stage by stage, by the name of its fused node.

        The session must have been made with the config entry ``ortpkg.llvm_keep_text`` = "1";
        providers that cannot tell tell nothing, and so do those in child processes.

        Args:
            stages: those that are wanted.
            kernel: of the stages with a text for each kernel, the one of this name alone.

        Raises SessionError where the session is closed, CompileError where LLVM fails.
        """
        self._check_open()
        if isinstance(self._state, IsolatedSession):
            return {}
        by_name = {provider.name: provider for provider in reversed(self._providers)}
        found = {
            each.fused_node: by_name[each.provider].get_compiled_texts(
                each.fused_node, stages, kernel
            )
            for each in self._state.partitions
            if each.fused_node
        }
        return {name: texts for name, texts in found.items() if texts}

    def get_placement(self) -> Placement:
        """What runs where: nodes, weights and, with profiling, time per execution provider.

        Raises SessionError where the session is closed.
        """
        self._check_open()
        if isinstance(self._state, IsolatedSession):
            return self._state.get_placement()
        durations_s = None if self._profiler is None else self._profiler.node_durations_s()
        return create_placement(self._providers, self._state.partitions, durations_s)

    # --- profile ----------------------------------------------------------------------------------

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, on ``time.perf_counter_ns``'s clock; 0 where it is off."""
        if isinstance(self._state, IsolatedSession):
            return int(self._state.facts["profiling_start_ns"])
        return 0 if self._profiler is None else self._profiler.origin_ns

    def end_profiling(self) -> str:
        """Writes the profile (a Chrome trace) and returns its path.

        "" where profiling is off, or was ended before.

        Raises SessionError where the file cannot be written.
        """
        if isinstance(self._state, IsolatedSession):
            return self._state.end_profiling()
        if self._profiler is None:
            return ""
        return self._profiler.end(self._options.profile_file_prefix)

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionError("the session is closed")
