"""Object detection: NonMaxSuppression and MaxRoiPool."""

from __future__ import annotations

import math

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.axes import grid
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_INT64 = np.dtype(np.int64)
#: Arrays with one or four numbers for each box that suppression by the best box makes.
_BOX_ARRAYS = 4
#: Bytes of an array besides its elements.
_PART_NBYTES = 128
#: Bytes of one cell of a grid over a region, per axis.
_CELL_NBYTES = 400


def _number(x: Tensor | None, default: float) -> float:
    return default if x is None or not x.size else float(x.reshape(-1)[0])


@kernel("NonMaxSuppression", since=(10, 11), uses_output_buffer=False)
def non_max_suppression(info: OpKernelInfo) -> Compute:
    """Rows of (batch, class, box), the boxes of each class by falling score.

    Of equal scores, the lower index comes first.
    """
    is_centred = bool(info.attribute("center_point_box", 0))

    def compute(
        context: OpKernelContext,
        boxes: Tensor,
        scores: Tensor,
        most: Tensor | None = None,
        iou_threshold: Tensor | None = None,
        score_threshold: Tensor | None = None,
    ) -> Tensor:
        if (
            boxes.ndim != 3
            or scores.ndim != 3
            or boxes.shape[2] != 4
            or boxes.shape[:2] != scores.shape[::2]
        ):
            raise ValueError(
                "boxes (batch, boxes, 4) and scores (batch, classes, boxes) do not fit:"
                f" {boxes.shape}, {scores.shape}"
            )
        limit = max(int(_number(most, 0)), 0)
        if not limit or not scores.size:
            return np.empty((0, 3), np.int64)
        # Corners and the arrays they are computed from; indices, areas and overlaps of one class.
        box_nbytes = 4 * boxes.itemsize
        context.check_allocation(
            3 * boxes.nbytes + boxes.shape[1] * (_BOX_ARRAYS * box_nbytes + 2 * _INT64.itemsize)
        )
        iou, lowest = _number(iou_threshold, 0.0), _number(score_threshold, -math.inf)
        corners = _corners(boxes, is_centred)
        rows, rows_nbytes = [], 0
        for batch, class_ in grid(*map(range, scores.shape[:2])):
            context.check_cancelled()
            chosen = _suppressed(context, corners[batch], scores[batch, class_], limit, iou, lowest)
            rows.append(
                np.stack(
                    [np.full_like(chosen, batch), np.full_like(chosen, class_), chosen], axis=1
                )
            )
            rows_nbytes += rows[-1].nbytes + _PART_NBYTES
            context.check_allocation(rows_nbytes)
        return np.concatenate(rows)

    return compute


def _corners(boxes: Tensor, is_centred: bool) -> Tensor:
    """Return boxes as (least first coordinate, least second, greatest first, greatest second)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        return np.concatenate([first - second / 2, first + second / 2], axis=-1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _suppressed(
    context: OpKernelContext, corners: Tensor, scores: Tensor, limit: int, iou: float, lowest: float
) -> Tensor:
    """Return the indices of the boxes (N, 4) that stay, at most ``limit``."""
    candidates = np.argsort(-scores, kind="stable")
    if lowest > -math.inf:
        candidates = candidates[scores[candidates] > np.float32(lowest)]
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    chosen: list[int] = []
    while candidates.size and len(chosen) < limit:
        context.check_cancelled()
        best, candidates = int(candidates[0]), candidates[1:]
        chosen.append(best)
        extents = np.minimum(corners[candidates, 2:], corners[best, 2:])
        extents = np.maximum(extents - np.maximum(corners[candidates, :2], corners[best, :2]), 0)
        common = extents[:, 0] * extents[:, 1]
        union = areas[candidates] + areas[best] - common
        overlaps = (
            (common > 0)
            & (areas[candidates] > 0)
            & (areas[best] > 0)
            & (common > np.float32(iou) * union)
        )
        candidates = candidates[~overlaps]
    return np.array(chosen, dtype=np.int64)


@kernel("MaxRoiPool", since=(1, 22))
def max_roi_pool(info: OpKernelInfo) -> Compute:
    """Maximum over each cell of a grid laid over each region (batch index, x1, y1, x2, y2).

    Empty cells give 0.
    """
    height, width = (int(size) for size in info.attribute("pooled_shape"))
    scale = float(info.attribute("spatial_scale", 1.0))

    def compute(context: OpKernelContext, x: Tensor, regions: Tensor) -> Tensor:
        if x.ndim != 4 or regions.ndim != 2 or regions.shape[1] != 5 or min(height, width) < 1:
            raise ValueError(
                f"x of shape {x.shape} and regions of shape {regions.shape} do not fit (N, C, H,"
                " W), (R, 5)"
            )
        out = context.output(0, (regions.shape[0], x.shape[1], height, width), x.dtype)
        context.check_allocation((height + width) * _CELL_NBYTES + regions.size * 8)
        for index, region in enumerate(regions.astype(np.float64)):
            context.check_cancelled()
            batch = int(region[0])
            if not 0 <= batch < x.shape[0]:
                raise ValueError(f"region {index} names image {batch} of {x.shape[0]}")
            left, top, right, bottom = (
                int(math.floor(abs(v) + 0.5) * np.sign(v)) for v in region[1:] * scale
            )
            rows = _cells(top, bottom, height, x.shape[2])
            columns = _cells(left, right, width, x.shape[3])
            for row, column in grid(range(height), range(width)):
                poll_run()
                cell = x[batch, :, rows[row], columns[column]]
                out[index, :, row, column] = cell.max(axis=(1, 2)) if cell.size else 0
        return out

    return compute


def _cells(start: int, end: int, count: int, size: int) -> list[slice]:
    """Return the slices of an axis of ``size`` for ``count`` cells from ``start`` to ``end``."""
    step = max(end - start + 1, 1) / count
    edges = [
        (math.floor(i * step) + start, math.ceil((i + 1) * step) + start) for i in range(count)
    ]
    return [slice(min(max(low, 0), size), min(max(high, 0), size)) for low, high in edges]
