"""Kernels on a stranger's sizes: memory is asked for before it is taken."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels.axes import grid
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op

LIMIT_NBYTES = 8 << 20
ONE, TWO = np.array(1, np.float32), np.array(2, np.float32)
#: Operator → inputs of which it takes many times the limit, and attributes.
LARGE: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "AffineGrid": ((np.ones((1, 2, 3), np.float32), np.array([1, 1, 400, 400])), {}),
    "ArgMax": ((np.ones(9_000_000, np.uint8),), {"axis": 0, "select_last_index": 1}),
    "Attention": ((np.ones((1, 1, 2, 300_000), np.float16),) * 3, {}),
    "AveragePool": ((np.ones((1, 1, 1_000_000), np.float16),), {"kernel_shape": [1]}),
    "BatchNormalization": (
        (np.ones((1, 1, 1_000_000), np.float16), *(np.ones(1, np.float16),) * 4),
        {},
    ),
    "Bernoulli": ((np.ones(500_000, np.float32),), {}),
    "Compress": ((np.ones(2_000_000, np.uint8), np.ones(2_000_000, np.bool_)), {}),
    "ConvInteger": ((np.ones((1, 1, 3), np.uint8), np.ones((1_000_000, 1, 1), np.int8)), {}),
    "CumSum": ((np.ones(1_000_000, np.float16), np.array(0)), {}),
    "DequantizeLinear": (
        (np.ones(1_500_000, np.uint8), np.ones(1_500_000, np.float32)),
        {"axis": 0, "block_size": 1},
    ),
    "DFT": ((np.ones((1, 99_991, 1), np.float32),), {}),
    "Div": ((np.ones(1_500_000, np.int32), np.ones(1, np.int32)), {}),
    "Dropout": (
        (np.ones(600_000, np.float32), np.array(0.5, np.float32), np.array(True)),
        {},
    ),
    "FlexAttention": (
        (np.ones((1, 1, 400_000, 1), np.float32), *(np.ones((1, 1, 1, 1), np.float32),) * 2),
        {"domain": "ai.onnx.preview"},
    ),
    "Gather": ((np.ones(10, np.float32), np.zeros(1_000_000, np.int32)), {}),
    "GatherElements": ((np.ones(1, np.uint8), np.zeros(1_000_000, np.int32)), {}),
    "GatherND": ((np.ones(10, np.float32), np.zeros((1_000_000, 1), np.int32)), {}),
    "Gemm": ((np.ones((1000, 500), np.float16), np.ones((500, 1000), np.float16)), {}),
    "GlobalAveragePool": ((np.ones((1, 1, 3_000_000), np.float16),), {}),
    "HannWindow": ((np.array(300_000),), {}),
    "InstanceNormalization": (
        (np.ones((1, 1, 4_100_000), np.float16), *(np.ones(1, np.float16),) * 2),
        {},
    ),
    "IsInf": ((np.ones(4_300_000, np.float16),), {"detect_negative": 0}),
    "LayerNormalization": (
        (np.ones((1000, 1000), np.float16), np.ones(1000, np.float16)),
        {},
    ),
    "LRN": ((np.ones((1, 2, 600_000), np.float32),), {"size": 3}),
    "LpNormalization": ((np.ones(1_000_000, np.float32),), {}),
    "LpPool": ((np.ones((1, 1, 1_000_000), np.float32),), {"kernel_shape": [1]}),
    "MatMul": ((np.ones((1000, 500), np.float16), np.ones((500, 1000), np.float16)), {}),
    "MatMulInteger": ((np.ones((1, 500_000), np.uint8), np.ones((500_000, 1), np.int8)), {}),
    "MatMulNBits": (
        (
            np.ones((1, 1024), np.float32),
            np.ones((512, 64, 8), np.uint8),
            np.ones((512, 64), np.float32),
        ),
        {"domain": "com.microsoft", "K": 1024, "N": 512, "block_size": 16},
    ),
    "MaxRoiPool": (
        (np.ones((1, 1, 1, 1), np.float32), np.zeros((1, 5), np.float32)),
        {"pooled_shape": [30_000, 1]},
    ),
    "MeanVarianceNormalization": ((np.ones((1, 1, 1, 1_000_000), np.float16),), {}),
    "Multinomial": ((np.ones((1, 400_000), np.float32),), {}),
    "NonMaxSuppression": (
        (
            np.ones((1, 100_000, 4), np.float32),
            np.ones((1, 1, 100_000), np.float32),
            np.array([1]),
        ),
        {},
    ),
    "NonZero": ((np.ones(700_000, np.bool_),), {}),
    "OneHot": ((np.zeros(300_000, np.int64), np.array(1), np.array([0, 1], np.uint8)), {}),
    "Optional": ((np.ones(1_100_000),), {}),
    "Pad": ((np.ones(3, np.float32), np.array([400_000, 400_000])), {"mode": "reflect"}),
    "Pow": ((np.ones(500_000, np.int32), np.full(500_000, 0.5, np.float32)), {}),
    "PRelu": ((np.ones(1_000_000, np.float32), np.ones(1, np.float32)), {}),
    "QLinearConcat": (
        (ONE, np.array(0, np.uint8), np.ones(700_000, np.uint8), TWO, np.array(0, np.uint8)),
        {"domain": "com.microsoft", "axis": 0},
    ),
    "QLinearSoftmax": (
        (np.ones(800_000, np.uint8), ONE, np.array(0, np.uint8), ONE, np.array(0, np.uint8)),
        {"domain": "com.microsoft"},
    ),
    "QuantizeLinear": (
        (np.ones((2, 1_000_000), np.float32), np.ones(2, np.float32), np.zeros(2, np.uint8)),
        {"axis": 0},
    ),
    "RandomNormal": ((), {"shape": [1_100_000]}),
    "Range": (
        tuple(np.array(value, np.float32) for value in (0, 900_000, 1)),
        {},
    ),
    "ReduceL2": ((np.ones(2_000_000, np.float16),), {}),
    "ReduceLogSumExp": ((np.ones(1_000_000, np.int8),), {}),
    "Resize": (
        (np.ones((1000, 1000), np.float32), None, np.array([1.5, 1], np.float32)),
        {"mode": "linear"},
    ),
    "ReverseSequence": ((np.ones((300_000, 2), np.float16), np.array([1, 2])), {}),
    "RotaryEmbedding": (
        (np.ones((1, 2, 500, 1000), np.float16), *(np.ones((1, 500, 500), np.float16),) * 2),
        {},
    ),
    "ScatterElements": (
        (np.ones(1_500_000, np.float32), np.array([0]), np.ones(1, np.float32)),
        {"reduction": "add"},
    ),
    "SkipLayerNormalization": (
        (*(np.ones((1000, 1000), np.float16),) * 2, np.ones(1000, np.float16)),
        {"domain": "com.microsoft"},
    ),
    "Softmax": ((np.ones((1, 500_000), np.float32),), {}),
    "SplitToSequence": ((np.ones(100_000, np.float32),), {}),
    "STFT": ((np.ones((1, 300_000), np.float32), np.array(1), None, np.array(2)), {}),
    "TopK": ((np.ones(1_100_000, np.float32), np.array([1])), {}),
    "Trilu": ((np.ones((3000, 1500), np.uint8),), {}),
    "Unique": ((np.array(["a"] * 1000 + ["a" * 10_000], dtype=object),), {"axis": 0}),
}
#: Operators that take more than the limit in a place beside that which ``LARGE`` reaches.
LARGE_ELSEWHERE: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("AveragePool", (np.ones((1, 1, 200_000), np.float32),), {"kernel_shape": [1]}),
    ("StringConcat", (np.array(["ß"] * 100_000, object), np.array("", object)), {}),
    (
        "MatMulIntegerToFloat",
        (
            *(np.ones((1200, 1), np.uint8), np.ones((1, 1200), np.uint8)),
            *(np.ones(1200, np.float32),) * 2,
        ),
        {"domain": "com.microsoft"},
    ),
    (
        "MultiHeadAttention",
        (
            *(np.ones((10_000, 1, 8), np.float32),) * 3,
            *(None, None, None),
            *(np.ones((10_000, 1, 8, 8), np.float32),) * 2,
        ),
        {"domain": "com.microsoft", "num_heads": 1, "outputs": 3, "limit_nbytes": 9 << 20},
    ),
    ("TopK", (np.ones(500_000, np.int64), np.array([1])), {}),
]
MICROSOFT = ("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm")
#: Quantized operators → inputs of which a scale fits nothing.
WIDE = np.ones(3_000_000, np.float16)
ZERO = np.array(0, np.uint8)
MISFITS: dict[str, tuple[Any, ...]] = {
    "QLinearMatMul": (
        *(np.ones((2, 2), np.uint8), WIDE, ZERO),
        *(np.ones((2, 2), np.uint8), np.float16(1), ZERO),
        *(np.float16(1), ZERO),
    ),
    "DynamicQuantizeMatMul": (
        *(np.ones((2, 2), np.float32), np.ones((2, 2), np.uint8), WIDE.astype(np.float32)),
    ),
    "MatMulIntegerToFloat": (
        *(np.ones((2, 2), np.uint8),) * 2,
        *(np.float32(1), WIDE.astype(np.float32)),
    ),
    "QGemm": (
        *(np.ones((2, 2), np.uint8), np.float32(1), ZERO),
        *(np.ones((2, 2), np.uint8), WIDE.astype(np.float32), ZERO),
    ),
    "QLinearConv": (
        *(np.ones((1, 1, 3), np.uint8), np.float32(1), ZERO),
        *(np.ones((1, 1, 1), np.uint8), WIDE.astype(np.float32), ZERO),
        *(np.float32(1), ZERO),
    ),
}
TRILLION = 1 << 40


def none(*shape: int) -> Tensor:
    """An array without elements, however many rows it has."""
    return np.empty(shape, np.float32)


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Gives what tells, also afterwards, the most bytes that were taken at a time within."""
    most = 0
    tracemalloc.start()
    try:
        yield lambda: most
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()


