"""Convolutions are scheduled as kernels that compute them, for all windows, sizes and groups."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.windows.convolution_schedule import schedule_convolution
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Convolution, Window
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.native_targets import NATIVE_TARGETS, V4, NativeTarget
from tests.compiler.scheduled_kernels import run_scheduled
from tests.compiler.window_cases import (
    WindowCase,
    blocked_shape,
    convolved,
    in_blocks,
    random_window,
)

Array = npt.NDArray[Any]
#: (channels, output channels, groups): one group, whole blocks, parts of a block, depthwise, and
#: groups that fall on no blocks, or lie across their borders on one side or both.
_CHANNELS = [
    (3, 5, 1), (16, 16, 1), (20, 37, 1), (64, 32, 2), (24, 24, 6), (32, 32, 32), (19, 19, 19),
    (6, 12, 3), (12, 24, 12), (60, 240, 3), (72, 60, 3), (48, 96, 3),
]  # fmt: skip


def _operation(
    case: WindowCase, channels: tuple[int, int, int], batch: int, *, lanes: int, is_plain: bool
) -> Convolution:
    """The convolution with a symbolic batch."""
    inputs, outputs, groups = channels
    shape: tuple[Any, ...] = (symbol("batch"), inputs, *case.source)
    made: tuple[Any, ...] = (symbol("batch"), outputs, *case.output)
    return Convolution(
        output=Tensor("made", Scalar.F32, blocked_shape(made, lanes)),
        source=Tensor("source", Scalar.F32, shape if is_plain else blocked_shape(shape, lanes)),
        weights=Tensor("weights", Scalar.F32, (outputs, inputs // groups, *case.window.kernel)),
        groups=groups,
        window=case.window,
    )


def _check(
    case: WindowCase,
    channels: tuple[int, int, int],
    target: NativeTarget,
    *,
    batch: int = 1,
    is_plain: bool = False,
    are_sizes_open: bool = False,
    are_weights_known: bool = True,
) -> None:
    """Runs the convolution on random numbers, and compares with numpy's sums in f64."""
    lanes = target.model.lanes(Scalar.F32)
    operation = _operation(case, channels, batch, lanes=lanes, is_plain=is_plain)
    symbols = {"batch": batch}
    if are_sizes_open:
        operation, symbols = _opened(operation, case, symbols)
    generator = np.random.default_rng(7)
    source = generator.standard_normal((batch, channels[0], *case.source)).astype(np.float32)
    shape = (channels[1], channels[0] // channels[2], *case.window.kernel)
    weights = generator.standard_normal(shape).astype(np.float32)
    want = in_blocks(convolved(source, weights, case, channels[2]), lanes)
    made = np.full(want.shape, np.nan, np.float32)
    arrays = {
        operation.source: source if is_plain else in_blocks(source, lanes),
        operation.weights: weights,
        operation.output: made,
    }
    constants = [operation.weights] if are_weights_known else []
    run_scheduled(schedule_convolution(operation, target.model, constants), arrays, target, symbols)
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-4)


def _opened(
    operation: Convolution, case: WindowCase, symbols: dict[str, int]
) -> tuple[Convolution, dict[str, int]]:
    """The convolution with symbols for its spatial sizes."""
    rank = len(case.source)
    numbers = dict(symbols)

    def opened(tensor: Tensor, sizes: tuple[int, ...]) -> Tensor:
        names = [f"{tensor.name}{axis}" for axis in range(rank)]
        numbers.update(zip(names, sizes, strict=True))
        shape = (*tensor.shape[:2], *map(symbol, names), *tensor.shape[2 + rank :])
        return Tensor(tensor.name, tensor.scalar, shape)

    source, output = opened(operation.source, case.source), opened(operation.output, case.output)
    return replace(operation, source=source, output=output), numbers


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("seed", range(len(_CHANNELS)))
def test_random_convolutions_are_those_of_numpy(seed: int, target: NativeTarget) -> None:
    generator = np.random.default_rng(seed)
    rank = int(generator.choice([1, 2, 2, 2, 3]))
    _check(
        random_window(generator, rank, 9 if rank < 3 else 4),
        _CHANNELS[seed],
        target,
        batch=int(generator.integers(1, 3)),
        is_plain=bool(generator.integers(2)),
        are_sizes_open=bool(generator.integers(2)),
        are_weights_known=bool(generator.integers(2)),
    )


