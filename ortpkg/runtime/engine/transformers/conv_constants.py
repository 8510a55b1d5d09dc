"""Constant weight and bias of a ``Conv``, for the transformers that change them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import (
    Array,
    add_constant,
    constant_array,
    is_finite,
    keeps_digits,
)
from ortpkg.runtime.engine.transformers.transform_context import TransformContext

_WEIGHT, _BIAS = 1, 2
_FEWEST_DIMENSIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvConstants:
    """Weight [channels, ...] and bias [channels] of a convolution; a bias left out is zero.

    The output has as many dimensions as the weight, channels second.
    """

    weight: Array
    bias: Array

    @property
    def rank(self) -> int:
        """Number of dimensions of the weight, and of the output."""
        return self.weight.ndim

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return int(self.weight.shape[0])

    @classmethod
    def of(cls, graph: Graph, node: Node, context: TransformContext) -> ConvConstants | None:
        """Return a node's constants; None if one is not constant, or no float tensor that fits."""
        weight = constant_array(
            graph, node.inputs[_WEIGHT], largest_nbytes=context.largest_constant_nbytes
        )
        if weight is None or weight.ndim < _FEWEST_DIMENSIONS or weight.dtype.kind != "f":
            return None
        if weight.size == 0:  # it takes nothing, and may have any number of channels
            return None
        if len(node.inputs) <= _BIAS or not node.inputs[_BIAS]:
            return cls(weight=weight, bias=np.zeros(weight.shape[0], weight.dtype))
        bias = constant_array(
            graph, node.inputs[_BIAS], largest_nbytes=context.largest_constant_nbytes
        )
        if bias is None or bias.shape != (weight.shape[0],):
            return None
        return cls(weight=weight, bias=bias)

    def scaled(self, factor: Array) -> ConvConstants | None:
        """Return constants of a convolution whose output channels are ``factor`` times as large.

        None if a weight would become infinite, or lose digits. The weight is multiplied in its own
        precision, float16 in single: a copy of double size would cost as much time as all else that
        the start of a session does to a convolution.
        """
        flat = self.weight.reshape(self.channels, -1)
        largest = np.maximum(flat.max(axis=1), -flat.min(axis=1))
        if not keeps_digits(largest, factor, self.weight.dtype):
            return None
        wide = factor.astype(np.float64)
        precision = np.result_type(self.weight.dtype, np.float32)
        column = wide.astype(precision).reshape(-1, *(1,) * (self.rank - 1))
        weight = np.multiply(self.weight, column, dtype=precision)
        return ConvConstants(
            weight=weight.astype(self.weight.dtype, copy=False), bias=self.bias * wide
        )

    def write(self, graph: Graph, node: Node) -> tuple[str, str, str] | None:
        """Add weight and bias as new constants; return the inputs that ``node`` then has.

        None, and nothing is added, if the bias does not fit the weight's type.
        """
        dtype = self.weight.dtype
        if not is_finite(self.bias, dtype):
            return None
        weight = add_constant(graph, node.inputs[_WEIGHT], self.weight)
        bias = add_constant(graph, f"{node.inputs[_WEIGHT]}_bias", self.bias.astype(dtype))
        return node.inputs[0], weight, bias
