from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import ortpkg
from ortpkg.errors import InvalidFeedError, UsageError
from ortpkg.session.ort_value import OrtValue
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
        with pytest.raises(UsageError, match=r"output 'y' is float32\[2\], but is bound to float32\[3\]"):
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
        with pytest.raises(UsageError, match="values lie on device 'cpu'; 'cuda', id 0 is not supported"):
            binding.bind_output("y", "cuda", 0, np.float32, [2], X.ctypes.data)
        with pytest.raises(UsageError, match="no output is bound"):
            session.run_with_iobinding(binding)


@pytest.mark.parametrize("ort", [ortpkg, onnxruntime], ids=["ortpkg", "onnxruntime"])
def test_an_output_for_a_device_that_is_not_here_lies_in_the_memory_of_the_cpu(ort: Any) -> None:
    """Programs for GPUs that run on a machine without one."""
    session = ort.InferenceSession(model_of(TEXT).SerializeToString(), providers=["CPUExecutionProvider"])
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
