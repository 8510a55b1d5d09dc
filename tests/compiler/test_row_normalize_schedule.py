"""Softmax, layer normalization and their like become kernels that compute what numpy does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.rows.row_normalize import schedule_row_normalize
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
from ortpkg.compiler.tensor_ir.operations import RowFunction, RowNormalize
from ortpkg.graph.shapes.expressions import Size, symbol
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import AARCH64, NATIVE_TARGETS, V4, NativeTarget
from tests.compiler.scheduled_kernels import compile_for_aarch64, run_scheduled

_EPSILON = 1e-5


def _softmax(x: Array) -> Array:
    grown = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    made: Array = grown / grown.sum(-1, keepdims=True)
    return made


def _log_softmax(x: Array) -> Array:
    moved = x - x.max(-1, keepdims=True, initial=-np.inf)
    made: Array = moved - np.log(np.exp(moved).sum(-1, keepdims=True))
    return made


def _standardize(x: Array) -> Array:
    made: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + _EPSILON)
    return made


def _rms(x: Array) -> Array:
    made: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + _EPSILON)
    return made


_REFERENCES: Mapping[RowFunction, Callable[[Array], Array]] = {
    RowFunction.SOFTMAX: _softmax,
    RowFunction.LOG_SOFTMAX: _log_softmax,
    RowFunction.STANDARDIZE: _standardize,
    RowFunction.RMS: _rms,
}
_WIDTHS = (0, 1, 7, 16, 65, 128, 770, 5003)


def _operation(
    function: RowFunction, shape: tuple[Size, ...], scalar: Scalar, *, is_plain: bool
) -> tuple[RowNormalize, Tensor, Tensor]:
    """x itself, or 0.5 x + row bias; with an epilogue that doubles, in another kind."""
    tensor = Tensor("x", Scalar.F32, shape)
    bias = Tensor("bias", Scalar.F32, shape[-1:])
    everywhere = tuple(along(axis) for axis in range(len(shape)))
    value: Element = Read(tensor, everywhere)
    if not is_plain:
        half = Call(Function.MUL, (value, Number(0.5, Scalar.F32)))
        value = Call(Function.ADD, (half, Read(bias, everywhere[-1:])))
    doubled = Call(Function.MUL, (Made(Scalar.F32), Number(2.0, Scalar.F32)))
    operation = RowNormalize(
        output=Tensor("made", scalar, shape),
        function=function,
        axes=shape,
        value=value,
        epsilon=_EPSILON,
        epilogue=None if is_plain and scalar is Scalar.F32 else Convert(doubled, scalar),
    )
    return operation, tensor, bias


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize("function", list(RowFunction), ids=str)
def test_rows_of_every_width_are_normalized(
    function: RowFunction, width: int, target: NativeTarget
) -> None:
    generator = np.random.default_rng(width)
    x = (generator.standard_normal((2, 3, width)) * 5 + 3).astype(np.float32)
    biases = generator.standard_normal(width).astype(np.float32)
    variants = [
        (Scalar.F32, True, False), (Scalar.F32, False, False), (Scalar.F16, False, True),
        (Scalar.F32, False, True),
    ]  # fmt: skip
    for scalar, is_plain, is_symbolic in (variants[width % 4], variants[(width + 1) % 4]):
        shape: tuple[Size, ...] = (symbol("n"), 3, symbol("w")) if is_symbolic else x.shape
        operation, tensor, bias = _operation(function, shape, scalar, is_plain=is_plain)
        kernels = schedule_row_normalize(operation, target.model, ())
        arrays = {tensor: x, bias: biases}
        made = run_scheduled(kernels, arrays, target, {"n": 2, "w": width})[operation.output]
        row = x.astype(np.float64) if is_plain else x * 0.5 + biases.astype(np.float64)
        with np.errstate(all="ignore"):
            wanted = _REFERENCES[function](row) if width else row
        wanted = wanted if operation.epilogue is None else wanted * 2
        rtol = 2e-3 if scalar is Scalar.F16 else 3e-6
        np.testing.assert_allclose(made.astype(np.float64), wanted, rtol=rtol, atol=rtol)


def test_the_mean_and_the_deviation_are_told() -> None:
    shape = (7, 70)
    operation, tensor, _ = _operation(RowFunction.STANDARDIZE, shape, Scalar.F32, is_plain=True)
    statistics = (Tensor("mean", Scalar.F32, (7,)), Tensor("inverse", Scalar.F32, (7,)))
    operation = RowNormalize(
        output=operation.output, function=operation.function, axes=shape, value=operation.value,
        epsilon=_EPSILON, statistics=statistics,
    )  # fmt: skip
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    made = run_scheduled(schedule_row_normalize(operation, V4.model, ()), {tensor: x}, V4)
    np.testing.assert_allclose(made[statistics[0]], x.mean(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(made[statistics[1]], 1 / np.sqrt(x.var(1) + _EPSILON), rtol=1e-5)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_rows_of_infinities_and_no_numbers_are_numpys(target: NativeTarget) -> None:
    x = np.random.default_rng(2).standard_normal((6, 37)).astype(np.float32)
    x[0, 5] = np.nan
    x[1, 36] = np.nan
    x[2, :] = -np.inf
    x[3, 1:] = -np.inf
    x[4, 7] = np.inf
    for function in (RowFunction.SOFTMAX, RowFunction.LOG_SOFTMAX):
        operation, tensor, _ = _operation(function, (6, 37), Scalar.F32, is_plain=True)
        kernels = schedule_row_normalize(operation, target.model, ())
        made = run_scheduled(kernels, {tensor: x}, target)[operation.output]
        with np.errstate(all="ignore"):
            wanted = _REFERENCES[function](x.astype(np.float64))
        np.testing.assert_allclose(made, wanted, rtol=2e-6, err_msg=function)


def test_far_from_zero_layer_normalization_stays_precise() -> None:
    operation, tensor, _ = _operation(RowFunction.STANDARDIZE, (4, 768), Scalar.F32, is_plain=True)
    x = (np.random.default_rng(3).standard_normal((4, 768)) + 1000).astype(np.float32)
    made = run_scheduled(schedule_row_normalize(operation, V4.model, ()), {tensor: x}, V4)
    wanted = _standardize(x.astype(np.float64))
    np.testing.assert_allclose(made[operation.output], wanted, atol=2e-4)


def test_row_functions_are_compiled_for_aarch64() -> None:
    for function in RowFunction:
        operation, _, _ = _operation(function, (symbol("n"), 770), Scalar.F16, is_plain=False)
        compile_for_aarch64(schedule_row_normalize(operation, AARCH64, ()))