NO_INDICES = np.empty((TRILLION, 0), np.int64)

#: Inputs without elements, however many rows they have: what makes an output, and its shape.
EMPTY: list[tuple[Callable[[], Tensor], tuple[int, ...]]] = [
    (lambda: run_op("MatMul", none(TRILLION, 0, 3), none(3, 4)), (TRILLION, 0, 4)),
    (lambda: run_op("BatchNormalization", none(TRILLION, 0), *(none(0),) * 4), (TRILLION, 0)),
    (
        lambda: run_op(
            "ConvTranspose", np.broadcast_to(np.float32(1), (TRILLION, 2, 3)), none(2, 0, 3)
        ),
        (TRILLION, 0, 5),
    ),
    (lambda: run_op("LayerNormalization", none(TRILLION, 0), none(0)), (TRILLION, 0)),
    (lambda: run_op("RMSNormalization", none(TRILLION, 0), none(0)), (TRILLION, 0)),
    (lambda: run_op("LpNormalization", none(TRILLION, 0)), (TRILLION, 0)),
    (
        lambda: run_op("MeanVarianceNormalization", none(TRILLION, 0), axes=[1]),
        (TRILLION, 0),
    ),
    (lambda: run_op("Trilu", none(TRILLION, 0)), (TRILLION, 0)),
    (lambda: run_op("TopK", none(TRILLION, 0), np.array([0]), outputs=2)[0], (TRILLION, 0)),
    (lambda: run_op("GatherElements", none(TRILLION, 0), NO_INDICES, axis=1), (TRILLION, 0)),
    (
        lambda: run_op("GatherND", none(TRILLION, 0), NO_INDICES[..., None], batch_dims=1),
        (TRILLION, 0),
    ),
    (
        lambda: run_op("ScatterElements", none(TRILLION, 0), NO_INDICES, none(TRILLION, 0), axis=1),
        (TRILLION, 0),
    ),
    (lambda: run_op("ReverseSequence", none(TRILLION, 0), NO_INDICES[0]), (TRILLION, 0)),
    (lambda: run_op("TensorScatter", none(TRILLION, 0, 1), none(TRILLION, 0, 1)), (TRILLION, 0, 1)),
    (
        lambda: run_op("GridSample", none(TRILLION, 1, 0, 0), none(TRILLION, 0, 0, 2)),
        (TRILLION, 1, 0, 0),
    ),
    (
        lambda: run_op("NonMaxSuppression", none(1, 0, 4), none(1, TRILLION, 0), np.array([1])),
        (0, 3),
    ),
    (
        lambda: run_op("GRU", none(TRILLION, 0, 1), none(1, 3, 1), none(1, 3, 1), hidden_size=1),
        (TRILLION, 1, 0, 1),
    ),
    (
        lambda: run_op(
            "MatMulNBits",
            none(TRILLION, 0, 16),
            np.zeros((4, 1, 8), np.uint8),
            np.ones(4, np.float32),
            domain="com.microsoft",
            K=16,
            N=4,
            block_size=16,
        ),
        (TRILLION, 0, 4),
    ),
    (
        lambda: run_op(
            "SkipLayerNormalization", *(none(TRILLION, 0),) * 2, none(0), domain="com.microsoft"
        ),
        (TRILLION, 0),
    ),
]
#: Operator → inputs without elements, attributes, and what it makes that has as many as they have
#: rows.
ONE_PER_ROW: dict[str, tuple[tuple[Any, ...], dict[str, Any], int]] = {
    "LayerNormalization": ((none(TRILLION, 0), none(0)), {}, 3),
    "Unique": ((none(TRILLION, 0),), {"axis": 0}, 4),
    "LSTM": ((none(0, TRILLION, 1), none(1, 4, 1), none(1, 4, 1)), {"hidden_size": 1}, 3),
}


