"""Convolutions by Winograd's transforms: where they are taken, and how near they are to the sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.windows.convolution_schedule import schedule_convolution
from ortpkg.compiler.schedules.windows.winograd_convolution import winograd_convolution
from ortpkg.compiler.schedules.windows.winograd_tiling import WinogradTiling, winograd_tiling
from ortpkg.compiler.schedules.windows.winograd_transforms import transformed_weights
from ortpkg.compiler.tensor_ir.elements import Call, Coordinate, Function, Made, Read, Tensor
from ortpkg.compiler.tensor_ir.operations import Convolution, Window
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.native_targets import NATIVE_TARGETS, V4, NativeTarget
from tests.compiler.scheduled_kernels import run_scheduled
from tests.compiler.window_cases import WindowCase, blocked_shape, convolved, in_blocks

Array = npt.NDArray[Any]
#: Of the largest sum of what is added up, without signs; the direct sums have 2.5e-7.
_LARGEST_ERROR = 1e-6


def _case(size: tuple[int, int], before: tuple[int, int], after: tuple[int, int]) -> WindowCase:
    window = Window(kernel=(3, 3), strides=(1, 1), dilations=(1, 1), before=before, after=after)
    return WindowCase(source=size, window=window)


def _operation(
    case: WindowCase, channels: tuple[int, int], lanes: int, batch: Any = 1
) -> Convolution:
    inputs, outputs = channels
    source = blocked_shape((batch, inputs, *case.source), lanes)
    return Convolution(
        output=Tensor("made", Scalar.F32, blocked_shape((batch, outputs, *case.output), lanes)),
        source=Tensor("source", Scalar.F32, source),
        weights=Tensor("weights", Scalar.F32, (outputs, inputs, 3, 3)),
        groups=1,
        window=case.window,
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize(
    ("size", "before", "after", "channels", "tiling"),
    [
        ((8, 8), (1, 1), (1, 1), (16, 32), (4, 2, 1, 1)),
        ((9, 14), (1, 0), (0, 2), (21, 35), (5, 5, 1, 3)),
        ((3, 5), (2, 2), (2, 2), (16, 16), (6, 3, 1, 1)),
        ((12, 7), (0, 1), (1, 0), (16, 16), (3, 1, 1, 1)),
    ],
)
def test_squares_of_any_image_are_those_of_numpy(
    size: tuple[int, int],
    before: tuple[int, int],
    after: tuple[int, int],
    channels: tuple[int, int],
    tiling: tuple[int, int, int, int],
    target: NativeTarget,
) -> None:
    """With a bias, two images, and sizes that squares do not divide; each within the bound."""
    case, lanes = _case(size, before, after), target.model.lanes(Scalar.F32)
    bias = Tensor("bias", Scalar.F32, (channels[1],))
    operation = replace(
        _operation(case, channels, lanes, symbol("batch")),
        epilogue=Call(
            Function.ADD, (Made(Scalar.F32), Read(bias, (Coordinate(((1, lanes), (4, 1))),)))
        ),
    )
    squares, columns, blocks, tile_blocks = tiling
    cut = WinogradTiling(squares=squares, columns=columns, blocks=blocks, tile_blocks=tile_blocks)
    generator = np.random.default_rng(2)
    source, weights, biases = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in ((2, channels[0], *size), (channels[1], channels[0], 3, 3), (channels[1],))
    )
    want = in_blocks(convolved(source, weights, case, 1) + biases[:, None, None], lanes)
    terms = convolved(np.abs(source), np.abs(weights), case, 1)
    made = np.full(want.shape, np.nan, np.float32)
    arrays = {
        operation.source: in_blocks(source, lanes),
        operation.weights: weights,
        bias: biases,
        operation.output: made,
    }
    run_scheduled(
        [winograd_convolution(operation, target.model, cut)], arrays, target, {"batch": 2}
    )
    assert np.abs(made - want).max() <= _LARGEST_ERROR * terms.max()


def test_many_channels_stay_within_the_error() -> None:
    case = _case((14, 14), (1, 1), (1, 1))
    operation = _operation(case, (256, 64), 16)
    generator = np.random.default_rng(5)
    source = np.maximum(generator.standard_normal((1, 256, 14, 14)), 0).astype(np.float32)
    weights = generator.standard_normal((64, 256, 3, 3)).astype(np.float32)
    made = np.full((1, 4, 14, 14, 16), np.nan, np.float32)
    arrays = {
        operation.source: in_blocks(source, 16), operation.weights: weights,
        operation.output: made,
    }  # fmt: skip
    (scheduled,) = schedule_convolution(operation, V4.model, [operation.weights])
    assert scheduled.kernel.name == "winograd_convolution"
    run_scheduled([scheduled], arrays, V4, {})
    want = in_blocks(convolved(source, weights, case, 1), 16)
    terms = convolved(np.abs(source), np.abs(weights), case, 1)
    assert np.abs(made - want).max() <= _LARGEST_ERROR * terms.max()


def test_weights_of_a_constant_window_are_even() -> None:
    """At the point 0 they are the first weight, at infinity the last one, but for what is known."""
    made = transformed_weights(np.arange(1.0, 10.0).reshape(1, 1, 3, 3)).reshape(6, 6)
    product = 0.75**2 * 1.5**2
    assert (made[0, 0] * product**2, made[5, 5]) == (pytest.approx(1), 9)


@pytest.mark.parametrize(
    ("change", "is_taken"),
    [
        ({}, True),
        ({"size": (6, 6)}, False),
        ({"channels": (16, 16)}, True),
        ({"channels": (512, 512), "size": (7, 7)}, False),
        ({"strides": (2, 2)}, False),
        ({"dilations": (2, 2)}, False),
        ({"weights": ()}, False),
        ({"sums_directly": True}, False),
    ],
)
def test_it_is_taken_where_it_is_clearly_cheaper(change: dict[str, Any], is_taken: bool) -> None:
    """Not for few pixels, whose weights come from memory once for each square, nor by default off."""
    case = _case(change.get("size", (56, 56)), (1, 1), (1, 1))
    operation = _operation(case, change.get("channels", (64, 64)), 16)
    window = replace(
        case.window,
        strides=change.get("strides", (1, 1)),
        dilations=change.get("dilations", (1, 1)),
    )
    model = MachineModel(
        vector_nbytes=64,
        register_count=32,
        l2_nbytes=1 << 20,
        sums_directly=change.get("sums_directly", False),
    )
    constants = change.get("weights", (operation.weights,))
    found = winograd_tiling(replace(operation, window=window), model, constants)
    assert (found is not None) == is_taken
