"""Indices of models on execution providers of onnxruntime that do not check them, as on GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg import SessionOptions
from ortpkg.foundations.errors import RunError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.providers.bridged_execution_provider import BridgedExecutionProvider
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import BackendPlacement
from ortpkg.runtime.providers.native_library import NativeLibrary, NativeModel
from ortpkg.runtime.session.session_state import SessionState, create_session_state

_LOOKUP = """<ir_version: 10, opset_import: ["" : 21]>
lookup (int64[N] i) => (float[N] y) <float[3] table = {1, 2, 3}> { y = Gather(table, i) }"""
_COMPUTED = """<ir_version: 10, opset_import: ["" : 21]>
lookup (int64[N] i) => (float[N] y) <float[3] table = {1, 2, 3}, int64 one = {1}>
{ j = Add(i, one) y = Gather(table, j) }"""
_MESSAGE = "index 3 is out of range for an axis of size 3"


class _Kernels:
    """A model whose kernels give zeros for an index out of range, as those of GPUs do."""

    def __init__(self, model: NativeModel) -> None:
        self._model = model

    def compute(self, inputs: Sequence[Any], context: object) -> Sequence[Any]:
        del context
        (positions,) = inputs
        # the second model adds one, and returns the sum
        indices = positions + (len(self._model.outputs) - 1)
        table = np.array([1, 2, 3], np.float32)
        inside = np.where(indices < 3, table[np.minimum(indices, 2)], np.float32(0))
        return [inside, *([indices] if len(self._model.outputs) > 1 else [])]

    def get_placement(self) -> Sequence[BackendPlacement]:
        return ()


class _Gpu(NativeLibrary):
    backend = "onnxruntime"

    def compile_model(self, model: NativeModel) -> _Kernels:
        return _Kernels(model)


def _state(text: str, ep_name: str = "WebGpuExecutionProvider") -> SessionState:
    model = load_model(onnx.parser.parse_model(text).SerializeToString())
    providers = [BridgedExecutionProvider(ep_name, _Gpu()), CPUExecutionProvider()]
    return create_session_state(model, SessionOptions(), providers)


def _run(state: SessionState, *indices: int) -> list[float]:
    (y,) = state.run([np.array(indices)], RunControl())
    values: list[float] = y.tolist()
    return values


@pytest.mark.parametrize(("text", "last"), [(_LOOKUP, 2), (_COMPUTED, 1)])
def test_an_index_out_of_range_is_an_error_on_a_gpu(text: str, last: int) -> None:
    state = _state(text)
    assert _run(state, last) == [3]
    with pytest.raises(RunError, match=_MESSAGE):
        _run(state, last, last + 1)


def test_onnxruntimes_cpu_provider_checks_them_itself() -> None:
    assert _run(_state(_LOOKUP, "CPUExecutionProvider"), 2, 3) == [3, 0]
