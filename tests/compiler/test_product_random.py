"""Products of random sizes, layouts, kinds and zero points are what numpy says."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.products.product import schedule_product
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Element,
    Function,
    Made,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size, symbol
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import NATIVE_TARGETS, NativeTarget
from tests.compiler.reference_elements import DTYPES
from tests.compiler.scheduled_kernels import run_scheduled

#: Its number, its size, and the number that this stands for.
_Axis = tuple[int, Size, int]
_SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 48, 49, 64, 65, 100, 150]


@dataclass
class _Case:
    """A product in the making; axes are numbered batch, then the two of each matrix."""

    random: random.Random
    arrays: dict[Tensor, Array] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)

    def size(self, name: str, number: int) -> Size:
        """The number, or a symbol for it."""
        if self.random.random() < 0.7:
            return number
        self.symbols[name] = number
        return symbol(name)

    def read(self, scalar: Scalar, axes: list[_Axis], rank: int) -> tuple[Read, Array]:
        """An element over (axis, size, number) in any order, and its array over all axes."""
        axes = self.random.sample(axes, len(axes))
        order = [axis for axis, _, _ in axes]
        tensor = Tensor("operand", scalar, tuple(size for _, size, _ in axes))
        array: Array
        generator = np.random.default_rng(self.random.randrange(1 << 30))
        shape = [number for _, _, number in axes]
        if scalar.is_float:
            array = generator.standard_normal(shape).astype(np.float32)
        elif scalar is Scalar.I32:
            array = generator.integers(-1000, 1000, shape).astype(np.int32)
        else:
            array = generator.integers(0, 256, shape).astype(np.uint8).view(DTYPES[scalar])
        self.arrays[tensor] = array
        missing = tuple(axis for axis in range(rank) if axis not in order)
        whole = np.expand_dims(array.transpose(np.argsort(order)), missing)
        return Read(tensor, tuple(along(axis) for axis in order)), whole

    def batch_axes(self, batch: list[Size], numbers: list[int]) -> list[_Axis]:
        """Some of the batch axes: an operand is broadcast along the others."""
        axes = [(axis, batch[axis], number) for axis, number in enumerate(numbers)]
        return [each for each in axes if self.random.random() < 0.7]

    def zero(self, scalar: Scalar, axis: _Axis, rank: int) -> tuple[Element | None, Array]:
        """A zero point for each place along the axis, or one, or none."""
        kind = self.random.choice(["none", "one", "each"])
        if kind == "none":
            return None, np.zeros((), np.int32)
        element, array = self.read(scalar, [axis] if kind == "each" else [], rank)
        return element, array.astype(np.int32)


def _random_product(case: _Case) -> tuple[Product, Tensor, Array]:
    """A product, its right side, and what it is to make."""
    chosen = case.random.choice
    is_integer = chosen([True, False])
    kinds = [chosen([Scalar.U8, Scalar.I8]) if is_integer else Scalar.F32 for _ in range(2)]
    wide = Scalar.I32 if is_integer else Scalar.F32
    numbers = [chosen([1, 2, 3]) for _ in range(chosen([0, 1, 2, 3]))]
    batch = [case.size(f"b{axis}", number) for axis, number in enumerate(numbers)]
    first, rank = len(batch), len(batch) + 2
    rows, columns, depth = chosen(_SIZES), chosen(_SIZES), chosen([*_SIZES, 900])
    m, n, k = case.size("m", rows), case.size("n", columns), case.size("k", depth)
    row_axis, column_axis = (first, m, rows), (first + 1, n, columns)
    left_axes = [*case.batch_axes(batch, numbers), row_axis, (first + 1, k, depth)]
    right_axes = [*case.batch_axes(batch, numbers), (first, k, depth), column_axis]
    left, left_array = case.read(kinds[0], left_axes, rank)
    right, right_array = case.read(kinds[1], right_axes, rank)
    bias, bias_array = case.read(wide, [*case.batch_axes(batch, numbers), row_axis], rank)
    left_side, right_side = left_array.astype(DTYPES[wide]), right_array.astype(DTYPES[wide])
    left_zero = right_zero = None
    if is_integer:
        left_zero, zeros = case.zero(kinds[0], row_axis, rank)
        left_side = left_side - zeros
        right_zero, zeros = case.zero(kinds[1], column_axis, rank)
        right_side = right_side - zeros
    product = Product(
        output=Tensor("output", wide, (*batch, m, n)),
        batch=tuple(batch),
        m=m,
        n=n,
        k=k,
        left=left,
        right=right,
        left_zero=left_zero,
        right_zero=right_zero,
        epilogue=Call(Function.ADD, (Made(wide), bias)),
    )
    case.arrays[product.output] = np.full([*numbers, rows, columns], 77, DTYPES[wide])
    return product, right.tensor, left_side @ right_side + bias_array


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_random_products_are_computed(target: NativeTarget, seed: int) -> None:
    case = _Case(random.Random(seed))
    product, right, expected = _random_product(case)
    is_known = all(isinstance(size, int) for size in right.shape)
    constants = [right] if is_known and case.random.choice([True, False]) else []
    small = replace(target.model, l2_nbytes=1 << 13)
    model = case.random.choice([target.model, small])
    run_scheduled(schedule_product(product, model, constants), case.arrays, target, case.symbols)
    made = case.arrays[product.output]
    np.testing.assert_allclose(made, np.broadcast_to(expected, made.shape), rtol=1e-4, atol=1e-3)
