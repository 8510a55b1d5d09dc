"""Wrong operations of the tensor IR are refused, with what is wrong about them."""

from __future__ import annotations

import pytest

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Element,
    Function,
    Made,
    Number,
    Place,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.codegen.tensor_ir.operations import (
    Alias,
    Combiner,
    Map,
    Operation,
    Product,
    Reduce,
)
from ortpkg.codegen.tensor_ir.tensor_verifier import OperationFaultError, verify_operations
from ortpkg.shapes.expressions import symbol

_X = Tensor("x", Scalar.F32, (4, 8))
_READ = Read(_X, (along(0), along(1)))
_Y = Tensor("y", Scalar.F32, (4, 8))
_BYTES = Tensor("bytes", Scalar.U8, (4, 8))


def _map(value: Element, *, places: tuple[Place, ...] = (along(0), along(1))) -> Map:
    return Map(output=_Y, axes=(4, 8), value=value, places=places)


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
        (Read(_X, (along(0),)), "1 places in x of rank 2"),
        (Read(_X, (along(0), Place(((1, 1),), 1))), r"places \(1, 8\) in dimension 1 of x"),
        (Read(_X, (along(0), Place(((1, -1),)))), r"places \(-7, 0\) in dimension 1 of x"),
        (Read(_X, (along(0), along(2))), "it has no axis 2 of 2"),
        (Read(_BYTES, (along(0), along(1))), "its expression is u8, not f32"),
        (Call(Function.ADD, (_one(Scalar.I32), _READ)), "add of i32, f32"),
        (Call(Function.ADD, (_READ,)), "add of 1 operands"),
        (Call(Function.SELECT, (_READ, _READ, _READ)), "select by f32"),
        (Read(_X, (along(0), Place((), 0, _READ))), "a place in x is no integer"),
        (Made(Scalar.F32), "it takes a made f32, and there is None"),
        (Read(_X, (along(0), Place((), 0, Position(5)))), "it has no axis 5 of 2"),
    ],
)
def test_wrong_expressions_are_refused(value: Element, fault: str) -> None:
    with pytest.raises(OperationFaultError, match=f"Map that makes y: {fault}"):
        verify_operations([_map(value)])


@pytest.mark.parametrize(
    ("operations", "fault"),
    [
        ([_map(_READ, places=(along(1), along(0)))], r"places \(0, 7\) in dimension 0 of y"),
        ([_map(_READ, places=(along(1),))], "1 places in y of rank 2"),
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


def test_places_of_unknown_size_are_taken() -> None:
    x = Tensor("x", Scalar.F32, (symbol("n"),))
    value = Read(x, (Place(((0, 1),), 3),))
    operation = Map(
        output=Tensor("y", Scalar.F32, (symbol("n"),)), axes=(symbol("n"),), value=value,
        places=(along(0),),
    )  # fmt: skip
    verify_operations([operation])