@pytest.mark.parametrize("op_type", LARGE)
def test_what_a_kernel_takes_beside_its_output_is_asked_for(op_type: str) -> None:
    inputs, attributes = LARGE[op_type]
    with pytest.raises(LimitExceededError) as caught:
        run_op(op_type, *inputs, limit_nbytes=LIMIT_NBYTES, **attributes)
    assert caught.value.limit == "memory"


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), LARGE_ELSEWHERE)
def test_so_is_what_it_takes_elsewhere(
    op_type: str, inputs: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    with pytest.raises(LimitExceededError) as caught:
        run_op(op_type, *inputs, **{"limit_nbytes": LIMIT_NBYTES, **attributes})
    assert caught.value.limit == "memory"


@pytest.mark.parametrize("op_type", MISFITS)
def test_a_scale_that_fits_nothing_is_refused_before_it_is_widened(op_type: str) -> None:
    inputs = map(np.asarray, MISFITS[op_type])
    domain = "com.microsoft" if op_type in MICROSOFT else ""
    with traced() as most_nbytes, pytest.raises(ValueError, match=r"do not (fit|broadcast)"):
        run_op(op_type, *inputs, domain=domain)
    assert most_nbytes() < WIDE.nbytes


def test_a_zero_point_that_fits_nothing_is_refused_before_it_is_widened() -> None:
    one = np.array(1, np.float32)
    square = np.ones((2, 2), np.uint8)
    wide = np.zeros(3_000_000, np.uint8)
    with traced() as most_nbytes, pytest.raises(ValueError, match=r"do not (fit|broadcast)"):
        run_op("QLinearMatMul", square, one, ZERO, square, one, ZERO, one, wide)
    assert most_nbytes() < wide.nbytes


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("RNN", ((3, 1, 1 << 20), (1, 4, 1 << 20), (1, 4, 4)), {"hidden_size": 4}),
        ("Gemm", ((3, 1 << 20), (4, 1 << 20)), {"transB": 1}),
    ],
    ids=["RNN", "Gemm"],
)
def test_widened_factors_of_a_product_are_asked_for(
    op_type: str, inputs: tuple[tuple[int, ...], ...], attributes: dict[str, Any]
) -> None:
    arrays, widened_nbytes = [np.ones(shape, np.float16) for shape in inputs], 28 << 20
    with pytest.raises(LimitExceededError):
        run_op(op_type, *arrays, limit_nbytes=widened_nbytes - (1 << 20), **attributes)
    with traced() as taken, ThreadPoolExecutor(1) as thread:
        limit_nbytes = widened_nbytes + (1 << 20)
        thread.submit(run_op, op_type, *arrays, limit_nbytes=limit_nbytes, **attributes).result()
    assert widened_nbytes - (1 << 20) < taken() < limit_nbytes


