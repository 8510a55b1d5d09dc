"""Reductions along any axes become kernels that compute what numpy does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ortpkg.compiler.loop_ir.kernel_text import kernel_text
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.rows.reduce import schedule_reduce
from ortpkg.compiler.tensor_ir.elements import Call, Function, Made, Number, Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Combiner, Reduce
from ortpkg.graph.shapes.expressions import evaluate, symbol
from tests.compiler.generated_elements import Generated, random_axes, symbolic
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import AARCH64, NATIVE_TARGETS, V2, V4, NativeTarget
from tests.compiler.reference_elements import DTYPES, assert_same, reference_value
from tests.compiler.scheduled_kernels import compile_for_aarch64, run_scheduled

_NUMPYS: Mapping[Combiner, Callable[..., Any]] = {
    Combiner.SUM: np.sum,
    Combiner.PRODUCT: np.prod,
    Combiner.MAX: np.max,
    Combiner.MIN: np.min,
}
_KINDS = (Scalar.F32, Scalar.F32, Scalar.F32, Scalar.I32, Scalar.I64, Scalar.F64, Scalar.F16,
          Scalar.U8, Scalar.I8)  # fmt: skip


def _random_reduce(seed: int) -> tuple[Reduce, Generated]:
    generator = np.random.default_rng(1000 + seed)
    numbers = random_axes(generator)
    axes, symbols = symbolic(generator, numbers) if seed % 2 else (numbers, {})
    generated = Generated(generator, axes, symbols)
    scalar = _KINDS[generator.integers(len(_KINDS))]
    order = list(range(len(axes)))
    generator.shuffle(order)
    count = int(generator.integers(0, len(axes)))
    kept, reduced = sorted(order[:count]), sorted(order[count:])
    renumbered = tuple(axes[axis] for axis in (*kept, *reduced))
    generated.axes = renumbered
    # the tensor lies in the model's order of axes, so that any of them are reduced
    tensor = Tensor("x", scalar, axes)
    generated.arrays[tensor] = generated.filled(tensor)
    value = Read(tensor, tuple(along((*kept, *reduced).index(axis)) for axis in range(len(axes))))
    operation = Reduce(
        output=Tensor("made", scalar, renumbered[:count]),
        axes=renumbered[:count],
        reduced=renumbered[count:],
        combiner=list(Combiner)[generator.integers(4)],
        value=value,
    )
    return operation, generated


def _wanted(operation: Reduce, generated: Generated) -> Array:
    axes = [evaluate(size, generated.symbols) for size in (*operation.axes, *operation.reduced)]
    value = reference_value(operation.value, axes, generated.arrays, symbols=generated.symbols)
    along_axes = tuple(range(len(operation.axes), len(axes)))
    wide = value.astype(np.float64) if operation.output.scalar.is_float else value
    more: dict[str, Any] = {"dtype": wide.dtype}
    if operation.combiner in {Combiner.MAX, Combiner.MIN}:
        least, most = -np.inf, np.inf
        if not operation.output.scalar.is_float:
            least, most = np.iinfo(value.dtype).min, np.iinfo(value.dtype).max
        more = {"initial": least if operation.combiner is Combiner.MAX else most}
    with np.errstate(all="ignore"):
        return np.asarray(_NUMPYS[operation.combiner](wide, axis=along_axes, **more))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("seed", range(30))
def test_random_reductions_are_computed(seed: int, target: NativeTarget) -> None:
    operation, generated = _random_reduce(seed)
    kernels = schedule_reduce(operation, target.model, ())
    made = run_scheduled(kernels, generated.arrays, target, generated.symbols)[operation.output]
    wanted = _wanted(operation, generated)
    kind = DTYPES[operation.output.scalar]
    if not operation.output.scalar.is_float:
        assert_same(made, wanted.astype(kind))
        return
    precision = {2: 2e-3, 4: 1e-5, 8: 1e-12}[kind.itemsize]
    with np.errstate(all="ignore"):
        scale = np.sum(np.abs(generated.arrays[next(iter(generated.arrays))].astype(np.float64)))
        near = 0.0 if operation.combiner is not Combiner.SUM or not np.isfinite(scale) else scale
        np.testing.assert_allclose(
            made.astype(np.float64), wanted.astype(kind).astype(np.float64), rtol=100 * precision,
            atol=max(near * precision * 0.1, 1e-5),
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_random_reductions_are_compiled_for_aarch64(seed: int) -> None:
    compile_for_aarch64(schedule_reduce(_random_reduce(seed)[0], AARCH64, ()))


@pytest.mark.parametrize("target", [V4, V2], ids=str)
def test_long_sums_are_as_precise_as_numpys(target: NativeTarget) -> None:
    tensor, output = Tensor("x", Scalar.F32, (2, 1_000_003)), Tensor("y", Scalar.F32, (2,))
    array = np.random.default_rng(4).uniform(0, 1, (2, 1_000_003)).astype(np.float32)
    operation = Reduce(
        output=output, axes=(2,), reduced=(1_000_003,), combiner=Combiner.SUM,
        value=Read(tensor, (along(0), along(1))),
    )  # fmt: skip
    made = run_scheduled(schedule_reduce(operation, target.model, ()), {tensor: array}, target)
    np.testing.assert_allclose(made[output], array.sum(1, dtype=np.float64), rtol=3e-7)


def test_long_sums_stay_precise_beside_numbers_of_their_rows() -> None:
    tensor, row = Tensor("x", Scalar.F32, (2, 1_000_003)), Tensor("row", Scalar.F32, (2,))
    output = Tensor("y", Scalar.F32, (2,))
    array = np.random.default_rng(4).uniform(0, 1, (2, 1_000_003)).astype(np.float32)
    of_row = Read(row, (along(0),))
    shifted = Call(Function.ADD, (Read(tensor, (along(0), along(1))), of_row))
    operation = Reduce(
        output=output, axes=(2,), reduced=(1_000_003,), combiner=Combiner.SUM,
        value=Call(Function.ADD, (shifted, of_row)),
    )  # fmt: skip
    arrays: dict[Tensor, Array] = {tensor: array, row: np.zeros(2, np.float32)}
    made = run_scheduled(schedule_reduce(operation, V4.model, ()), arrays, V4)
    np.testing.assert_allclose(made[output], array.sum(1, dtype=np.float64), rtol=3e-7)


def test_a_long_way_from_row_to_row_looks_whether_the_run_is_to_end() -> None:
    rows = symbol("rows")
    tensor = Tensor("x", Scalar.F32, (rows, 32))
    operation = Reduce(
        output=Tensor("y", Scalar.F32, (32,)), axes=(32,), reduced=(rows,),
        combiner=Combiner.SUM, value=Read(tensor, (along(1), along(0))),
    )  # fmt: skip
    text = kernel_text(schedule_reduce(operation, V4.model, ())[0].kernel)
    loops = [
        line for line in text.splitlines() if " to size0 with" in line or " to size0 may" in line
    ]
    assert loops, text
    assert all("may stop" in each for each in loops), text


def test_an_epilogue_follows_each_reduced_value() -> None:
    tensor, output = Tensor("x", Scalar.F32, (5, 40, 33)), Tensor("y", Scalar.F32, (5, 33))
    bias = Tensor("bias", Scalar.F32, (33,))
    generator = np.random.default_rng(5)
    arrays: dict[Tensor, Array] = {
        tensor: generator.standard_normal((5, 40, 33)).astype(np.float32),
        bias: generator.standard_normal(33).astype(np.float32),
    }
    mean = Call(Function.DIV, (Made(Scalar.F32), Number(40.0, Scalar.F32)))
    operation = Reduce(
        output=output, axes=(5, 33), reduced=(40,), combiner=Combiner.SUM,
        value=Read(tensor, (along(0), along(2), along(1))),
        epilogue=Call(Function.ADD, (mean, Read(bias, (along(1),)))),
    )  # fmt: skip
    made = run_scheduled(schedule_reduce(operation, V4.model, ()), arrays, V4)[output]
    np.testing.assert_allclose(made, arrays[tensor].mean(1) + arrays[bias], rtol=1e-5, atol=1e-6)
