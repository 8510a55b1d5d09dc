"""Matrix products of a dynamically quantized recurrent layer: integers, scaled to float32.

Source: ONNX Runtime, DynamicQuantizeLSTM. The inputs of all steps are quantized together, the
previous outputs of all sequences at every step, each over their own range of values. onnxruntime
computes the same on one thread; with several threads each quantizes its part of the batch, with a
scale of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from ortpkg.runtime.kernels.integer_gemm import IntegerMatrix, centred, scaled_matmul
from ortpkg.runtime.kernels.op_kernel import Tensor
from ortpkg.runtime.kernels.quantization import dynamic_parameters, quantized_and_centred
from ortpkg.runtime.kernels.recurrent_steps import Direction


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
    values = quantized_and_centred(a, a_scale, a_zero)
    scaled_matmul(values, IntegerMatrix(integers, 0, 0), out, np.asarray(a_scale * scale))


class CentredWeights(NamedTuple):
    """Weights of all directions as float32, with their zero points subtracted, and their scales.

    Attributes:
        w, r: (directions, gates · hidden, input or hidden).
        w_scale, r_scale: (directions, 1 or gates · hidden).
    """

    w: Tensor
    r: Tensor
    w_scale: Tensor
    r_scale: Tensor

    @classmethod
    def of(cls, w: Tensor, r: Tensor, quantization: Sequence[Tensor | None]) -> CentredWeights:
        """Center integer weights by ``quantization``: scale and zero point of ``w``, then of ``r``.

        Raises:
            ValueError: scales or zero points do not fit the weights.
        """
        w_scale, w_zero, r_scale, r_zero = (
            _by_direction(name, values, *w.shape[:2])
            for name, values in zip(_QUANTIZATION, quantization, strict=True)
        )
        return cls(
            centred(w, w_zero[..., np.newaxis]),
            centred(r, r_zero[..., np.newaxis]),
            w_scale,
            r_scale,
        )

    def scaled(self, directions: Sequence[Direction]) -> list[Direction]:
        """Return the directions of ``w`` and ``r`` with the scales of their products."""
        return [
            QuantizedDirection(
                **{field.name: getattr(direction, field.name) for field in fields(direction)},
                weights_scale=w_scale,
                recurrence_scale=r_scale,
            )
            for direction, w_scale, r_scale in zip(
                directions, self.w_scale, self.r_scale, strict=True
            )
        ]


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
