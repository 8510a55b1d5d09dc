"""Products of floats are what numpy says, for every size, layout and target."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.kernel_text import kernel_text
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product import schedule_product
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Function,
    Made,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import Size, symbol
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import NATIVE_TARGETS, V2, V3, V4, NativeTarget
from tests.compiler.product_factories import (
    close,
    floats,
    matrix_product,
    read,
    relu_of_biased,
    tensor,
)
from tests.compiler.scheduled_kernels import run_scheduled

_SIZES = [
    (8, 48, 16),
    (16, 96, 64),
    (1, 1, 1),
    (7, 33, 5),
    (13, 130, 70),
    (1, 300, 40),
    (3, 50, 129),
    (50, 1, 20),
    (5, 7, 0),
    (0, 7, 5),
    (5, 0, 7),
]


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("sizes", _SIZES)
def test_product_with_constant_bias_and_relu(
    target: NativeTarget, sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    left, right, bias = tensor("left", m, k), tensor("right", k, n), tensor("bias", n)
    output = tensor("output", m, n)
    product = matrix_product(left, right, output, epilogue=relu_of_biased(bias))
    arrays = {
        left: floats(m, k),
        right: floats(k, n),
        bias: floats(n),
        output: np.full((m, n), np.nan, np.float32),
    }
    (kernel,) = schedule_product(product, target.model, {right, bias})
    run_scheduled([kernel], arrays, target)
    expected = np.maximum(arrays[left] @ arrays[right] + arrays[bias], 0)
    close(arrays[output], expected)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 130])
def test_rows_may_be_open(rows: int) -> None:
    m = symbol("m")
    left, right, output = tensor("left", m, 40), tensor("right", 40, 52), tensor("out", m, 52)
    product = matrix_product(left, right, output)
    arrays = {
        left: floats(rows, 40),
        right: floats(40, 52),
        output: np.full((rows, 52), np.nan, np.float32),
    }
    kernels = schedule_product(product, V3.model, {right})
    run_scheduled(kernels, arrays, V3, {"m": rows})
    close(arrays[output], arrays[left] @ arrays[right])


@pytest.mark.parametrize("target", [V4, V2], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (9, 17, 33), (20, 100, 5000), (3, 4, 0), (0, 2, 2)])
def test_all_sizes_may_be_open(target: NativeTarget, sizes: tuple[int, int, int]) -> None:
    m, n, k = symbol("m"), symbol("n"), symbol("k")
    left, right, output = tensor("left", m, k), tensor("right", k, n), tensor("out", m, n)
    product = matrix_product(left, right, output)
    rows, columns, depth = sizes
    arrays = {
        left: floats(rows, depth),
        right: floats(depth, columns),
        output: np.full((rows, columns), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, ())
    run_scheduled(kernels, arrays, target, dict(zip("mnk", sizes, strict=True)))
    np.testing.assert_allclose(arrays[output], arrays[left] @ arrays[right], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("depth", [3, 16, 45])
def test_sides_may_be_transposed(target: NativeTarget, depth: int, *, is_constant: bool) -> None:
    left, right, output = (
        tensor("left", depth, 11),
        tensor("right", 29, depth),
        tensor("o", 11, 29),
    )
    product = Product(
        output=output,
        batch=(),
        m=11,
        n=29,
        k=depth,
        left=read(left, 1, 0),
        right=read(right, 1, 0),
    )
    arrays = {
        left: floats(depth, 11),
        right: floats(29, depth),
        output: np.full((11, 29), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, {right} if is_constant else ())
    assert len(kernels) == (1 if is_constant else 2)
    run_scheduled(kernels, arrays, target)
    close(arrays[output], arrays[left].T @ arrays[right].T)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(
    ("left_axes", "right_axes"),
    [((0, 1), (0, 1)), ((0, 1), ()), ((0, 1), (1,)), ((1,), (0,)), ((), (0, 1))],
)
def test_batches_are_broadcast(
    left_axes: tuple[int, ...], right_axes: tuple[int, ...], *, is_constant: bool
) -> None:
    batch, m, n, k = (2, 3), 9, 20, 18
    left = tensor("left", *(batch[axis] for axis in left_axes), m, k)
    right = tensor("right", *(batch[axis] for axis in right_axes), k, n)
    bias, output = tensor("bias", *batch, m), tensor("output", *batch, m, n)
    product = Product(
        output=output,
        batch=batch,
        m=m,
        n=n,
        k=k,
        left=read(left, *left_axes, 2, 3),
        right=read(right, *right_axes, 2, 3),
        epilogue=Call(Function.ADD, (Made(Scalar.F32), read(bias, 0, 1, 2))),
    )
    arrays = {
        tensor: floats(*(size for size in tensor.shape if isinstance(size, int)))
        for tensor in (left, right, bias, output)
    }
    kernels = schedule_product(product, V3.model, {right} if is_constant else ())
    run_scheduled(kernels, arrays, V3)

    def whole(tensor: Tensor, axes: tuple[int, ...]) -> Array:
        missing = tuple(axis for axis in (0, 1) if axis not in axes)
        return np.expand_dims(arrays[tensor], missing)

    expected = whole(left, left_axes) @ whole(right, right_axes) + arrays[bias][..., None]
    close(arrays[output], expected)


def test_heads_are_read_where_they_lie() -> None:
    """As attention multiplies query and key: (batch, place, head, width) without a transpose."""
    b, heads, coordinates, width = 2, 3, 10, 16
    query, key = (
        tensor("query", b, coordinates, heads, width),
        tensor("key", b, coordinates, heads, width),
    )
    output = tensor("scores", b, heads, coordinates, coordinates)
    product = Product(
        output=output,
        batch=(b, heads),
        m=coordinates,
        n=coordinates,
        k=width,
        left=read(query, 0, 2, 1, 3),
        right=read(key, 0, 3, 1, 2),
    )
    arrays = {
        each: floats(b, coordinates, heads, width, seed=n) for n, each in enumerate((query, key))
    }
    arrays[output] = np.full((b, heads, coordinates, coordinates), np.nan, np.float32)
    kernels = schedule_product(product, V4.model, ())
    run_scheduled(kernels, arrays, V4)
    expected = np.einsum("bqhd,bkhd->bhqk", arrays[query], arrays[key])
    close(arrays[output], expected)


def test_left_side_may_be_computed() -> None:
    left, right, output = tensor("left", 9, 21), tensor("right", 21, 34), tensor("out", 9, 34)
    doubled = Call(Function.ADD, (read(left, 0, 1), read(left, 0, 1)))
    product = Product(
        output=output, batch=(), m=9, n=34, k=21, left=doubled, right=read(right, 0, 1)
    )
    arrays = {left: floats(9, 21), right: floats(21, 34), output: floats(9, 34)}
    kernels = schedule_product(product, V3.model, {right})
    run_scheduled(kernels, arrays, V3)
    close(arrays[output], 2 * arrays[left] @ arrays[right])


def test_right_side_may_be_computed() -> None:
    left, right, output = tensor("left", 9, 21), tensor("right", 21, 34), tensor("out", 9, 34)
    step = Convert(Position(0), Scalar.F32)
    product = Product(
        output=output,
        batch=(),
        m=9,
        n=34,
        k=21,
        left=read(left, 0, 1),
        right=Call(Function.MUL, (read(right, 0, 1), step)),
    )
    arrays = {left: floats(9, 21), right: floats(21, 34), output: floats(9, 34)}
    kernels = schedule_product(product, V3.model, {right})
    run_scheduled(kernels, arrays, V3)
    scaled = arrays[right] * np.arange(21, dtype=np.float32)[:, None]
    np.testing.assert_allclose(arrays[output], arrays[left] @ scaled, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_halves_are_kept_as_they_are_where_the_cpu_widens_them(target: NativeTarget) -> None:
    left, right = tensor("left", 9, 21), tensor("right", 21, 70, scalar=Scalar.F16)
    output = tensor("out", 9, 70)
    product = Product(
        output=output,
        batch=(),
        m=9,
        n=70,
        k=21,
        left=read(left, 0, 1),
        right=Convert(read(right, 0, 1), Scalar.F32),
    )
    arrays = {left: floats(9, 21), right: floats(21, 70).astype(np.float16)}
    arrays[output] = np.full((9, 70), np.nan, np.float32)
    kernels = schedule_product(product, target.model, {right})
    (panels,) = kernels[-1].packed
    assert panels.scalar is (Scalar.F16 if target.model.has_fma else Scalar.F32)
    run_scheduled(kernels, arrays, target)
    close(arrays[output], arrays[left] @ arrays[right].astype(np.float32))


def test_infinities_and_nan_come_through() -> None:
    left, right, output = tensor("left", 2, 3), tensor("right", 3, 2), tensor("out", 2, 2)
    product = matrix_product(left, right, output)
    arrays = {
        left: np.array([[np.inf, 1, 0], [1, np.nan, 0]], np.float32),
        right: np.array([[1, 0], [2, 1], [3, np.inf]], np.float32),
        output: np.zeros((2, 2), np.float32),
    }
    run_scheduled(schedule_product(product, V3.model, {right}), arrays, V3)
    np.testing.assert_array_equal(arrays[output], [[np.inf, np.nan], [np.nan, np.nan]])


def test_constants_of_equal_layout_are_packed_once() -> None:
    right = tensor("right", 64, 96)

    def layout(rows: int, *, first: int = 0) -> str:
        left, output = tensor("left", rows, 32), tensor("out", rows, 96)
        product = Product(
            output=output,
            batch=(),
            m=rows,
            n=96,
            k=32,
            left=read(left, 0, 1),
            right=Read(right, (Coordinate(((0, 1),), first), along(1))),
        )
        (kernel,) = schedule_product(product, V4.model, {right})
        (packing,) = kernel.packed.values()
        return packing.layout

    assert layout(64) == layout(128)
    assert layout(64) != layout(64, first=32)
    assert layout(64) != layout(1), "another width of panels"


def test_a_read_beyond_the_constant_is_refused() -> None:
    left, right, output = tensor("left", 4, 8), tensor("right", 8, 5), tensor("out", 4, 5)
    product = Product(
        output=output,
        batch=(),
        m=4,
        n=5,
        k=8,
        left=read(left, 0, 1),
        right=Read(right, (Coordinate(((0, 1),), 1), along(1))),
    )
    (kernel,) = schedule_product(product, V3.model, {right})
    (packing,) = kernel.packed.values()
    with pytest.raises(ValueError, match="right is read beyond its 40 elements"):
        packing.pack(floats(8, 5))


def _kernel_of(m: Size, n: int, k: int, model: MachineModel) -> str:
    left, right, output = tensor("left", m, k), tensor("right", k, n), tensor("out", m, n)
    product = matrix_product(left, right, output)
    (scheduled,) = schedule_product(product, model, {right})
    return kernel_function(scheduled.kernel, "kernel", EmissionOptions())


def test_equal_products_have_one_kernel() -> None:
    texts = set()
    for name in ("first", "second"):
        left, right, output = (tensor(name, 64, 64) for _ in range(3))
        product = matrix_product(left, right, output)
        (scheduled,) = schedule_product(product, V4.model, {right})
        texts.add(kernel_text(scheduled.kernel, name="kernel"))
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("cpu", "model", "fused"),
    [("x86-64-v4", V4.model, 24), ("x86-64-v3", V3.model, 12)],
)
def test_inner_loop_keeps_its_sums_in_registers(cpu: str, model: MachineModel, fused: int) -> None:
    compiler = ObjectCompiler(triple="x86_64-unknown-linux-gnu", cpu=cpu)
    assembly = compiler.assembly(_kernel_of(1536, 768 if fused == 24 else 1536, 768, model))
    blocks = assembly.split("\n.L")
    inner = max(blocks, key=lambda block: block.count("vfmadd"))
    assert inner.count("vfmadd") == fused
    spilled = [each for each in inner.splitlines() if "mm" in each and "rsp" in each]
    assert not spilled, inner


@pytest.mark.parametrize(
    ("cpu", "features", "model", "instruction"),
    [
        ("generic", ("+reserve-x18",), MachineModel(vector_nbytes=16, register_count=32), "fmla"),
        ("x86-64-v2", (), V2.model, "mulps"),
    ],
)
def test_other_targets_are_compiled_for(
    cpu: str, features: tuple[str, ...], model: MachineModel, instruction: str
) -> None:
    machine = "aarch64" if instruction == "fmla" else "x86_64"
    compiler = ObjectCompiler(triple=f"{machine}-unknown-linux-gnu", cpu=cpu, features=features)
    text = _kernel_of(64, 96, 128, model)
    assert compiler.link(text).data
    assert compiler.assembly(text).count(instruction) >= 8
