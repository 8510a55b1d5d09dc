"""Views, layout, picking and scattering: edges, and sentences for what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidGraphError, LimitExceededError
from ortpkg.graph.graph import ArrayInitializer, Attribute, Node
from ortpkg.graph.initializers import SparseInitializer
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.generators import constant
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import NodeInfo, run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
TRILLION = 10**12


def int64(*values: int) -> Tensor:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((0, -1), (2, 12)), ((4, 0, -1), (4, 3, 2)), ((-1,), (24,)), ((2, 0, 4, 1), (2, 3, 4, 1))],
)
def test_reshape_copies_zeros_and_infers_one(
    shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert run_op("Reshape", X, int64(*shape)).shape == expected


def test_reshape_of_an_empty_tensor_keeps_the_shape_of_its_rows() -> None:
    empty = np.empty((0, 128, 64), np.float32)
    assert run_op("Reshape", empty, int64(0, -1)).shape == (0, 8192)
    assert run_op("Reshape", empty, int64(0, -1, 4, 16)).shape == (0, 128, 4, 16)
    assert run_op("Reshape", empty, int64(0, 0, -1)).shape == (0, 128, 64)
    with pytest.raises(ValueError, match="cannot take the shape"):
        run_op("Reshape", empty, int64(0, -1, 5))


@pytest.mark.parametrize(
    ("shape", "target"),
    [((0, 4), (0, -1)), ((0, 4), (0, 0, -1)), ((0, 4), (-1, 0)), ((0, 4, 5), (0, -1, 5))],
)
def test_reshape_to_zeros_that_are_meant_agrees_with_onnxruntime(
    shape: tuple[int, ...], target: tuple[int, ...]
) -> None:
    empty = np.empty(shape, np.float32)
    expected = run_on_onnxruntime("Reshape", empty, int64(*target), domain="", allowzero=1)
    assert run_op("Reshape", empty, int64(*target), allowzero=1).shape == expected.shape


def test_reshape_of_an_empty_tensor_infers_zero() -> None:
    assert run_op("Reshape", np.empty((0, 3), np.float32), int64(3, -1)).shape == (3, 0)
    assert run_op("Reshape", np.empty((0, 3), np.float32), int64(5, 0), allowzero=1).shape == (5, 0)


@pytest.mark.parametrize("shape", [(5,), (-1, 7), (-1, -1), (-2, 12), (0, 0, 0, 0)])
def test_reshape_to_another_number_of_elements_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"shape"):
        run_op("Reshape", X, int64(*shape))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("Squeeze", (X, int64(0)), {}, r"axis 0 of shape \(2, 3, 4\) is not of size 1"),
        ("Squeeze", (X, int64(3)), {}, r"axis 3 is not in \[-3, 3\)"),
        ("Unsqueeze", (X, int64(0, 0)), {}, "name an axis twice"),
        ("Transpose", (X,), {"perm": [0, 1]}, r"perm \(0, 1\) is no permutation"),
        (
            "Concat",
            (X, X[:, :2]),
            {"axis": 0},
            r"shapes \(2, 3, 4\) and \(2, 2, 4\) differ in more than the axis 0",
        ),
        ("Split", (X, int64(1, 1)), {"axis": 1}, r"cannot be split into lengths \(1, 1\)"),
        ("Split", (X,), {"axis": 1, "opset": 13}, "3 elements cannot be split into 2 equal parts"),
        ("Expand", (X, int64(2, 2, 4)), {}, "do not broadcast together"),
        ("Expand", (X, int64(-1, 3, 4)), {}, "has a negative dimension"),
        ("Tile", (X, int64(1, 2)), {}, r"repeats \(1, 2\) do not fit"),
        ("Slice", (X, int64(0), int64(1), int64(0), int64(0)), {}, "the step of axis 0 is 0"),
        ("Slice", (X, int64(0), int64(1, 2)), {}, "starts, ends, axes and steps have 1, 2"),
        ("Pad", (X, int64(1, 1)), {}, "2 pads are given for 3 axes"),
        ("Pad", (X, int64(-3, 0, 0, 0, 0, 0)), {}, "cut more"),
        ("Gather", (X, int64(3)), {"axis": 1}, "index 3 is out of range for an axis of size 3"),
        ("GatherElements", (X, int64(0)), {}, r"indices of shape \(1,\) do not fit"),
        ("GatherND", (X, int64(0, 0, 0, 0)), {}, "deeper than the data"),
        ("ScatterND", (X, np.array([[0]], np.int64), X[0]), {}, r"ask for \(1, 3, 4\)"),
        ("ScatterElements", (X, np.zeros((1, 1, 1), np.int64), X), {}, "must agree"),
        ("Compress", (X, np.ones(4, np.bool_)), {"axis": 0}, "longer than an axis of 2"),
        ("Trilu", (X[0, 0],), {}, "a triangle needs a matrix"),
        ("DepthToSpace", (X[None],), {"blocksize": 2}, "multiple of 4"),
        ("TopK", (X, int64(5)), {}, "k is 5, but axis 2"),
        ("Resize", (X, None, np.array([1, 0, 1], np.float32)), {}, "not one positive number"),
        ("ReverseSequence", (X, int64(1, 9, 1)), {}, "do not fit an input of shape"),
        ("EyeLike", (X,), {}, "rank 2"),
        ("OneHot", (int64(0), int64(-1), int64(0, 1)), {}, "depth is -1"),
        (
            "Range",
            (int64(0).reshape(()), int64(1).reshape(()), int64(0).reshape(())),
            {},
            "delta is 0",
        ),
    ],
)
def test_what_does_not_fit_is_said(
    op_type: str, inputs: Any, attributes: dict[str, Any], message: str
) -> None:
    outputs = 2 if op_type in ("Split", "TopK") else 1
    with pytest.raises(ValueError, match=message):
        run_op(op_type, *inputs, outputs=outputs, **attributes)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("ConstantOfShape", (int64(10**6, 10**6),), {}),
        ("Expand", (X[0, 0, :1], int64(10**6, 10**6)), {}),
        ("Tile", (X, int64(10**4, 10**4, 10**4)), {}),
        ("Range", (int64(0).reshape(()), int64(TRILLION).reshape(()), int64(1).reshape(())), {}),
        ("Pad", (X, int64(0, 0, 0, 0, 0, TRILLION)), {}),
        ("Pad", (X, int64(0, 0, 0, 0, 0, TRILLION)), {"mode": "edge"}),
        ("OneHot", (int64(0), int64(TRILLION), np.array([0, 1], np.float32)), {}),
        ("Resize", (X, None, np.array([1, 1e6, 1e6], np.float32)), {"mode": "linear"}),
        ("Add", (np.ones((10**6, 1), np.float32), np.ones((1, 10**6), np.float32)), {}),
        ("MatMul", (np.ones((10**6, 1), np.float32), np.ones((1, 10**6), np.float32)), {}),
        (
            "ConvTranspose",
            (np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 1, 1), np.float32)),
            {"strides": [10**6] * 2},
        ),
        (
            "Conv",
            (np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 1, 1), np.float32)),
            {"pads": [10**6] * 4},
        ),
        (
            "Conv",
            (np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32)),
            {"pads": [10**6] * 4, "strides": [10**6] * 2},
        ),
        (
            "MaxPool",
            (np.ones((1, 1, 2, 2), np.float32),),
            {"kernel_shape": [10**6] * 2, "pads": [10**6 - 1] * 4},
        ),
        (
            "ConvTranspose",
            (np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 1, 1), np.float32)),
            {"strides": [10**6] * 2, "output_shape": [1, 1]},
        ),
        ("Attention", (np.ones((1, 1, 10**6, 1), np.float32),) * 3, {}),
        (
            "RNN",
            (
                np.ones((10**6, 1, 1), np.float32),
                np.ones((1, 10**3, 1), np.float32),
                np.ones((1, 10**3, 10**3), np.float32),
            ),
            {"hidden_size": 10**3},
        ),
    ],
)
def test_trillion_elements_are_refused_before_they_are_allocated(
    op_type: str, inputs: Any, attributes: Any
) -> None:
    with pytest.raises(LimitExceededError):
        run_op(op_type, *inputs, **attributes)


def constant_node(attributes: dict[str, Attribute]) -> NodeInfo:
    return NodeInfo(
        Node(
            index=0,
            name="c",
            op_type="Constant",
            domain="",
            inputs=(),
            outputs=("y",),
            attributes=attributes,
        ),
        25,
    )


def test_sparse_constant_is_made_dense() -> None:
    sparse = SparseInitializer(
        name="s",
        values=ArrayInitializer("v", np.array([1, 2], np.float32), ElementType.FLOAT),
        indices=ArrayInitializer("i", int64(1, 3), ElementType.INT64),
        shape=(5,),
    )
    compute = constant(constant_node({"sparse_value": Attribute("SPARSE_TENSOR", sparse)}))
    assert compute(None).tolist() == [0, 1, 0, 2, 0]


def test_constant_without_a_value_is_an_invalid_graph() -> None:
    with pytest.raises(InvalidGraphError, match="Constant node 'c' has no value"):
        constant(constant_node({}))


def test_slice_clamps_what_lies_outside() -> None:
    far = 2**62
    np.testing.assert_array_equal(run_op("Slice", X, int64(-far), int64(far), int64(1)), X)
    np.testing.assert_array_equal(
        run_op("Slice", X, int64(far), int64(-far), int64(1), int64(-1)), X[:, ::-1]
    )
    assert run_op("Slice", X, int64(2), int64(1), int64(2)).shape == (2, 3, 0)
    np.testing.assert_array_equal(
        run_op("Slice", X, int64(-far), int64(-far), int64(1), int64(-1)), X[:, :1]
    )


def test_negative_pads_cut() -> None:
    np.testing.assert_array_equal(
        run_op("Pad", X, int64(0, -1, 1, 0, 0, -2)), np.pad(X[:, 1:, :2], ((0, 0), (0, 0), (1, 0)))
    )


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_longer_than_the_axis_go_on_periodically(mode: Any) -> None:
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(
        run_op("Pad", x, int64(7, 8), mode=mode), np.pad(x, (7, 8), mode=mode)
    )


def test_scattered_duplicates_add_up() -> None:
    result = run_op(
        "ScatterND",
        np.zeros(3, np.float32),
        np.array([[1], [1]]),
        np.ones(2, np.float32),
        reduction="add",
    )
    assert result.tolist() == [0, 2, 0]


def test_split_with_a_shorter_last_part() -> None:
    parts = run_op("Split", np.arange(7), outputs=3, num_outputs=3)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6]]


def test_top_k_prefers_the_lower_index_among_equals() -> None:
    values, indices = run_op("TopK", np.array([1, 3, 3, 2], np.float32), int64(3), outputs=2)
    assert (values.tolist(), indices.tolist()) == ([3, 3, 2], [1, 2, 3])
    _, smallest = run_op("TopK", np.array([2, 1, 1], np.int32), int64(2), outputs=2, largest=0)
    assert smallest.tolist() == [1, 2]


def test_unique_strings_in_order_of_appearance() -> None:
    values, first, inverse, counts = run_op(
        "Unique", np.array(["b", "a", "b"], object), outputs=4, sorted=0
    )
    assert values.tolist() == ["b", "a"]
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([0, 1], [0, 1, 0], [2, 1])


@pytest.mark.parametrize("kind", ["numbers", "texts", "without order"])
def test_unique_slices_are_those_of_numpy(kind: str) -> None:
    random = np.random.default_rng(28)
    for _ in range(100):
        shape = tuple(random.integers(0, 6, random.integers(1, 4)).tolist())
        axis = int(random.integers(0, len(shape)))
        x: Any = random.integers(0, 3, shape)
        if kind == "without order":
            x = np.where(random.random(shape) < 0.1, np.nan, x.astype(np.float32))
        x = x.astype(str) if kind == "texts" else x
        expected = np.unique(
            x,
            return_index=True,
            return_inverse=True,
            return_counts=True,
            axis=axis if x.ndim > 1 else None,  # numpy 2.0 takes NaNs for one only without an axis
        )

        fed = x.astype(object) if kind == "texts" else x
        found = run_op("Unique", fed, outputs=4, axis=axis)

        np.testing.assert_array_equal(found[0].astype(x.dtype), expected[0])
        for ours, theirs in zip(found[1:], expected[1:], strict=True):
            assert ours.tolist() == theirs.reshape(-1).tolist()


def test_one_hot_leaves_indices_outside_off() -> None:
    result = run_op("OneHot", int64(-1, 3, 0), np.array(3), np.array([0, 1], np.int32))
    assert result.tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 10, 3), (10, 0, -4), (5, 5, 1), (3, -3, 2)]
)
def test_range_is_that_of_python(start: int, limit: int, delta: int) -> None:
    result = run_op("Range", *(np.array(value) for value in (start, limit, delta)))
    assert result.tolist() == list(range(start, limit, delta))


def test_empty_tensors_pass_through() -> None:
    empty = np.empty((0, 3), np.float32)
    assert run_op("Transpose", empty).shape == (3, 0)
    assert run_op("Concat", empty, np.ones((2, 3), np.float32), axis=0).shape == (2, 3)
    assert run_op("Gather", np.ones((2, 3), np.float32), np.empty(0, np.int64)).shape == (0, 3)
    assert run_op("NonZero", np.zeros((2, 2), np.float32)).shape == (2, 0)
    assert run_op(
        "Resize", empty, None, None, int64(0, 6), axes=[0, 1], mode="nearest", opset=18
    ).shape == (0, 6)


def test_strings_move_like_numbers() -> None:
    words = np.array([["a", "b"], ["c", "d"]], object)
    assert run_op("Transpose", words).tolist() == [["a", "c"], ["b", "d"]]
    assert run_op("Gather", words, int64(1)).tolist() == [["c", "d"]]
    assert run_op("Pad", words, int64(0, 0, 0, 1)).tolist() == [["a", "b", ""], ["c", "d", ""]]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_takes_both_parts_of_complex_numbers(mode: str) -> None:
    real, imaginary = (
        np.random.default_rng(seed).normal(size=(2, 5)).astype(np.float32) for seed in (0, 1)
    )
    scales = np.float32([1, 2.5])  # type: ignore[arg-type]

    def resized(x: np.ndarray) -> np.ndarray:
        return np.asarray(run_op("Resize", x, None, scales, mode=mode))

    found = resized(real + np.complex64(1j) * imaginary)

    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, resized(real) + 1j * resized(imaginary), rtol=1e-6)


def test_resize_of_bytes_does_not_wrap() -> None:
    x = np.array([[[[0, 255, 255, 0]]]], np.uint8)
    scales = np.array([1, 1, 1, 4], np.float32)
    cubic = run_op("Resize", x, None, scales, mode="cubic").ravel()
    assert cubic[5:11].min() > 200
    assert cubic[0] == 0
