"""Convolutional nets move to blocked tensors, converted at their borders, and compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.layouts.channel_blocking import block_channels
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.schedule import schedule
from ortpkg.compiler.tensor_ir.elements import (
    Call,
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
    Alias,
    Convolution,
    Map,
    Operation,
    Pool,
    PoolFunction,
    Product,
    Window,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, reads_of
from ortpkg.graph.shapes.expressions import Size
from tests.compiler.native_targets import V4
from tests.compiler.reference_program import run_program
from tests.compiler.scheduled_kernels import run_scheduled

Array = npt.NDArray[Any]
_GENERATOR = np.random.default_rng(5)


def _tensor(name: str, *shape: Size) -> Tensor:
    return Tensor(name, Scalar.F32, shape)


def _window(kernel: int, stride: int = 1) -> Window:
    padding = (kernel // 2,) * 2
    return Window(
        kernel=(kernel,) * 2, strides=(stride,) * 2, dilations=(1, 1), before=padding, after=padding
    )


class _Net:
    """A program in the making: each operation reads what one before it made."""

    def __init__(self, *shape: int) -> None:
        self.input = _tensor("x", *shape)
        self.constants: dict[Tensor, Array] = {}
        self.operations: list[Operation] = []

    def constant(self, *shape: int) -> Tensor:
        tensor = _tensor(f"c{len(self.constants)}", *shape)
        self.constants[tensor] = _GENERATOR.standard_normal(shape, np.float32) / 3
        return tensor

    def convolution(self, source: Tensor, channels: int, kernel: int, *, groups: int = 1) -> Tensor:
        """With a bias and a relu."""
        output = _tensor(f"t{len(self.operations)}", source.shape[0], channels, *source.shape[2:])
        bias = Read(self.constant(channels), (along(1),))
        weights = self.constant(channels, int(str(source.shape[1])) // groups, kernel, kernel)
        self.operations.append(
            Convolution(
                output=output,
                source=source,
                weights=weights,
                groups=groups,
                window=_window(kernel),
                epilogue=_relu(_sum(Made(Scalar.F32), bias)),
            )
        )
        return output

    def map(self, value: Element, shape: Sequence[int]) -> Tensor:
        output = _tensor(f"t{len(self.operations)}", *shape)
        coordinates = tuple(along(axis) for axis in range(len(shape)))
        self.operations.append(
            Map(output=output, axes=tuple(shape), value=value, coordinates=coordinates)
        )
        return output

    def program(self, *outputs: Tensor) -> TensorProgram:
        return TensorProgram(
            name="net",
            inputs=(self.input,),
            outputs=outputs,
            constants=self.constants,
            operations=tuple(self.operations),
        )


def _all(tensor: Tensor) -> Read:
    return Read(tensor, tuple(along(axis) for axis in range(len(tensor.shape))))


def _sum(left: Element, right: Element) -> Element:
    return Call(Function.ADD, (left, right))


def _relu(element: Element) -> Element:
    return Call(Function.MAX, (element, Number(0.0, Scalar.F32)))


def _text(program: TensorProgram) -> list[str]:
    """Each operation with the sizes of what it makes, and of what it reads but constants."""
    lines = []
    for operation in program.operations:
        read = [each for each in reads_of(operation) if each not in program.constants]
        shapes = ["x".join(map(str, each.shape)) for each in (*read, operation.output)]
        lines.append(f"{type(operation).__name__} {' -> '.join(shapes)}")
    return lines


def _run_natively(program: TensorProgram, x: Array) -> list[Array]:
    arrays: dict[Tensor, Array] = {**program.constants, program.inputs[0]: x}
    for operation in program.operations:
        if isinstance(operation, Alias):
            shape = [int(str(each)) for each in operation.output.shape]
            arrays[operation.output] = arrays[operation.source].reshape(shape)
            continue
        if operation.output not in arrays:
            shape = [int(str(each)) for each in operation.output.shape]
            arrays[operation.output] = np.full(shape, np.nan, np.float32)
        kernels = schedule(operation, V4.model, list(program.constants))
        run_scheduled(kernels, arrays, V4)
    return [arrays[each] for each in program.outputs]


def _check(program: TensorProgram, expected: list[str]) -> None:
    blocked = block_channels(program, 16)
    assert _text(blocked) == expected
    shape = [int(str(each)) for each in program.inputs[0].shape]
    x = _GENERATOR.standard_normal(shape).astype(np.float32)
    for ours, theirs in zip(_run_natively(blocked, x), run_program(program, [x]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_convolutions_after_each_other_are_converted_once_at_the_end() -> None:
    net = _Net(1, 3, 6, 6)
    first = net.convolution(net.input, 32, 3)
    second = net.convolution(net.convolution(first, 32, 3, groups=32), 16, 1)
    _check(
        net.program(second),
        [
            "Convolution 1x3x6x6 -> 1x2x6x6x16",
            "Convolution 1x2x6x6x16 -> 1x2x6x6x16",
            "Convolution 1x2x6x6x16 -> 1x1x6x6x16",
            "Map 1x1x6x6x16 -> 1x16x6x6",
        ],
    )


def test_poolings_maps_and_concatenations_between_stay_blocked() -> None:
    net = _Net(1, 3, 6, 6)
    first = net.convolution(net.input, 16, 3)
    pooled = _tensor("pooled", 1, 16, 6, 6)
    net.operations.append(
        Pool(output=pooled, source=first, function=PoolFunction.MAX, window=_window(3))
    )
    scale = Read(net.constant(16), (along(1),))
    scaled = net.map(Call(Function.MUL, (_all(pooled), scale)), (1, 16, 6, 6))
    joined = _tensor("joined", 1, 32, 6, 6)
    for number, each in enumerate((scaled, first)):
        coordinates = (along(0), Coordinate(((1, 1),), 16 * number), along(2), along(3))
        net.operations.append(
            Map(output=joined, axes=(1, 16, 6, 6), value=_all(each), coordinates=coordinates)
        )
    last = net.convolution(joined, 16, 1)
    _check(
        net.program(last),
        [
            "Convolution 1x3x6x6 -> 1x1x6x6x16",
            "Pool 1x1x6x6x16 -> 1x1x6x6x16",
            "Map 1x1x6x6x16 -> 1x1x6x6x16",
            "Map 1x1x6x6x16 -> 1x2x6x6x16",
            "Map 1x1x6x6x16 -> 1x2x6x6x16",
            "Convolution 1x2x6x6x16 -> 1x1x6x6x16",
            "Map 1x1x6x6x16 -> 1x16x6x6",
        ],
    )


def test_pixels_are_read_where_they_lie() -> None:
    net = _Net(2, 3, 4, 4)
    made = net.convolution(net.input, 16, 3)
    mean, flat = _tensor("mean", 2, 16, 1, 1), _tensor("flat", 2, 16)
    whole = Window(kernel=(4, 4), strides=(1, 1), dilations=(1, 1), before=(0, 0), after=(0, 0))
    net.operations += [
        Pool(output=mean, source=made, function=PoolFunction.AVERAGE, window=whole),
        Alias(output=flat, source=mean),
    ]
    output = _tensor("output", 2, 5)
    right = Read(net.constant(16, 5), (along(0), along(1)))
    net.operations.append(
        Product(output=output, batch=(), m=2, n=5, k=16, left=_all(flat), right=right)
    )
    _check(
        net.program(output),
        [
            "Convolution 2x3x4x4 -> 2x1x4x4x16",
            "Pool 2x1x4x4x16 -> 2x1x1x1x16",
            "Alias 2x1x1x1x16 -> 2x16",
            "Product 2x16 -> 2x5",
        ],
    )


@pytest.mark.parametrize("channels", [16, 24])
def test_what_an_epilogue_adds_is_read_in_blocks(channels: int) -> None:
    net = _Net(1, channels, 5, 5)
    first = net.convolution(net.input, channels, 1)
    second = net.convolution(first, channels, 3)
    last = net.operations.pop()
    assert isinstance(last, Convolution)
    total = _sum(_sum(Made(Scalar.F32), _all(first)), _all(net.input))
    net.operations.append(
        Convolution(
            output=second,
            source=first,
            weights=last.weights,
            groups=1,
            window=last.window,
            epilogue=total,
        )
    )
    blocks = -(-channels // 16)
    shape, plain = f"1x{blocks}x5x5x16", f"1x{channels}x5x5"
    fill = [f"Map {plain} -> {shape}"] + [f"Map {plain} -> {shape}", f"Map {shape}"] * (blocks - 1)
    conversion = [f"Map {shape} -> {plain}"] * blocks
    _check(
        net.program(second),
        [
            f"Convolution {plain} -> {shape}",
            *fill,
            f"Convolution {shape} -> {shape} -> {shape}",
            *conversion,
        ],
    )


def test_a_depthwise_convolution_of_plain_channels_has_them_blocked_first() -> None:
    net = _Net(1, 20, 4, 4)
    last = net.convolution(net.input, 20, 3, groups=20)
    _check(
        net.program(last),
        [
            "Map 1x20x4x4 -> 1x2x4x4x16",
            "Map 1x20x4x4 -> 1x2x4x4x16",
            "Map 1x2x4x4x16",
            "Convolution 1x2x4x4x16 -> 1x2x4x4x16",
            "Map 1x2x4x4x16 -> 1x20x4x4",
            "Map 1x2x4x4x16 -> 1x20x4x4",
        ],
    )


def test_programs_without_convolutions_stay() -> None:
    net = _Net(1, 16, 4, 4)
    program = net.program(net.map(_relu(_all(net.input)), (1, 16, 4, 4)))
    assert block_channels(program, 16) is program
