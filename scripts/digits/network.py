"""The trained classifier as plain arrays, in the shape that the ONNX graphs are written from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormalization:
    """Statistics and parameters per output channel of the convolution before it."""

    scale: Array
    bias: Array
    mean: Array
    variance: Array
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionLayer:
    """Conv 3x3 without bias, BatchNormalization, Relu; ``is_pooled``: MaxPool 2x2, too."""

    name: str
    weight: Array
    normalization: BatchNormalization
    is_pooled: bool

    def folded(self) -> tuple[Array, Array]:
        """Weight and bias of the one convolution that equals Conv and BatchNormalization."""
        normalization = self.normalization
        factor = normalization.scale / np.sqrt(normalization.variance + normalization.epsilon)
        return self.weight * factor[
            :, None, None, None
        ], normalization.bias - normalization.mean * factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Convolutions, then one linear layer: ``logits = features @ weight.T + bias``.

    The first convolution takes grey levels from 0 to 16 as they are.
    """

    convolutions: tuple[ConvolutionLayer, ...]
    linear_weight: Array
    linear_bias: Array
