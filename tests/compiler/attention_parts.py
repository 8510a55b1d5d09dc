"""Attention as two products with a softmax between them, for tests of the fusion."""

from __future__ import annotations

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Map, Operation, Product, RowFunction, RowNormalize
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import Size

MADE = Made(Scalar.F32)


def tensor_of(name: str, *shape: Size, scalar: Scalar = Scalar.F32) -> Tensor:
    """Return a tensor of a shape."""
    return Tensor(name, scalar, shape)


def read_of(tensor: Tensor, *axes: int) -> Read:
    """Return a read at places that each count one axis."""
    return Read(tensor, tuple(along(axis) for axis in axes))


def times(left: Element, number: float) -> Element:
    """Return the element multiplied by a number."""
    return Call(Function.MUL, (left, Number(number, Scalar.F32)))


class AttentionParts:
    """Attention of 2 sequences of 5 places, 3 heads of width 8, before it is fused."""

    def __init__(self, width: Size = 8, scalar: Scalar = Scalar.F32) -> None:
        self.query, self.key, self.given = (
            tensor_of(name, 2, 5, 3, width) for name in ("query", "key", "value")
        )
        self.mask = tensor_of("mask", 2, 5)
        self.scores = tensor_of("scores", 2, 3, 5, 5)
        self.weights = tensor_of("weights", 2, 3, 5, 5, scalar=scalar)
        self.mixed = tensor_of("mixed", 2, 3, 5, width)
        self.output = tensor_of("output", 2, 5, 3, width)
        self.first = Product(
            output=self.scores,
            batch=(2, 3),
            m=5,
            n=5,
            k=width,
            left=read_of(self.query, 0, 2, 1, 3),
            right=read_of(self.key, 0, 3, 1, 2),
            epilogue=times(MADE, 0.25),
        )
        self.softmax = RowNormalize(
            output=self.weights,
            function=RowFunction.SOFTMAX,
            axes=self.scores.shape,
            value=Call(Function.ADD, (read_of(self.scores, 0, 1, 2, 3), read_of(self.mask, 0, 3))),
            epilogue=None if scalar is Scalar.F32 else Convert(MADE, scalar),
        )
        left: Element = read_of(self.weights, 0, 1, 2, 3)
        self.second = Product(
            output=self.mixed,
            batch=(2, 3),
            m=5,
            n=width,
            k=5,
            left=left if scalar is Scalar.F32 else Convert(left, Scalar.F32),
            right=read_of(self.given, 0, 2, 1, 3),
        )
        self.side_by_side = Map(
            output=self.output,
            axes=self.output.shape,
            value=read_of(self.mixed, 0, 2, 1, 3),
            coordinates=tuple(map(along, range(4))),
        )

    def mapped(self) -> Map:
        """A map in the place of the second product."""
        return Map(
            output=self.output,
            axes=(2, 5, 3, 5),
            value=times(read_of(self.weights, 0, 2, 1, 3), 2.0),
            coordinates=tuple(map(along, range(4))),
        )

    def program(
        self,
        *operations: Operation,
        outputs: tuple[Tensor, ...] = (),
        more_inputs: tuple[Tensor, ...] = (),
    ) -> TensorProgram:
        return TensorProgram(
            name="program",
            inputs=(self.query, self.key, self.given, self.mask, *more_inputs),
            outputs=outputs or (operations[-1].output,),
            constants={},
            operations=operations,
        )
