"""Tensors, arrays and reads for tests of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Element,
    Function,
    Made,
    Number,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size
from tests.compiler.native_kernels import Array


def tensor(name: str, *shape: Size, scalar: Scalar = Scalar.F32) -> Tensor:
    """A tensor of the program."""
    return Tensor(name, scalar, shape)


def read(tensor: Tensor, *axes: int) -> Read:
    """The element whose coordinates are these axes."""
    return Read(tensor, tuple(along(axis) for axis in axes))


def matrix_product(left: Tensor, right: Tensor, output: Tensor, **more: Any) -> Product:
    """The product of two matrices as they lie; ``more`` are other attributes of the operation."""
    (m, k), (_, n) = left.shape, right.shape
    return Product(
        output=output, batch=(), m=m, n=n, k=k, left=read(left, 0, 1), right=read(right, 0, 1),
        **more,
    )  # fmt: skip


def relu_of_biased(bias: Tensor, axis: int = 1) -> Element:
    """An epilogue: the larger of 0 and the sum with a bias along the axis."""
    biased = Call(Function.ADD, (Made(Scalar.F32), read(bias, axis)))
    return Call(Function.MAX, (biased, Number(0.0, Scalar.F32)))


def floats(*shape: int, seed: int = 0) -> Array:
    """Numbers about 0, the same for each call."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def close(made: Array, expected: Array) -> None:
    """Within the rounding of sums of a few hundred products."""
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=2e-5)
