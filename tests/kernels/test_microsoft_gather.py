"""GatherBlockQuantized of com.microsoft, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.graph.types import element_type_of
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op

RNG = np.random.default_rng(5)
NARROW_FLOATS = [
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float4_e2m1fn,
]


def on_onnxruntime(
    data: Tensor, indices: Tensor, scales: Tensor, points: Tensor | None, **attributes: Any
) -> Tensor:
    """onnxruntime's result with parameters as constants, as feeds cannot have all types."""
    onnxruntime = pytest.importorskip("onnxruntime")
    constants = {"data": data, "scales": scales} | ({} if points is None else {"points": points})
    names = ["data", "indices", "scales", *(["points"] if points is not None else [])]
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y"], domain="com.microsoft", **attributes
    )
    graph = helper.make_graph(
        [node],
        "peer",
        [
            helper.make_tensor_value_info(
                "indices", int(element_type_of(indices.dtype)), indices.shape
            )
        ],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=11)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"indices": indices})[0])


def ours(
    data: Tensor, indices: Tensor, scales: Tensor, points: Tensor | None = None, **attributes: Any
) -> Any:
    return run_op(
        "GatherBlockQuantized", data, indices, scales, points, domain="com.microsoft", **attributes
    )


def assert_agrees(
    data: Tensor, indices: Tensor, scales: Tensor, points: Tensor | None, **attributes: Any
) -> None:
    found = ours(data, indices, scales, points, **attributes)
    expected = on_onnxruntime(data, indices, scales, points, **attributes)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if found.dtype == np.float32 else 1e-3)


def scales_of(*shape: int, dtype: Any = np.float32) -> Tensor:
    return RNG.uniform(0.01, 0.2, shape).astype(dtype)


def indices_of(*shape: int, below: int, dtype: Any = np.int64) -> Tensor:
    return RNG.integers(-below, below, shape).astype(dtype)


