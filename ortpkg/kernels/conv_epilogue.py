"""What follows a convolution's sums while cached: bias, residual, activation, rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ortpkg.kernels.activations import Block
from ortpkg.kernels.linear_quantization import Requantization
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.scratch import Slot, take_scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """Where a convolution's output goes, and how.

    Attributes:
        out: (N, M, *spatial), C-contiguous.
        dtype: the type of the sums; where ``out`` has another, parts are computed in scratch and
            converted.
        bias: (M,) in ``dtype``; None for none.
        residual: added, of ``out``'s shape and of its type or ``dtype``; None for none.
        activation: None for none.
        requantization: for integer outputs.
    """

    out: Tensor
    dtype: np.dtype[np.generic]
    bias: Tensor | None = None
    residual: Tensor | None = None
    activation: Block | None = None
    requantization: Requantization | None = None

    def part(self, image: int, channels: slice, positions: slice) -> Tensor:
        """Where one image's sums go: (channels, positions), whose rows are contiguous."""
        if self.out.dtype == self.dtype:
            return self._place(self.out, image, channels, positions)
        shape = (channels.stop - channels.start, positions.stop - positions.start)
        (part,) = take_scratch(Slot.TASK, (shape, self.dtype))
        return part

    def bias_of(self, channels: slice) -> Tensor | None:
        """The bias of these channels; None where there is none."""
        return None if self.bias is None else self.bias[channels]

    def finish(self, part: Tensor, image: int, channels: slice, positions: slice) -> None:
        """Turns sums into output."""
        if self.bias is not None:
            np.add(part, self.bias[channels, None], out=part)
        self.finish_biased(part, image, channels, positions)

    def finish_biased(self, part: Tensor, image: int, channels: slice, positions: slice) -> None:
        """The same where the bias is in already."""
        if self.residual is not None:
            np.add(part, self._place(self.residual, image, channels, positions), out=part)
        if self.activation is not None:
            self.activation(part, part)
        if self.requantization is not None:
            self.requantization.of_rows(channels).write(
                part, self._place(self.out, image, channels, positions)
            )
        elif self.out.dtype != self.dtype:
            np.copyto(self._place(self.out, image, channels, positions), part, casting="unsafe")

    @staticmethod
    def _place(whole: Tensor, image: int, channels: slice, positions: slice) -> Tensor:
        return whole.reshape(*whole.shape[:2], math.prod(whole.shape[2:]))[
            image, channels, positions
        ]
