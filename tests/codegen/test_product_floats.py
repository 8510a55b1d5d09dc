"""Products of floats are what numpy says, for every size, layout and target."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.codegen.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.codegen.emission.object_compiler import ObjectCompiler
from ortpkg.codegen.loop_ir.kernel_text import kernel_text
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.product import schedule_product
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Place,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.codegen.tensor_ir.operations import Product
from ortpkg.shapes.expressions import Size, symbol
from tests.codegen.native_targets import NATIVE_TARGETS, V2, V3, V4, NativeTarget
from tests.codegen.scheduled_arrays import Array, run_schedule

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


def _tensor(name: str, *shape: Size, scalar: Scalar = Scalar.F32) -> Tensor:
    return Tensor(name, scalar, shape)


def _read(tensor: Tensor, *axes: int) -> Read:
    return Read(tensor, tuple(along(axis) for axis in axes))


def _relu_of_biased(bias: Tensor, axis: int = 1) -> Element:
    biased = Call(Function.ADD, (Made(Scalar.F32), _read(bias, axis)))
    return Call(Function.MAX, (biased, Number(0.0, Scalar.F32)))


def _floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def _close(made: Array, expected: Array) -> None:
    """Within the rounding of sums of a few hundred products."""
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("sizes", _SIZES)
def test_product_with_constant_bias_and_relu(
    target: NativeTarget, sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    left, right, bias = _tensor("left", m, k), _tensor("right", k, n), _tensor("bias", n)
    output = _tensor("output", m, n)
    product = Product(
        output=output,
        batch=(),
        m=m,
        n=n,
        k=k,
        left=_read(left, 0, 1),
        right=_read(right, 0, 1),
        epilogue=_relu_of_biased(bias),
    )
    arrays = {
        left: _floats(m, k),
        right: _floats(k, n),
        bias: _floats(n),
        output: np.full((m, n), np.nan, np.float32),
    }
    (kernel,) = schedule_product(product, target.model, {right, bias})
    run_schedule([kernel], arrays, target)
    expected = np.maximum(arrays[left] @ arrays[right] + arrays[bias], 0)
    _close(arrays[output], expected)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 130])
def test_rows_may_be_open(rows: int) -> None:
    m = symbol("m")
    left, right, output = _tensor("left", m, 40), _tensor("right", 40, 52), _tensor("out", m, 52)
    product = Product(
        output=output, batch=(), m=m, n=52, k=40, left=_read(left, 0, 1), right=_read(right, 0, 1)
    )
    arrays = {
        left: _floats(rows, 40),
        right: _floats(40, 52),
        output: np.full((rows, 52), np.nan, np.float32),
    }
    kernels = schedule_product(product, V3.model, {right})
    run_schedule(kernels, arrays, V3, {"m": rows})
    _close(arrays[output], arrays[left] @ arrays[right])


@pytest.mark.parametrize("target", [V4, V2], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (9, 17, 33), (20, 100, 5000), (3, 4, 0), (0, 2, 2)])
def test_all_sizes_may_be_open(target: NativeTarget, sizes: tuple[int, int, int]) -> None:
    m, n, k = symbol("m"), symbol("n"), symbol("k")
    left, right, output = _tensor("left", m, k), _tensor("right", k, n), _tensor("out", m, n)
    product = Product(
        output=output, batch=(), m=m, n=n, k=k, left=_read(left, 0, 1), right=_read(right, 0, 1)
    )
    rows, columns, depth = sizes
    arrays = {
        left: _floats(rows, depth),
        right: _floats(depth, columns),
        output: np.full((rows, columns), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, ())
    run_schedule(kernels, arrays, target, dict(zip("mnk", sizes, strict=True)))
    np.testing.assert_allclose(arrays[output], arrays[left] @ arrays[right], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("depth", [3, 16, 45])
def test_sides_may_be_transposed(target: NativeTarget, depth: int, *, is_constant: bool) -> None:
    left, right, output = (
        _tensor("left", depth, 11),
        _tensor("right", 29, depth),
        _tensor("o", 11, 29),
    )
    product = Product(
        output=output,
        batch=(),
        m=11,
        n=29,
        k=depth,
        left=_read(left, 1, 0),
        right=_read(right, 1, 0),
    )
    arrays = {
        left: _floats(depth, 11),
        right: _floats(29, depth),
        output: np.full((11, 29), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, {right} if is_constant else ())
    assert len(kernels) == (1 if is_constant else 2)
    run_schedule(kernels, arrays, target)
    _close(arrays[output], arrays[left].T @ arrays[right].T)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(
    ("left_axes", "right_axes"),
    [((0, 1), (0, 1)), ((0, 1), ()), ((0, 1), (1,)), ((1,), (0,)), ((), (0, 1))],
)
def test_batches_are_broadcast(
    left_axes: tuple[int, ...], right_axes: tuple[int, ...], *, is_constant: bool
) -> None:
    batch, m, n, k = (2, 3), 9, 20, 18
    left = _tensor("left", *(batch[axis] for axis in left_axes), m, k)
    right = _tensor("right", *(batch[axis] for axis in right_axes), k, n)
    bias, output = _tensor("bias", *batch, m), _tensor("output", *batch, m, n)
    product = Product(
        output=output,
        batch=batch,
        m=m,
        n=n,
        k=k,
        left=_read(left, *left_axes, 2, 3),
        right=_read(right, *right_axes, 2, 3),
        epilogue=Call(Function.ADD, (Made(Scalar.F32), _read(bias, 0, 1, 2))),
    )
    arrays = {
        tensor: _floats(*(size for size in tensor.shape if isinstance(size, int)))
        for tensor in (left, right, bias, output)
    }
    kernels = schedule_product(product, V3.model, {right} if is_constant else ())
    run_schedule(kernels, arrays, V3)

    def whole(tensor: Tensor, axes: tuple[int, ...]) -> Array:
        missing = tuple(axis for axis in (0, 1) if axis not in axes)
        return np.expand_dims(arrays[tensor], missing)

    expected = whole(left, left_axes) @ whole(right, right_axes) + arrays[bias][..., None]
    _close(arrays[output], expected)


def test_heads_are_read_where_they_lie() -> None:
    """As attention multiplies query and key: (batch, place, head, width) without a transpose."""
    b, heads, places, width = 2, 3, 10, 16
    query, key = _tensor("query", b, places, heads, width), _tensor("key", b, places, heads, width)
    output = _tensor("scores", b, heads, places, places)
    product = Product(
        output=output,
        batch=(b, heads),
        m=places,
        n=places,
        k=width,
        left=_read(query, 0, 2, 1, 3),
        right=_read(key, 0, 3, 1, 2),
    )
    arrays = {each: _floats(b, places, heads, width, seed=n) for n, each in enumerate((query, key))}
    arrays[output] = np.full((b, heads, places, places), np.nan, np.float32)
    kernels = schedule_product(product, V4.model, ())
    run_schedule(kernels, arrays, V4)
    expected = np.einsum("bqhd,bkhd->bhqk", arrays[query], arrays[key])
    _close(arrays[output], expected)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("columns", [64, 77])
def test_few_rows_read_the_right_side_where_it_lies(
    target: NativeTarget, rows: int, columns: int
) -> None:
    heads, k = 2, 19
    left = _tensor("left", heads, rows, k)
    right, output = _tensor("right", k, heads, columns), _tensor("out", heads, rows, columns)
    product = Product(
        output=output,
        batch=(heads,),
        m=rows,
        n=columns,
        k=k,
        left=_read(left, 0, 1, 2),
        right=_read(right, 1, 0, 2),
    )
    arrays = {
        left: _floats(heads, rows, k),
        right: _floats(k, heads, columns),
        output: np.full((heads, rows, columns), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, ())
    assert len(kernels) == 1 or target is V2, "whose loads have no masks"
    run_schedule(kernels, arrays, target)
    _close(arrays[output], arrays[left] @ arrays[right].swapaxes(0, 1))


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("columns", "k"), [(70, 64), (5, 21), (300, 3), (9, 0), (0, 9)])
def test_few_rows_times_columns_that_lie_along_k(
    target: NativeTarget, rows: int, columns: int, k: int
) -> None:
    heads = 2
    left, right = _tensor("left", heads, rows, k), _tensor("right", columns, heads, k)
    bias, output = _tensor("bias", columns), _tensor("out", heads, rows, columns)
    product = Product(
        output=output,
        batch=(heads,),
        m=rows,
        n=columns,
        k=k,
        left=_read(left, 0, 1, 2),
        right=_read(right, 2, 0, 1),
        epilogue=_relu_of_biased(bias, 2),
    )
    arrays = {
        left: _floats(heads, rows, k),
        right: _floats(columns, heads, k),
        bias: _floats(columns),
        output: np.full((heads, rows, columns), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, ())
    assert len(kernels) == 1
    run_schedule(kernels, arrays, target)
    sums = np.einsum("hmk,nhk->hmn", arrays[left], arrays[right])
    _close(arrays[output], np.maximum(sums + arrays[bias], 0))


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 40), (600, 33), (7, 0), (0, 7)])
def test_matrix_times_vector(sizes: tuple[int, int], *, is_constant: bool) -> None:
    m, k = symbol("m"), symbol("k")
    left, right, output = _tensor("left", m, k), _tensor("right", k), _tensor("out", m, 1)
    bias = _tensor("bias", m)
    product = Product(
        output=output,
        batch=(),
        m=m,
        n=1,
        k=k,
        left=_read(left, 0, 1),
        right=_read(right, 0),
        epilogue=_relu_of_biased(bias, 0),
    )
    rows, depth = sizes
    arrays = {
        left: _floats(rows, depth),
        right: _floats(depth),
        bias: _floats(rows),
        output: np.full((rows, 1), np.nan, np.float32),
    }
    kernels = schedule_product(product, V3.model, {right} if is_constant else ())
    assert len(kernels) == 1
    run_schedule(kernels, arrays, V3, {"m": rows, "k": depth})
    expected = np.maximum(arrays[left] @ arrays[right] + arrays[bias], 0)
    _close(arrays[output][:, 0], expected)


def test_left_side_may_be_computed() -> None:
    left, right, output = _tensor("left", 9, 21), _tensor("right", 21, 34), _tensor("out", 9, 34)
    doubled = Call(Function.ADD, (_read(left, 0, 1), _read(left, 0, 1)))
    product = Product(
        output=output, batch=(), m=9, n=34, k=21, left=doubled, right=_read(right, 0, 1)
    )
    arrays = {left: _floats(9, 21), right: _floats(21, 34), output: _floats(9, 34)}
    kernels = schedule_product(product, V3.model, {right})
    run_schedule(kernels, arrays, V3)
    _close(arrays[output], 2 * arrays[left] @ arrays[right])


def test_right_side_may_be_computed() -> None:
    left, right, output = _tensor("left", 9, 21), _tensor("right", 21, 34), _tensor("out", 9, 34)
    step = Convert(Position(0), Scalar.F32)
    product = Product(
        output=output,
        batch=(),
        m=9,
        n=34,
        k=21,
        left=_read(left, 0, 1),
        right=Call(Function.MUL, (_read(right, 0, 1), step)),
    )
    arrays = {left: _floats(9, 21), right: _floats(21, 34), output: _floats(9, 34)}
    kernels = schedule_product(product, V3.model, {right})
    run_schedule(kernels, arrays, V3)
    scaled = arrays[right] * np.arange(21, dtype=np.float32)[:, None]
    np.testing.assert_allclose(arrays[output], arrays[left] @ scaled, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_halves_are_kept_as_they_are_where_the_cpu_widens_them(target: NativeTarget) -> None:
    left, right = _tensor("left", 9, 21), _tensor("right", 21, 70, scalar=Scalar.F16)
    output = _tensor("out", 9, 70)
    product = Product(
        output=output,
        batch=(),
        m=9,
        n=70,
        k=21,
        left=_read(left, 0, 1),
        right=Convert(_read(right, 0, 1), Scalar.F32),
    )
    arrays = {left: _floats(9, 21), right: _floats(21, 70).astype(np.float16)}
    arrays[output] = np.full((9, 70), np.nan, np.float32)
    kernels = schedule_product(product, target.model, {right})
    (panels,) = kernels[-1].packed
    assert panels.scalar is (Scalar.F16 if target.model.has_fma else Scalar.F32)
    run_schedule(kernels, arrays, target)
    _close(arrays[output], arrays[left] @ arrays[right].astype(np.float32))


def test_infinities_and_nan_come_through() -> None:
    left, right, output = _tensor("left", 2, 3), _tensor("right", 3, 2), _tensor("out", 2, 2)
    product = Product(
        output=output, batch=(), m=2, n=2, k=3, left=_read(left, 0, 1), right=_read(right, 0, 1)
    )
    arrays = {
        left: np.array([[np.inf, 1, 0], [1, np.nan, 0]], np.float32),
        right: np.array([[1, 0], [2, 1], [3, np.inf]], np.float32),
        output: np.zeros((2, 2), np.float32),
    }
    run_schedule(schedule_product(product, V3.model, {right}), arrays, V3)
    np.testing.assert_array_equal(arrays[output], [[np.inf, np.nan], [np.nan, np.nan]])


def test_constants_of_equal_layout_are_packed_once() -> None:
    right = _tensor("right", 64, 96)

    def layout(rows: int, *, first: int = 0) -> str:
        left, output = _tensor("left", rows, 32), _tensor("out", rows, 96)
        product = Product(
            output=output,
            batch=(),
            m=rows,
            n=96,
            k=32,
            left=_read(left, 0, 1),
            right=Read(right, (Place(((0, 1),), first), along(1))),
        )
        (kernel,) = schedule_product(product, V4.model, {right})
        (packing,) = kernel.packed.values()
        return packing.layout

    assert layout(64) == layout(128)
    assert layout(64) != layout(64, first=32)
    assert layout(64) != layout(1), "another width of panels"


def test_a_read_beyond_the_constant_is_refused() -> None:
    left, right, output = _tensor("left", 4, 8), _tensor("right", 8, 5), _tensor("out", 4, 5)
    product = Product(
        output=output,
        batch=(),
        m=4,
        n=5,
        k=8,
        left=_read(left, 0, 1),
        right=Read(right, (Place(((0, 1),), 1), along(1))),
    )
    (kernel,) = schedule_product(product, V3.model, {right})
    (packing,) = kernel.packed.values()
    with pytest.raises(ValueError, match="right is read beyond its 40 elements"):
        packing.pack(_floats(8, 5))


def _kernel_of(m: Size, n: int, k: int, model: MachineModel) -> str:
    left, right, output = _tensor("left", m, k), _tensor("right", k, n), _tensor("out", m, n)
    product = Product(
        output=output, batch=(), m=m, n=n, k=k, left=_read(left, 0, 1), right=_read(right, 0, 1)
    )
    (scheduled,) = schedule_product(product, model, {right})
    return kernel_function(scheduled.kernel, "kernel", EmissionOptions())


def test_equal_products_have_one_kernel() -> None:
    texts = set()
    for name in ("first", "second"):
        left, right, output = (_tensor(name, 64, 64) for _ in range(3))
        product = Product(
            output=output, batch=(), m=64, n=64, k=64, left=_read(left, 0, 1),
            right=_read(right, 0, 1),
        )  # fmt: skip
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
    assert "rsp" not in inner, inner


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
