"""The bridge's provider: whole models on an execution provider of the installed onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import ExecutionProviderError, InvalidSessionOptionError, quoted
from ortpkg.graph.types import ElementType
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.providers.execution_provider import BackendPlacement
from ortpkg.providers.run_watch import run_watched
from ortpkg.providers.whole_model import NUMERIC_TYPES, CompiledModel, WholeModel, WholeModelProvider

#: An option of ours, for onnxruntime's session: its CPU provider has no option for the number of its threads.
THREADS_OPTION = "intra_op_num_threads"
#: What fails is raised, and said once by us; onnxruntime's own lines on standard error would say it twice.
_FATAL_ONLY = 4
#: Makes a session remember which of its providers took which nodes; older releases ignore it.
_RECORD_ASSIGNMENT_ENTRY = "session.record_ep_graph_assignment_info"


class OnnxRuntimeExecutionProvider(WholeModelProvider):
    """One execution provider of onnxruntime in one session; what it leaves is run by onnxruntime's own CPU provider.

    Raises ExecutionProviderError where this build of onnxruntime does not have the provider.
    """

    backend = "onnxruntime"
    border_types = NUMERIC_TYPES | {ElementType.STRING}

    def __init__(
        self, ep_name: str, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(ep_name, ep_devices=ep_devices, options=options)
        available = onnxruntime.get_available_providers()
        if ep_name not in available:
            raise ExecutionProviderError(
                f"onnxruntime {onnxruntime.__version__} has no {quoted(ep_name)}; it has: {', '.join(available)}",
                ep_name=ep_name,
            )

    def compile_model(self, model: WholeModel) -> CompiledModel:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
        options.add_session_config_entry(_RECORD_ASSIGNMENT_ENTRY, "1")
        own = dict(self.options)
        if threads := own.pop(THREADS_OPTION, ""):
            options.intra_op_num_threads = _thread_count(threads)
        providers: list[Any] = [(self.name, own)]
        if self.name != CPU_EP:
            providers.append(CPU_EP)
        session = onnxruntime.InferenceSession(model.data, options, providers=providers)
        return _OnnxRuntimeModel(session, model, self.name)


def _thread_count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidSessionOptionError(
            f"{THREADS_OPTION} is a number of threads, 0 or more, not {quoted(text)}", key=THREADS_OPTION
        )
    return int(text)


class _OnnxRuntimeModel:
    """A session; onnxruntime allows concurrent calls of ``run``."""

    def __init__(self, session: Any, model: WholeModel, ep_name: str) -> None:
        self._session = session
        self._ep_name = ep_name
        self._inputs = model.inputs
        self._outputs = list(model.outputs)

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        feeds = dict(zip(self._inputs, inputs, strict=True))
        if not context.is_watched:
            return self._run(feeds, None)
        options = onnxruntime.RunOptions()
        options.log_severity_level = _FATAL_ONLY
        return run_watched(context, lambda: self._run(feeds, options), lambda: setattr(options, "terminate", True))

    def get_placement(self) -> Sequence[BackendPlacement]:
        """One entry per provider that took nodes: a GPU's onnxruntime falls back to its CPU provider in silence."""
        if self._ep_name == CPU_EP:
            return ()  # the only provider of the session
        if self._ep_name not in self._session.get_providers():
            reason = f"onnxruntime {onnxruntime.__version__} left it out: it cannot start here"
            left_out = BackendPlacement(ep_name=self._ep_name, node_count=0, reason=reason)
            return [left_out, BackendPlacement(ep_name=CPU_EP, is_fallback=True)]
        tell = getattr(self._session, "get_provider_graph_assignment_info", None)
        if tell is None:
            reason = f"onnxruntime {onnxruntime.__version__} does not tell which of them its CPU provider runs"
            return [BackendPlacement(ep_name=self._ep_name, reason=reason)]
        names: dict[str, list[str]] = {self._ep_name: []}
        for subgraph in tell():
            names.setdefault(subgraph.ep_name, []).extend(node.name for node in subgraph.get_nodes())
        return [
            BackendPlacement(
                ep_name=ep_name,
                node_count=len(own),
                node_names=frozenset(own),
                is_fallback=ep_name != self._ep_name,
                reason="" if own else f"onnxruntime {onnxruntime.__version__} gave its nodes to other providers",
            )
            for ep_name, own in names.items()
        ]

    def _run(self, feeds: dict[str, Any], options: Any) -> Sequence[Any]:
        outputs: Sequence[Any] = self._session.run(self._outputs, feeds, options)
        return outputs
