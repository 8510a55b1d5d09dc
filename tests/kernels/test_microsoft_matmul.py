"""Quantized matrix products of com.microsoft, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

RANDOM = np.random.default_rng(3)


def ours(op_type: str, *inputs: Tensor | None, **attributes: Any) -> Any:
    return run_op(op_type, *inputs, domain="com.microsoft", **attributes)


def scales(*shape: int) -> Tensor:
    return RANDOM.uniform(0.005, 0.02, shape).astype(np.float32)


def weights(depth: int, columns: int) -> Tensor:
    return RANDOM.integers(-128, 128, (depth, columns)).astype(np.int8)


@pytest.mark.parametrize("columns_scaled", [1, 6])
def test_matmul_integer_to_float(columns_scaled: int) -> None:
    a, b = RANDOM.integers(0, 256, (2, 5, 700)).astype(np.uint8), weights(700, 6)
    inputs = (
        a,
        b,
        scales(),
        scales(columns_scaled),
        np.array(120, np.uint8),
        None,
        RANDOM.normal(size=6).astype(np.float32),
    )
    expected = run_on_onnxruntime("MatMulIntegerToFloat", *inputs)
    for constant_slots in ((), (1,)):
        np.testing.assert_allclose(
            ours("MatMulIntegerToFloat", *inputs, constant_slots=constant_slots),
            expected,
            rtol=1e-5,
            atol=1e-5,
        )


def test_dynamic_quantize_matmul() -> None:
    a, b = RANDOM.normal(size=(3, 64)).astype(np.float32), weights(64, 8)
    inputs = (a, b, scales(8), np.zeros(8, np.int8), RANDOM.normal(size=8).astype(np.float32))
    expected = run_on_onnxruntime("DynamicQuantizeMatMul", *inputs)
    np.testing.assert_allclose(
        ours("DynamicQuantizeMatMul", *inputs), expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("is_quantized", [False, True])
def test_qgemm(is_quantized: bool) -> None:
    a, b = RANDOM.integers(0, 256, (4, 30)).astype(np.uint8), weights(7, 30)
    bias = RANDOM.integers(-500, 500, 7).astype(np.int32)
    inputs = [a, scales(), np.array(8, np.uint8), b, scales(), np.array(2, np.int8), bias]
    if is_quantized:
        inputs += [np.array(1.5, np.float32), np.array(100, np.uint8)]
    found = ours("QGemm", *inputs, transB=1)
    expected = run_on_onnxruntime("QGemm", *inputs, transB=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1 if is_quantized else 1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("has_zero_points", [False, True])
@pytest.mark.parametrize("constant_slots", [(), (1, 2, 3)])
def test_matmul_of_weights_in_few_bits(
    bits: int, has_zero_points: bool, constant_slots: tuple[int, ...]
) -> None:
    depth, columns, block_size = 96, 5, 32
    blocks = depth // block_size
    packed = RANDOM.integers(0, 256, (columns, blocks, block_size * bits // 8)).astype(np.uint8)
    points = (
        RANDOM.integers(0, 256, columns * -(-blocks * bits // 8)).astype(np.uint8)
        if has_zero_points
        else None
    )
    inputs = (
        RANDOM.normal(size=(2, depth)).astype(np.float32),
        packed,
        scales(columns * blocks),
        points,
    )
    attributes: dict[str, Any] = {"K": depth, "N": columns, "bits": bits, "block_size": block_size}
    expected = run_on_onnxruntime("MatMulNBits", *inputs, **attributes)
    slots = tuple(slot for slot in constant_slots if inputs[slot] is not None)
    found = ours("MatMulNBits", *inputs, constant_slots=slots, **attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_weights_of_the_wrong_size_are_refused() -> None:
    a, packed = np.zeros((1, 64), np.float32), np.zeros((5, 1, 16), np.uint8)
    with pytest.raises(ValueError, match="have 160 bytes and 10 scales, not 80 and 5"):
        ours("MatMulNBits", a, packed, scales(5), K=64, N=5, bits=4, block_size=32)


def test_unpacking_computed_weights_counts_against_the_memory_limit() -> None:
    inputs = (np.zeros((1, 64), np.float32), np.zeros((1000, 2, 16), np.uint8), scales(2000))
    with pytest.raises(LimitExceededError):
        ours("MatMulNBits", *inputs, K=64, N=1000, bits=4, block_size=32, limit_nbytes=100_000)
