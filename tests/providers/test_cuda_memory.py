"""Values on a GPU under onnxruntime's own CUDA provider; its CPU provider plays the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.runtime.kernels.device_tensor import DeviceTensor

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("ortpkg.runtime.providers.onnxruntime_memory")

from onnxruntime.capi.onnxruntime_pybind11_state import (  # noqa: E402 - needs onnxruntime
    OrtAllocatorType,
    OrtMemoryInfo,
    OrtMemType,
)

from ortpkg.runtime.providers import (  # noqa: E402 - needs onnxruntime
    device_memories,
    ep_registry,
    onnxruntime_contexts,
    onnxruntime_library,
    onnxruntime_memory,
)
from ortpkg.runtime.providers.onnxruntime_memory import (  # noqa: E402 - likewise
    cuda_memory,
    device_runs,
)

_CUDA, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
_TEXT = """<ir_version: 8, opset_import: ["" : 17]>
m (float[N, 3] x) => (float[N, 3] y, int64[2] s) { y = Neg(x)
 s = Shape(y) }"""
_ORIGINAL = onnxruntime.InferenceSession


class _Calls(list[tuple[Any, ...]]):
    """Everything that was asked for by the word "cuda"."""


class _Binding:
    def __init__(self, binding: Any, calls: _Calls) -> None:
        self.own = binding
        self._calls = calls

    def bind_output(self, name: str, word: str = "cpu", device_id: int = 0) -> None:
        self._calls.append(("bind_output", name, word, device_id))
        self.own.bind_output(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


class _Session:
    """A session of onnxruntime whose floats lie on GPU 1."""

    def __init__(self, session: Any, calls: _Calls) -> None:
        self._session = session
        self._calls = calls

    def get_providers(self) -> list[str]:
        return [_CUDA, _CPU]

    def get_provider_graph_assignment_info(self) -> list[Any]:
        taken = self._session.get_provider_graph_assignment_info()
        return [SimpleNamespace(ep_name=_CUDA, get_nodes=subgraph.get_nodes) for subgraph in taken]

    def get_input_memory_infos(self) -> list[Any]:
        return [self._info(argument) for argument in self._session.get_inputs()]

    def get_output_memory_infos(self) -> list[Any]:
        return [self._info(argument) for argument in self._session.get_outputs()]

    def _info(self, argument: Any) -> Any:
        is_there = "float" in argument.type
        name = "Cuda" if is_there else "Cpu"
        arena, default = OrtAllocatorType.ORT_ARENA_ALLOCATOR, OrtMemType.DEFAULT
        return OrtMemoryInfo(name, arena, int(is_there), default)

    def io_binding(self) -> _Binding:
        return _Binding(self._session.io_binding(), self._calls)

    def run_with_iobinding(self, binding: _Binding, options: Any) -> None:
        self._calls.append(("run_with_iobinding",))
        self._session.run_with_iobinding(binding.own, options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> _Calls:
    noted = _Calls()

    class Value(onnxruntime.OrtValue):  # type: ignore[misc, name-defined]
        @classmethod
        def ortvalue_from_shape_and_type(
            cls, shape: Any, kind: int, word: str, device_id: int
        ) -> Any:
            noted.append(("allocate", word, device_id))
            return onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, kind)

    def make(data: Any, options: Any, *, providers: Any = (), **_: Any) -> Any:
        names = [provider if isinstance(provider, str) else provider[0] for provider in providers]
        session = _ORIGINAL(data, options, providers=[_CPU])
        return _Session(session, noted) if _CUDA in names else session

    played = SimpleNamespace(
        **{
            **{name: getattr(onnxruntime, name) for name in dir(onnxruntime)},
            "get_available_providers": lambda: [_CUDA, _CPU],
            "InferenceSession": make,
            "OrtValue": Value,
        }
    )
    for module in (onnxruntime_contexts, onnxruntime_library, onnxruntime_memory):
        monkeypatch.setattr(module, "onnxruntime", played)
    monkeypatch.setattr(onnxruntime_contexts, "prepare_nvidia_libraries", lambda _module: None)
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: (_CUDA, _CPU))
    monkeypatch.setattr(device_memories, "_open", {})
    return noted


@pytest.fixture
def session(calls: _Calls, tmp_path: Path) -> ortpkg.InferenceSession:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(_TEXT), path)
    return ortpkg.InferenceSession(
        path,
        providers=[(_CUDA, {"device_id": "1"})],
        backend="onnxruntime",
        allow_fallback=True,  # what plays CUDA runs on the CPU
    )


_X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_arrays_give_arrays(session: ortpkg.InferenceSession) -> None:
    y, s = session.run(None, {"x": _X})
    np.testing.assert_array_equal(y, -_X)
    np.testing.assert_array_equal(s, [2, 3])


def test_bound_values_stay_on_the_gpu_that_the_options_name(
    session: ortpkg.InferenceSession, calls: _Calls
) -> None:
    value = ortpkg.OrtValue.ortvalue_from_numpy(_X, "cuda", 1)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cuda", 1)
    calls.clear()
    session.run_with_iobinding(binding)

    assert ("bind_output", "y", "cuda", 1) in calls
    assert [name for name, *_ in calls].count("allocate") == 0  # nothing was copied
    (y,) = binding.get_outputs()
    assert isinstance(y.value, DeviceTensor)
    assert y.value.memory == "CUDA:1"
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -_X)


@pytest.mark.parametrize("dtype", ["float16", "int64", "bfloat16"])
def test_elements_get_to_the_gpu_and_back(dtype: str, calls: _Calls) -> None:
    import ml_dtypes  # noqa: F401 - registers bfloat16

    memory = cuda_memory(_CUDA, {"device_id": "1"})
    assert memory is not None
    array = np.arange(6).astype(dtype).reshape(2, 3)

    there = memory.upload(array)
    np.testing.assert_array_equal(memory.download(there), array)
    other = memory.upload(np.zeros_like(array))
    memory.copy(there, other)
    np.testing.assert_array_equal(memory.download(other), array)
    assert set(calls) == {("allocate", "cuda", 1)}


@pytest.mark.parametrize(
    ("ep_name", "options", "number"),
    [
        (_CUDA, {}, 0),
        (_CUDA, {"device_id": "3"}, 3),
        (_CUDA, {"device_id": "x"}, None),
        (_CPU, {}, None),
        ("TensorrtExecutionProvider", {}, None),
    ],
)
def test_a_memory_is_that_of_cudas_device(
    ep_name: str, options: Mapping[str, str], number: int | None
) -> None:
    memory = cuda_memory(ep_name, options)
    assert (None if memory is None else memory.info.device_id) == number


def test_a_session_without_cuda_or_that_does_not_tell_has_none() -> None:
    memory = cuda_memory(_CUDA, {})
    fallen = SimpleNamespace(get_providers=lambda: [_CPU])
    silent = SimpleNamespace(get_providers=lambda: [_CUDA])
    assert device_runs(fallen, (), (), memory) is None
    assert device_runs(silent, (), (), memory) is None
    assert device_runs(silent, (), (), None) is None
