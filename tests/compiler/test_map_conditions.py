"""For each condition under which maps move, a map that lacks just that one stays where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from ortpkg.compiler.fusion.epilogues import fuse_epilogues
from ortpkg.compiler.fusion.inlining import inline_maps
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
from ortpkg.compiler.tensor_ir.operations import (
    Attention,
    Combiner,
    Convolution,
    Map,
    Operation,
    Product,
    Reduce,
    Window,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from tests.compiler.attention_parts import MADE, read_of, tensor_of, times
from tests.compiler.fusion_pairs import assert_same_values, is_changed

_LEFT, _RIGHT = tensor_of("left", 3, 4), tensor_of("right", 4, 3)
_SQUARE, _ROW = tensor_of("square", 3, 3), tensor_of("row", 3)
_IMAGE, _FILTERS = tensor_of("image", 1, 3, 2, 2), tensor_of("filters", 2, 3, 1, 1)
_INDICES = tensor_of("indices", 3, scalar=Scalar.U8)
_HALVES = tensor_of("halves", 3, 4, scalar=Scalar.F16)
_BRAINS = tensor_of("brains", 3, 4, scalar=Scalar.BF16)
_INPUTS = (_LEFT, _RIGHT, _SQUARE, _ROW, _IMAGE, _FILTERS, _INDICES, _HALVES, _BRAINS)
_MADE_HERE = tensor_of("made", 3, 3)
_PRODUCT = Product(
    output=_MADE_HERE, batch=(), m=3, n=3, k=4, left=read_of(_LEFT, 0, 1),
    right=read_of(_RIGHT, 0, 1),
)  # fmt: skip
_ONE = Number(1.0, Scalar.F32)


def _program(operations: Sequence[Operation]) -> TensorProgram:
    return TensorProgram(
        name="program",
        inputs=_INPUTS,
        outputs=(operations[-1].output,),
        constants={},
        operations=tuple(operations),
    )


def _map(name: str, value: Element, *sizes: int, scalar: Scalar = Scalar.F32) -> Map:
    output = tensor_of(name, *sizes, scalar=scalar)
    return Map(
        output=output, axes=sizes, value=value, coordinates=tuple(map(along, range(len(sizes))))
    )


def _plus(left: Element, right: Element) -> Element:
    return Call(Function.ADD, (left, right))


def _exp(element: Element) -> Element:
    return Call(Function.EXP, (element,))


# --- epilogues ------------------------------------------------------------------------------------


def _larger(first: int) -> list[Operation]:
    """A map that writes three rows of four, from a row on."""
    larger = tensor_of("larger", 4, 3)
    rest = Map(
        output=larger,
        axes=(3,),
        value=_ONE,
        coordinates=(Coordinate(offset=0 if first else 3), along(0)),
    )
    part = Map(
        output=larger,
        axes=(3, 3),
        value=times(read_of(_MADE_HERE, 0, 1), 2.0),
        coordinates=(Coordinate(((0, 1),), first), along(1)),
    )
    return [_PRODUCT, rest, part]


def _attention_before() -> list[Operation]:
    mixed = tensor_of("mixed", 3, 3)
    attention = Attention(
        output=mixed, batch=(), queries=3, keys=3, width=4, value_width=3,
        query=read_of(_LEFT, 0, 1), key=read_of(_LEFT, 0, 1), value=read_of(_SQUARE, 0, 1),
        score=None, coordinates=(along(0), along(1)),
    )  # fmt: skip
    return [attention, _map("output", times(read_of(mixed, 0, 1), 2.0), 3, 3)]


def _overwritten() -> list[Operation]:
    row = Map(output=_MADE_HERE, axes=(3,), value=_ONE, coordinates=(Coordinate(), along(0)))
    return [_PRODUCT, row, _map("output", times(read_of(_MADE_HERE, 0, 1), 2.0), 3, 3)]


def _summed() -> list[Operation]:
    value = read_of(_MADE_HERE, 0, 1)
    output = tensor_of("output", 3)
    summed = Reduce(output=output, axes=(3,), reduced=(3,), combiner=Combiner.SUM, value=value)
    return [_PRODUCT, summed]


def _behind(value: Element, *sizes: int) -> Callable[[], list[Operation]]:
    return lambda: [_PRODUCT, _map("output", value, *sizes)]


def _turned_on_the_way() -> list[Operation]:
    behind = _map("output", times(read_of(_MADE_HERE, 0, 1), 2.0), 3, 3)
    return [_PRODUCT, replace(behind, coordinates=(along(1), along(0)))]


_NO_EPILOGUES: Mapping[str, Callable[[], list[Operation]]] = {
    "the first rows of a larger tensor": lambda: _larger(0),
    "the last rows of a larger tensor": lambda: _larger(1),
    "written at other places": _turned_on_the_way,
    "a reduction": _summed,
    "behind an attention": _attention_before,
    "partly overwritten": _overwritten,
    "once as it lies and once turned": _behind(
        _plus(read_of(_MADE_HERE, 0, 1), read_of(_MADE_HERE, 1, 0)), 3, 3
    ),
    "the diagonal": _behind(read_of(_MADE_HERE, 0, 0), 3),
    "the first row": _behind(Read(_MADE_HERE, (Coordinate(), along(0))), 3),
    "the first row, repeated": _behind(Read(_MADE_HERE, (Coordinate(), along(1))), 3, 3),
    "the whole, repeated": _behind(read_of(_MADE_HERE, 0, 1), 3, 3, 2),
}


def test_a_map_behind_a_product_is_its_epilogue() -> None:
    program = _program(_behind(times(read_of(_MADE_HERE, 0, 1), 2.0), 3, 3)())
    assert is_changed(program, fuse_epilogues)
    assert_same_values(program)


@pytest.mark.parametrize("case", _NO_EPILOGUES)
def test_what_is_no_epilogue_stays_behind(case: str) -> None:
    program = _program(_NO_EPILOGUES[case]())
    assert not is_changed(program, fuse_epilogues)
    assert_same_values(program)


@pytest.mark.parametrize(
    ("scalar", "sums_scalar"),
    [(Scalar.F16, Scalar.F32), (Scalar.BF16, Scalar.F32), (Scalar.F32, Scalar.F32)],
)
def test_an_epilogue_of_a_narrow_product_has_its_wide_sums(
    scalar: Scalar, sums_scalar: Scalar
) -> None:
    product = replace(_PRODUCT, output=tensor_of("made", 3, 3, scalar=scalar))
    behind = _map("output", _exp(Convert(read_of(product.output, 0, 1), Scalar.F32)), 3, 3)
    (fused,) = fuse_epilogues(_program([product, behind])).operations
    assert isinstance(fused, Product)
    assert fused.epilogue == _exp(Convert(Made(sums_scalar), Scalar.F32))


def test_an_epilogue_of_a_sum_of_integers_has_integers() -> None:
    counts = tensor_of("counts", 3, scalar=Scalar.I64)
    value = Convert(read_of(_INDICES, 1), Scalar.I64)
    summed = Reduce(output=counts, axes=(3,), reduced=(3,), combiner=Combiner.SUM, value=value)
    more = Call(Function.ADD, (read_of(counts, 0), Number(1, Scalar.I64)))
    program = _program([summed, _map("output", more, 3, scalar=Scalar.I64)])
    (fused,) = fuse_epilogues(program).operations
    assert isinstance(fused, Reduce)
    assert fused.epilogue == Call(Function.ADD, (Made(Scalar.I64), Number(1, Scalar.I64)))
    assert_same_values(program)


# --- inlining -------------------------------------------------------------------------------------


def _before(
    value: Element, reader: Callable[[Tensor], Operation], *sizes: int, scalar: Scalar = Scalar.F32
) -> Callable[[], list[Operation]]:
    """A map with an operation that reads it."""
    first = _map("first", value, *sizes, scalar=scalar)
    return lambda: [first, reader(first.output)]


def _doubled(tensor: Tensor) -> Operation:
    return _map("output", times(read_of(tensor, 0, 1), 2.0), 3, 3)


def _multiplied(tensor: Tensor) -> Operation:
    return replace(_PRODUCT, left=read_of(tensor, 0, 1))


def _multiplied_as_floats(tensor: Tensor) -> Operation:
    return replace(_PRODUCT, left=Convert(read_of(tensor, 0, 1), Scalar.F32))


def _doubled_float(tensor: Tensor) -> Operation:
    return _map("output", times(Convert(read_of(tensor, 0, 1), Scalar.F32), 2.0), 3, 4)


def _rows_summed(tensor: Tensor) -> Operation:
    value, output = read_of(tensor, 0, 1), tensor_of("output", 3)
    return Reduce(output=output, axes=(3,), reduced=(3,), combiner=Combiner.SUM, value=value)


def _convolved(tensor: Tensor) -> Operation:
    window = Window(kernel=(1, 1), strides=(1, 1), dilations=(1, 1), before=(0, 0), after=(0, 0))
    return Convolution(
        output=tensor_of("output", 1, 2, 2, 2), source=_IMAGE, weights=_FILTERS, groups=1,
        window=window, epilogue=_plus(MADE, read_of(tensor, 1)),
    )  # fmt: skip


def _attended(tensor: Tensor) -> Operation:
    return Attention(
        output=tensor_of("output", 3, 3), batch=(), queries=3, keys=3, width=3, value_width=3,
        query=read_of(tensor, 0, 1), key=read_of(_SQUARE, 0, 1), value=read_of(_SQUARE, 0, 1),
        score=None, coordinates=(along(0), along(1)),
    )  # fmt: skip


def _turned_and_read() -> list[Operation]:
    first = _map("first", times(read_of(_SQUARE, 0, 1), 2.0), 3, 3)
    return [replace(first, coordinates=(along(1), along(0))), _doubled(first.output)]


def _overwritten_and_read() -> list[Operation]:
    first = _map("first", times(read_of(_SQUARE, 0, 1), 2.0), 3, 3)
    row = Map(output=first.output, axes=(3,), value=_ONE, coordinates=(Coordinate(), along(0)))
    return [first, row, _doubled(first.output)]


def _reads_twice(value: Element) -> Callable[[], list[Operation]]:
    first = _map("first", value, 3, 3)
    doubled = _map("doubled", times(read_of(first.output, 0, 1), 2.0), 3, 3)
    both = _plus(read_of(first.output, 0, 1), read_of(doubled.output, 0, 1))
    return lambda: [
        first,
        replace(doubled, coordinates=(along(1), along(0))),
        _map("output", both, 3, 3),
    ]


_PICKED = Read(_SQUARE, (Coordinate(value=read_of(_INDICES, 0)), along(1)))
_FEW = Read(_SQUARE, (Coordinate(value=Number(1, Scalar.I64)), along(1)))
#: For each condition: operations that inlining leaves, beside those of which it changes one.
_PAIRS: Mapping[str, tuple[Callable[[], list[Operation]], Callable[[], list[Operation]]]] = {
    "written at other places": (
        _turned_and_read, _before(times(read_of(_SQUARE, 0, 1), 2.0), _doubled, 3, 3),
    ),
    "written by two": (
        _overwritten_and_read, _before(times(read_of(_SQUARE, 0, 1), 2.0), _doubled, 3, 3),
    ),
    "picked for a product": (
        _before(_FEW, lambda tensor: replace(_PRODUCT, left=read_of(tensor, 0, 1), k=3), 3, 3),
        _before(_FEW, _doubled, 3, 3),
    ),
    "picked for a reduction": (_before(_FEW, _rows_summed, 3, 3), _before(_FEW, _doubled, 3, 3)),
    "rounded for a product": (
        _before(Convert(read_of(_LEFT, 0, 1), Scalar.BF16), _multiplied_as_floats, 3, 4,
                scalar=Scalar.BF16),
        _before(Convert(read_of(_LEFT, 0, 1), Scalar.F16), _multiplied_as_floats, 3, 4,
                scalar=Scalar.F16),
    ),
    "rounded": (
        _before(Convert(read_of(_LEFT, 0, 1), Scalar.BF16), _multiplied_as_floats, 3, 4,
                scalar=Scalar.BF16),
        _before(Convert(read_of(_LEFT, 0, 1), Scalar.BF16), _doubled_float, 3, 4, scalar=Scalar.BF16),
    ),
    "rounded already": (
        _before(Convert(read_of(_LEFT, 0, 1), Scalar.BF16), _multiplied_as_floats, 3, 4,
                scalar=Scalar.BF16),
        _before(read_of(_BRAINS, 0, 1), _multiplied_as_floats, 3, 4, scalar=Scalar.BF16),
    ),
    "computed and converted for a product": (
        _before(Convert(times(read_of(_LEFT, 0, 1), 2.0), Scalar.F16), _multiplied_as_floats, 3, 4,
                scalar=Scalar.F16),
        _before(Convert(read_of(_LEFT, 0, 1), Scalar.F16), _multiplied_as_floats, 3, 4,
                scalar=Scalar.F16),
    ),
    "computed for a product": (
        _before(times(read_of(_LEFT, 0, 1), 2.0), _multiplied, 3, 4),
        _before(Convert(read_of(_HALVES, 0, 1), Scalar.F32), _multiplied, 3, 4),
    ),
    "computed for an attention": (
        _before(times(read_of(_SQUARE, 0, 1), 2.0), _attended, 3, 3),
        _before(read_of(_SQUARE, 1, 0), _attended, 3, 3),
    ),
    "costly for a convolution": (
        _before(_exp(read_of(_ROW, 0)), _convolved, 2), _before(times(read_of(_ROW, 0), 2.0), _convolved, 2),
    ),
    "costly for two readers": (
        _reads_twice(_exp(read_of(_SQUARE, 0, 1))), _reads_twice(times(read_of(_SQUARE, 0, 1), 2.0)),
    ),
    "costly and repeated": (
        _before(_exp(read_of(_ROW, 0)), lambda tensor: _map("output", read_of(tensor, 1), 3, 3), 3),
        _before(times(read_of(_ROW, 0), 2.0), lambda tensor: _map("output", read_of(tensor, 1), 3, 3), 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", _PAIRS)
def test_a_map_moves_into_what_reads_it_under_this_condition_alone(case: str) -> None:
    stays, moves = (_program(operations()) for operations in _PAIRS[case])
    assert not is_changed(stays, inline_maps)
    assert is_changed(moves, inline_maps)
    for program in (stays, moves):
        assert_same_values(program, rtol=5e-3)


def test_elements_picked_by_an_index_move_into_a_map() -> None:
    program = _program(_before(_PICKED, _doubled, 3, 3)())
    assert is_changed(program, inline_maps)
