"""SparseAttention against onnxruntime, which keeps past and present in one memory only."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.graph.types import element_type_of
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op

HEADS, SHARED, SIZE, BLOCK, BLOCKS = 4, 2, 16, 16, 4
PLACES = BLOCK * BLOCKS
RNG = np.random.default_rng(5)
COSINES, SINES = (
    function(RNG.uniform(0, 6, (PLACES, SIZE // 2))).astype(np.float32)
    for function in (np.cos, np.sin)
)
MASKS = {
    "one layout": [[[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]],
    "two layouts": [
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]],
    ],
    "a layout per head": [np.eye(4, dtype=int).tolist()] * 3
    + [np.tril(np.ones((4, 4), int)).tolist()],
    "dense": [np.tril(np.ones((4, 4), int)).tolist()],
}


def normal(*shape: int, dtype: Any = np.float32) -> Tensor:
    return RNG.standard_normal(shape).astype(dtype)


def csr(masks: list[list[list[int]]]) -> tuple[Tensor, Tensor]:
    """(row bounds, columns) of layouts; columns are filled up with -1."""
    found = [
        (np.cumsum([0, *np.sum(mask, axis=1)]), np.nonzero(np.array(mask))[1]) for mask in masks
    ]
    most = max(columns.size for _, columns in found)
    columns = [
        np.pad(columns, (0, most - columns.size), constant_values=-1) for _, columns in found
    ]
    return np.array([rows for rows, _ in found], np.int32), np.array(columns, np.int32)


def inputs_of(
    batch: int,
    new: int,
    ends: list[int],
    mask: str,
    *,
    packed: bool = False,
    rotary: bool = False,
    dtype: Any = np.float32,
) -> list[Any]:
    """The operator's inputs; ``ends``: per sequence how many keys it has, the new ones included."""
    if packed:
        factors: list[Any] = [
            normal(batch, new, (HEADS + 2 * SHARED) * SIZE, dtype=dtype),
            None,
            None,
        ]
    else:
        factors = [
            normal(batch, new, heads * SIZE, dtype=dtype) for heads in (HEADS, SHARED, SHARED)
        ]
    caches = [normal(batch, SHARED, PLACES, SIZE, dtype=dtype) for _ in range(2)]
    lengths = [np.array([max(ends)], np.int32), np.array(ends, np.int32)]
    extras = [COSINES.astype(dtype), SINES.astype(dtype)] if rotary else []
    return [*factors, *caches, *csr(MASKS[mask]), *lengths, *extras]


def ours(inputs: list[Any], **attributes: Any) -> Any:
    attributes = {
        "num_heads": HEADS,
        "kv_num_heads": SHARED,
        "sparse_block_size": BLOCK,
    } | attributes
    return run_op("SparseAttention", *inputs, domain="com.microsoft", outputs=3, **attributes)


def theirs(inputs: list[Any], **attributes: Any) -> list[Tensor]:
    """onnxruntime's outputs, its caches bound as past and as present."""
    onnxruntime = pytest.importorskip("onnxruntime")
    attributes = {
        "num_heads": HEADS,
        "kv_num_heads": SHARED,
        "sparse_block_size": BLOCK,
    } | attributes
    names = ["" if value is None else f"x{slot}" for slot, value in enumerate(inputs)]
    node = helper.make_node(
        "SparseAttention", names, ["y0", "y1", "y2"], domain="com.microsoft", **attributes
    )
    graph = onnx.GraphProto(name="peer", node=[node])
    for name, value in zip(names, inputs, strict=True):
        if value is not None:
            graph.input.append(
                helper.make_tensor_value_info(name, int(element_type_of(value.dtype)), value.shape)
            )
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    imports = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(value)
        for name, value in zip(names, inputs)  # noqa: B905
        if name
    }
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0", "cpu")
    binding.bind_ortvalue_output("y1", values["x3"])
    binding.bind_ortvalue_output("y2", values["x4"])
    session.run_with_iobinding(binding)
    return [value.numpy() for value in binding.get_outputs()]


