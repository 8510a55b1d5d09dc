"""Poolings are scheduled as kernels that compute them, blocked and plain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.windows.pool import schedule_pool
from ortpkg.compiler.tensor_ir.elements import Call, Function, Made, Number, Tensor
from ortpkg.compiler.tensor_ir.operations import Pool, PoolFunction, Window
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.native_targets import NATIVE_TARGETS, V4, NativeTarget
from tests.compiler.scheduled_kernels import run_scheduled
from tests.compiler.window_cases import WindowCase, blocked_shape, in_blocks, random_window

Array = npt.NDArray[Any]


def _pooled(source: Array, case: WindowCase, function: PoolFunction) -> Array:
    if function is PoolFunction.MAX:
        least = -np.inf if source.dtype.kind == "f" else np.iinfo(source.dtype).min
        taps = [elements for _, elements in case.taps(source, least)]
        return np.asarray(np.maximum.reduce(taps))
    total = sum(elements.astype(np.float64) for _, elements in case.taps(source, 0.0))
    ones = np.ones_like(source)
    fill = 1.0 if function is PoolFunction.AVERAGE_PADDED else 0.0
    with np.errstate(invalid="ignore"):
        return np.asarray(total / sum(elements for _, elements in case.taps(ones, fill)))


def _check(
    case: WindowCase,
    function: PoolFunction,
    target: NativeTarget,
    *,
    source: Array,
    is_plain: bool,
    are_sizes_open: bool = False,
) -> None:
    lanes = target.model.lanes(Scalar.F32)
    sizes, made_sizes = case.source, case.output
    symbols = {"batch": source.shape[0]}
    shape: tuple[Any, ...] = (symbol("batch"), source.shape[1], *sizes)
    made_shape: tuple[Any, ...] = (symbol("batch"), source.shape[1], *made_sizes)
    if are_sizes_open:
        names = [f"{kind}{axis}" for kind in "sm" for axis in range(len(sizes))]
        symbols.update(zip(names, (*sizes, *made_sizes), strict=True))
        opened = [symbol(name) for name in names]
        shape = (*shape[:2], *opened[: len(sizes)])
        made_shape = (*made_shape[:2], *opened[len(sizes) :])
    scalar = {"f": Scalar.F32, "u": Scalar.U8, "i": Scalar.I8}[source.dtype.kind]
    operation = Pool(
        output=Tensor("made", scalar, made_shape if is_plain else blocked_shape(made_shape, lanes)),
        source=Tensor("source", scalar, shape if is_plain else blocked_shape(shape, lanes)),
        function=function,
        window=case.window,
    )
    want = _pooled(source, case, function)
    if not is_plain:
        source, want = in_blocks(source, lanes), in_blocks(want, lanes)
    made = np.full(want.shape, 77, source.dtype)
    arrays = {operation.source: source, operation.output: made}
    run_scheduled(schedule_pool(operation, target.model, []), arrays, target, symbols)
    np.testing.assert_allclose(made, want, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("function", list(PoolFunction))
@pytest.mark.parametrize("seed", range(4))
def test_random_poolings_are_those_of_numpy(
    seed: int, function: PoolFunction, target: NativeTarget
) -> None:
    generator = np.random.default_rng(seed)
    case = _padded_less_than_it_is_large(random_window(generator, int(generator.integers(1, 4)), 8))
    channels = 5 if seed % 2 else 2 * target.model.lanes(Scalar.F32)
    shape = (int(generator.integers(1, 3)), channels, *case.source)
    source = generator.standard_normal(shape).astype(np.float32)
    is_open = bool(generator.integers(2))
    _check(case, function, target, source=source, is_plain=bool(seed % 2), are_sizes_open=is_open)


def _padded_less_than_it_is_large(case: WindowCase) -> WindowCase:
    """ONNX wants padding smaller than the window: each window has an element."""
    window = case.window
    least = [kernel - 1 for kernel in window.kernel]
    narrow = replace(
        window,
        before=tuple(map(min, window.before, least)),  # type: ignore[arg-type]
        after=tuple(map(min, window.after, least)),  # type: ignore[arg-type]
        dilations=(1,) * len(least),
    )
    source = tuple(map(max, case.source, window.kernel))
    return WindowCase(source=source, window=narrow)


@pytest.mark.parametrize("width", [7, 61])
def test_rows_are_cut_into_groups_and_a_rest(width: int) -> None:
    window = Window(kernel=(3, 3), strides=(2, 2), dilations=(1, 1), before=(1, 1), after=(1, 1))
    case = WindowCase(source=(5, width), window=window)
    source = np.random.default_rng(1).standard_normal((1, 16, 5, width)).astype(np.float32)
    for is_open in (False, True):
        _check(
            case, PoolFunction.AVERAGE, V4, source=source, is_plain=False, are_sizes_open=is_open
        )


@pytest.mark.parametrize("function", list(PoolFunction))
@pytest.mark.parametrize("length", [40, 5000])
def test_long_windows_over_padding_are_walked_by_a_loop(
    length: int, function: PoolFunction
) -> None:
    window = Window(
        kernel=(length,), strides=(3,), dilations=(1,), before=(length // 2,), after=(9,)
    )
    case = WindowCase(source=(length + 70,), window=window)
    source = np.random.default_rng(1).standard_normal((1, 16, length + 70)).astype(np.float32)
    _check(case, function, V4, source=source, is_plain=False)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_integers_are_pooled(kind: type[np.uint8] | type[np.int8]) -> None:
    window = Window(kernel=(2, 2), strides=(1, 1), dilations=(1, 1), before=(1, 1), after=(0, 0))
    case = WindowCase(source=(4, 4), window=window)
    least = np.iinfo(kind).min
    source = np.random.default_rng(2).integers(least, least + 256, (1, 16, 4, 4)).astype(kind)
    _check(case, PoolFunction.MAX, V4, source=source, is_plain=False)


def test_nan_is_the_greatest_of_its_windows() -> None:
    window = Window(kernel=(2, 2), strides=(1, 1), dilations=(1, 1), before=(0, 0), after=(0, 0))
    case = WindowCase(source=(4, 4), window=window)
    source = np.random.default_rng(2).standard_normal((1, 16, 4, 4)).astype(np.float32)
    source[0, 3, 1, 1] = np.nan
    source[0, 4, 2, 2] = -np.inf
    _check(case, PoolFunction.MAX, V4, source=source, is_plain=False)


def test_the_epilogue_follows() -> None:
    window = Window(kernel=(4, 4), strides=(1, 1), dilations=(1, 1), before=(0, 0), after=(0, 0))
    made = Call(Function.MUL, (Made(Scalar.F32), Number(2.0, Scalar.F32)))
    operation = Pool(
        output=Tensor("made", Scalar.F32, (1, 1, 1, 1, 16)),
        source=Tensor("source", Scalar.F32, (1, 1, 4, 4, 16)),
        function=PoolFunction.AVERAGE,
        window=window,
        epilogue=made,
    )
    source = np.random.default_rng(2).standard_normal((1, 1, 4, 4, 16)).astype(np.float32)
    output = np.full((1, 1, 1, 1, 16), np.nan, np.float32)
    arrays = {operation.source: source, operation.output: output}
    run_scheduled(schedule_pool(operation, V4.model, []), arrays, V4)
    want = 2 * source.mean((2, 3), keepdims=True)
    np.testing.assert_allclose(output, want, rtol=1e-5, atol=1e-6)
