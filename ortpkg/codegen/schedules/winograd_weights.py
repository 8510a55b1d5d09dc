"""Weights of a Winograd convolution: transformed, in the order in which its kernel reads them.

The order is (output blocks, points, source channels, lanes of the output).
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.scheduled_kernel import Packing
from ortpkg.codegen.schedules.winograd_transforms import TAKEN, transformed_weights
from ortpkg.codegen.tensor_ir.elements import Tensor


def winograd_weights(weights: Tensor, lanes: int) -> tuple[Tensor, Packing]:
    """The packed tensor, of constant weights (output channels, channels, 3, 3), and its packing."""
    channels, depth = (each for each in weights.shape[:2] if isinstance(each, int))
    blocks, source_blocks = -(-channels // lanes), -(-depth // lanes)
    shape = (blocks, TAKEN * TAKEN, source_blocks * lanes, lanes)

    def pack(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # loaded where weights are packed: schedules are made without numpy
        import numpy as np

        made = np.zeros(shape, np.float32)
        given = np.zeros((blocks * lanes, *value.shape[1:]), value.dtype)
        given[:channels] = value
        for point, plane in enumerate(transformed_weights(given)):
            by_lane = plane.reshape(blocks, lanes, depth)
            made[:, point, :depth] = by_lane.transpose(0, 2, 1)
        return made

    packed = Tensor(f"{weights.name} transformed", Scalar.F32, shape)
    return packed, Packing(source=weights, layout=f"Winograd, blocks of {lanes}", pack=pack)
