"""The bridge's provider: whole models on an execution provider of the installed onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import ExecutionProviderError, quoted
from ortpkg.graph.types import ElementType
from ortpkg.providers.whole_model import NUMERIC_TYPES, CompiledModel, WholeModel, WholeModelProvider

_ERRORS_ONLY = 3


class OnnxRuntimeExecutionProvider(WholeModelProvider):
    """One execution provider of onnxruntime in one session; what it leaves is run by onnxruntime's own CPU provider.

    Raises ExecutionProviderError where this build of onnxruntime does not have the provider.
    """

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
        options.log_severity_level = _ERRORS_ONLY
        providers: list[Any] = [(self.name, dict(self.options))]
        if self.name != CPU_EP:
            providers.append(CPU_EP)
        return _OnnxRuntimeModel(onnxruntime.InferenceSession(model.data, options, providers=providers), model)


class _OnnxRuntimeModel:
    """A session; onnxruntime allows concurrent calls of ``run``."""

    def __init__(self, session: Any, model: WholeModel) -> None:
        self._session = session
        self._inputs = model.inputs
        self._outputs = list(model.outputs)

    def compute(self, inputs: Sequence[Any]) -> Sequence[Any]:
        outputs: Sequence[Any] = self._session.run(self._outputs, dict(zip(self._inputs, inputs, strict=True)))
        return outputs
