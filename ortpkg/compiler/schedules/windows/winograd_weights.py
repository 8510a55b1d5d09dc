"""Weights of a Winograd convolution: transformed, in the order in which its kernel reads them.

The order is (output blocks, points, source channels, lanes of the output).
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.scheduled_kernel import Packing
from ortpkg.compiler.schedules.windows.winograd_transforms import INPUT_SIZE, transformed_weights
from ortpkg.compiler.tensor_ir.elements import Tensor


def winograd_weights(weights: Tensor, lanes: int) -> tuple[Tensor, Packing]:
    """Return the packed tensor of constant weights, and its packing.

    The weights are (output channels, channels, 3, 3).
    """
    channels, depth = (size for size in weights.shape[:2] if isinstance(size, int))
    blocks, source_blocks = -(-channels // lanes), -(-depth // lanes)
    shape = (blocks, INPUT_SIZE * INPUT_SIZE, source_blocks * lanes, lanes)

    def pack(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # imported here, since only packing needs numpy
        import numpy as np

        made = np.zeros(shape, np.float32)
        padded = np.zeros((blocks * lanes, *value.shape[1:]), value.dtype)
        padded[:channels] = value
        for point, plane in enumerate(transformed_weights(padded)):
            by_lane = plane.reshape(blocks, lanes, depth)
            made[:, point, :depth] = by_lane.transpose(0, 2, 1)
        return made

    packed = Tensor(f"{weights.name} transformed", Scalar.F32, shape)
    return packed, Packing(source=weights, layout=f"Winograd, blocks of {lanes}", pack=pack)
