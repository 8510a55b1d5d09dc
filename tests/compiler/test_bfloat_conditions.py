"""For each condition of products of bf16, a product that lacks just that one stays one of f32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ortpkg.compiler.fusion.bf16_rounding import round_products
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import Coordinate, Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Map, Operation, Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.attention_parts import read_of, tensor_of, times
from tests.compiler.fusion_pairs import is_changed

_ROWS = tensor_of("rows", 3, 4, 6)
_TURNED = tensor_of("turned", 3, 6, 4)
_WEIGHTS = tensor_of("weights", 6, 5)
_HALVES = tensor_of("halves", 6, 5, scalar=Scalar.F16)
_HALF_ROWS = tensor_of("half rows", 3, 4, 6, scalar=Scalar.F16)
_OPEN_ROWS, _OPEN_WEIGHTS = (
    Tensor(name, Scalar.F32, shape)
    for name, shape in (("open", (3, 4, symbol("k"))), ("open weights", (symbol("k"), 5)))
)
_INDICES = tensor_of("indices", 6, scalar=Scalar.I64)
_INPUTS = (_ROWS, _TURNED, _HALF_ROWS, _OPEN_ROWS, _INDICES)
_PRODUCT = Product(
    output=tensor_of("output", 3, 4, 5),
    batch=(3,),
    m=4,
    n=5,
    k=6,
    left=read_of(_ROWS, 0, 1, 2),
    right=read_of(_WEIGHTS, 1, 2),
)
_PICKED = Coordinate(value=read_of(_INDICES, 2))


def _program(*operations: Operation) -> TensorProgram:
    constants: dict[Tensor, Any] = {
        _WEIGHTS: np.ones((6, 5), np.float32),
        _HALVES: np.ones((6, 5), np.float16),
        _OPEN_WEIGHTS: np.ones((6, 5), np.float32),
    }
    return TensorProgram(
        name="program",
        inputs=_INPUTS,
        outputs=(operations[-1].output,),
        constants=constants,
        operations=operations,
    )


def _with(**changes: object) -> Callable[[], Operation]:
    return lambda: replace(_PRODUCT, **changes)  # type: ignore[arg-type]


_LIKE_WEIGHTS = Read(_WEIGHTS, (Coordinate(((1, 1),)), Coordinate(((2, 1),))))
#: One for each condition: an operation in the place of the product.
_OF_FLOATS: Mapping[str, Callable[[], Operation]] = {
    "rows are computed": _with(left=times(read_of(_ROWS, 0, 1, 2), 2.0)),
    "weights are computed": _with(right=times(read_of(_WEIGHTS, 1, 2), 2.0)),
    "rows are of f16": _with(left=read_of(_HALF_ROWS, 0, 1, 2)),
    "weights are of f16": _with(right=read_of(_HALVES, 1, 2)),
    "rows are known": _with(
        left=Read(_WEIGHTS, (along(1), Coordinate(((2, 1),)))), k=4, right=Read(_WEIGHTS, (along(1), along(2)))
    ),
    "weights are not known": _with(right=Read(_TURNED, (Coordinate(), along(1), along(2))), n=4,
                                   output=tensor_of("output", 3, 4, 4)),
    "a sum has an odd number of terms": _with(k=5),
    "the number of terms is not known": _with(
        left=read_of(_OPEN_ROWS, 0, 1, 2), right=read_of(_OPEN_WEIGHTS, 1, 2), k=symbol("k")
    ),
    "there is one column": _with(n=1, output=tensor_of("output", 3, 4, 1)),
    "neighbours are not neighbours in memory": _with(left=read_of(_TURNED, 0, 2, 1)),
    "every second neighbour is taken": _with(
        left=Read(_ROWS, (along(0), along(1), Coordinate(((2, 2),)))), k=2
    ),
    "neighbours lie in other rows": _with(
        left=Read(_ROWS, (along(0), along(2), along(2))), k=4
    ),
    "neighbours are picked": _with(left=Read(_ROWS, (along(0), along(1), _PICKED))),
    "rows are picked": _with(
        left=Read(_ROWS, (along(0), Coordinate(value=read_of(_INDICES, 1)), along(2)))
    ),
    "weights are picked": _with(right=Read(_WEIGHTS, (Coordinate(value=read_of(_INDICES, 1)), along(2)))),
    "it is no product": lambda: Map(
        output=tensor_of("output", 3, 4, 6), axes=(3, 4, 6), value=read_of(_ROWS, 0, 1, 2),
        coordinates=tuple(map(along, range(3))),
    ),
}  # fmt: skip


def test_a_product_of_rows_and_known_weights_is_one_of_bfloats() -> None:
    assert is_changed(_program(_PRODUCT), round_products)


@pytest.mark.parametrize("case", _OF_FLOATS)
def test_any_other_product_stays_one_of_floats(case: str) -> None:
    assert not is_changed(_program(_OF_FLOATS[case]()), round_products)
