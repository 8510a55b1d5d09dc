"""Elements become loop-IR values that numpy's reference agrees with, read no more than is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.loop_ir.kernel_text import kernel_text
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
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
    along,
    scalar_of,
)
from tests.compiler.native_kernels import run_kernel
from tests.compiler.native_targets import NATIVE_TARGETS, V3, V4, NativeTarget
from tests.compiler.reference_elements import DTYPES, assert_same, reference_value

Array = npt.NDArray[Any]
_ROWS, _COLUMNS = 3, 21
_NUMBERS = [scalar for scalar in Scalar if scalar is not Scalar.BOOL]


def _row_kernel(
    elements: Sequence[Element], target: NativeTarget
) -> tuple[ScheduledKernel, list[Tensor]]:
    """A kernel that stores each element at 3 x 21 places: vectors along axis 1, then a rest."""
    outputs = [
        Tensor(f"made_{place}", scalar_of(each), (_ROWS, _COLUMNS))
        for place, each in enumerate(elements)
    ]
    maker = KernelMaker("rows")
    b, values = maker.builder, ElementValues(maker, target.model)
    lanes = target.model.lanes(Scalar.F32)
    buffers = [maker.written(each) for each in outputs]
    with b.loop(0, _COLUMNS, lanes) as loop:
        count = b.least(b.sub(_COLUMNS, loop.index), lanes)
        axes = (b.tile, loop.index)
        place = b.add(b.mul(b.tile, _COLUMNS), loop.index)
        for element, buffer in zip(elements, buffers, strict=True):
            made = values.value_of(element, axes, vector_axis=1, lanes=lanes, count=count)
            b.store(buffer, place, made, count)
    return maker.scheduled(_ROWS), outputs


def _assert_values(
    elements: Mapping[str, Element], arrays: Mapping[Tensor, Array], target: NativeTarget
) -> None:
    """That one kernel makes of each element what numpy's reference does; the keys name them."""
    scheduled, outputs = _row_kernel([*elements.values()], target)
    made = {each: np.zeros((_ROWS, _COLUMNS), DTYPES[each.scalar]) for each in outputs}
    buffers = [made[each] if each in made else arrays[each] for each in scheduled.buffers]
    failed = run_kernel(
        scheduled.kernel, buffers, tile_count=_ROWS, cpu=target.cpu, features=target.features
    )
    assert failed == 0, f"access {failed} of {kernel_text(scheduled.kernel)}"
    for (name, element), output in zip(elements.items(), outputs, strict=True):
        with np.errstate(all="ignore"):
            wanted = reference_value(element, (_ROWS, _COLUMNS), arrays)
        assert_same(made[output], wanted, name)


def _filled(tensor: Tensor, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    shape = tuple(each for each in tensor.shape if isinstance(each, int))
    kind = DTYPES[tensor.scalar]
    if tensor.scalar is Scalar.BOOL:
        return generator.integers(0, 2, shape).astype(kind)
    if tensor.scalar.is_integer:
        limits = np.iinfo(kind)
        made = generator.integers(limits.min, limits.max, shape, kind, endpoint=True)
        special = np.array([0, 1, limits.min, limits.max, limits.max - limits.max - 1 if limits.min
                            else 1], kind)  # fmt: skip
    else:
        made = (generator.standard_normal(shape) * 50).astype(kind)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32).astype(kind)
    coordinates = generator.integers(0, made.size, 24)
    made.ravel()[coordinates] = np.resize(special, 24)
    return made


def _matrix(name: str, scalar: Scalar) -> tuple[Tensor, Read]:
    tensor = Tensor(name, scalar, (_ROWS, _COLUMNS))
    return tensor, Read(tensor, (along(0), along(1)))


_INTEGER_FUNCTIONS = [Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.REM,
                      Function.MIN, Function.MAX, Function.AND, Function.OR, Function.XOR]  # fmt: skip
_FLOAT_FUNCTIONS = [Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.MIN,
                    Function.MAX]  # fmt: skip
_COMPARISONS = [Function.EQ, Function.NE, Function.LT, Function.LE, Function.GT, Function.GE]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("scalar", _NUMBERS, ids=str)
def test_functions_of_two_are_numpys_for_every_kind(scalar: Scalar, target: NativeTarget) -> None:
    left, read_left = _matrix("left", scalar)
    right, read_right = _matrix("right", scalar)
    arrays = {left: _filled(left, 1), right: _filled(right, 2)}
    functions = _FLOAT_FUNCTIONS if scalar.is_float else _INTEGER_FUNCTIONS
    elements = {
        f"{function} of {scalar}": Call(function, (read_left, read_right))
        for function in [*functions, *_COMPARISONS]
    }
    _assert_values(elements, arrays, target)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("source", list(Scalar), ids=str)
