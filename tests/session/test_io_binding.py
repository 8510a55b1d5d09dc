from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ortpkg
from ortpkg.foundations.errors import InvalidFeedError, UsageError
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.values.ort_value import OrtValue
from tests.session.conftest import model_of, session_of

TEXT = "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(x) }"
X = np.array([1, -2], np.float32)


def test_bound_output_is_written_into_the_callers_memory() -> None:
    target = np.zeros(2, np.float32)
    with session_of(TEXT) as session:
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(target))
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        session.run_with_iobinding(binding)
    assert target.tolist() == [-1, 2]
    assert [value.tolist() for value in binding.copy_outputs_to_cpu()] == [[-1, 2], [1, 2]]


def test_memory_is_bound_by_address() -> None:
    source, target = X.copy(), np.zeros(2, np.float32)
    with session_of(TEXT) as session:
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, [2], source.ctypes.data)
        binding.bind_output("z", "cpu", 0, np.float32, [2], target.ctypes.data)
        session.run_with_iobinding(binding)
    assert target.tolist() == [1, 2]


def test_result_that_does_not_fit_its_buffer_is_an_error() -> None:
    with session_of(TEXT) as session:
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_shape_and_type([3], np.float32))
        with pytest.raises(
            UsageError, match=r"output 'y' is float32\[2\], but is bound to float32\[3\]"
        ):
            session.run_with_iobinding(binding)


def test_unknown_names_and_devices_are_refused() -> None:
    with session_of(TEXT) as session:
        binding = session.io_binding()
        with pytest.raises(InvalidFeedError, match="no input 'q'"):
            binding.bind_cpu_input("q", X)
        with pytest.raises(UsageError, match="no output 'q'"):
            binding.bind_output("q")
        with pytest.raises(UsageError, match="there is no device 'toaster'"):
            binding.bind_output("y", "toaster")
        with pytest.raises(
            UsageError, match="values lie on device 'cpu'; 'cuda', id 0 is not supported"
        ):
            binding.bind_output("y", "cuda", 0, np.float32, [2], X.ctypes.data)
        with pytest.raises(UsageError, match="no output is bound"):
            session.run_with_iobinding(binding)


