"""Values, devices and bindings as programs written for onnxruntime use them, in both libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as their_native

import ortpkg
from ortpkg.capi import onnxruntime_pybind11_state as our_native
from ortpkg.foundations.errors import UsageError
from ortpkg.runtime.session.values.ort_value import OrtValue
from ortpkg.runtime.session.values.sparse_tensor import SparseTensor
from tests.session.conftest import model_of

LIBRARIES = [pytest.param(ortpkg, id="ortpkg"), pytest.param(onnxruntime, id="onnxruntime")]
NATIVE = {"ortpkg": our_native, "onnxruntime": their_native}
#: onnxruntime 1.32 tells tensors of bool by themselves.
WITH_BOOL_INDICES = [
    pytest.param(native, id=name)
    for name, native in NATIVE.items()
    if native is our_native or hasattr(native.OrtValueVector, "bool_tensor_indices")
]
TEXT = "g (float[N,2] x) => (float[N,2] y, float[N,2] z) { y = Relu(x) z = Neg(x) }"
MODEL = bytes(model_of(TEXT, opset=17).SerializeToString())
X = np.array([[1, -1]], np.float32)


def tensor(ort: Any) -> tuple[Any, Any]:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    return ort.OrtValue.ortvalue_from_numpy(array), array


# --- OrtValue -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["OrtValue", "IOBinding", "SparseTensor", "OrtDevice", "NodeArg", "ModelMetadata"]
)
def test_every_member_of_onnxruntimes_class_is_here(name: str) -> None:
    ours, theirs = (
        {member for member in dir(getattr(ort, name)) if not member.startswith("_")}
        for ort in (ortpkg, onnxruntime)
    )
    assert theirs - ours == set()


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_tensor_shares_its_array_and_describes_it(ort: Any) -> None:
    value, array = tensor(ort)
    array[0, 0] = 42
    assert value.numpy()[0, 0] == 42
    assert value.data_ptr() == array.ctypes.data
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float)", 1)
    assert (value.tensor_size_in_bytes(), value.device_name(), value.has_value()) == (
        24,
        "cpu",
        True,
    )
    assert (value.is_tensor(), value.is_sparse_tensor(), value.is_tensor_sequence()) == (
        True,
        False,
        False,
    )
    assert np.asarray(value).ctypes.data == array.ctypes.data
    assert np.asarray(value, dtype=np.float64).dtype == np.float64
    assert np.array(value, copy=True).ctypes.data != array.ctypes.data


@pytest.mark.parametrize("ort", LIBRARIES)
def test_an_array_that_is_not_contiguous_is_copied(ort: Any) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    value = ort.OrtValue.ortvalue_from_numpy(array)
    np.testing.assert_array_equal(value.numpy(), array)
    assert value.data_ptr() != array.ctypes.data


@pytest.mark.parametrize("ort", LIBRARIES)
def test_bytes_are_read_as_a_type_that_numpy_does_not_have(ort: Any) -> None:
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
        np.array([0x3F80, 0x4000], np.uint16), 16
    )
    assert (value.data_type(), value.element_type(), value.tensor_size_in_bytes()) == (
        "tensor(bfloat16)",
        16,
        4,
    )
    for number in (1, 8, 99):  # of another size, strings, unknown
        with pytest.raises(RuntimeError):
            ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([1], np.uint16), number)


def test_what_numpy_has_no_type_for_is_an_array_of_ml_dtypes() -> None:
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3F80, 0x4000], np.uint16), 16)
    assert value.numpy().astype(np.float32).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "expected"), [(np.int32, "tensor(int32)"), (16, "tensor(bfloat16)")]
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_tensor_is_made_from_shape_and_type(ort: Any, kind: Any, expected: str) -> None:
    value = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], kind, "cpu", 0)
    assert (value.shape(), value.data_type()) == ([3, 2], expected)
    with pytest.raises(RuntimeError):
        ort.OrtValue.ortvalue_from_shape_and_type([3, -2], kind)


@pytest.mark.parametrize("device", ["cuda", "npu", "nonsense"])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_device_that_is_not_here_is_refused(ort: Any, device: str) -> None:
    with pytest.raises(Exception, match=r"(?i)device"):
        ort.OrtValue.ortvalue_from_numpy(X, device, 0)


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_tensor_is_overwritten(ort: Any) -> None:
    value, array = tensor(ort)
    value.update_inplace(np.ones((3, 2), np.float32).T)
    assert (array == 1).all()
    value.update_inplace(ort.OrtValue.ortvalue_from_numpy(np.full((2, 3), 5, np.float32)))
    assert (array == 5).all()
    with pytest.raises(RuntimeError):
        value.update_inplace(np.ones((3, 3), np.float32))
    with pytest.raises(TypeError):
        value.update_inplace([1])


def test_another_type_of_the_same_size_is_not_read_as_floats() -> None:
    value, _ = tensor(ortpkg)
    with pytest.raises(UsageError, match=r"cannot write int32\[2, 3\] over float32\[2, 3\]"):
        value.update_inplace(np.ones((2, 3), np.int32))


def test_tensors_are_copied_into_others() -> None:
    value, array = tensor(ortpkg)
    target = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    ortpkg.copy_tensors([value], [target])
    np.testing.assert_array_equal(target.numpy(), array)
    with pytest.raises(UsageError, match="1 tensors cannot be copied into 0"):
        ortpkg.copy_tensors([value], [])


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_sequence_says_what_it_holds(ort: Any) -> None:
    text = "g (float[N] x) => (seq(float[]) y) { y = SplitToSequence(x) }"
    session = ort.InferenceSession(model_of(text, opset=17).SerializeToString())
    (value,) = session.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(X[0])})
    assert (value.data_type(), value.is_tensor_sequence(), value.is_tensor()) == (
        "seq(tensor(float))",
        True,
        False,
    )
    for ask in (value.numpy, value.shape):
        with pytest.raises(RuntimeError):
            ask()


# --- DLPack ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_tensor_is_shared_by_dlpack(ort: Any) -> None:
    value, array = tensor(ort)
    assert value.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(value).ctypes.data == array.ctypes.data
    for source in (array, value, value.__dlpack__()):
        taken = ort.OrtValue.from_dlpack(source)
        assert (taken.data_ptr(), taken.shape(), taken.data_type()) == (
            array.ctypes.data,
            [2, 3],
            "tensor(float)",
        )
    flag = ort.OrtValue.ortvalue_from_numpy(np.array([True]))
    assert ort.OrtValue.from_dlpack(flag).data_type() == "tensor(bool)"


@pytest.mark.parametrize("ort", LIBRARIES)
def test_what_is_no_contiguous_tensor_is_not_taken_by_dlpack(ort: Any) -> None:
    with pytest.raises(TypeError, match="DLPack"):
        ort.OrtValue.from_dlpack(3)
    with pytest.raises(RuntimeError, match="contiguous"):
        ort.OrtValue.from_dlpack(np.zeros((2, 3), np.float32).T)
    value, _ = tensor(ort)
    capsule = value.__dlpack__()
    ort.OrtValue.from_dlpack(capsule)
    with pytest.raises(TypeError):
        ort.OrtValue.from_dlpack(capsule)


def test_memory_taken_by_dlpack_outlives_its_owner() -> None:
    value = OrtValue.from_dlpack(
        OrtValue.ortvalue_from_numpy(np.arange(1000, dtype=np.float32)).__dlpack__()
    )
    np.zeros(1000, np.float32)
    assert value.numpy()[-1] == 999


def test_texts_are_not_handed_on_by_dlpack() -> None:
    with pytest.raises(UsageError, match=r"a tensor\(string\) cannot be handed on by DLPack"):
        OrtValue.ortvalue_from_numpy(np.array(["a"], object)).__dlpack__()


# --- devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cpu", "cuda", "dml", "cann", "webgpu", "gpu", "npu"])
def test_a_device_has_onnxruntimes_numbers(name: str) -> None:
    def numbers(ort: Any, *vendor: int) -> tuple[int, ...]:
        device = ort.OrtDevice.make(name, 1, *vendor)
        return (
            device.device_id(),
            device.device_type(),
            device.device_vendor_id(),
            device.device_mem_type(),
        )

    assert numbers(ortpkg) == numbers(onnxruntime)
    if name in ("cpu", "gpu", "npu"):
        assert numbers(ortpkg, 0x8086) == numbers(onnxruntime, 0x8086)


@pytest.mark.parametrize("arguments", [(1, 0), ("cpu", "0"), ("cpu", None)])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_device_is_made_of_a_name_and_a_number(ort: Any, arguments: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError):
        ort.OrtDevice.make(*arguments)


def test_a_native_device_has_onnxruntimes_numbers() -> None:
    for native in NATIVE.values():
        device = native.OrtDevice(
            native.OrtDevice.gpu(), native.OrtDevice.default_memory(), 0x10DE, 3
        )
        assert (
            device.device_type(),
            device.mem_type(),
            device.vendor_id(),
            device.device_id(),
        ) == (1, 0, 0x10DE, 3)


@pytest.mark.parametrize("numbers", [(1, 0, 3), (1, 0, 0x10DE, 3), (0, 5, 0)])
def test_a_native_device_is_its_numbers_in_both(numbers: tuple[int, ...]) -> None:
    def told(native: Any) -> tuple[int, ...]:
        device = native.OrtDevice(*numbers)
        return device.device_type(), device.mem_type(), device.vendor_id(), device.device_id()

    assert told(NATIVE["ortpkg"]) == told(NATIVE["onnxruntime"])


@pytest.mark.parametrize("numbers", [(0, 0, 1, 2, 3), (0, 0, 1.5), (0, "cpu")])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_what_are_no_numbers_of_a_device_are_refused(ort: Any, numbers: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, UsageError), match=r"OrtDevice takes|incompatible"):
        NATIVE[ort.__name__].OrtDevice(*numbers)


# --- sparse tensors -------------------------------------------------------------------------------

VALUES = np.array([1, 2, 3], np.float32)


def coo(ort: Any, indices: Any = (1, 4, 8), values: Any = VALUES) -> Any:
    device = ort.OrtDevice.make("cpu", 0)
    return ort.SparseTensor.sparse_coo_from_numpy(
        [3, 3], values, np.array(indices, np.int64), device
    )


def csr(ort: Any, inner: Any = (1, 1, 2), outer: Any = (0, 1, 2, 3)) -> Any:
    device = ort.OrtDevice.make("cpu", 0)
    return ort.SparseTensor.sparse_csr_from_numpy(
        [3, 3], VALUES, np.array(inner), np.array(outer), device
    )


@pytest.mark.parametrize(
    "indices", [[1, 4, 8], [[0, 1], [1, 1], [2, 2]]], ids=["flat", "coordinates"]
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_sparse_tensor_keeps_values_and_places(ort: Any, indices: Any) -> None:
    sparse = coo(ort, indices)
    np.testing.assert_array_equal(sparse.values(), VALUES)
    np.testing.assert_array_equal(sparse.as_coo_view().indices(), indices)
    assert (list(sparse.dense_shape()), sparse.data_type(), sparse.device_name()) == (
        [3, 3],
        "sparse_tensor(float)",
        "cpu",
    )
    assert int(sparse.format()) == 1
    for ask in (
        sparse.as_csrc_view,
        sparse.as_blocksparse_view,
        lambda: sparse.to_cuda(ort.OrtDevice.make("cuda", 0)),
    ):
        with pytest.raises(RuntimeError):
            ask()


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_sparse_matrix_keeps_rows_and_columns(ort: Any) -> None:
    view = csr(ort).as_csrc_view()
    assert (view.inner().tolist(), view.outer().tolist(), int(csr(ort).format())) == (
        [1, 1, 2],
        [0, 1, 2, 3],
        2,
    )
    with pytest.raises(RuntimeError):
        csr(ort).as_coo_view()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda ort: coo(ort, [1, 4]),
        lambda ort: coo(ort, [[0, 1, 0], [1, 1, 0], [2, 2, 0]]),
        lambda ort: coo(ort, [[0, 1], [1, 1]]),
        lambda ort: csr(ort, outer=[0, 1, 2]),
        lambda ort: csr(ort, inner=[1, 1]),
    ],
    ids=["coo", "three coordinates", "two places", "outer", "inner"],
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_places_that_do_not_fit_the_values_are_refused(
    ort: Any, attempt: Callable[[Any], Any]
) -> None:
    with pytest.raises(RuntimeError):
        attempt(ort)


def test_coordinates_are_those_of_a_matrix() -> None:
    device = ortpkg.OrtDevice.make("cpu", 0)
    with pytest.raises(UsageError, match=r"or \[3, 2\] in a matrix, not \[3, 2\]"):
        ortpkg.SparseTensor.sparse_coo_from_numpy(
            [9], VALUES, np.array([[0, 1], [1, 1], [2, 2]]), device
        )


def test_places_outside_of_the_tensor_are_refused() -> None:
    """onnxruntime takes them."""
    with pytest.raises(UsageError, match="an index lies outside"):
        coo(ortpkg, [1, 4, 99])
    with pytest.raises(UsageError, match="an index lies outside"):
        csr(ortpkg, inner=[1, 1, 3])
    with pytest.raises(UsageError, match="rise from 0 to 3"):
        csr(ortpkg, outer=[0, 2, 1, 3])


@pytest.mark.parametrize("make", [coo, csr, lambda ort: coo(ort, [[0, 1], [1, 1], [2, 2]])])
def test_a_sparse_tensor_has_a_dense_one(make: Callable[[Any], SparseTensor]) -> None:
    assert make(ortpkg).to_dense().tolist() == [[0, 1, 0], [0, 2, 0], [0, 0, 3]]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_sparse_tensor_is_a_value(ort: Any) -> None:
    value = ort.OrtValue.ort_value_from_sparse_tensor(coo(ort))
    assert (value.is_sparse_tensor(), value.is_tensor(), value.data_type()) == (
        True,
        False,
        "sparse_tensor(float)",
    )
    assert (list(value.shape()), value.element_type(), value.has_value()) == ([3, 3], 1, True)
    np.testing.assert_array_equal(value.as_sparse_tensor().values(), VALUES)
    with pytest.raises(RuntimeError):
        value.numpy()
    with pytest.raises(RuntimeError):
        tensor(ort)[0].as_sparse_tensor()


# --- bindings and vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("ort", LIBRARIES)
def test_bound_outputs_are_had_in_three_forms(ort: Any) -> None:
    session = ort.InferenceSession(MODEL)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("z")
    binding.bind_output("y", "cpu", 0, np.float32, [1, 2])
    session.run_with_iobinding(binding)
    expected = [[[-1, 1]], [[1, 0]]]
    assert [each.tolist() for each in binding.copy_outputs_to_cpu()] == expected
    assert [each.numpy().tolist() for each in binding.get_outputs()] == expected
    vector = binding.get_outputs_as_ortvaluevector()
    assert [vector[place].numpy().tolist() for place in range(len(vector))] == expected
    binding.clear_binding_outputs()
    assert list(binding.get_outputs()) == []


@pytest.mark.parametrize("ort", LIBRARIES)
def test_wrong_bindings_are_refused(ort: Any) -> None:
    session, other = ort.InferenceSession(MODEL), ort.InferenceSession(MODEL)
    with pytest.raises(ValueError, match="session"):
        other.run_with_iobinding(session.io_binding())
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(session.io_binding())
    with pytest.raises(RuntimeError):
        session.io_binding().bind_cpu_input("x", [[1.0, 2.0]])
    with pytest.raises(ValueError, match="element_type"):
        session.io_binding().bind_output("y", buffer_ptr=X.ctypes.data)


@pytest.mark.parametrize("is_allocated", [False, True])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_vectors_of_values_are_run(ort: Any, is_allocated: bool) -> None:
    native = NATIVE[ort.__name__]
    feeds, fetches = native.OrtValueVector(), native.OrtValueVector()
    feeds.push_back(ort.OrtValue.ortvalue_from_numpy(X)._ortvalue)
    target = ort.OrtValue.ortvalue_from_numpy(np.zeros((1, 2), np.float32))
    if is_allocated:
        fetches.push_back(target._ortvalue)
    device = ort.OrtDevice.make("cpu", 0)._get_c_device()
    session = ort.InferenceSession(MODEL)
    session.run_with_ortvaluevector(ort.RunOptions(), ["x"], feeds, ["y"], fetches, [device])
    assert [value.numpy().tolist() for value in fetches] == [[[1, 0]]]
    assert target.numpy().tolist() == ([[1, 0]] if is_allocated else [[0, 0]])
    assert (len(fetches), fetches.element_type_at(0)) == (1, 1)
    assert ort.OrtValue.from_dlpack(fetches.dlpack_at(0)).numpy().tolist() == [[1, 0]]
    with pytest.raises(Exception) as caught:
        session.run_with_ortvaluevector(
            ort.RunOptions(), ["x", "q"], feeds, ["y"], fetches, [device]
        )
    assert "InvalidArgument" in {base.__name__ for base in caught.type.__mro__}


@pytest.mark.parametrize("native", WITH_BOOL_INDICES)
def test_tensors_of_bool_come_into_a_vector_by_dlpack(native: Any) -> None:
    vector = native.OrtValueVector()
    assert vector.bool_tensor_indices() == []
    vector.reserve(2)
    vector.push_back(np.array([1, 0], np.uint8).__dlpack__(), True)
    vector.push_back(np.array([1, 0], np.uint8).__dlpack__(), False)
    assert vector.bool_tensor_indices() == [0]
    assert [vector.element_type_at(place) for place in (0, 1)] == [9, 2]


def test_memory_of_another_object_lives_as_long_as_the_vector() -> None:
    vector = our_native.OrtValueVector()
    owner = np.array([3.0, 4.0], np.float32)
    before = sys.getrefcount(owner)
    device = ortpkg.OrtDevice.make("cpu", 0)
    vector.push_back_batch([owner], [owner.ctypes.data], [np.float32], [[2]], [device])
    assert vector[0].numpy().tolist() == [3, 4]
    assert sys.getrefcount(owner) > before
    with pytest.raises(UsageError, match="as many addresses"):
        vector.push_back_batch([owner], [], [np.float32], [[2]], [device])


@pytest.mark.parametrize("ort", LIBRARIES)
def test_inputs_and_the_model_describe_themselves(ort: Any) -> None:
    session = ort.InferenceSession(MODEL)
    argument = session.get_inputs()[0]
    assert str(argument) == "NodeArg(name='x', type='tensor(float)', shape=['N', 2])"
    assert session.get_modelmeta().graph_name == "g"
