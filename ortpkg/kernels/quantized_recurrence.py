"""Matrix products of a dynamically quantized recurrent layer: integers, scaled to float32.

Source: ONNX Runtime, DynamicQuantizeLSTM. The inputs of all steps are quantized together, the
previous outputs of all sequences at every step, each over their own range of values. onnxruntime
computes the same on one thread; with several threads each quantizes its part of the batch, with a
scale of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ortpkg.kernels.activations import Block
from ortpkg.kernels.integer_gemm import IntegerMatrix, centred, scaled_matmul
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.quantization import dynamic_parameters, write_quantized
from ortpkg.kernels.recurrent_steps import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedDirection(Direction):
    """Parameters of one direction whose ``weights`` and ``recurrence`` are integers.

    They are stored as float32, with their zero points subtracted.

    Attributes:
        weights_scale, recurrence_scale: one, or one per column (gates · hidden,).
    """

    weights_scale: Tensor
    recurrence_scale: Tensor

    def project(self, rows: Tensor, out: Tensor) -> None:
        """Write the input part of all steps' gates into ``out`` (steps · batch, gates · hidden)."""
        _dynamic_product(rows, self.weights.T, self.weights_scale, out)
        out += self.input_bias

    def recur(self, hidden: Tensor) -> Tensor:
        """Return the product of the last output (batch, hidden) and the recurrence, no bias."""
        out = np.empty((len(hidden), self.recurrence.shape[1]), np.float32)
        _dynamic_product(hidden, self.recurrence, self.recurrence_scale, out)
        return out


def _dynamic_product(a: Tensor, integers: Tensor, scale: Tensor, out: Tensor) -> None:
    a_scale, a_zero = dynamic_parameters(a)
    values = np.empty(a.shape, np.float32)  # the caller's ``out`` lies in this thread's scratch
    write_quantized(a, a_scale, a_zero, values)
    scaled_matmul(values, IntegerMatrix(integers, 0, 0), out, np.asarray(a_scale * scale))


def quantized_directions(
    activations: list[list[Block]],
    clip: float | None,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    p: Tensor | None,
    quantization: Sequence[Tensor | None],
) -> list[Direction]:
    """Return the parameters of each direction, laid out for the products.

    Args:
        activations: one list of functions per direction.
        clip: bound on the inputs of activations, or None.
        w, r: integers, (directions, gates · hidden, input or hidden).
        b, p: biases and peepholes, or None.
        quantization: scale and zero point of ``w``, then of ``r``.

    Raises:
        ValueError: scales or zero points do not fit the weights.
    """
    columns = w.shape[1]
    w_scale, w_zero, r_scale, r_zero = (
        _by_direction(name, values, len(activations), columns)
        for name, values in zip(_QUANTIZATION, quantization, strict=True)
    )
    directions: list[Direction] = []
    for d, blocks in enumerate(activations):
        biases = np.zeros(2 * columns, np.float32) if b is None else b[d]
        recurrence = centred(r[d].T, r_zero[d])
        directions.append(
            QuantizedDirection(
                weights=centred(w[d], w_zero[d].reshape(-1, 1)),
                weights_scale=w_scale[d],
                recurrence=np.ascontiguousarray(recurrence),
                recurrence_scale=r_scale[d],
                input_bias=biases[:columns],
                recurrent_bias=biases[columns:],
                peepholes=None if p is None else p[d],
                activations=blocks,
                clip=clip,
            )
        )
    return directions


_QUANTIZATION = ("W_scale", "W_zero_point", "R_scale", "R_zero_point")


def _by_direction(name: str, values: Tensor | None, directions: int, columns: int) -> Tensor:
    """Return scales or zero points as (directions, 1 or columns)."""
    if values is None:
        raise ValueError(f"{name} is needed")
    if values.shape not in ((directions,), (directions, 1), (directions, columns)):
        raise ValueError(
            f"{name} of shape {values.shape} fits neither ({directions},), one for each direction,"
            f" nor ({directions}, {columns}), one for each column of the weights"
        )
    return values.reshape(directions, -1)