def assert_agrees(inputs: list[Any], **attributes: Any) -> Any:
    found = ours(inputs, **attributes)
    tolerance = 1e-4 if inputs[0].dtype == np.float32 else 1e-2
    for one, other in zip(found, theirs(inputs, **attributes), strict=True):
        np.testing.assert_allclose(
            one.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance / 10
        )
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_a_prompt_agrees_with_onnxruntime(mask: str, packed: bool, dtype: Any) -> None:
    assert_agrees(inputs_of(2, 50, [50, 50], mask, packed=packed, dtype=dtype))


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_a_token_after_it_agrees_with_onnxruntime(mask: str, rotary: bool) -> None:
    assert_agrees(inputs_of(3, 1, [50, 50, 50], mask, rotary=rotary), do_rotary=int(rotary))


@pytest.mark.parametrize("mask", MASKS)
def test_sequences_of_different_lengths_are_what_each_is_alone(mask: str) -> None:
    """Held against each alone, as onnxruntime mixes up the weights of such a batch."""
    ends = [50, 17, 64]
    inputs = inputs_of(3, 1, ends, mask)
    found = ours(inputs)
    for row, end in enumerate(ends):
        alone = [
            *(x[row : row + 1] for x in inputs[:5]),
            *inputs[5:7],
            *[np.array([end], np.int32)] * 2,
        ]
        for one, other in zip(found, theirs(alone), strict=True):
            np.testing.assert_allclose(one[row : row + 1], other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "attributes", [{"scale": 0.3}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}]
)
def test_more_of_a_prompt_follows_on_a_past(attributes: dict[str, Any]) -> None:
    assert_agrees(inputs_of(1, 20, [41], "two layouts", rotary=True), **attributes)


def test_what_lies_behind_the_new_positions_stays() -> None:
    inputs = inputs_of(2, 1, [50, 17], "one layout")
    _, keys, values = ours(inputs)
    for one, past in ((keys, inputs[3]), (values, inputs[4])):
        np.testing.assert_array_equal(one[0, :, 50:], past[0, :, 50:])
        np.testing.assert_array_equal(one[1, :, 17:], past[1, :, 17:])


GOOD = inputs_of(2, 20, [20, 20], "two layouts")
ROWS, COLUMNS = csr(MASKS["two layouts"])


def replaced(**values: Any) -> list[Any]:
    names = (
        "query",
        "key",
        "value",
        "past_key",
        "past_value",
        "rows",
        "columns",
        "total",
        "lengths",
        "cosines",
    )
    found = [*GOOD, None]
    for name, value in values.items():
        found[names.index(name)] = value
    return found


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (GOOD, {"num_heads": 3}, "num_heads=3 is no multiple of kv_num_heads=2"),
        (GOOD, {"sparse_block_size": 0}, "sparse_block_size is 1 or more, not 0"),
        (GOOD, {"do_rotary": 1}, "do_rotary=1 needs cos_cache and sin_cache"),
        (GOOD, {"sparse_block_size": 2}, "a mask of 8 positions is too short for 20"),
        (replaced(rows=ROWS[:, :1]), {}, "block_row_indices has the shape"),
        (replaced(rows=np.vstack([ROWS, ROWS[:1]])), {}, "4 heads a multiple of the layouts, not"),
        (replaced(columns=COLUMNS[:1]), {}, "block_col_indices has the shape"),
        (replaced(rows=ROWS + 9), {}, "block_row_indices of layout 0 do not rise"),
        (replaced(rows=ROWS[:, ::-1]), {}, "block_row_indices of layout 0 do not rise"),
        (replaced(columns=COLUMNS + 4), {}, "name a block that is none of 4"),
        (replaced(total=np.array([65], np.int32)), {}, "take a batch of 1"),
        (replaced(lengths=np.array([20], np.int32)), {}, r"the shape \(2,\), one per sequence"),
        (
            replaced(past_key=normal(2, SHARED, 7, SIZE), past_value=normal(2, SHARED, 7, SIZE)),
            {},
            "too short for total",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ours(inputs, **attributes)


def test_a_mask_beyond_the_memory_limit_is_refused_before_anything_is_allocated() -> None:
    rows = np.zeros((1, 1 << 16), np.int32)
    with pytest.raises(LimitExceededError):
        ours(replaced(rows=rows, columns=np.zeros((1, 1), np.int32)), sparse_block_size=16)
