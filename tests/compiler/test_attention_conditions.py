"""For each condition of the fusion of attention, parts that lack just that one stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from ortpkg.compiler.fusion.attention_of_products import fuse_attention
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Number,
    Read,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Attention, Map, Operation, Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from tests.compiler.attention_parts import MADE, AttentionParts, read_of, tensor_of, times
from tests.compiler.fusion_pairs import assert_same_values, is_changed

_Change = Callable[[AttentionParts], list[Operation]]


def _summed_often(count: int) -> Element:
    element: Element = MADE
    for number in range(count):
        element = Call(Function.ADD, (element, Number(float(number), Scalar.F32)))
    return element


def _softmax(parts: AttentionParts, **changes: object) -> list[Operation]:
    return [parts.first, replace(parts.softmax, **changes), parts.second]  # type: ignore[arg-type]


def _second(parts: AttentionParts, **changes: object) -> list[Operation]:
    return [parts.first, parts.softmax, replace(parts.second, **changes)]  # type: ignore[arg-type]


def _first(parts: AttentionParts, **changes: object) -> list[Operation]:
    return [replace(parts.first, **changes), parts.softmax, parts.second]  # type: ignore[arg-type]


def _whole(parts: AttentionParts, name: str, value: Element, *sizes: int) -> Map:
    output = tensor_of(name, *sizes)
    return Map(
        output=output, axes=sizes, value=value, coordinates=tuple(map(along, range(len(sizes))))
    )


# --- what is no attention -------------------------------------------------------------------------


def _integer_scores(parts: AttentionParts) -> list[Operation]:
    codes = tensor_of("query", 2, 5, 3, 8, scalar=Scalar.U8)
    others = tensor_of("key", 2, 5, 3, 8, scalar=Scalar.I8)
    parts.query, parts.key = codes, others
    element = Convert(_INTEGER, Scalar.F32)
    return _first(
        parts,
        left=read_of(codes, 0, 2, 1, 3),
        right=read_of(others, 0, 3, 1, 2),
        epilogue=times(element, 1e-4),
    )


def _one_score_in_many_columns(parts: AttentionParts) -> list[Operation]:
    """A softmax over 5 columns of one score; the product takes the first of them."""
    scores = tensor_of("scores", 2, 3, 5, 1)
    value = Read(scores, (along(0), along(1), along(2), Coordinate()))
    masked = Call(Function.ADD, (value, read_of(parts.mask, 0, 3)))
    return [
        replace(parts.first, n=1, output=scores),
        replace(parts.softmax, value=masked),
        replace(parts.second, k=1),
    ]


def _one_score_repeated(parts: AttentionParts) -> list[Operation]:
    scores = tensor_of("scores", 2, 3, 5, 1)
    value = Read(scores, (along(0), along(1), along(2), Coordinate()))
    return [
        replace(parts.first, n=1, output=scores),
        replace(parts.softmax, value=value),
        parts.second,
    ]


def _scores_written_twice(parts: AttentionParts) -> list[Operation]:
    coordinates = (along(0), along(1), along(2), Coordinate())
    written = Map(
        output=parts.scores, axes=(2, 3, 5), value=Number(1.0, Scalar.F32), coordinates=coordinates
    )
    return [parts.first, written, parts.softmax, parts.second]


def _mapped_scores(parts: AttentionParts) -> list[Operation]:
    value = read_of(parts.mask, 0, 3)
    mapped = Map(
        output=parts.scores,
        axes=parts.scores.shape,
        value=value,
        coordinates=tuple(map(along, range(4))),
    )
    return [mapped, parts.softmax, parts.second]


def _mapped(parts: AttentionParts) -> list[Operation]:
    value = times(read_of(parts.weights, 0, 2, 1, 3), 2.0)
    return [parts.first, parts.softmax, _whole(parts, "output", value, 2, 5, 3, 5)]


def _half_probabilities(parts: AttentionParts) -> list[Operation]:
    value = tensor_of("value", 2, 5, 3, 8, scalar=Scalar.F16)
    parts.given = value
    return _second(
        parts,
        left=Convert(read_of(parts.weights, 0, 1, 2, 3), Scalar.F16),
        right=read_of(value, 0, 2, 1, 3),
    )


_INTEGER = replace(MADE, scalar=Scalar.I32)
_ONE = Number(1.0, Scalar.F32)
#: One for each condition: what there is in the place of an attention's parts.
_NO_ATTENTIONS: Mapping[str, _Change] = {
    "rows have statistics": lambda parts: _softmax(
        parts, statistics=(tensor_of("mean", 2, 3, 5), None)
    ),
    "probabilities are scaled": lambda parts: _softmax(parts, epilogue=times(MADE, 2.0)),
    "probabilities are turned": lambda parts: _second(
        parts, left=read_of(parts.weights, 0, 1, 3, 2)
    ),
    "probabilities are scaled by the product": lambda parts: _second(
        parts, left=times(read_of(parts.weights, 0, 1, 2, 3), 2.0)
    ),
    "probabilities are rounded": _half_probabilities,
    "probabilities are multiplied with themselves": lambda parts: _second(
        parts, right=read_of(parts.weights, 0, 1, 2, 3), n=5, output=tensor_of("mixed", 2, 3, 5, 5)
    ),
    "some rows of probabilities are taken": lambda parts: _second(
        parts, m=3, output=tensor_of("mixed", 2, 3, 3, 8)
    ),
    "some columns of probabilities are taken": lambda parts: _second(parts, k=4),
    "some heads are taken": lambda parts: _second(
        parts, batch=(2, 2), output=tensor_of("mixed", 2, 2, 5, 8)
    ),
    "what is mixed is scaled": lambda parts: _second(parts, epilogue=times(MADE, 2.0)),
    "what is mixed becomes an integer": lambda parts: _second(
        parts,
        epilogue=Convert(times(MADE, 9.0), Scalar.I32),
        output=tensor_of("mixed", 2, 3, 5, 8, scalar=Scalar.I32),
    ),
    "what is mixed is truncated": lambda parts: _second(
        parts,
        epilogue=Convert(MADE, Scalar.I32),
        output=tensor_of("mixed", 2, 3, 5, 8, scalar=Scalar.I32),
    ),
    "probabilities have a zero point": lambda parts: _second(parts, left_zero=_ONE),
    "queries have a zero point": lambda parts: _first(parts, left_zero=_ONE),
    "scores are sums of integers": _integer_scores,
    "scores take many steps": lambda parts: _first(parts, epilogue=_summed_often(60)),
    "one score is repeated": _one_score_repeated,
    "one score is repeated, and one probability taken": _one_score_in_many_columns,
    "scores are written twice": _scores_written_twice,
    "scores are no product": _mapped_scores,
    "values are computed": _mapped,
}
#: Zero points of floats are nothing that a program may have: their values are not compared.
_UNREAL = {"probabilities have a zero point", "queries have a zero point", "rows have statistics"}


def _program(parts: AttentionParts, operations: list[Operation]) -> TensorProgram:
    return parts.program(*operations)


@pytest.mark.parametrize("case", _NO_ATTENTIONS)
def test_what_is_no_attention_stays(case: str) -> None:
    parts = AttentionParts()
    assert is_changed(_program(parts, [parts.first, parts.softmax, parts.second]), fuse_attention)
    operations = _NO_ATTENTIONS[case](parts)
    program = _program(parts, operations)
    assert not is_changed(program, fuse_attention)
    if case not in _UNREAL:
        assert_same_values(program)


def test_probabilities_beside_other_factors_stay() -> None:
    """The product takes the probabilities, but another tensor is its first factor."""
    parts = AttentionParts()
    other = tensor_of("other", 2, 3, 5, 5)
    operations = _second(
        parts, left=read_of(other, 0, 1, 2, 3), right_zero=read_of(parts.weights, 0, 1, 2, 3), n=5,
        right=read_of(parts.mask, 0, 3), output=tensor_of("mixed", 2, 3, 5, 5),
    )  # fmt: skip
    program = parts.program(*operations, more_inputs=(other,))
    assert not is_changed(program, fuse_attention)


def test_scores_of_a_narrow_kind_are_rounded_as_the_product_rounds_them() -> None:
    parts = AttentionParts()
    narrow = tensor_of("scores", 2, 3, 5, 5, scalar=Scalar.F16)
    value = Convert(read_of(narrow, 0, 1, 2, 3), Scalar.F32)
    first = replace(parts.first, output=narrow, epilogue=Convert(MADE, Scalar.F16))
    program = parts.program(first, replace(parts.softmax, value=value), parts.second)
    (attention,) = fuse_attention(program).operations
    assert isinstance(attention, Attention)
    assert attention.score == Convert(Convert(MADE, Scalar.F16), Scalar.F32)


def test_scores_that_only_the_softmax_scales_are_an_attention() -> None:
    parts = AttentionParts()
    value = times(read_of(parts.scores, 0, 1, 2, 3), 0.5)
    first, softmax = replace(parts.first, epilogue=None), replace(parts.softmax, value=value)
    program = parts.program(first, softmax, parts.second)
    (attention,) = fuse_attention(program).operations
    assert isinstance(attention, Attention)
    assert attention.score == times(MADE, 0.5)
    assert_same_values(program)


# --- what stays behind an attention ---------------------------------------------------------------


def _part_of_a_larger(parts: AttentionParts) -> list[Operation]:
    larger = tensor_of("larger", 2, 6, 3, 5)
    coordinates = (along(0), Coordinate(((1, 1),), 1), along(2), along(3))
    row = Map(
        output=larger,
        axes=(2, 3, 5),
        value=_ONE,
        coordinates=(along(0), Coordinate(), along(1), along(2)),
    )
    rest = Map(
        output=larger,
        axes=(2, 5, 3, 5),
        value=read_of(parts.mixed, 0, 2, 1, 3),
        coordinates=coordinates,
    )
    return [row, rest]


def _product_behind(parts: AttentionParts) -> list[Operation]:
    output = tensor_of("output", 2, 3, 5, 5)
    behind = Product(
        output=output, batch=(2, 3), m=5, n=5, k=5, left=read_of(parts.mixed, 0, 1, 2, 3),
        right=read_of(parts.key, 0, 3, 1, 2),
    )  # fmt: skip
    return [behind]


def _reading(*sizes: int, coordinates: tuple[Coordinate, ...]) -> _Change:
    return lambda parts: [_whole(parts, "output", Read(parts.mixed, coordinates), *sizes)]


_ALONG = tuple(map(along, range(4)))
#: One for each condition of a map that only permutes: what follows the second product instead.
_NO_PERMUTATIONS: Mapping[str, _Change] = {
    "a part of a larger tensor": _part_of_a_larger,
    "a product": _product_behind,
    "one head": _reading(2, 5, 5, coordinates=(along(0), Coordinate(), along(1), along(2))),
    "columns from the second on": _reading(
        2, 3, 5, 4, coordinates=(*_ALONG[:3], Coordinate(((3, 1),), 1))
    ),
    "rows in reverse": _reading(
        2, 3, 5, 5, coordinates=(along(0), along(1), Coordinate(((2, -1),), 4), along(3))
    ),
    "every second row": _reading(
        2, 3, 3, 5, coordinates=(*_ALONG[:2], Coordinate(((2, 2),)), along(3))
    ),
    "sums of two axes": _reading(
        2, 3, 1, 5, 5, coordinates=(along(0), along(1), Coordinate(((2, 1), (3, 1))), along(4))
    ),
    "a diagonal": _reading(2, 3, 5, coordinates=(along(0), along(1), along(2), along(2))),
    "rows repeated": _reading(2, 3, 5, 5, 4, coordinates=_ALONG),
}


@pytest.mark.parametrize("case", _NO_PERMUTATIONS)
def test_what_does_more_than_to_permute_stays_behind(case: str) -> None:
    parts = AttentionParts(width=5)
    behind = _NO_PERMUTATIONS[case](parts)
    program = parts.program(parts.first, parts.softmax, parts.second, *behind)
    fused = fuse_attention(program).operations
    assert [type(operation) for operation in fused] == [Attention, *map(type, behind)]
    assert [*fused[1:]] == behind
    assert_same_values(program)


def test_a_permutation_with_a_dimension_of_one_is_the_place_of_the_output() -> None:
    parts = AttentionParts()
    turned = _reading(2, 5, 1, 3, 8, coordinates=(along(0), along(3), along(1), along(4)))(parts)
    program = parts.program(parts.first, parts.softmax, parts.second, *turned)
    (attention,) = fuse_attention(program).operations
    assert isinstance(attention, Attention)
    assert attention.coordinates == (along(0), along(2), Coordinate(), along(1), along(3))
    assert_same_values(program)


def test_a_permutation_that_leaves_out_a_dimension_of_one_is_the_place_of_the_output() -> None:
    parts = AttentionParts()
    scores, weights, mixed = (
        tensor_of("scores", 2, 3, 1, 5), tensor_of("weights", 2, 3, 1, 5),
        tensor_of("mixed", 2, 3, 1, 8),
    )  # fmt: skip
    query = Read(parts.query, (along(0), Coordinate(), along(1), along(3)))
    first = replace(parts.first, m=1, output=scores, left=query)
    softmax = replace(
        parts.softmax, axes=weights.shape, output=weights, value=read_of(scores, 0, 1, 2, 3)
    )
    second = replace(parts.second, m=1, output=mixed, left=read_of(weights, 0, 1, 2, 3))
    turned = _whole(
        parts, "output", Read(mixed, (along(1), along(0), Coordinate(), along(2))), 3, 2, 8
    )
    program = parts.program(first, softmax, second, turned)
    (attention,) = fuse_attention(program).operations
    assert isinstance(attention, Attention)
    assert attention.coordinates == (along(1), along(0), along(3))
    assert_same_values(program)
