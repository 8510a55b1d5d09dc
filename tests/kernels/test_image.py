"""AffineGrid, CenterCropPad, MaxUnpool, GridSample, FlexAttention: sizes from data, misfits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidGraphError, LimitExceededError
from tests.kernels.node_runner import as_node, compute_node, run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

THETA = np.zeros((1, 2, 3), np.float32)
IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("AffineGrid", (THETA, np.array([1, 1, 10**5, 10**5])), {}),
        ("CenterCropPad", (IMAGE, np.array([1, 1, 10**6, 10**6])), {}),
        (
            "MaxUnpool",
            (IMAGE, np.zeros((1, 1, 4, 4), np.int64), np.array([1, 1, 10**6, 10**6])),
            {"kernel_shape": [1, 1]},
        ),
        (
            "MaxUnpool",
            (IMAGE, np.zeros((1, 1, 4, 4), np.int64)),
            {"kernel_shape": [1, 1], "strides": [10**6, 10**6]},
        ),
        (
            "GridSample",
            (np.zeros((1, 10**4, 1, 1), np.float32), np.zeros((1, 200, 200, 2), np.float32)),
            {},
        ),
    ],
)
def test_output_of_untrusted_size_is_refused(op_type: str, inputs: Any, attributes: Any) -> None:
    with pytest.raises(LimitExceededError):
        run_op(op_type, *inputs, limit_nbytes=10**8, **attributes)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "problem"),
    [
        (
            "AffineGrid",
            (THETA, np.array([2, 1, 3, 3])),
            {},
            r"theta of shape \(1, 2, 3\) does not transform",
        ),
        (
            "CenterCropPad",
            (IMAGE, np.array([1, 2])),
            {},
            r"shape \(1, 2\) has not one size for each",
        ),
        (
            "Col2Im",
            (np.zeros((1, 4, 5), np.float32), np.array([3, 3]), np.array([2, 2])),
            {},
            r"at \(2, 2\) positions",
        ),
        (
            "MaxUnpool",
            (IMAGE, np.full((1, 1, 4, 4), 99)),
            {"kernel_shape": [1, 1]},
            "an index of MaxUnpool is outside",
        ),
        ("GridSample", (IMAGE, np.zeros((1, 2, 2, 3), np.float32)), {}, "does not place points"),
    ],
)
def test_misfits_are_refused(op_type: str, inputs: Any, attributes: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        run_op(op_type, *inputs, **attributes)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_agrees_with_onnxruntime(
    mode: str, padding_mode: str, align_corners: int
) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 3, 5, 7)).astype(np.float32)
    grid = random.uniform(-2.5, 2.5, (2, 6, 4, 2)).astype(np.float32)
    attributes: dict[str, Any] = {
        "mode": mode,
        "padding_mode": padding_mode,
        "align_corners": align_corners,
    }
    expected = run_on_onnxruntime("GridSample", x, grid, domain="", **attributes)
    np.testing.assert_allclose(run_op("GridSample", x, grid, **attributes), expected, atol=2e-5)


def test_grid_sample_16_calls_linear_bilinear() -> None:
    from onnx import helper

    node = as_node(helper.make_node("GridSample", ["x", "g"], ["y"]), {"": 16})
    bilinear = as_node(helper.make_node("GridSample", ["x", "g"], ["y"], mode="bilinear"), {"": 16})
    grid = np.full((1, 1, 1, 2), 0.3, np.float32)
    assert compute_node(node, [IMAGE, grid], 16)[0] == compute_node(bilinear, [IMAGE, grid], 16)[0]


def test_grid_sample_puts_nan_outside() -> None:
    assert run_op("GridSample", IMAGE + 1, np.full((1, 1, 1, 2), np.nan, np.float32)).item() == 0


def test_unknown_mode_is_an_error_with_the_nodes_name() -> None:
    with pytest.raises(InvalidGraphError, match="no mode 'spline' with padding 'zeros'"):
        run_op("GridSample", IMAGE, np.zeros((1, 1, 1, 2), np.float32), mode="spline")


def test_attention_heads_that_do_not_fit_are_refused() -> None:
    query, key = np.zeros((1, 3, 2, 4), np.float32), np.zeros((1, 2, 5, 4), np.float32)
    with pytest.raises(ValueError, match="query, key and value of shapes"):
        run_op("FlexAttention", query, key, key, domain="ai.onnx.preview")
