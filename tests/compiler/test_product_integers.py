"""Products of bytes are exact, with any zero points, on CPUs with and without instructions for it."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.kernel import Kernel
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.products.product import schedule_product
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
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.native_kernels import Array, run_kernel
from tests.compiler.native_targets import V2, V3, V4, VNNI, NativeTarget
from tests.compiler.reference_elements import DTYPES
from tests.compiler.scheduled_kernels import run_scheduled

_TARGETS = [V2, V3, V4, VNNI]
_KINDS = [(left, right) for left in (Scalar.U8, Scalar.I8) for right in (Scalar.I8, Scalar.U8)]


def _read(tensor: Tensor, *axes: int) -> Read:
    return Read(tensor, tuple(along(axis) for axis in axes))


def _bytes(scalar: Scalar, *shape: int, seed: int = 0) -> Array:
    """All values, the extreme ones often."""
    generator = np.random.default_rng([seed, *shape])
    limits = np.iinfo(DTYPES[scalar])
    values = generator.integers(limits.min, limits.max + 1, shape)
    extreme = generator.choice([limits.min, limits.max], shape)
    return np.where(generator.random(shape) < 0.5, extreme, values).astype(DTYPES[scalar])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("kinds", _KINDS, ids="_".join)
@pytest.mark.parametrize("target", _TARGETS, ids=["v2", "v3", "v4", "vnni"])
@pytest.mark.parametrize("sizes", [(9, 70, 40), (3, 5, 7)])
def test_sums_are_exact(
    target: NativeTarget,
    kinds: tuple[Scalar, Scalar],
    sizes: tuple[int, int, int],
    *,
    is_constant: bool,
) -> None:
    (m, n, k), (left_kind, right_kind) = sizes, kinds
    left, right = Tensor("left", left_kind, (m, k)), Tensor("right", right_kind, (k, n))
    left_zero, right_zero = Tensor("lz", left_kind, ()), Tensor("rz", right_kind, (n,))
    output = Tensor("output", Scalar.I32, (m, n))
    product = Product(
        output=output,
        batch=(),
        m=m,
        n=n,
        k=k,
        left=_read(left, 0, 1),
        right=_read(right, 0, 1),
        left_zero=Read(left_zero, ()),
        right_zero=_read(right_zero, 1),
    )
    arrays = {
        left: _bytes(left_kind, m, k),
        right: _bytes(right_kind, k, n),
        left_zero: _bytes(left_kind, seed=1),
        right_zero: _bytes(right_kind, n),
        output: np.zeros((m, n), np.int32),
    }
    run_scheduled(schedule_product(product, target.model, {right} if is_constant else ()), arrays,
                 target)  # fmt: skip
    wide = {tensor: array.astype(np.int32) for tensor, array in arrays.items()}
    expected = (wide[left] - wide[left_zero]) @ (wide[right] - wide[right_zero])
    np.testing.assert_array_equal(arrays[output], expected)


@pytest.mark.parametrize("kinds", _KINDS, ids="_".join)
@pytest.mark.parametrize("depth", [0, 1, 64, 66])
def test_without_zero_points(kinds: tuple[Scalar, Scalar], depth: int) -> None:
    left, right = Tensor("left", kinds[0], (5, depth)), Tensor("right", kinds[1], (depth, 20))
    output = Tensor("output", Scalar.I32, (5, 20))
    product = Product(
        output=output, batch=(), m=5, n=20, k=depth, left=_read(left, 0, 1),
        right=_read(right, 0, 1), left_zero=Number(0, kinds[0]),
    )  # fmt: skip
    arrays = {
        left: _bytes(kinds[0], 5, depth),
        right: _bytes(kinds[1], depth, 20),
        output: np.full((5, 20), 7, np.int32),
    }
    kernels = schedule_product(product, VNNI.model, {right})
    run_scheduled(kernels, arrays, VNNI)
    expected = arrays[left].astype(np.int32) @ arrays[right].astype(np.int32)
    np.testing.assert_array_equal(arrays[output], expected)


def test_unsigned_rows_with_signed_weights_are_read_where_they_lie() -> None:
    left, right = Tensor("left", Scalar.U8, (16, 64)), Tensor("right", Scalar.I8, (64, 32))
    product = Product(
        output=Tensor("output", Scalar.I32, (16, 32)),
        batch=(),
        m=16,
        n=32,
        k=64,
        left=_read(left, 0, 1),
        right=_read(right, 0, 1),
        left_zero=Number(100, Scalar.U8),
    )
    (kernel,) = schedule_product(product, VNNI.model, {right})
    assert left in kernel.buffers


@pytest.mark.parametrize("target", [V3, VNNI], ids=["v3", "vnni"])
@pytest.mark.parametrize("sizes", [(0, 5, 5), (1, 1, 1), (11, 50, 18), (20, 33, 6001)])
def test_sizes_may_be_open(target: NativeTarget, sizes: tuple[int, int, int]) -> None:
    m, n, k = symbol("m"), symbol("n"), symbol("k")
    left, right = Tensor("left", Scalar.U8, (m, k)), Tensor("right", Scalar.U8, (k, n))
    zeros, output = Tensor("zeros", Scalar.U8, (m,)), Tensor("output", Scalar.I32, (m, n))
    product = Product(
        output=output,
        batch=(),
        m=m,
        n=n,
        k=k,
        left=_read(left, 0, 1),
        right=_read(right, 0, 1),
        left_zero=_read(zeros, 0),
    )
    rows, columns, depth = sizes
    arrays = {
        left: _bytes(Scalar.U8, rows, depth),
        right: _bytes(Scalar.U8, depth, columns),
        zeros: _bytes(Scalar.U8, rows),
        output: np.zeros((rows, columns), np.int32),
    }
    kernels = schedule_product(product, target.model, ())
    run_scheduled(kernels, arrays, target, dict(zip("mnk", sizes, strict=True)))
    moved = arrays[left].astype(np.int32) - arrays[zeros].astype(np.int32)[:, None]
    np.testing.assert_array_equal(arrays[output], moved @ arrays[right].astype(np.int32))


@pytest.mark.parametrize("is_constant", [True, False])
def test_batches_are_requantized_by_their_epilogue(*, is_constant: bool) -> None:
    """As QLinearMatMul: the sums times a scale, rounded, and cut to the kind of the output."""
    batch, m, n, k = 3, 6, 40, 12
    left, right = Tensor("left", Scalar.I8, (batch, m, k)), Tensor("right", Scalar.I8, (k, n))
    scale, output = Tensor("scale", Scalar.F32, (n,)), Tensor("output", Scalar.U8, (batch, m, n))

    def call(function: Function, *operands: Element) -> Element:
        return Call(function, operands)

    scaled = call(Function.MUL, Convert(Made(Scalar.I32), Scalar.F32), _read(scale, 2))
    moved = call(Function.ADD, call(Function.ROUND, scaled), Number(128.0, Scalar.F32))
    least = call(Function.MAX, moved, Number(0.0, Scalar.F32))
    product = Product(
        output=output,
        batch=(batch,),
        m=m,
        n=n,
        k=k,
        left=_read(left, 0, 1, 2),
        right=_read(right, 1, 2),
        epilogue=Convert(call(Function.MIN, least, Number(255.0, Scalar.F32)), Scalar.U8),
    )
    arrays = {
        left: _bytes(Scalar.I8, batch, m, k),
        right: _bytes(Scalar.I8, k, n),
        scale: np.random.default_rng(0).random(n).astype(np.float32) / 999,
        output: np.zeros((batch, m, n), np.uint8),
    }
    kernels = schedule_product(product, VNNI.model, {right} if is_constant else ())
    run_scheduled(kernels, arrays, VNNI)
    sums = arrays[left].astype(np.int32) @ arrays[right].astype(np.int32)
    expected = np.clip(np.round(sums.astype(np.float32) * arrays[scale]) + 128, 0, 255)
    np.testing.assert_array_equal(arrays[output], expected.astype(np.uint8))


def test_left_side_may_be_quantized_on_the_way() -> None:
    m, n, k = 5, 30, 18
    source, right = Tensor("source", Scalar.F32, (m, k)), Tensor("right", Scalar.I8, (k, n))
    output = Tensor("output", Scalar.I32, (m, n))
    rounded = Call(Function.ROUND, (_read(source, 0, 1),))
    product = Product(
        output=output, batch=(), m=m, n=n, k=k, left=Convert(rounded, Scalar.I8),
        right=_read(right, 0, 1),
    )  # fmt: skip
    arrays = {
        source: (np.random.default_rng(0).random((m, k)) * 200 - 100).astype(np.float32),
        right: _bytes(Scalar.I8, k, n),
        output: np.zeros((m, n), np.int32),
    }
    run_scheduled(schedule_product(product, VNNI.model, {right}), arrays, VNNI)
    expected = np.round(arrays[source]).astype(np.int32) @ arrays[right].astype(np.int32)
    np.testing.assert_array_equal(arrays[output], expected)


def _dots(lanes: int) -> Kernel:
    b = KernelBuilder("dots")
    unsigned, signed = b.input("unsigned", Scalar.U8), b.input("signed", Scalar.I8)
    sums = b.output("sums", Scalar.I32)
    made = b.dot(
        b.load(sums, 0, lanes), b.load(unsigned, 0, 4 * lanes), b.load(signed, 0, 4 * lanes)
    )
    b.store(sums, 0, made)
    return b.kernel()


@pytest.mark.parametrize(
    ("lanes", "cpu", "features", "instruction"),
    [
        (4, "x86-64-v2", "+ssse3", "pmaddwd"),
        (8, "x86-64-v3", "+avx2", "vpmaddwd"),
        (16, "x86-64-v4", "+avx512bw", "vpmaddwd"),
        (16, "x86-64-v4", "+avx512vnni", "vpdpbusd"),
        (8, "x86-64-v3", "+avxvnni", "vpdpbusd"),
        (4, "generic", "+dotprod", "sdot"),
        (4, "generic", "+i8mm", "usdot"),
    ],
)
def test_dot_is_the_best_instruction_of_the_cpu(
    lanes: int, cpu: str, features: str, instruction: str
) -> None:
    kernel = _dots(lanes)
    options = EmissionOptions(features=frozenset({features.removeprefix("+")}))
    machine = "aarch64" if cpu == "generic" else "x86_64"
    compiler = ObjectCompiler(
        triple=f"{machine}-unknown-linux-gnu",
        cpu=cpu,
        features=(features, "-prefer-256-bit") if machine == "x86_64" else (features,),
    )
    assert f"\t{instruction}\t" in compiler.assembly(kernel_function(kernel, "k", options))


@pytest.mark.parametrize(
    ("lanes", "cpu", "features"),
    [
        (4, "x86-64-v2", ()),
        (4, "x86-64-v2", ("+ssse3",)),
        (8, "x86-64-v3", ("+avx2",)),
        (16, "x86-64-v4", ("+avx512bw",)),
        (16, "x86-64-v4", ("+avx512vnni",)),
    ],
)
def test_dot_is_exact_for_extreme_bytes(lanes: int, cpu: str, features: tuple[str, ...]) -> None:
    kernel = _dots(lanes)
    unsigned = np.full(4 * lanes, 255, np.uint8)
    signed = np.resize(np.array([-128, -128, -128, -128, 127, 127, 127, 127], np.int8), 4 * lanes)
    sums = np.arange(lanes, dtype=np.int32)
    expected = sums + (unsigned.astype(np.int32) * signed).reshape(lanes, 4).sum(1)
    failed = run_kernel(kernel, [unsigned, signed, sums], tile_count=1, cpu=cpu, features=features)
    assert failed == 0
    np.testing.assert_array_equal(sums, expected)