def test_chosen_features_are_computed_in_their_place() -> None:
    x, positions = np.ones((3, 4), np.float32), np.zeros(1 << 20, np.int64)
    with traced() as taken:
        run_op("ArrayFeatureExtractor", x, positions, domain="ai.onnx.ml", limit_nbytes=21 << 20)
    assert taken() < 21 << 20  # 12 of the output, 8 of positions that are read-only


def test_intercepts_that_are_not_stated_take_no_memory() -> None:
    with traced() as taken, pytest.raises(LimitExceededError):
        run_op(
            "LinearRegressor",
            np.ones((1, 0), np.float32),
            domain="ai.onnx.ml",
            targets=1 << 40,
            limit_nbytes=1 << 20,
        )
    assert taken() < 1 << 20


def test_where_elements_go_is_asked_for_before_it_is_found() -> None:
    data, places = np.ones((2_000_000, 1), np.uint8), np.zeros((2_000_000, 1), np.int64)
    with traced() as most_nbytes, pytest.raises(LimitExceededError):
        run_op("ScatterElements", data, places, data, limit_nbytes=LIMIT_NBYTES, axis=1)
    assert most_nbytes() < LIMIT_NBYTES


def test_keys_behind_past_ones_are_kept_once() -> None:
    past, new = np.ones((1, 1, 50_000, 8), np.float32), np.ones((1, 1, 1, 8), np.float32)
    with traced() as most_nbytes:
        found = run_op("Attention", new, new, new, None, past, past, outputs=3)
    assert found[1].shape == found[2].shape == (1, 1, 50_001, 8)
    assert most_nbytes() < 4 * past.nbytes


