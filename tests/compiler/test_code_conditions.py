"""For each condition under which codes are multiplied, what lacks just that one keeps its floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from ortpkg.compiler.fusion.quantized_products import multiply_codes
from ortpkg.compiler.fusion.requantization import requantize_at_once
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
from ortpkg.compiler.tensor_ir.operations import Convolution, Map, Operation, Product, Window
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.attention_parts import read_of, tensor_of, times
from tests.compiler.fusion_pairs import is_changed

_WINDOW = Window(kernel=(1, 1), strides=(1, 1), dilations=(1, 1), before=(0, 0), after=(0, 0))
_LEFT, _RIGHT = (tensor_of(name, 3, 3, scalar=Scalar.U8) for name in ("left", "right"))
_IMAGE, _FILTERS = (tensor_of(name, 2, 2, 1, 1, scalar=Scalar.I8) for name in ("image", "filters"))
_WIDE = tensor_of("wide", 3, 3, scalar=Scalar.I32)
_WIDE_POINTS = tensor_of("wide points", 3, scalar=Scalar.I32)
_ROW = tensor_of("row", 1, 3, scalar=Scalar.U8)
_TALL = tensor_of("tall", 5, 3, scalar=Scalar.U8)
_POINTS = tensor_of("points", 3, scalar=Scalar.U8)
_OTHER_POINTS = tensor_of("other points", 3, scalar=Scalar.I8)
_SCALES, _PLANE, _GIVEN = (
    tensor_of("scales", 3), tensor_of("plane", 3, 3), tensor_of("given", 3),
)  # fmt: skip
_EQUAL_SCALES = tensor_of("equal scales", 3)
_HALF_SCALE = tensor_of("half scale", 3, scalar=Scalar.F16)
_OPEN_CODES = tuple(
    Tensor(name, Scalar.U8, shape)
    for name, shape in (("open left", (3, symbol("k"))), ("open right", (symbol("k"), 3)))
)
_OPEN_IMAGE, _OPEN_FILTERS = (
    Tensor(name, Scalar.I8, (2, symbol("c"), 1, 1)) for name in ("open image", "open filters")
)
_MANY = 33_026
_MANY_LEFT = tensor_of("many left", 1, _MANY, scalar=Scalar.U8)
_MANY_RIGHT = tensor_of("many right", _MANY, 1, scalar=Scalar.U8)
_MANY_IMAGE, _MANY_FILTERS = (
    tensor_of(name, 2, _MANY, 1, 1, scalar=Scalar.I8) for name in ("many image", "many filters")
)
_INPUTS = (
    _LEFT, _RIGHT, _IMAGE, _FILTERS, _WIDE, _WIDE_POINTS, _ROW, _GIVEN, _HALF_SCALE, *_OPEN_CODES,
    _OPEN_IMAGE, _OPEN_FILTERS, _MANY_LEFT, _MANY_RIGHT,
)  # fmt: skip
_CONSTANTS: Mapping[Tensor, Any] = {
    _SCALES: np.array([0.5, 0.25, 0.125], np.float32),
    _EQUAL_SCALES: np.full(3, 0.125, np.float32),
    _PLANE: np.full((3, 3), 0.5, np.float32),
    _POINTS: np.array([1, 2, 3], np.uint8),
    _OTHER_POINTS: np.array([1, 2, 3], np.int8),
}


def _f32(element: Element) -> Element:
    return Convert(element, Scalar.F32)


def _number(number: float) -> Element:
    return Number(number, Scalar.F32)


def _least(left: Element, right: Element) -> Element:
    return Call(Function.MIN, (left, right))


def _less(left: Element, right: Element) -> Element:
    return Call(Function.SUB, (left, right))


def _dequantized(codes: Tensor, zero: float = 1.0, scale: float = 0.5) -> Element:
    coordinates = read_of(codes, *range(len(codes.shape)))
    return times(_less(_f32(coordinates), _number(zero)), scale)


def _map(name: str, value: Element, *sizes: Any) -> Map:
    output = Tensor(name, Scalar.F32, sizes)
    return Map(
        output=output, axes=sizes, value=value, coordinates=tuple(map(along, range(len(sizes))))
    )


@dataclass
class _Product:
    """A product of two dequantized matrices, and what a case has changed of it."""

    left: Element = field(default_factory=lambda: _dequantized(_LEFT))
    right: Element = field(default_factory=lambda: _dequantized(_RIGHT))
    left_side: Callable[[Tensor], Element] = lambda tensor: read_of(tensor, 0, 1)
    right_side: Callable[[Tensor], Element] = lambda tensor: read_of(tensor, 0, 1)
    sizes: tuple[Any, Any, Any] = (3, 3, 3)

    def program(self) -> TensorProgram:
        """The program with the matrices and their product."""
        m, n, k = self.sizes
        left, right = _map("a", self.left, m, k), _map("b", self.right, k, n)
        product = Product(
            output=tensor_of("y", m, n), batch=(), m=m, n=n, k=k,
            left=self.left_side(left.output), right=self.right_side(right.output),
        )  # fmt: skip
        return _program(left, right, product)


def _program(*operations: Operation) -> TensorProgram:
    return TensorProgram(
        name="program",
        inputs=_INPUTS,
        outputs=(operations[-1].output,),
        constants=_CONSTANTS,
        operations=operations,
    )  # fmt: skip


def _scaled_by(scale: Element, zero: Element | None = None) -> Element:
    codes = _f32(read_of(_RIGHT, 0, 1))
    return Call(Function.MUL, (codes if zero is None else _less(codes, zero), scale))


def _scaled_by_wide(zero: Element) -> Element:
    return times(_less(_f32(read_of(_WIDE, 0, 1)), zero), 0.5)


_CODES = _less(_f32(read_of(_RIGHT, 0, 1)), _number(1.0))
#: For each condition, what is changed of the product of codes.
_PRODUCTS_OF_FLOATS: Mapping[str, Callable[[], _Product]] = {
    "the scale is added": lambda: _Product(right=Call(Function.ADD, (_CODES, _number(0.5)))),
    "the zero point is added": lambda: _Product(
        right=times(Call(Function.ADD, (_f32(read_of(_RIGHT, 0, 1)), _number(1.0))), 0.5)
    ),
    "codes are of 32 bits": lambda: _Product(right=_dequantized(_WIDE)),
    "codes of 32 bits have no zero point": lambda: _Product(
        right=times(_f32(read_of(_WIDE, 0, 1)), 0.5)
    ),
    "codes of 32 bits have points of bytes": lambda: _Product(
        right=times(_less(_f32(read_of(_WIDE, 0, 1)), _f32(read_of(_POINTS, 1))), 0.5)
    ),
    "zero points are of another kind": lambda: _Product(
        right=_scaled_by(_number(0.5), _f32(read_of(_OTHER_POINTS, 1)))
    ),
    "zero points are computed": lambda: _Product(
        right=_scaled_by(_number(0.5), times(_f32(read_of(_POINTS, 1)), 2.0))
    ),
    "zero points are the lesser of two": lambda: _Product(
        right=_scaled_by(_number(0.5), _f32(_least(read_of(_POINTS, 1), read_of(_POINTS, 0))))
    ),
    "codes and zero points are of 32 bits": lambda: _Product(
        right=times(_less(_f32(read_of(_WIDE, 0, 1)), _f32(read_of(_WIDE, 1, 0))), 0.5)
    ),
    "codes and zero points along an axis are of 32 bits": lambda: _Product(
        right=_scaled_by_wide(_f32(read_of(_WIDE_POINTS, 1)))
    ),
    "codes are the lesser of two": lambda: _Product(
        right=times(_f32(_least(read_of(_RIGHT, 0, 1), read_of(_LEFT, 0, 1))), 0.5)
    ),
    "codes less a zero point are the lesser of two": lambda: _Product(
        right=times(
            _less(_f32(_least(read_of(_RIGHT, 0, 1), read_of(_LEFT, 0, 1))), _number(1.0)), 0.5
        )
    ),
    "some rows of codes are taken": lambda: _Product(right=_dequantized(_TALL)),
    "codes are turned": lambda: _Product(
        right=times(_less(_f32(read_of(_RIGHT, 1, 0)), _number(1.0)), 0.5)
    ),
    "codes are repeated": lambda: _Product(
        right=times(_less(_f32(Read(_ROW, (Coordinate(), along(1)))), _number(1.0)), 0.5)
    ),
    "scales are along another axis than zero points": lambda: _Product(
        right=_scaled_by(read_of(_SCALES, 1), _f32(read_of(_POINTS, 0)))
    ),
    "scales are along both axes": lambda: _Product(right=_scaled_by(read_of(_PLANE, 0, 1))),
    "scales are given at run time": lambda: _Product(right=_scaled_by(read_of(_GIVEN, 1))),
    "scales are of f16": lambda: _Product(right=_scaled_by(_f32(read_of(_HALF_SCALE, 1)))),
    "scales are along what is summed": lambda: _Product(right=_scaled_by(read_of(_SCALES, 0))),
    "both sides have several scales": lambda: _Product(
        left=Call(Function.MUL, (_f32(read_of(_LEFT, 0, 1)), read_of(_SCALES, 0))),
        right=_scaled_by(read_of(_SCALES, 1)),
    ),
    "the product of scales is too large": lambda: _Product(
        left=_dequantized(_LEFT, scale=1e10), right=_dequantized(_RIGHT, scale=1e10)
    ),
    "the product of scales is denormal": lambda: _Product(
        left=_dequantized(_LEFT, scale=1e-20), right=_dequantized(_RIGHT, scale=1e-20)
    ),
    "a scale is negative": lambda: _Product(right=_dequantized(_RIGHT, scale=-0.5)),
    "one side is no tensor": lambda: _Product(
        right_side=lambda tensor: times(read_of(tensor, 0, 1), 2.0)
    ),
    "one side is not dequantized": lambda: _Product(right_side=lambda _: read_of(_PLANE, 0, 1)),
    "sums may pass 32 bits": lambda: _Product(
        left=_dequantized(_MANY_LEFT), right=_dequantized(_MANY_RIGHT), sizes=(1, 1, _MANY)
    ),
    "the number of terms is not known": lambda: _Product(
        left=_dequantized(_OPEN_CODES[0]), right=_dequantized(_OPEN_CODES[1]),
        sizes=(3, 3, symbol("k")),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "right",
    [
        _dequantized(_RIGHT),
        _scaled_by(_number(0.5)),
        _scaled_by(read_of(_SCALES, 1), _f32(read_of(_POINTS, 1))),
    ],
)
def test_a_product_of_dequantized_bytes_is_one_of_codes(right: Element) -> None:
    assert is_changed(_Product(right=right).program(), multiply_codes)


def test_rows_may_have_scales_where_columns_have_one() -> None:
    left = Call(Function.MUL, (_f32(read_of(_LEFT, 0, 1)), read_of(_SCALES, 0)))
    assert is_changed(_Product(left=left).program(), multiply_codes)


@pytest.mark.parametrize("case", _PRODUCTS_OF_FLOATS)
def test_any_other_product_stays_one_of_floats(case: str) -> None:
    assert not is_changed(_PRODUCTS_OF_FLOATS[case]().program(), multiply_codes)


def test_codes_written_at_other_places_are_not_multiplied() -> None:
    first, second, product = _Product().program().operations
    assert isinstance(second, Map)
    turned = replace(second, coordinates=(along(1), along(0)))
    assert not is_changed(_program(first, turned, product), multiply_codes)


# --- convolutions ---------------------------------------------------------------------------------


def _convolution(
    source: Element | None = None, weights: Element | None = None, *, channels: Any = 2
) -> TensorProgram:
    image = _map("a", source or _dequantized(_IMAGE), 2, channels, 1, 1)
    filters = _map("b", weights or _dequantized(_FILTERS), 2, channels, 1, 1)
    convolution = Convolution(
        output=tensor_of("y", 2, 2, 1, 1), source=image.output, weights=filters.output, groups=1,
        window=_WINDOW,
    )  # fmt: skip
    return _program(image, filters, convolution)


def _channel_scales(codes: Tensor, axis: int) -> Element:
    taken = Read(_SCALES, (along(axis),))
    return Call(Function.MUL, (_f32(read_of(codes, 0, 1, 2, 3)), taken))


_CONVOLUTIONS_OF_FLOATS: Mapping[str, Callable[[], TensorProgram]] = {
    "the source is not dequantized": lambda: _convolution(times(_f32(read_of(_IMAGE, 0, 1, 2, 3)), 1e30)),
    "the source is a number": lambda: _convolution(_number(0.5)),
    "channels of the source have scales": lambda: _convolution(_channel_scales(_IMAGE, 1)),
    "channels of the weights that are summed have scales": lambda: _convolution(
        weights=_channel_scales(_FILTERS, 1)
    ),
    "weights are not dequantized": lambda: _convolution(weights=_number(0.5)),
    "sums of windows may pass 32 bits": lambda: _convolution(
        _dequantized(_MANY_IMAGE), _dequantized(_MANY_FILTERS), channels=_MANY
    ),
    "the number of channels is not known": lambda: _convolution(
        _dequantized(_OPEN_IMAGE), _dequantized(_OPEN_FILTERS), channels=symbol("c")
    ),
}  # fmt: skip


@pytest.mark.parametrize("weights", [None, _channel_scales(_FILTERS, 0)])
def test_a_convolution_of_dequantized_bytes_is_one_of_codes(weights: Element | None) -> None:
    assert is_changed(_convolution(weights=weights), multiply_codes)


def test_the_longest_sums_that_fit_are_of_codes() -> None:
    longest = _MANY - 1
    image, filters = (tensor_of(name, 2, longest, 1, 1, scalar=Scalar.I8) for name in "xw")
    program = _convolution(_dequantized(image), _dequantized(filters), channels=longest)
    assert is_changed(replace(program, inputs=(image, filters)), multiply_codes)


@pytest.mark.parametrize("case", _CONVOLUTIONS_OF_FLOATS)
def test_any_other_convolution_stays_one_of_floats(case: str) -> None:
    assert not is_changed(_CONVOLUTIONS_OF_FLOATS[case](), multiply_codes)


def test_a_convolution_in_groups_with_zero_points_stays_one_of_floats() -> None:
    """Several channels to a group, whose weights have a zero point: no kernel multiplies them."""
    image, filters, convolution = _convolution().operations
    assert isinstance(convolution, Convolution)
    wide = tensor_of("a", 2, 4, 1, 1)
    codes = tensor_of("image", 2, 4, 1, 1, scalar=Scalar.I8)
    image = _map("a", _dequantized(codes), 2, 4, 1, 1)
    wide = image.output
    grouped = replace(convolution, source=wide, groups=2)
    program = replace(_program(image, filters, grouped), inputs=(codes, _FILTERS))
    assert not is_changed(program, multiply_codes)


# --- one scale in the place of two ----------------------------------------------------------------

_SUM = Made(Scalar.I32)
_STEPS = tensor_of("steps", 3, scalar=Scalar.I32)
_BIAS = tensor_of("bias", 3)
_GIVEN_STEPS = tensor_of("given steps", 3, scalar=Scalar.I32)
_LONG_STEPS = tensor_of("long steps", 3, scalar=Scalar.I64)


def _sum(scale: float = 0.125) -> Element:
    return times(_f32(_SUM), scale)


def _plus(left: Element, right: Element) -> Element:
    return Call(Function.ADD, (left, right))


def _steps(tensor: Tensor = _STEPS, axis: int = 1, unit: float = 0.125) -> Element:
    return times(_f32(read_of(tensor, axis)), unit)


def _code(
    number: Element, over: Element | None = None, function: Function = Function.DIV
) -> Element:
    return Call(Function.ROUND, (Call(function, (number, over or _number(0.75))),))


def _requantized(code: Element, bias: int = 4, *, k: Any = 3) -> TensorProgram:
    epilogue = Convert(_plus(code, _number(7.0)), Scalar.U8)
    product = Product(
        output=tensor_of("y", 3, 3, scalar=Scalar.U8), batch=(), m=3, n=3, k=k,
        left=read_of(_LEFT if k == 3 else _OPEN_CODES[0], 0, 1),
        right=read_of(_RIGHT if k == 3 else _OPEN_CODES[1], 0, 1), epilogue=epilogue,
    )  # fmt: skip
    constants = {
        **_CONSTANTS,
        _STEPS: np.array([1, -2, bias], np.int32),
        _LONG_STEPS: np.array([1, -2, bias], np.int64),
        _BIAS: np.array([0.5, 1.0, -0.5], np.float32),
    }
    return replace(_program(product), constants=constants, inputs=(*_INPUTS, _GIVEN_STEPS))


def _convolved(image: Tensor, filters: Tensor) -> TensorProgram:
    """A convolution of codes, whose sums become codes."""
    convolution = Convolution(
        output=tensor_of("y", 2, 2, 1, 1, scalar=Scalar.U8), source=image, weights=filters,
        groups=1, window=_WINDOW,
        epilogue=Convert(_plus(_code(_sum()), _number(7.0)), Scalar.U8),
    )  # fmt: skip
    return _program(convolution)


_ONE_SCALE: Mapping[str, Element] = {
    "sums": _code(_sum()),
    "sums with a bias of integers": _code(_plus(_sum(), _steps())),
    "sums with a bias of floats": _code(_plus(_sum(), read_of(_BIAS, 1))),
    "sums that are bounded": _code(Call(Function.MAX, (_sum(), _number(0.0)))),
    "sums with a scale for each column": _code(
        Call(Function.MUL, (_f32(_SUM), read_of(_SCALES, 1)))
    ),
    "sums with a scale and a bias for each column": _code(
        _plus(Call(Function.MUL, (_f32(_SUM), read_of(_SCALES, 1))), read_of(_BIAS, 1))
    ),
}
_TWO_SCALES: Mapping[str, Callable[[], TensorProgram]] = {
    "codes are rounded down": lambda: _requantized(
        Call(Function.FLOOR, (Call(Function.DIV, (_sum(), _number(0.75))),))
    ),
    "codes are multiplied": lambda: _requantized(_code(_sum(), function=Function.MUL)),
    "the scale is negative": lambda: _requantized(_code(_sum(), _number(-0.75))),
    "the scale is tiny": lambda: _requantized(_code(_sum(), _number(1e-37))),
    "the scale is huge": lambda: _requantized(_code(_sum(), _number(1e37))),
    "the scale is given at run time": lambda: _requantized(_code(_sum(), read_of(_GIVEN, 1))),
    "the sums' scale is given at run time": lambda: _requantized(
        _code(Call(Function.MUL, (_f32(_SUM), read_of(_GIVEN, 1))))
    ),
    "sums are bounded above": lambda: _requantized(
        _code(Call(Function.MIN, (_sum(), _number(0.0))))
    ),
    "sums are bounded by one": lambda: _requantized(
        _code(Call(Function.MAX, (_sum(), _number(1.0))))
    ),
    "a bias is taken off": lambda: _requantized(_code(_less(_sum(), _steps()))),
    "sums are divided": lambda: _requantized(
        _code(Call(Function.DIV, (_f32(_SUM), _number(0.125))))
    ),
    "something else than sums is scaled": lambda: _requantized(
        _code(times(read_of(_GIVEN, 1), 0.125))
    ),
    "a bias is divided": lambda: _requantized(
        _code(_plus(_sum(), Call(Function.DIV, (_f32(read_of(_STEPS, 1)), _number(0.125)))))
    ),
    "a bias has scales of its own": lambda: _requantized(
        _code(
            _plus(
                _sum(), Call(Function.MUL, (_f32(read_of(_STEPS, 1)), read_of(_EQUAL_SCALES, 1)))
            )
        )
    ),
    "two biases are added": lambda: _requantized(_code(_plus(_plus(_sum(), _steps()), _steps()))),
    "a bias is added behind a bound": lambda: _requantized(
        _code(_plus(Call(Function.MAX, (_sum(), _number(0.0))), _steps()))
    ),
    "a bias has another unit": lambda: _requantized(_code(_plus(_sum(), _steps(unit=0.25)))),
    "a bias is of 64 bits": lambda: _requantized(_code(_plus(_sum(), _steps(_LONG_STEPS)))),
    "a bias is given at run time": lambda: _requantized(_code(_plus(_sum(), read_of(_GIVEN, 1)))),
    "a bias of integers is given at run time": lambda: _requantized(
        _code(_plus(_sum(), _steps(_GIVEN_STEPS)))
    ),
    "a bias' scale is given at run time": lambda: _requantized(
        _code(_plus(_sum(), Call(Function.MUL, (_f32(read_of(_STEPS, 1)), read_of(_GIVEN, 1)))))
    ),
    "a bias is added to something else than sums": lambda: _requantized(
        _code(_plus(read_of(_GIVEN, 1), read_of(_BIAS, 1)))
    ),
    "a bias is along another axis than scales": lambda: _requantized(
        _code(_plus(Call(Function.MUL, (_f32(_SUM), read_of(_SCALES, 1))), read_of(_BIAS, 0)))
    ),
    "sums' scale is nothing": lambda: _requantized(
        _code(_plus(_sum(0.0), read_of(_BIAS, 1)))
    ),
    "a bias may pass 32 bits": lambda: _requantized(
        _code(_plus(_sum(), _steps())), 2**31 - 3 * 255**2
    ),
    "the number of terms is not known": lambda: _requantized(_code(_sum()), k=symbol("k")),
    "the number of channels is not known": lambda: _convolved(_OPEN_IMAGE, _OPEN_FILTERS),
}  # fmt: skip


@pytest.mark.parametrize("case", _ONE_SCALE)
def test_codes_of_sums_are_made_with_one_scale(case: str) -> None:
    assert is_changed(_requantized(_ONE_SCALE[case]), requantize_at_once)


def test_codes_of_sums_of_windows_are_made_with_one_scale() -> None:
    assert is_changed(_convolved(_IMAGE, _FILTERS), requantize_at_once)


@pytest.mark.parametrize("case", _TWO_SCALES)
def test_codes_of_anything_else_keep_both_scales(case: str) -> None:
    assert not is_changed(_TWO_SCALES[case](), requantize_at_once)


def test_the_largest_bias_that_fits_is_in_the_units_of_the_sums() -> None:
    program = _requantized(_code(_plus(_sum(), _steps())), 2**31 - 1 - 3 * 255**2)
    assert is_changed(program, requantize_at_once)
