"""Convolutions of bytes are scheduled as kernels whose sums are exact, on every target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.windows.convolution_schedule import schedule_convolution
from ortpkg.compiler.tensor_ir.elements import Coordinate, Element, Number, Read, Tensor
from ortpkg.compiler.tensor_ir.operations import Convolution, Window
from tests.compiler.native_targets import AARCH64, V2, V3, V4, VNNI, NativeTarget
from tests.compiler.scheduled_kernels import compile_for_aarch64, run_scheduled
from tests.compiler.window_cases import (
    WindowCase,
    blocked_shape,
    convolved,
    in_blocks,
    random_window,
)

Array = npt.NDArray[Any]
#: (channels, output channels, groups): few channels, whole blocks, a rest, groups.
_CHANNELS = [(3, 20, 1), (32, 32, 1), (18, 37, 1), (64, 32, 2)]
_SQUARE = Window(kernel=(3, 3), strides=(1, 1), dilations=(1, 1), before=(1, 1), after=(1, 1))


def _extremes(dtype: str, *shape: int) -> Array:
    """Codes, half of them the least and the greatest, whose pairs pass 16 bits."""
    limits, random = np.iinfo(dtype), np.random.default_rng(11)
    codes = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return np.where(random.integers(2, size=shape) > 0,
                    random.choice([limits.min, limits.max], shape), codes).astype(dtype)  # fmt: skip


def _convolution(
    case: WindowCase, channels: tuple[int, int, int], source: Scalar, *, lanes: int, zero: int = 0
) -> Convolution:
    """Of one image, with i32 sums; few channels in narrow blocks."""
    inputs, outputs, groups = channels
    narrow = min(lanes, -(-inputs // 4) * 4)
    return Convolution(
        output=Tensor("made", Scalar.I32, blocked_shape((1, outputs, *case.output), lanes)),
        source=Tensor("source", source, blocked_shape((1, inputs, *case.source), narrow)),
        weights=Tensor("weights", Scalar.I8, (outputs, inputs // groups, *case.window.kernel)),
        groups=groups,
        window=case.window,
        source_zero=Number(zero, source),
    )


def _check(
    operation: Convolution,
    case: WindowCase,
    target: NativeTarget,
    *,
    are_weights_known: bool = True,
    weights_zero: Array | None = None,
) -> None:
    """Runs the convolution on extreme codes, and compares with numpy's sums."""
    lanes = target.model.lanes(Scalar.F32)
    is_signed = operation.source.scalar is Scalar.I8
    inputs = int(str(operation.weights.shape[1])) * operation.groups
    source = _extremes("int8" if is_signed else "uint8", 1, inputs, *case.source)
    weights = _extremes("int8", *(int(str(each)) for each in operation.weights.shape))
    zero, less = operation.source_zero, weights.astype(np.float64)
    assert isinstance(zero, Number)
    if weights_zero is not None:
        less -= weights_zero.reshape(-1, *([1] * (weights.ndim - 1)))
    sums = convolved(source.astype(np.float64) - zero.number, less, case, operation.groups)
    want = in_blocks(sums.astype(np.int32), lanes)
    made = np.full(want.shape, 77, np.int32)
    arrays: dict[Tensor, Array] = {
        operation.source: in_blocks(source, int(str(operation.source.shape[-1]))),
        operation.weights: weights,
        operation.output: made,
    }
    if isinstance(operation.weights_zero, Read) and weights_zero is not None:
        arrays[operation.weights_zero.tensor] = weights_zero
    constants = [operation.weights] if are_weights_known else []
    run_scheduled(schedule_convolution(operation, target.model, constants), arrays, target)
    np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("target", [V2, V3, V4, VNNI], ids=["v2", "v3", "v4", "vnni"])
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_extreme_codes_are_exact(seed: int, target: NativeTarget) -> None:
    generator = np.random.default_rng(seed)
    case = random_window(generator, int(generator.choice([1, 2, 2])), 9)
    scalar, zero = [(Scalar.U8, 0), (Scalar.I8, -128)][seed % 2]
    lanes = target.model.lanes(Scalar.F32)
    operation = _convolution(case, _CHANNELS[seed], scalar, lanes=lanes, zero=zero)
    _check(operation, case, target, are_weights_known=seed != 3)


@pytest.mark.parametrize("target", [V2, V3, VNNI], ids=["v2", "v3", "vnni"])
@pytest.mark.parametrize(("scalar", "zero"), [(Scalar.U8, 0), (Scalar.U8, 131), (Scalar.I8, 5)])
def test_sums_of_each_channel_by_itself_are_exact(
    scalar: Scalar, zero: int, target: NativeTarget
) -> None:
    case = WindowCase(source=(6, 7), window=replace(_SQUARE, strides=(2, 1)))
    lanes, point = target.model.lanes(Scalar.F32), Tensor("point", Scalar.I8, (21,))
    channel: Element = Read(point, (Coordinate(((1, lanes), (4, 1))),))
    plain = _convolution(case, (21, 21, 21), scalar, lanes=lanes, zero=zero)
    source = Tensor("source", scalar, blocked_shape((1, 21, *case.source), lanes))
    operation = replace(plain, source=source, weights_zero=channel)
    _check(operation, case, target, weights_zero=_extremes("int8", 21))


def test_windows_that_floats_would_be_transformed_for_are_summed_directly() -> None:
    case = WindowCase(source=(14, 14), window=_SQUARE)
    operation = _convolution(case, (128, 128, 1), Scalar.U8, lanes=16)
    (scheduled,) = schedule_convolution(operation, VNNI.model, [operation.weights])
    assert scheduled.kernel.name == "convolution"


def test_zero_points_that_a_kernel_would_have_to_take_off_are_refused() -> None:
    case = WindowCase(source=(4, 4), window=_SQUARE)
    operation = _convolution(case, (16, 16, 1), Scalar.U8, lanes=16, zero=3)
    with pytest.raises(ValueError, match="made: zero points are not taken off before"):
        schedule_convolution(operation, VNNI.model, [operation.weights])


def test_aarch64_is_compiled_for() -> None:
    case = WindowCase(source=(7, 7), window=_SQUARE)
    operation = _convolution(case, (8, 8, 1), Scalar.I8, lanes=4, zero=-128)
    compile_for_aarch64(schedule_convolution(operation, AARCH64, [operation.weights]))
