"""Rewrites convolutions of bytes for kernels, which multiply u8 by i8 without zero points.

A kernel reads a source of i8 as u8, shifted by 128, so that its zero point is -128. With the codes
u of the source as u8, the codes w of the weights as i8, and zero points a and b, the sum over a
window of (u - a) * (w - b) is

    sum(u * w) - a * sum(w) - b * (sum(u) - a * n)

where sum(w) belongs to an output channel and is constant if the weights are, sum(u) is a
convolution with ones, and n is the number of elements in a window. If the source is padded and a is
not 0, the source is copied into memory with a around it, so that windows are whole. All of it wraps
around in i32, as the exact sum does. A depthwise convolution subtracts zero points in its kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.fusion.substitution import replace_made
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Combiner, Convolution, Map, Operation, Reduce
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import Size, operation

Array = npt.NDArray[Any]
_BYTES = frozenset({Scalar.U8, Scalar.I8})
#: Most products of two differences of bytes whose sum is exact in f32.
_MOST_TAPS_OF_ONE = (1 << 24) // 255**2
#: Difference between u8 and i8 codes.
_SHIFT = 128


def is_multiplied(convolution: Convolution) -> bool:
    """Return True if :func:`without_zero_points` can rewrite a convolution of bytes."""
    sizes = (convolution.source.shape[1], *convolution.weights.shape)
    if not all(isinstance(size, int) for size in sizes):
        return False
    return convolution.groups == 1 or _is_of_each_channel(convolution) or _is_plain(convolution)


def without_zero_points(program: TensorProgram) -> TensorProgram:
    """Return the program with zero points taken out of its convolutions of bytes."""
    constants = dict(program.constants)
    operations: list[Operation] = []
    for original in program.operations:
        if _is_of_bytes(original):
            operations += _Rewriting(original, constants).operations()
        else:
            operations.append(original)
    return replace(program, operations=tuple(operations), constants=constants)


def _is_of_bytes(operation: Operation) -> TypeGuard[Convolution]:
    """Return True for a convolution of bytes whose kernel subtracts no zero points itself."""
    return (
        isinstance(operation, Convolution)
        and operation.source.scalar in _BYTES
        and not _is_of_each_channel(operation)
    )


def _is_of_each_channel(convolution: Convolution) -> bool:
    channels, group_channels, *_ = convolution.weights.shape
    return (
        group_channels == 1
        and channels == convolution.groups > 1
        and prod(convolution.window.kernel) <= _MOST_TAPS_OF_ONE
    )


def _is_plain(convolution: Convolution) -> bool:
    """Return True if the weights are i8 without a zero point."""
    return convolution.weights.scalar is Scalar.I8 and _constant_zero(convolution.weights_zero) == 0


def _constant_zero(zero: Element | None) -> int | None:
    """Return a zero point as a number; None if it is not constant."""
    if zero is None:
        return 0
    return int(zero.number) if isinstance(zero, Number) else None


def _moved_by(zero: Element | None, shift: int) -> Element:
    """Return a zero point plus ``shift``, as i32."""
    match zero:
        case None:
            return Number(shift, Scalar.I32)
        case Number(number):
            return Number(int(number) + shift, Scalar.I32)
        case _:
            wide = Convert(zero, Scalar.I32)
            return Call(Function.ADD, (wide, Number(shift, Scalar.I32))) if shift else wide


@dataclass
class _Rewriting:
    """Rewrites one convolution; new constants are added to ``constants``."""

    convolution: Convolution
    constants: dict[Tensor, Array]

    def __post_init__(self) -> None:
        convolution = self.convolution
        self._made: list[Operation] = []
        self._rank = len(convolution.window.kernel)
        self._source_zero = _moved_by(
            convolution.source_zero, _SHIFT if convolution.source.scalar is Scalar.I8 else 0
        )
        self._weights_zero = _moved_by(
            convolution.weights_zero, -_SHIFT if convolution.weights.scalar is Scalar.U8 else 0
        )

    def operations(self) -> Sequence[Operation]:
        """Return the operations that compute the convolution's output, in order."""
        convolution = self.convolution
        has_source_zero, has_weights_zero = (
            _constant_zero(zero) != 0 for zero in (self._source_zero, self._weights_zero)
        )
        weights = self._weights()
        source, window = convolution.source, convolution.window
        if has_source_zero and self._is_padded():
            source = self._padded()
            nothing = (0,) * self._rank
            window = replace(window, before=nothing, after=nothing)
        plain = replace(convolution, source=source, weights=weights, window=window,
                        source_zero=self._least_code(), weights_zero=None)  # fmt: skip
        sums: Element = Made(Scalar.I32)
        if has_source_zero:
            sums = Call(Function.SUB, (sums, self._zero_terms(self._sums_of(weights))))
        if has_weights_zero:
            window_sum = self._window_sums(plain, has_source_zero=has_source_zero)
            sums = Call(Function.SUB, (sums, Call(Function.MUL, (self._weights_zero, window_sum))))
        epilogue = (
            sums if convolution.epilogue is None else replace_made(convolution.epilogue, sums)
        )
        return [*self._made, replace(plain, epilogue=None if epilogue == Made(Scalar.I32)
                                     else epilogue)]  # fmt: skip

    # --- the source -------------------------------------------------------------------------------

    def _least_code(self) -> Element | None:
        """Return the code that becomes 0 as u8; None for a source that is u8."""
        return Number(-_SHIFT, Scalar.I8) if self.convolution.source.scalar is Scalar.I8 else None

    def _is_padded(self) -> bool:
        window = self.convolution.window
        return any(size != 0 for size in window.before) or any(
            not isinstance(size, int) or size > 0 for size in window.after
        )

    def _padded(self) -> Tensor:
        """Return the source with its zero point around it."""
        source, window = self.convolution.source, self.convolution.window
        after = [operation("max", end, 0) for end in window.after]
        batch, channels, *spatial = source.shape
        sides = zip(spatial, window.before, after, strict=True)
        shape = [size + first + last for size, first, last in sides]
        made = self._tensor("padded", source.scalar, (batch, channels, *shape))
        zero = self.convolution.source_zero
        axes = tuple(along(axis) for axis in range(2 + self._rank))
        value = Number(0, source.scalar) if zero is None else zero
        self._made.append(Map(output=made, axes=made.shape, value=value, coordinates=axes))
        inside = (Coordinate(((2 + axis, 1),), first) for axis, first in enumerate(window.before))
        coordinates = (*axes[:2], *inside)
        self._made.append(
            Map(output=made, axes=source.shape, value=Read(source, axes), coordinates=coordinates)
        )
        return made

    def _window_sums(self, plain: Convolution, *, has_source_zero: bool) -> Element:
        """Return the sum of each window's codes minus their zero point, over the output's axes."""
        batch, _, *spatial = plain.output.shape
        depth = (1, *plain.weights.shape[1:])
        ones = self._tensor("ones", Scalar.I8, depth)
        self.constants[ones] = np.ones([int(str(size)) for size in depth], np.int8)
        made = self._tensor("window sums", Scalar.I32, (batch, 1, *spatial))
        sums: Element | None = None
        if has_source_zero:
            count = Number(prod(int(str(size)) for size in depth), Scalar.I32)
            zeros = Call(Function.MUL, (self._source_zero, count))
            sums = Call(Function.SUB, (Made(Scalar.I32), zeros))
        self._made.append(replace(plain, output=made, weights=ones, epilogue=sums))
        inner = tuple(along(2 + axis) for axis in range(self._rank))
        return Read(made, (along(0), Coordinate(), *inner))

    # --- the weights ------------------------------------------------------------------------------

    def _weights(self) -> Tensor:
        """Return the weights as i8."""
        weights = self.convolution.weights
        if weights.scalar is Scalar.I8:
            return weights
        made = self._tensor("weights", Scalar.I8, weights.shape)
        codes = self.constants.get(weights)
        if codes is not None:
            self.constants[made] = (codes ^ np.uint8(_SHIFT)).view(np.int8)
            return made
        axes = tuple(along(axis) for axis in range(len(weights.shape)))
        wide = Convert(Read(weights, axes), Scalar.I32)
        value = Convert(Call(Function.SUB, (wide, Number(_SHIFT, Scalar.I32))), Scalar.I8)
        self._made.append(Map(output=made, axes=made.shape, value=value, coordinates=axes))
        return made

    def _sums_of(self, weights: Tensor) -> Read:
        """Return the sum of each output channel's weights, over the output's axes."""
        made = self._tensor("weight sums", Scalar.I32, weights.shape[:1])
        codes = self.constants.get(weights)
        if codes is not None:
            self.constants[made] = codes.reshape(len(codes), -1).sum(axis=1, dtype=np.int32)
        else:
            axes = tuple(along(axis) for axis in range(len(weights.shape)))
            value = Convert(Read(weights, axes), Scalar.I32)
            self._made.append(
                Reduce(output=made, axes=weights.shape[:1], reduced=weights.shape[1:],
                       combiner=Combiner.SUM, value=value)
            )  # fmt: skip
        return Read(made, (along(1),))

    def _zero_terms(self, sums: Read) -> Element:
        """Return the source's zero point times sums of weights; a constant if both are constant."""
        zero, constant_sums = self._source_zero, self.constants.get(sums.tensor)
        if constant_sums is None or not isinstance(zero, Number):
            return Call(Function.MUL, (zero, sums))
        terms = self._tensor("zero terms", Scalar.I32, constant_sums.shape)
        self.constants[terms] = constant_sums * np.int32(zero.number)
        return Read(terms, (along(1),))

    def _tensor(self, hint: str, scalar: Scalar, shape: Sequence[Size]) -> Tensor:
        return Tensor(f"{self.convolution.output.name} {hint}", scalar, tuple(shape))
