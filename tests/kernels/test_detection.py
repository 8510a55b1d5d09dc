"""NonMaxSuppression and MaxRoiPool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime


def random_boxes(count: int = 60) -> tuple[Tensor, Tensor]:
    """(2 images, boxes, corners in any order) and scores of 3 classes, with ties."""
    random = np.random.default_rng(0)
    boxes = random.uniform(0, 10, (2, count, 4)).astype(np.float32)
    return boxes, random.integers(0, 20, (2, 3, count)).astype(np.float32) / 20


@pytest.mark.parametrize("center_point_box", [0, 1])
@pytest.mark.parametrize("iou", [0.0, 0.3, 1.0])
def test_suppression_agrees_with_onnxruntime(center_point_box: int, iou: float) -> None:
    limits = (np.array([9], np.int64), np.array([iou], np.float32), np.array([0.25], np.float32))
    inputs = (*random_boxes(), *limits)
    found = run_op("NonMaxSuppression", *inputs, center_point_box=center_point_box)
    expected = run_on_onnxruntime(
        "NonMaxSuppression", *inputs, domain="", center_point_box=center_point_box
    )
    assert found.tolist() == expected.tolist()


def test_without_a_limit_nothing_is_selected() -> None:
    assert run_op("NonMaxSuppression", *random_boxes()).shape == (0, 3)


def test_boxes_and_scores_that_do_not_fit_are_refused() -> None:
    boxes, scores = random_boxes()
    with pytest.raises(ValueError, match=r"do not fit: \(2, 60, 4\), \(2, 3, 59\)"):
        run_op("NonMaxSuppression", boxes, scores[..., 1:])


def test_roi_pool_agrees_with_onnxruntime() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 12, 10)).astype(np.float32)
    regions = np.array(
        [[0, 0, 0, 5, 5], [1, 2.5, 3.5, 8, 11], [1, 9, 9, 2, 2], [0, -3, -3, 40, 40]], np.float32
    )
    attributes: dict[str, Any] = {"pooled_shape": [3, 2], "spatial_scale": 0.5}
    found = run_op("MaxRoiPool", x, regions, **attributes)
    np.testing.assert_array_equal(
        found, run_on_onnxruntime("MaxRoiPool", x, regions, domain="", **attributes)
    )


def test_region_of_an_image_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="region 0 names image 7 of 1"):
        run_op(
            "MaxRoiPool",
            np.zeros((1, 1, 4, 4), np.float32),
            np.array([[7, 0, 0, 1, 1]], np.float32),
            pooled_shape=[1, 1],
        )
