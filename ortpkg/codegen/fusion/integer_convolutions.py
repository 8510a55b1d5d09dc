"""Makes products of integer convolutions, with channels last.

A window's elements become the row of a matrix: where windows are single pixels without padding,
the pixels themselves, else what a map copies side by side. A convolution of each channel by itself
becomes a map that adds up its windows. Maps before and behind bring the channels to the end and
back; between two convolutions they go into each other, so that nothing is left of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product as places_of
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.codegen.fusion.substitution import moved, replace_made
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Place,
    Read,
    Tensor,
    along,
)
from ortpkg.codegen.tensor_ir.operations import Alias, Convolution, Map, Operation, Product
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram
from ortpkg.shapes.expressions import Size, operation

Array = npt.NDArray[Any]
_BYTES = frozenset({Scalar.U8, Scalar.I8})
#: Larger windows would make a map's expression too large.
_MOST_WRITTEN_WINDOW = 25


def is_expandable(convolution: Convolution) -> bool:
    """Whether it is of bytes, and of all channels together or of each by itself."""
    kinds = {convolution.source.scalar, convolution.weights.scalar}
    if not kinds <= _BYTES or not convolution.window.kernel:
        return False
    return convolution.groups == 1 or (
        convolution.source.shape[1] == convolution.weights.shape[0] == convolution.groups
        and prod(convolution.window.kernel) <= _MOST_WRITTEN_WINDOW
    )


def expand_integer_convolutions(program: TensorProgram) -> TensorProgram:
    """The program without convolutions of bytes; itself where it has none."""
    if not any(
        isinstance(each, Convolution) and is_expandable(each) for each in program.operations
    ):
        return program
    constants = dict(program.constants)
    operations: list[Operation] = []
    for each in program.operations:
        if isinstance(each, Convolution) and is_expandable(each):
            operations += _Expansion(each, constants).operations()
        else:
            operations.append(each)
    return replace(program, operations=tuple(operations), constants=constants)


@dataclass
class _Expansion:
    """One convolution's operations; new constants are added to those that are known."""

    convolution: Convolution
    constants: dict[Tensor, Array]

    def __post_init__(self) -> None:
        self._made: list[Operation] = []
        self._rank = len(self.convolution.window.kernel)
        self._is_plain = self.convolution.groups == 1

    def operations(self) -> Sequence[Operation]:
        """What computes the convolution's output, in order."""
        batch, channels, *spatial = self.convolution.output.shape
        sizes = (batch, *spatial, channels)
        made = self._tensor("channels last", self.convolution.output.scalar, sizes)
        if self._is_plain:
            self._made.append(self._product(made))
        else:
            sums = self._sums_of_windows()
            self._map(made, replace_made(self._epilogue(), sums))
        channels_second = (along(0), *(along(2 + axis) for axis in range(self._rank)), along(1))
        self._map(self.convolution.output, Read(made, channels_second))
        return self._made

    # --- one kind and the other -------------------------------------------------------------------

    def _product(self, made: Tensor) -> Product:
        rank = self._rank
        batch, *spatial, channels = made.shape
        weights = self._weights()
        rows: tuple[Place, ...] = tuple(along(axis) for axis in range(rank + 2))
        source = self._source()
        if prod(self.convolution.window.kernel) == 1:
            rows = (along(0), *(self._pixel(axis, 0) for axis in range(rank)), along(rank + 1))
        else:
            source = self._side_by_side(source, (batch, *spatial), weights.shape[0])
        zero = self.convolution.weights_zero
        return Product(
            output=made,
            batch=made.shape[:rank],
            m=spatial[-1],
            n=channels,
            k=weights.shape[0],
            left=Read(source, rows),
            right=Read(weights, (along(rank), along(rank + 1))),
            left_zero=self.convolution.source_zero,
            right_zero=None if zero is None else moved(zero, self._places()),
            epilogue=self._epilogue(),
        )

    def _side_by_side(self, source: Tensor, pixels: Sequence[Size], depth: Size) -> Tensor:
        """A row for each window: what lies in it, channels innermost."""
        rank, kernel = self._rank, self.convolution.window.kernel
        shape = (*pixels, *kernel, source.shape[-1])
        windows = self._tensor("windows", source.scalar, shape)
        inside = (self._pixel(axis, along(1 + rank + axis)) for axis in range(rank))
        self._map(windows, Read(source, (along(0), *inside, along(1 + 2 * rank))))
        rows = self._tensor("rows", source.scalar, (*pixels, depth))
        self._made.append(Alias(output=rows, source=windows))
        return rows

    def _sums_of_windows(self) -> Element:
        """The sum of each window times the weights of its channel, element by element."""
        source, kernel, rank = self._source(), self.convolution.window.kernel, self._rank
        weights = self._weights()
        zero = self.convolution.weights_zero
        weights_zero = None if zero is None else moved(zero, self._places())
        terms: list[Element] = []
        for number, inside in enumerate(places_of(*map(range, kernel))):
            pixel = (self._pixel(axis, place) for axis, place in enumerate(inside))
            one = Read(source, (along(0), *pixel, along(rank + 1)))
            other = Read(weights, (Place(offset=number), along(rank + 1)))
            sides = (_centred(one, self.convolution.source_zero), _centred(other, weights_zero))
            terms.append(Call(Function.MUL, sides))
        return reduce(lambda left, right: Call(Function.ADD, (left, right)), terms)

    # --- places -----------------------------------------------------------------------------------

    def _places(self) -> Sequence[Place]:
        """Where the axes of the convolution's output stand with channels last."""
        rank = self._rank
        return (along(0), along(rank + 1), *(along(1 + axis) for axis in range(rank)))

    def _epilogue(self) -> Element:
        epilogue = self.convolution.epilogue
        return Made(Scalar.I32) if epilogue is None else moved(epilogue, self._places())

    def _pixel(self, axis: int, inside: Place | int) -> Place:
        """The place in the padded source along a spatial axis, ``inside`` of its window."""
        window = self.convolution.window
        stride, dilation = window.strides[axis], window.dilations[axis]
        if isinstance(inside, int):
            return Place(((1 + axis, stride),), inside * dilation)
        terms = ((1 + axis, stride), *((other, dilation * times) for other, times in inside.terms))
        return Place(terms)

    # --- the sides --------------------------------------------------------------------------------

    def _source(self) -> Tensor:
        """The source with channels last, and with its zero point around it where it is padded."""
        source, window = self.convolution.source, self.convolution.window
        batch, channels, *spatial = source.shape
        before = window.before
        after = [operation("max", each, 0) for each in window.after]
        shape = [size + first + last
                 for size, first, last in zip(spatial, before, after, strict=True)]  # fmt: skip
        made = self._tensor("source", source.scalar, (batch, *shape, channels))
        channels_last = (along(0), along(self._rank + 1),
                         *(along(1 + axis) for axis in range(self._rank)))  # fmt: skip
        value = Read(source, channels_last)
        if shape == spatial:
            self._map(made, value)
            return made
        zero = self.convolution.source_zero
        self._map(made, Number(0, source.scalar) if zero is None else zero)
        inside = tuple(Place(((1 + axis, 1),), first) for axis, first in enumerate(before))
        places = (along(0), *inside, along(self._rank + 1))
        axes = (batch, *spatial, channels)
        self._made.append(Map(output=made, axes=axes, value=value, places=places))
        return made

    def _weights(self) -> Tensor:
        """The weights as (window and channels, output channels), or (window, channels)."""
        weights, rank = self.convolution.weights, self._rank
        outputs, channels, *kernel = weights.shape
        order = (*range(2, 2 + rank), 1, 0) if self._is_plain else (*range(2, 2 + rank), 0)
        depth = prod(kernel, start=channels if self._is_plain else 1)
        made = self._tensor("weights", weights.scalar, (depth, outputs))
        known = self.constants.get(weights)
        if known is not None:
            turned = known.transpose(*range(2, 2 + rank), 1, 0)
            self.constants[made] = np.ascontiguousarray(turned).reshape(
                prod(known.shape[1:]), len(known)
            )
            return made
        turned_shape = tuple(weights.shape[axis] for axis in order)
        split = self._tensor("split weights", weights.scalar, turned_shape)
        places = {axis: along(place) for place, axis in enumerate(order)}
        self._map(split, Read(weights, tuple(places.get(axis, Place())
                                             for axis in range(2 + rank))))  # fmt: skip
        self._made.append(Alias(output=made, source=split))
        return made

    # --- parts ------------------------------------------------------------------------------------

    def _tensor(self, hint: str, scalar: Scalar, shape: Sequence[Size]) -> Tensor:
        return Tensor(f"{self.convolution.output.name} {hint}", scalar, tuple(shape))

    def _map(self, output: Tensor, value: Element) -> None:
        places = tuple(map(along, range(len(output.shape))))
        self._made.append(Map(output=output, axes=output.shape, value=value, places=places))


def _centred(code: Element, zero: Element | None) -> Element:
    """A code less its zero point, as i32."""
    wide = Convert(code, Scalar.I32)
    if zero is None or (isinstance(zero, Number) and zero.number == 0):
        return wide
    if isinstance(zero, Number):
        return Call(Function.SUB, (wide, Number(zero.number, Scalar.I32)))
    return Call(Function.SUB, (wide, Convert(zero, Scalar.I32)))
