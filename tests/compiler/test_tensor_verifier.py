"""Wrong operations of the tensor IR are refused, with what is wrong about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import (
    Alias,
    Cell,
    Combiner,
    Convolution,
    Map,
    Operation,
    Product,
    Recurrence,
    Reduce,
    RowFunction,
    RowNormalize,
    Window,
)
from ortpkg.compiler.tensor_ir.tensor_verifier import OperationFaultError, verify_operations
from ortpkg.graph.shapes.expressions import symbol

_X = Tensor("x", Scalar.F32, (4, 8))
_READ = Read(_X, (along(0), along(1)))
_Y = Tensor("y", Scalar.F32, (4, 8))
_BYTES = Tensor("bytes", Scalar.U8, (4, 8))


def _map(value: Element, *, coordinates: tuple[Coordinate, ...] = (along(0), along(1))) -> Map:
    return Map(output=_Y, axes=(4, 8), value=value, coordinates=coordinates)


def _one(scalar: Scalar) -> Number:
    return Number(1, scalar)


def test_right_operations_are_taken() -> None:
    relu = _map(Call(Function.MAX, (_READ, Number(0.0, Scalar.F32))))
    flat = Alias(output=Tensor("z", Scalar.F32, (32,)), source=_Y)
    total = Reduce(
        output=Tensor("s", Scalar.F32, (4,)), axes=(4,), reduced=(8,), combiner=Combiner.SUM,
        value=Read(_Y, (along(0), along(1))),
    )  # fmt: skip
    product = Product(
        output=Tensor("p", Scalar.F32, (4, 4)), batch=(), m=4, n=4, k=8, left=_READ,
        right=Read(_X, (along(1), along(0))),
    )  # fmt: skip
    verify_operations([relu, flat, total, product])


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (Read(_X, (along(0),)), "1 coordinates in x of rank 2"),
        (
            Read(_X, (along(0), Coordinate(((1, 1),), 1))),
            r"coordinates \(1, 8\) in dimension 1 of x",
        ),
        (
            Read(_X, (along(0), Coordinate(((1, -1),)))),
            r"coordinates \(-7, 0\) in dimension 1 of x",
        ),
        (Read(_X, (along(0), along(2))), "it has no axis 2 of 2"),
        (Read(_BYTES, (along(0), along(1))), "its expression is u8, not f32"),
        (Call(Function.ADD, (_one(Scalar.I32), _READ)), "add of i32, f32"),
        (Call(Function.ADD, (_READ,)), "add of 1 operands"),
        (Call(Function.SELECT, (_READ, _READ, _READ)), "select by f32"),
        (Read(_X, (along(0), Coordinate((), 0, _READ))), "a coordinate in x is no integer"),
        (Made(Scalar.F32), "it takes a made f32, and there is None"),
        (Read(_X, (along(0), Coordinate((), 0, Position(5)))), "it has no axis 5 of 2"),
    ],
)
def test_wrong_expressions_are_refused(value: Element, fault: str) -> None:
    with pytest.raises(OperationFaultError, match=f"Map that makes y: {fault}"):
        verify_operations([_map(value)])


@pytest.mark.parametrize(
    ("operations", "fault"),
    [
        (
            [_map(_READ, coordinates=(along(1), along(0)))],
            r"coordinates \(0, 7\) in dimension 0 of y",
        ),
        ([_map(_READ, coordinates=(along(1),))], "1 coordinates in y of rank 2"),
        ([_map(Read(_Y, (along(0), along(1))))], "reads y, which is made later"),
        (
            [Alias(output=Tensor("z", Scalar.F32, (33,)), source=_X)],
            "x is of another kind or number of elements",
        ),
        (
            [Reduce(output=_Y, axes=(4,), reduced=(8,), combiner=Combiner.SUM, value=_READ)],
            "its output has the shape",
        ),
    ],
)
def test_operations_that_do_not_fit_are_refused(operations: list[Operation], fault: str) -> None:
    with pytest.raises(OperationFaultError, match=fault):
        verify_operations(operations)


def _recurrence(**changed: Any) -> Recurrence:
    """An RNN of two directions, 5 steps, 3 sequences and 8 units."""
    weights = Tensor("r", Scalar.F32, (2, 8, 8))
    lengths = Tensor("lengths", Scalar.I32, (3,))
    right = Recurrence(
        output=Tensor("y", Scalar.F32, (5, 2, 3, 8)),
        last=Tensor("last", Scalar.F32, (2, 3, 8)),
        last_cell=None,
        cell=Cell.RNN,
        backward=(False, True),
        steps=5,
        batch=3,
        hidden=8,
        inputs=Tensor("gates", Scalar.F32, (2, 15, 8)),
        recurrence=Read(weights, (along(0), Coordinate(((1, 8), (3, 1))), along(2))),
        late_bias=None,
        initial=Read(Tensor("first", Scalar.F32, (2, 3, 8)), tuple(map(along, range(3)))),
        initial_cell=None,
        peepholes=(),
        lengths=Read(lengths, (along(0),)),
        activations=(Call(Function.TANH, (Made(Scalar.F32),)),),
    )
    verify_operations([right])
    return replace(right, **changed)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"steps": 6}, r"y has not the shape \(6, 2, 3, 8\)"),
        ({"last": _Y}, r"y has not the shape \(2, 3, 8\)"),
        ({"inputs": _X}, r"x has not the shape \(2, 15, 8\)"),
        ({"cell": Cell.LSTM}, r"gates has not the shape \(2, 15, 32\)"),
        (
            {"recurrence": Read(_X, (along(2), along(1)))},
            r"coordinates \(0, 7\) in dimension 0 of x",
        ),
        ({"initial": Read(_X, (along(2), along(1)))}, r"coordinates \(0, 7\) in dimension 0 of x"),
        ({"lengths": Read(Tensor("n", Scalar.I32, (2,)), (along(0),))}, r"coordinates \(0, 2\) in"),
        (
            {"peepholes": (Read(_X, (along(1), along(0))),)},
            r"coordinates \(0, 7\) in dimension 0 of x",
        ),
        ({"activations": (Call(Function.TANH, (_READ,)),)}, "it has no axis 0 of 0"),
    ],
)
def test_recurrences_that_do_not_fit_are_refused(changed: dict[str, Any], fault: str) -> None:
    with pytest.raises(OperationFaultError, match=f"Recurrence that makes y: .*{fault}"):
        verify_operations([_recurrence(**changed)])


def _convolution(**changed: Any) -> Convolution:
    """3 x 3 windows over 6 channels in 2 groups, for 4 channels."""
    right = Convolution(
        output=Tensor("y", Scalar.F32, (1, 4, 7, 7)),
        source=Tensor("s", Scalar.F32, (1, 6, 9, 9)),
        weights=Tensor("w", Scalar.F32, (4, 3, 3, 3)),
        groups=2,
        window=Window(kernel=(3, 3), strides=(1, 1), dilations=(1, 1), before=(0, 0), after=(0, 0)),
        epilogue=Call(
            Function.ADD, (Made(Scalar.F32), Read(Tensor("b", Scalar.F32, (4,)), (along(1),)))
        ),
    )
    verify_operations([right])
    return replace(right, **changed)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"groups": 1}, "its weights are for other channels than s has"),
        ({"weights": Tensor("w", Scalar.F32, (8, 3, 3, 3))}, "its weights are for other channels"),
        ({"weights": Tensor("w", Scalar.F32, (4, 3, 3, 1))}, "its weights have the shape"),
        ({"source": Tensor("s", Scalar.F32, (2, 6, 9, 9))}, "s has another batch"),
        ({"source": Tensor("s", Scalar.F32, (1, 6))}, "its windows have 2 spatial axes"),
        (
            {"epilogue": Read(Tensor("b", Scalar.F32, (3,)), (along(1),))},
            r"coordinates \(0, 3\) in",
        ),
        ({"source_zero": Read(_X, (along(0), along(1)))}, "it has no axis 0 of 0"),
        (
            {"weights_zero": Read(Tensor("z", Scalar.U8, (3,)), (along(1),))},
            r"coordinates \(0, 3\) in",
        ),
    ],
)
def test_convolutions_that_do_not_fit_are_refused(changed: dict[str, Any], fault: str) -> None:
    with pytest.raises(OperationFaultError, match=f"Convolution that makes y: .*{fault}"):
        verify_operations([_convolution(**changed)])


def test_statistics_of_other_rows_are_refused() -> None:
    mean = Tensor("mean", Scalar.F32, (8,))
    wrong = RowNormalize(
        output=_Y, function=RowFunction.STANDARDIZE, axes=(4, 8), value=_READ,
        statistics=(mean, None),
    )  # fmt: skip
    with pytest.raises(OperationFaultError, match="mean has not one element for each row"):
        verify_operations([wrong])


def test_places_of_unknown_size_are_taken() -> None:
    x = Tensor("x", Scalar.F32, (symbol("n"),))
    value = Read(x, (Coordinate(((0, 1),), 3),))
    operation = Map(
        output=Tensor("y", Scalar.F32, (symbol("n"),)), axes=(symbol("n"),), value=value,
        coordinates=(along(0),),
    )  # fmt: skip
    verify_operations([operation])