@pytest.mark.parametrize("scale_dtype", [np.float32, np.float16])
@pytest.mark.parametrize("with_points", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packed_bytes_come_apart_low_bits_first(
    bits: int, with_points: bool, scale_dtype: Any
) -> None:
    per_byte = 8 // bits
    data = RNG.integers(0, 256, (20, 96 // per_byte)).astype(np.uint8)
    points = RNG.integers(0, 256, (20, -(-3 // per_byte))).astype(np.uint8) if with_points else None
    scales = scales_of(20, 3, dtype=scale_dtype)
    assert_agrees(data, indices_of(2, 3, below=20), scales, points, bits=bits, block_size=32)


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize("with_points", [False, True])
@pytest.mark.parametrize(
    ("gather_axis", "quantize_axis"), [(0, 1), (0, 2), (1, 0), (1, 2), (2, -1), (-1, 0), (1, 1)]
)
def test_nibbles_are_gathered_and_quantized_along_any_axes(
    gather_axis: int, quantize_axis: int, with_points: bool, dtype: Any, index_dtype: Any
) -> None:
    shape = [6, 18, 34]
    blocks = list(shape)
    blocks[quantize_axis] = -(-shape[quantize_axis] // 16)
    low, high = (-8, 8) if dtype == ml_dtypes.int4 else (0, 16)
    data = RNG.integers(low, high, shape).astype(np.int8).astype(dtype)
    points = RNG.integers(low, high, blocks).astype(np.int8).astype(dtype) if with_points else None
    indices = indices_of(2, 2, below=shape[gather_axis], dtype=index_dtype)
    attributes = {"gather_axis": gather_axis, "quantize_axis": quantize_axis, "block_size": 16}
    assert_agrees(data, indices, scales_of(*blocks), points, **attributes)


@pytest.mark.parametrize("dtype", NARROW_FLOATS)
@pytest.mark.parametrize(
    ("block_size", "scale_shape"), [(16, (12, 3)), (0, (12, 1)), (0, (1, 1)), (16, (1, 3))]
)
def test_narrow_floats_share_scales(
    block_size: int, scale_shape: tuple[int, ...], dtype: Any
) -> None:
    data = RNG.standard_normal((12, 40)).astype(np.float32).astype(dtype)
    assert_agrees(
        data, indices_of(7, below=12), scales_of(*scale_shape), None, block_size=block_size
    )


def test_one_index_drops_the_axis() -> None:
    data = RNG.integers(0, 256, (20, 16)).astype(np.uint8)
    assert_agrees(data, np.array(3), scales_of(20, 1), None, block_size=32)


def test_indices_are_worked_through_in_parts() -> None:
    data = RNG.integers(0, 256, (300, 512)).astype(np.uint8)
    assert_agrees(data, indices_of(3, 100, below=300), scales_of(300, 8), None, block_size=128)


def test_an_index_out_of_range_gives_zeros() -> None:
    data = RNG.integers(0, 256, (20, 16)).astype(np.uint8)
    scales = scales_of(20, 1)
    found = ours(data, np.array([3, 20, -21]), scales, block_size=32)
    assert found[0].any()
    assert not found[1:].any()
    assert_agrees(data, np.array([3, 20, -21]), scales, None, block_size=32)


def test_no_indices_give_no_rows() -> None:
    data = RNG.integers(0, 256, (20, 16)).astype(np.uint8)
    assert ours(data, np.zeros((0, 2), np.int64), scales_of(20, 1), block_size=32).shape == (
        0,
        2,
        32,
    )


BYTES, NIBBLES = np.zeros((4, 16), np.uint8), np.zeros((4, 32), ml_dtypes.int4)
INDEX, SCALE = np.array([1]), np.ones((4, 1), np.float32)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ((BYTES, INDEX, SCALE), {"block_size": 24}, "block_size is a power of 2 from 16 on"),
        ((BYTES, INDEX, SCALE), {"block_size": 8}, "block_size is a power of 2 from 16 on"),
        (
            (BYTES, INDEX, SCALE),
            {"block_size": 0},
            "block_size 0, one block per axis, is for float8 and float4",
        ),
        ((BYTES, INDEX, SCALE), {"bits": 3}, "2, 4 or 8 bits, not 3"),
        (
            (BYTES, INDEX, SCALE),
            {"gather_axis": 1},
            "gathered along axis 0 and quantized along its last",
        ),
        ((NIBBLES, INDEX, SCALE), {"bits": 8}, "has 4 bits, not 8"),
        (
            (BYTES.astype(np.int32), INDEX, SCALE),
            {},
            "uint8, int4, uint4, float8 or float4 data, not int32",
        ),
        ((BYTES, INDEX, SCALE), {"block_size": 16}, r"have shape \(4, 2\), not \(4, 1\)"),
        ((BYTES, INDEX, SCALE.astype(np.float64)), {}, "scales are float or float16, not float64"),
        ((BYTES, INDEX, SCALE[0]), {}, r"have shape \(4, 1\), not \(1,\)"),
        ((BYTES, INDEX, SCALE, BYTES), {}, r"zero points have the shape \(4, 1\)"),
        ((NIBBLES, INDEX, SCALE, SCALE), {}, "the type int4 here, not"),
        (
            (NIBBLES.astype(np.float32).astype(ml_dtypes.float8_e5m2), INDEX, SCALE, SCALE),
            {},
            "symmetric: it takes no zero points",
        ),
        ((BYTES, INDEX, SCALE), {"quantize_axis": 5}, r"axis 5 is not in \[-2, 2\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    inputs: tuple[Any, ...], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ours(*inputs, **attributes)


def test_what_is_dequantized_counts_against_the_memory_limit() -> None:
    with pytest.raises(LimitExceededError):
        ours(BYTES, np.zeros(4, np.int64), SCALE, limit_nbytes=1000)
