"""Random expressions over axes, with arrays for the tensors that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Number,
    Position,
    Read,
    Tensor,
)
from ortpkg.graph.shapes.expressions import Size, evaluate, symbol
from tests.compiler.native_kernels import Array
from tests.compiler.reference_elements import DTYPES

SIZES = (1, 2, 3, 5, 8, 16, 17, 33, 64, 100)
_FLOATS = (Scalar.F32, Scalar.F32, Scalar.F32, Scalar.F64, Scalar.F16, Scalar.BF16)
_INTEGERS = (Scalar.I64, Scalar.I32, Scalar.I8, Scalar.U8, Scalar.I16, Scalar.U64)
_BINARY = (Function.ADD, Function.SUB, Function.MUL, Function.MIN, Function.MAX)
_MOST_ELEMENTS = 100_000


@dataclass
class Generated:
    """Makes expressions over axes.

    Attributes:
        generator: where all chances come from.
        axes: sizes, numbers or formulas of ``symbols``.
        symbols: what the formulas' symbols are.
        arrays: those of the tensors that were made.
    """

    generator: np.random.Generator
    axes: Sequence[Size]
    symbols: Mapping[str, int] = field(default_factory=dict)
    arrays: dict[Tensor, Array] = field(default_factory=dict)

    def kind(self) -> Scalar:
        """A kind of number."""
        kinds = (*_FLOATS, *_INTEGERS, Scalar.BOOL)
        return kinds[self.generator.integers(len(kinds))]

    def element(self, scalar: Scalar, depth: int = 2) -> Element:
        """An expression of that kind."""
        chance = self.generator.integers(10)
        if depth == 0 or chance < 3:
            return self._leaf(scalar)
        if chance == 3:
            source = self.kind()
            if not (source.is_float and scalar.is_integer):
                return Convert(self.element(source, depth - 1), scalar)
        if chance == 4:
            condition = self.element(Scalar.BOOL, depth - 1)
            choices = (self.element(scalar, depth - 1), self.element(scalar, depth - 1))
            return Call(Function.SELECT, (condition, *choices))
        if scalar is Scalar.BOOL:
            return self._comparison(depth)
        operands = (self.element(scalar, depth - 1), self.element(scalar, depth - 1))
        functions = [*_BINARY, Function.DIV, Function.REM] if scalar.is_integer else _BINARY
        return Call(functions[self.generator.integers(len(functions))], operands)

    def _comparison(self, depth: int) -> Element:
        kind = self.kind()
        function = (Function.LT, Function.EQ, Function.GE)[self.generator.integers(3)]
        return Call(function, (self.element(kind, depth - 1), self.element(kind, depth - 1)))

    def _leaf(self, scalar: Scalar) -> Element:
        chance = self.generator.integers(12)
        if chance == 0:
            return Number(1, scalar)
        if chance == 1 and self.axes:
            return Convert(Position(int(self.generator.integers(len(self.axes)))), scalar)
        return self.read(scalar)

    def read(self, scalar: Scalar) -> Read:
        """A read of a new tensor, along some axes in some order, with strides and offsets."""
        chosen = [axis for axis in range(len(self.axes)) if self.generator.integers(5)]
        if not self.generator.integers(3):
            self.generator.shuffle(chosen)
        coordinates, shape = [], []
        for axis in chosen:
            place, size = self._place(axis)
            coordinates.append(place)
            shape.append(size)
        tensor = Tensor(f"t{len(self.arrays)}", scalar, tuple(shape))
        self.arrays[tensor] = self.filled(tensor)
        return Read(tensor, tuple(coordinates))

    def _place(self, axis: int) -> tuple[Coordinate, Size]:
        size, chance = self.axes[axis], self.generator.integers(10)
        if chance == 0:
            return Coordinate(((axis, 2),), 1), size * 2 + 1
        if chance == 1:
            return Coordinate(((axis, -1),), size + -1), size
        if chance == 2:
            return Coordinate(((axis, 1),), 3), size + 5
        if chance == 3:
            table = Tensor(f"i{len(self.arrays)}", Scalar.I32, (size,))
            self.arrays[table] = self.generator.integers(0, 7, self.shape(table), np.int32)
            return Coordinate((), 0, Read(table, (Coordinate(((axis, 1),)),))), 7
        return Coordinate(((axis, 1),)), size

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The tensor's shape as numbers."""
        return tuple(evaluate(size, self.symbols) for size in tensor.shape)

    def filled(self, tensor: Tensor) -> Array:
        """An array for the tensor, special numbers in it."""
        shape, kind = self.shape(tensor), DTYPES[tensor.scalar]
        if tensor.scalar.is_float:
            made = np.asarray(self.generator.standard_normal(shape) * 9).astype(kind)
            special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], np.float32)
        else:
            top = 2 if tensor.scalar is Scalar.BOOL else 100
            made = self.generator.integers(0, top, shape).astype(kind)
            special = np.array([0, 1])
        flat = made.reshape(-1)
        if made.size:
            with np.errstate(all="ignore"):
                flat[self.generator.integers(0, made.size, 3)] = special.astype(kind)[
                    self.generator.integers(0, len(special), 3)
                ]
        return made


def random_axes(generator: np.random.Generator, most: int = 4) -> tuple[int, ...]:
    """Sizes of some axes, together of a bounded number of positions."""
    while True:
        count = int(generator.integers(1, most + 1))
        axes = [int(SIZES[generator.integers(len(SIZES))]) for _ in range(count)]
        if not generator.integers(12):
            axes[generator.integers(count)] = 0
        if int(np.prod(axes)) <= _MOST_ELEMENTS:
            return tuple(axes)


def symbolic(
    generator: np.random.Generator, axes: Sequence[int]
) -> tuple[tuple[Size, ...], dict[str, int]]:
    """Some of the sizes as symbols, and what these are."""
    sizes: list[Size] = []
    symbols: dict[str, int] = {}
    for number, size in enumerate(axes):
        if generator.integers(2):
            symbols[f"n{number}"] = size
            sizes.append(symbol(f"n{number}"))
        else:
            sizes.append(size)
    return tuple(sizes), symbols
