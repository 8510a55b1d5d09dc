"""Kernels of the loop IR become machine code that does what they say."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.kernel import Kernel, Op
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.loop_ir.kernel_text import kernel_text
from ortpkg.compiler.loop_ir.loop_types import Scalar
from tests.compiler.native_kernels import run_kernel

_TILE = 1024


def _relu_of_sum(*, beyond: int = 0) -> Kernel:
    """A tile is 1,024 elements; ``beyond``: so many elements more than there are."""
    b = KernelBuilder("relu_of_sum")
    left, right = b.input("left", Scalar.F32), b.input("right", Scalar.F32)
    made, count = b.output("made", Scalar.F32), b.size("count")
    start = b.mul(b.tile, _TILE)
    stop = b.least(b.add(start, _TILE), b.add(count, beyond))
    whole = b.sub(stop, b.rem(b.sub(stop, start), 16))

    with b.loop(start, whole, 16) as loop:
        total = b.add(b.load(left, loop.index, 16), b.load(right, loop.index, 16))
        b.store(made, loop.index, b.compute(Op.MAX, total, 0.0))
    rest = b.sub(stop, whole)
    total = b.add(b.load(left, whole, 16, rest), b.load(right, whole, 16, rest))
    b.store(made, whole, b.compute(Op.MAX, total, 0.0), rest)
    return b.kernel()


@pytest.mark.parametrize("count", [0, 1, 15, 16, 1023, 1024, 5000])
@pytest.mark.parametrize("is_checked", [True, False])
def test_vectors_and_their_rest_are_computed(count: int, is_checked: bool) -> None:
    generator = np.random.default_rng(count)
    left, right = generator.standard_normal((2, count)).astype(np.float32)
    made = np.full(count, np.nan, np.float32)
    tiles = -(-count // _TILE)
    run_kernel(
        _relu_of_sum(), [left, right, made], [count], tile_count=tiles, is_checked=is_checked
    )
    np.testing.assert_array_equal(made, np.maximum(left + right, 0))


def test_an_access_outside_of_its_buffer_is_told_and_not_made() -> None:
    left, right, made = np.ones((3, 100), np.float32)
    failed = run_kernel(_relu_of_sum(beyond=1), [left, right, made], [100], tile_count=1)
    assert failed > 0, "the kernel reads the 101st element of 100"


def test_kernels_that_do_the_same_have_the_same_text() -> None:
    first, second = kernel_text(_relu_of_sum(), name="k"), kernel_text(_relu_of_sum(), name="k")
    assert first == second
    assert "for %11 = %3 to %10 step 16 {" in first, first


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "convention"),
    [
        ("x86_64-unknown-linux-gnu", "x86-64-v2", (), ""),
        ("x86_64-unknown-linux-gnu", "x86-64-v4", (), ""),
        ("x86_64-unknown-linux-gnu", "x86-64-v3", (), "win64cc"),
        ("aarch64-unknown-linux-gnu", "generic", ("+reserve-x18",), ""),
    ],
)
def test_every_cpu_is_compiled_for(
    triple: str, cpu: str, features: tuple[str, ...], convention: str
) -> None:
    compiler = ObjectCompiler(triple=triple, cpu=cpu, features=features)
    options = EmissionOptions(calling_convention=convention)
    code = compiler.link(kernel_function(_relu_of_sum(), "kernel", options))
    assert set(code.functions) == {"kernel"}
    assert code.data


#: Beyond what integers have, at their bounds, between them, and NaN.
_FLOATS = [
    np.nan, np.inf, -np.inf, 0.0, 1.9, -1.9, 127.9, 128.0, -128.9, -129.0, 255.5, 256.0,
    2.0**31 - 128, 2.0**31, -(2.0**31), -(2.0**31) - 256,
]  # fmt: skip


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v4"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("given", ["float32", "float64"])
def test_floats_become_the_nearest_integer_that_there_is(given: str, dtype: str, cpu: str) -> None:
    kinds = {"float32": Scalar.F32, "float64": Scalar.F64, "int8": Scalar.I8, "uint8": Scalar.U8,
             "int16": Scalar.I16, "uint16": Scalar.U16, "int32": Scalar.I32}  # fmt: skip
    b = KernelBuilder("saturated")
    source, output = b.input("source", kinds[given]), b.output("made", kinds[dtype])
    b.store(output, 0, b.cast(b.load(source, 0, 16), kinds[dtype]))
    floats, made = np.array(_FLOATS, given), np.zeros(16, dtype)
    run_kernel(b.kernel(), [floats, made], tile_count=1, cpu=cpu)
    limits = np.iinfo(dtype)
    wanted = [0 if np.isnan(each) else int(np.clip(np.trunc(float(each)), limits.min, limits.max))
              for each in floats]  # fmt: skip
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_one_narrow_element_leaves_those_behind_it(dtype: str, cpu: str) -> None:
    kind = {"uint8": Scalar.U8, "int16": Scalar.I16}[dtype]
    b = KernelBuilder("one")
    source, output = b.input("source", Scalar.F32), b.output("made", kind)
    rounded = b.compute(Op.ROUND, b.load(source, 0, 16))
    b.store(output, 0, b.cast(rounded, kind), 1)
    made = np.full(16, 7, dtype)
    run_kernel(b.kernel(), [np.ones(16, np.float32), made], tile_count=1, cpu=cpu)
    np.testing.assert_array_equal(made, [1] + [7] * 15)
