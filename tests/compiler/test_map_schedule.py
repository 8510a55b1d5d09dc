"""Maps of every form become kernels that compute what numpy's reference does."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.loop_ir.kernel_text import kernel_text
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.rows.map import schedule_map
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Coordinate,
    Function,
    Read,
    Tensor,
    along,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Map
from ortpkg.graph.shapes.expressions import Size, evaluate, symbol
from tests.compiler.generated_elements import Generated, random_axes, symbolic
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import AARCH64, NATIVE_TARGETS, V4, NativeTarget
from tests.compiler.reference_elements import DTYPES, assert_same, reference_value
from tests.compiler.scheduled_kernels import compile_for_aarch64, run_scheduled


def _random_map(seed: int) -> tuple[Map, Generated]:
    generator = np.random.default_rng(seed)
    numbers = random_axes(generator)
    axes, symbols = symbolic(generator, numbers) if seed % 2 else (numbers, {})
    generated = Generated(generator, axes, symbols)
    value = generated.element(generated.kind())
    order = list(range(len(axes)))
    if not generator.integers(3):
        generator.shuffle(order)
    shape: list[Size] = []
    coordinates = []
    for axis in order:
        offset, step = int(generator.integers(4) == 0), 1 + int(generator.integers(6) == 0)
        coordinates.append(Coordinate(((axis, step),), offset))
        shape.append(axes[axis] * step + offset)
    output = Tensor("made", scalar_of(value), tuple(shape))
    return Map(output=output, axes=axes, value=value, coordinates=tuple(coordinates)), generated


def _wanted(operation: Map, generated: Generated, before: Array) -> Array:
    axes = [evaluate(size, generated.symbols) for size in operation.axes]
    value = reference_value(operation.value, axes, generated.arrays, symbols=generated.symbols)
    wanted = before.copy()
    index = []
    for place in operation.coordinates:
        ((axis, step),) = place.terms
        shape = [-1 if each == axis else 1 for each in range(len(axes))]
        numbers = [evaluate(each, generated.symbols) for each in (step, place.offset)]
        index.append((np.arange(axes[axis]) * numbers[0] + numbers[1]).reshape(shape))
    wanted[tuple(index)] = value
    return wanted


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("seed", range(30))
def test_random_maps_are_computed(seed: int, target: NativeTarget) -> None:
    operation, generated = _random_map(seed)
    kind = DTYPES[operation.output.scalar]
    before = np.ones(generated.shape(operation.output)).astype(kind)
    kernels = schedule_map(operation, target.model, ())
    arrays = {**generated.arrays, operation.output: before.copy()}
    made = run_scheduled(kernels, arrays, target, generated.symbols)[operation.output]
    assert_same(made, _wanted(operation, generated, before), f"{operation.value}")


def _whole(output: Tensor, value: Read | Call) -> Map:
    coordinates = tuple(along(axis) for axis in range(len(output.shape)))
    return Map(output=output, axes=output.shape, value=value, coordinates=coordinates)


def _read(tensor: Tensor) -> Read:
    return Read(tensor, tuple(along(axis) for axis in range(len(tensor.shape))))


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_random_maps_are_compiled_for_aarch64(seed: int) -> None:
    operation, _ = _random_map(seed)
    compile_for_aarch64(schedule_map(operation, AARCH64, ()))


def test_axes_that_lie_so_are_one_loop() -> None:
    source = Tensor("x", Scalar.F32, (symbol("batch"), 128, 768))
    output = Tensor("y", Scalar.F32, source.shape)
    operation = _whole(output, Call(Function.MAX, (_read(source), _read(source))))
    (scheduled,) = schedule_map(operation, V4.model, ())
    assert scheduled.sizes[0] == symbol("batch") * 128 * 768
    text = kernel_text(scheduled.kernel)
    assert "rem tile" not in text, text
    assert "div " not in text, text


def test_a_small_map_is_one_tile_and_a_large_one_is_many() -> None:
    for shape, least, most in (((128, 768), 1, 4), ((8, 16), 1, 1), ((64, 512, 512), 200, 2000)):
        source, output = (Tensor(name, Scalar.F32, shape) for name in "xy")
        (scheduled,) = schedule_map(_whole(output, _read(source)), V4.model, ())
        assert isinstance(scheduled.tile_count, int)
        assert least <= scheduled.tile_count <= most, f"{shape}: {scheduled.tile_count}"


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("scalar", [Scalar.F32, Scalar.U8, Scalar.F16, Scalar.I64], ids=str)
def test_transposes_load_and_store_whole_vectors(scalar: Scalar, target: NativeTarget) -> None:
    source, output = Tensor("x", scalar, (3, 150, 70)), Tensor("y", scalar, (3, 70, 150))
    operation = _whole(output, Read(source, (along(0), along(2), along(1))))
    kernels = schedule_map(operation, target.model, ())
    assert "shuffle" in kernel_text(kernels[0].kernel)
    array = np.random.default_rng(1).integers(0, 200, (3, 150, 70)).astype(DTYPES[scalar])
    made = run_scheduled(kernels, {source: array}, target)[output]
    np.testing.assert_array_equal(made, array.transpose(0, 2, 1))


def test_several_maps_fill_one_tensor() -> None:
    left, right = Tensor("a", Scalar.F32, (5, 30)), Tensor("b", Scalar.F32, (5, 50))
    output = Tensor("y", Scalar.F32, (5, 80))
    arrays: dict[Tensor, Array] = {
        left: np.random.default_rng(1).standard_normal((5, 30)).astype(np.float32),
        right: np.random.default_rng(2).standard_normal((5, 50)).astype(np.float32),
    }
    kernels = []
    for tensor, offset in ((left, 0), (right, 30)):
        coordinates = (along(0), Coordinate(((1, 1),), offset))
        piece = Map(output=output, axes=tensor.shape, value=_read(tensor), coordinates=coordinates)
        kernels += schedule_map(piece, V4.model, ())
    made = run_scheduled(kernels, arrays, V4)[output]
    np.testing.assert_array_equal(made, np.concatenate([arrays[left], arrays[right]], 1))


@pytest.mark.parametrize("is_piece_read", [False, True], ids=["filled", "taken"])
def test_pieces_of_one_size_share_a_kernel_wherever_they_begin(is_piece_read: bool) -> None:
    """A Concat or a Split of hundreds is compiled once."""
    whole, piece = Tensor("whole", Scalar.F32, (3, 64)), Tensor("piece", Scalar.F32, (3, 4))
    texts = set()
    for offset in (4, 8, 60):
        read, written = (whole, piece) if is_piece_read else (piece, whole)
        at = (along(0), Coordinate(((1, 1),), offset))
        own = (along(0), along(1))
        operation = Map(
            output=written,
            axes=(3, 4),
            value=Read(read, at if is_piece_read else own),
            coordinates=own if is_piece_read else at,
        )
        (made,) = schedule_map(operation, V4.model, ())
        assert made.sizes == (offset,)
        texts.add(kernel_text(made.kernel, name="piece"))
    assert len(texts) == 1