_GROUPED = [each for each in _CHANNELS if each[2] > 1] + [(6, 6, 2), (32, 64, 32), (128, 128, 32)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("channels", _GROUPED, ids=str)
@pytest.mark.parametrize(("is_plain", "are_weights_known"), [(True, True), (False, False)])
def test_what_one_group_has_reaches_no_other(
    channels: tuple[int, int, int], target: NativeTarget, is_plain: bool, are_weights_known: bool
) -> None:
    """Zero times infinity is NaN, so that no group may be summed with zeros for its weights."""
    window = Window(kernel=(3, 2), strides=(1, 1), dilations=(1, 1), before=(1, 0), after=(1, 1))
    case = WindowCase(source=(3, 6), window=window)
    inputs, outputs, groups = channels
    lanes = target.model.lanes(Scalar.F32)
    operation = _operation(case, channels, 1, lanes=lanes, is_plain=is_plain)
    generator = np.random.default_rng(1)
    weights = generator.standard_normal((outputs, inputs // groups, 3, 2)).astype(np.float32)
    clean = generator.standard_normal((1, inputs, *case.source)).astype(np.float32)
    kernels = schedule_convolution(
        operation, target.model, [operation.weights] if are_weights_known else []
    )

    def made_of(source: Array) -> Array:
        made = np.full(blocked_shape((1, outputs, *case.output), lanes), np.nan, np.float32)
        arrays = {
            operation.source: source if is_plain else in_blocks(source, lanes),
            operation.weights: weights,
            operation.output: made,
        }
        run_scheduled(kernels, arrays, target, {"batch": 1})
        plain = np.moveaxis(made, -1, 2).reshape(1, -1, *case.output)
        return plain[:, :outputs].reshape(groups, -1)

    wanted = made_of(clean)
    for group in {0, groups // 2, groups - 1}:
        poisoned = clean.copy()
        poisoned[:, group * inputs // groups] = [[np.nan], [np.inf], [-np.inf]]
        made = made_of(poisoned)
        others = np.arange(groups) != group
        np.testing.assert_array_equal(made[others], wanted[others])
        assert not np.isfinite(made[group]).any()


@pytest.mark.parametrize("are_sizes_open", [False, True])
@pytest.mark.parametrize(
    ("source", "kernel", "stride", "channels"),
    [
        ((3, 61), 3, 1, (16, 16, 1)),
        ((2, 61), 3, 2, (3, 32, 1)),
        ((9, 31), 1, 1, (16, 32, 1)),
        ((3, 61), 3, 1, (16, 16, 16)),
    ],
)
def test_long_rows_are_cut_into_groups_and_a_rest(
    source: tuple[int, int],
    kernel: int,
    stride: int,
    channels: tuple[int, int, int],
    are_sizes_open: bool,
) -> None:
    padding = (kernel // 2, kernel // 2)
    window = Window(
        kernel=(kernel, kernel),
        strides=(stride, stride),
        dilations=(1, 1),
        before=padding,
        after=padding,
    )
    case = WindowCase(source=source, window=window)
    _check(case, channels, V4, is_plain=channels[0] == 3, are_sizes_open=are_sizes_open)


@pytest.mark.parametrize("batch", [0, 1])
def test_empty_tensors_are_convolved(batch: int) -> None:
    window = Window(kernel=(1, 3), strides=(1, 1), dilations=(1, 1), before=(0, 0), after=(0, 0))
    case = WindowCase(source=(2, 2), window=window)
    assert case.output == (2, 0)
    _check(case, (4, 4, 1), V4, batch=batch)
    _check(case, (4, 4, 1), V4, batch=batch, are_sizes_open=True)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("outputs", [16, 21])
def test_the_epilogue_has_the_place_of_each_element(kernel: int, outputs: int) -> None:
    """Its bias, another tensor of the output's shape, and where it stands."""
    window = Window(
        kernel=(kernel, kernel),
        strides=(1, 1),
        dilations=(1, 1),
        before=(kernel // 2,) * 2,
        after=(kernel // 2,) * 2,
    )
    case = WindowCase(source=(5, 6), window=window)
    plain = _operation(case, (16, outputs, 1), 2, lanes=16, is_plain=False)
    bias = Tensor("bias", Scalar.F32, (outputs,))
    other = Tensor("other", Scalar.F32, plain.output.shape)
    residual = _sum(
        _sum(Made(Scalar.F32), Read(bias, (Coordinate(((1, 16), (4, 1))),))),
        Read(other, tuple(along(axis) for axis in range(5))),
    )
    column = Call(Function.MAX, (residual, Number(0.0, Scalar.F32)))
    generator = np.random.default_rng(3)
    source, weights, biases, others = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in [
            (2, 16, 5, 6), (outputs, 16, kernel, kernel), (outputs,), (2, outputs, 5, 6),
        ]
    )  # fmt: skip
    want = np.maximum(convolved(source, weights, case, 1) + biases[:, None, None] + others, 0)
    for epilogue, made in [
        (column, want),
        (_at_row_1(column), want * (np.arange(5) == 1)[:, None]),
    ]:
        operation = replace(plain, epilogue=epilogue)
        output = np.full(in_blocks(want, 16).shape, np.nan, np.float32)
        arrays = {
            operation.source: in_blocks(source, 16),
            operation.weights: weights,
            bias: biases,
            other: in_blocks(others, 16),
            operation.output: output,
        }
        kernels = schedule_convolution(operation, V4.model, [operation.weights])
        run_scheduled(kernels, arrays, V4, {"batch": 2})
        np.testing.assert_allclose(output, in_blocks(made, 16), rtol=1e-4, atol=1e-4)


def _sum(left: Element, right: Element) -> Element:
    return Call(Function.ADD, (left, right))


def _at_row_1(element: Element) -> Element:
    """The element where the row is 1, else 0."""
    is_row = Call(Function.EQ, (Position(2), Number(1, Scalar.I64)))
    return Call(Function.SELECT, (is_row, element, Number(0.0, Scalar.F32)))


def test_inner_loops_keep_their_sums_in_registers() -> None:
    window = Window(kernel=(3, 3), strides=(1, 1), dilations=(1, 1), before=(1, 1), after=(1, 1))
    case = WindowCase(source=(56, 56), window=window)
    operation = _operation(case, (64, 64, 1), 1, lanes=16, is_plain=False)
    model = replace(V4.model, sums_directly=True)
    (scheduled,) = schedule_convolution(operation, model, [operation.weights])
    attributes = '"prefer-vector-width"="512"'
    text = kernel_function(scheduled.kernel, "kernel", EmissionOptions(attributes=attributes))
    compiler = ObjectCompiler(triple="x86_64-unknown-linux-gnu", cpu=V4.cpu)
    assembly = compiler.assembly(text)
    bodies = [body for body in _innermost_loops(assembly) if "vfmadd" in body]
    assert len(bodies) >= 3, "at both borders, and between them"
    for body in bodies:
        assert body.count("rsp") * 20 <= body.count("vfmadd"), f"sums lie in memory: {body}"


def _innermost_loops(assembly: str) -> list[str]:
    """The code between a label and a jump back to it, no other label between them."""
    label = r"^(\.LBB\w+):.*\n"
    found = re.finditer(label + r"((?:[^.\n].*\n)*?)\tj\w+\t\1\n", assembly, re.MULTILINE)
    return [each[2] for each in found]


def test_aarch64_is_compiled_for() -> None:
    window = Window(kernel=(3, 3), strides=(1, 1), dilations=(1, 1), before=(1, 1), after=(1, 1))
    case = WindowCase(source=(7, 7), window=window)
    operation = _operation(case, (8, 8, 1), 1, lanes=4, is_plain=False)
    model = MachineModel(vector_nbytes=16, register_count=32)
    (scheduled,) = schedule_convolution(operation, model, [operation.weights])
    text = kernel_function(scheduled.kernel, "kernel", EmissionOptions())
    compiler = ObjectCompiler(
        triple="aarch64-unknown-linux-gnu", cpu="generic", features=("+reserve-x18",)
    )
    assert compiler.link(text).data