@pytest.mark.parametrize("ort", [ortpkg, onnxruntime], ids=["ortpkg", "onnxruntime"])
def test_an_output_for_a_device_that_is_not_here_lies_in_the_memory_of_the_cpu(ort: Any) -> None:
    """Programs for GPUs that run on a machine without one."""
    session = ort.InferenceSession(
        model_of(TEXT).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cuda", 0)
    session.run_with_iobinding(binding)
    (found,) = binding.get_outputs()
    assert found.device_name() == "cpu"
    np.testing.assert_array_equal(found.numpy(), binding.copy_outputs_to_cpu()[0])


def test_ort_value_describes_itself() -> None:
    value = OrtValue.ortvalue_from_numpy(X)
    assert (value.shape(), value.data_type(), value.element_type(), value.is_tensor()) == (
        [2],
        "tensor(float)",
        1,
        True,
    )
    value.update_inplace(np.array([5, 6], np.float32))
    assert value.numpy().tolist() == [5, 6]
    value.update_inplace(np.array([1, -2], np.float32))


# --- outputs computed where they are bound --------------------------------------------------------

_CACHED = """g (float[B,1,96] x, float[B,2,P,16] past_key, float[B,2,P,16] past_value, int32[B] seqlens, int32[1] total)
=> (float[B,1,32] y, float[B,2,T,16] present_key, float[B,2,T,16] present_value) {
    packed = Neg(x)
    y, present_key, present_value = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2>
        (packed, , , past_key, past_value, seqlens, total)
}"""
CACHED = onnx.parser.parse_model(
    f'<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n{_CACHED}'
).SerializeToString()


def step_of(position: int, caches: Any) -> dict[str, Any]:
    generator = np.random.default_rng(position)
    return {
        "x": generator.standard_normal((1, 1, 96), dtype=np.float32),
        "past_key": caches[0],
        "past_value": caches[1],
        "seqlens": np.array([position], np.int32),
        "total": np.array([position + 1], np.int32),
    }


@pytest.mark.parametrize("ort", [ortpkg, onnxruntime], ids=["ortpkg", "onnxruntime"])
@pytest.mark.parametrize("options", [{}, {"execution_mode": 1}])
def test_a_cache_bound_as_past_and_as_present_is_extended_in_place(
    ort: Any, options: dict[str, Any]
) -> None:
    settings = ort.SessionOptions()
    if options:
        settings.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    session = ort.InferenceSession(CACHED, settings, providers=["CPUExecutionProvider"])
    plain = [np.zeros((1, 2, 0, 16), np.float32)] * 2
    shared = [
        ort.OrtValue.ortvalue_from_numpy(np.full((1, 2, 9, 16), 7, np.float32)) for _ in range(2)
    ]
    for position in range(9):
        feeds = step_of(position, plain)
        expected = session.run(None, feeds)
        plain = expected[1:]
        binding = session.io_binding()
        for name in ("x", "seqlens", "total"):
            binding.bind_cpu_input(name, feeds[name])
        for part, value in zip(("key", "value"), shared, strict=True):
            binding.bind_ortvalue_input(f"past_{part}", value)
            binding.bind_ortvalue_output(f"present_{part}", value)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(
            binding.get_outputs()[2].numpy(), expected[0], rtol=1e-5, atol=1e-6
        )
        for value, whole in zip(shared, plain, strict=True):
            np.testing.assert_allclose(value.numpy()[:, :, : position + 1], whole, rtol=1e-6)
            if position:  # what lies behind the new place is left alone: nothing was copied
                assert (value.numpy()[:, :, position + 1 :] == 7).all()


def bound_run(text: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Runs with these arrays bound; outputs are written to theirs."""
    session = InferenceSession(model_of(text).SerializeToString())
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    session.run_with_iobinding(binding)


TWO = TEXT.replace("Abs", "Exp")


def test_an_output_in_memory_of_an_input_that_is_read_later_is_right() -> None:
    x = np.array([1, -2, 3, -4], np.float32)
    bound_run(TWO, {"x": x}, {"y": x})
    np.testing.assert_array_equal(x, [-1, 2, -3, 4])
    y, kept = np.zeros(4, np.float32), np.array([1, -2, 3, -4], np.float32)
    bound_run(TWO, {"x": kept}, {"y": y, "z": kept})
    np.testing.assert_array_equal(y, [-1, 2, -3, 4])
    np.testing.assert_allclose(kept, np.exp([1, -2, 3, -4]), rtol=1e-6)


def test_an_output_that_overlaps_its_input_in_part_is_right() -> None:
    memory = np.arange(6, dtype=np.float32)
    bound_run(
        "g (float[N] x) => (float[N] y) { a = Neg(x) y = Neg(a) }",
        {"x": memory[:5]},
        {"y": memory[1:]},
    )
    np.testing.assert_array_equal(memory, [0, 0, 1, 2, 3, 4])


def test_two_outputs_in_the_same_memory_are_what_was_bound_last() -> None:
    x, memory = np.array([1, 2, 3], np.float32), np.zeros(3, np.float32)
    bound_run(TEXT, {"x": x}, {"y": memory, "z": memory})
    np.testing.assert_array_equal(memory, x)


@pytest.mark.parametrize(
    "text", ["y = Reshape(a, s)", "y = Identity(a)", "y = MatMul(a, a)", "y = Transpose(a)"]
)
def test_bound_outputs_of_every_kind_of_kernel_are_right(text: str) -> None:
    x, y = np.arange(9, dtype=np.float32).reshape(3, 3), np.zeros((3, 3), np.float32)
    graph = f"g (float[3,3] x) => (float[3,3] y) <int64[2] s = {{3, 3}}> {{ a = Neg(x) {text} }}"
    bound_run(graph, {"x": x}, {"y": y})
    (expected,) = InferenceSession(model_of(graph).SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(y, expected)