def test_every_kind_is_converted_to_every_other(source: Scalar, target: NativeTarget) -> None:
    tensor, read = _matrix("x", source)
    elements = {f"{source} to {scalar}": Convert(read, scalar) for scalar in Scalar}
    _assert_values(elements, {tensor: _filled(tensor, 3)}, target)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_reads_of_every_stride_and_gathers_stay_inside(target: NativeTarget) -> None:
    table = Tensor("table", Scalar.F32, (_COLUMNS, _ROWS))
    far = Tensor("far", Scalar.F32, (5, 2 * _COLUMNS + 1))
    indices = Tensor("indices", Scalar.I32, (_COLUMNS,))
    rows = Tensor("rows", Scalar.I64, (_ROWS,))
    arrays = {table: _filled(table, 4), far: _filled(far, 5)}
    arrays[indices] = np.random.default_rng(6).integers(0, 2 * _COLUMNS, _COLUMNS, np.int32)
    arrays[rows] = np.array([4, 0, 2])
    column = Read(indices, (along(1),))
    row = Read(rows, (along(0),))
    elements: dict[str, Element] = {
        "across": Read(table, (along(1), along(0))),
        "strided": Read(far, (Coordinate(((0, 2),)), Coordinate(((1, 2),), 1))),
        "gathered": Read(far, (Coordinate(value=row), Coordinate(value=column))),
        "a gathered row": Read(far, (Coordinate(value=row), Coordinate(((1, 1),), 2))),
        "shifted by a value": Read(far, (along(0), Coordinate(((1, 1),), value=row))),
        "gathered and moved": Read(table, (along(1), Coordinate(((0, 1),)))),
        "a scalar for all": Read(far, (along(0), Coordinate(offset=7))),
        "backwards": Read(far, (along(0), Coordinate(((1, -1),), _COLUMNS - 1))),
    }
    _assert_values(elements, arrays, target)


def test_positions_and_sizes_are_numbers() -> None:
    element = Call(
        Function.ADD, (Call(Function.MUL, (Position(0), Number(100, Scalar.I64))), Position(1))
    )
    _assert_values({"a number for each place": element}, {}, V3)


def test_equal_parts_are_computed_once() -> None:
    tensor, read = _matrix("x", Scalar.F32)
    again = Read(tensor, (along(0), along(1)))
    squares = [Call(Function.MUL, (each, each)) for each in (read, again)]
    scheduled, _ = _row_kernel([Call(Function.ADD, (squares[0], squares[1]))], V4)
    text = kernel_text(scheduled.kernel)
    assert text.count("load ") == 1, text
    assert text.count(": f32x16") == 3, text


def test_bools_are_combined() -> None:
    left, read_left = _matrix("left", Scalar.BOOL)
    right, read_right = _matrix("right", Scalar.BOOL)
    arrays = {left: _filled(left, 1), right: _filled(right, 2)}
    functions = (Function.AND, Function.OR, Function.XOR, Function.MIN, Function.MAX)
    elements = {str(each): Call(each, (read_left, read_right)) for each in functions}
    elements["a choice"] = Call(
        Function.SELECT, (read_left, read_right, Call(Function.NOT, (read_right,)))
    )
    _assert_values(elements, arrays, V3)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("scalar", [Scalar.F16, Scalar.BF16], ids=str)
def test_every_float_of_16_bits_is_converted_there_and_back(
    scalar: Scalar, target: NativeTarget
) -> None:
    count = 1 << 16
    b = KernelBuilder("there_and_back")
    source, wide = b.input("source", scalar), b.output("wide", Scalar.F32)
    near, back = b.input("near", Scalar.F32), b.output("back", scalar)
    with b.loop(0, count, 8) as loop:
        b.store(wide, loop.index, b.cast(b.load(source, loop.index, 8), Scalar.F32))
        b.store(back, loop.index, b.cast(b.load(near, loop.index, 8), scalar))
    numbers = np.arange(count, dtype=np.uint16).view(DTYPES[scalar])
    with np.errstate(all="ignore"):
        floats = numbers.astype(np.float32)
        halfway = (floats + np.roll(floats, -1)) / 2  # between neighbours: to the even one
        wanted = halfway.astype(DTYPES[scalar])
    made, returned = np.empty(count, np.float32), np.empty(count, DTYPES[scalar])
    run_kernel(
        b.kernel(), [numbers, made, halfway, returned], tile_count=1, cpu=target.cpu,
        features=target.features,
    )  # fmt: skip
    assert_same(made, floats)
    assert_same(returned, wanted)