def test_classes_of_boxes_are_not_listed() -> None:
    scores = np.broadcast_to(np.float32(1), (1, TRILLION, 1))
    with pytest.raises(LimitExceededError):
        run_op(
            "NonMaxSuppression",
            np.ones((1, 1, 4), np.float32),
            scores,
            np.array([1]),
            limit_nbytes=1 << 19,
        )


def test_places_are_walked_without_a_list_of_them() -> None:
    places = grid(range(2), range(TRILLION))
    assert [next(places) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert list(grid(range(2), range(1, 4, 2))) == [(0, 1), (0, 3), (1, 1), (1, 3)]
    assert list(grid()) == [()]


@pytest.mark.parametrize("op_type", ONE_PER_ROW)
def test_what_rows_without_elements_make_is_asked_for(op_type: str) -> None:
    inputs, attributes, outputs = ONE_PER_ROW[op_type]
    with pytest.raises(LimitExceededError) as caught:
        run_op(op_type, *inputs, outputs=outputs, **attributes)
    assert caught.value.limit == "memory"


def test_statistics_of_rows_without_elements_are_no_numbers() -> None:
    _, mean, inverse = run_op("LayerNormalization", none(3, 0), none(0), outputs=3)
    assert mean.shape == inverse.shape == (3, 1)
    assert np.isnan(mean).all()
    assert np.isnan(inverse).all()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("make", "shape"), EMPTY)
def test_rows_without_elements_take_no_time(
    make: Callable[[], Tensor], shape: tuple[int, ...]
) -> None:
    assert make().shape == shape


@pytest.mark.parametrize(
    ("op_type", "expected"), [("MaxPool", 7.0), ("AveragePool", 3.5), ("LpPool", 140**0.5)]
)
def test_a_window_far_larger_than_its_input_takes_no_longer_than_that(
    op_type: str, expected: float
) -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    found = run_op(op_type, x, kernel_shape=[1 << 40], auto_pad="SAME_UPPER")

    np.testing.assert_allclose(found, np.full((1, 1, 8), expected), rtol=1e-6)


def test_positions_in_a_large_window_count_towards_the_memory_limit() -> None:
    x = np.ones((1, 1, 100_000), np.float32)
    with pytest.raises(LimitExceededError):
        run_op(
            "MaxPool", x, limit_nbytes=LIMIT_NBYTES, kernel_shape=[99_999], auto_pad="SAME_UPPER"
        )


def test_classes_of_no_index_take_no_memory() -> None:
    values = np.array([0, 1], np.uint8)
    found = run_op(
        "OneHot", np.empty(0, np.int64), np.array(TRILLION), values, limit_nbytes=LIMIT_NBYTES
    )

    assert found.shape == (0, TRILLION)


def test_maps_of_many_rows_are_asked_for() -> None:
    with pytest.raises(LimitExceededError):
        run_op(
            "ZipMap",
            np.ones((100_000, 1), np.float32),
            domain="ai.onnx.ml",
            limit_nbytes=LIMIT_NBYTES,
            classlabels_int64s=[1],
        )


def test_more_axes_than_a_tensor_has_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="a list of 100000 integers is too long here"):
        run_op("Unsqueeze", np.ones(1, np.float32), np.arange(100_000))
