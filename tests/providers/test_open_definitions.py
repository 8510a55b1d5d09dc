"""Every provider computes alike what definitions leave open, or onnxruntime has otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.foundations.errors import RunError
from ortpkg.runtime.session.inference_session import InferenceSession

Array = npt.NDArray[Any]
_HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NEEDS = {"cpu": "numpy", "llvm": "llvmlite", "openvino": "openvino"}


@pytest.fixture(params=_NEEDS)
def provider(request: pytest.FixtureRequest) -> str:
    """Name of a provider that is installed."""
    name: str = request.param
    pytest.importorskip(_NEEDS[name])
    return name


def _run(
    provider: str, text: str, feeds: Mapping[str, Array], sizes: Mapping[str, Sequence[int]]
) -> list[Array]:
    """Return the outputs, whose shapes the model does not state; ``sizes`` are its constants."""
    proto = onnx.parser.parse_model(_HEADER + text)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    for name, numbers in sizes.items():
        proto.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array(numbers, np.int64), name)
        )
    with InferenceSession(proto.SerializeToString(), providers=[provider, "cpu"]) as session:
        return session.run(None, feeds)


@pytest.mark.parametrize("size", ["5", "n"])
@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (-1, _MOST, -1, []),
        (_MOST, _MOST, -1, []),
        (4, 2**31 - 1, -1, []),
        (2, _MOST, -1, []),
        (-1, _LEAST, -1, [4, 3, 2, 1, 0]),
        (_MOST, -(2**31), -1, [4, 3, 2, 1, 0]),
        (-1, -_MOST, -2, [4, 2, 0]),
        (_LEAST, _MOST, 1, [0, 1, 2, 3, 4]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_end_of_a_slice_is_cut_to_the_elements_that_there_are(
    provider: str, size: str, start: int, end: int, step: int, expected: list[float]
) -> None:
    text = f"g (float[{size}] x) => (float y) {{ y = Slice(x, start, end, axis, step) }}"
    sizes = {"start": [start], "end": [end], "axis": [0], "step": [step]}
    (result,) = _run(provider, text, {"x": np.arange(5, dtype=np.float32)}, sizes)
    assert result.tolist() == expected


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize(
    ("shape", "allows_zero", "target", "expected"),
    [
        ((0, 3), 0, [-1], (0,)),
        ((0, 3), 0, [-1, 3], (0, 3)),
        ((0, 3), 0, [0, -1], (0, 3)),
        ((0, 3), 0, [-1, 0], (0, 3)),
        ((0, 3), 0, [3, -1], (3, 0)),
        ((0, 3, 2), 0, [0, -1, 2], (0, 3, 2)),
        ((0, 3, 2), 0, [0, 0, -1], (0, 3, 2)),
        ((3, 0), 0, [0, 0, -1], (3, 0, 1)),
        ((0, 3), 1, [0, 7], (0, 7)),
        ((0, 3), 1, [0, -1], (0, 3)),
        ((0, 3), 1, [-1, 0], (3, 0)),
        ((0, 3), 1, [3, -1], (3, 0)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_without_elements_keeps_the_sizes_that_are_left(
    provider: str, is_free: bool, shape: tuple[int, ...], allows_zero: int, target: list[int],
    expected: tuple[int, ...],
) -> None:  # fmt: skip
    declared = ", ".join("n" if is_free and size == 0 else str(size) for size in shape)
    text = f"""g (float[{declared}] x) => (float y) {{
        y = Reshape<allowzero = {allows_zero}>(x, target) }}"""
    (result,) = _run(provider, text, {"x": np.zeros(shape, np.float32)}, {"target": target})
    assert result.shape == expected


@pytest.mark.filterwarnings("ignore")
def test_a_tensor_with_elements_takes_no_target_of_nothing(provider: str) -> None:
    text = "g (float[a, b] x) => (float y) { y = Reshape<allowzero = 1>(x, target) }"
    with pytest.raises(RunError, match=r"with 6 elements cannot take the shape \(0, -1\)"):
        _run(provider, text, {"x": np.zeros((2, 3), np.float32)}, {"target": [0, -1]})


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (7, [3, 3, 1]), (4, [2, 2, 0]), (5, [2, 2, 1, 0]), (6, [2, 2, 2, 0]), (2, [1, 1, 0, 0]),
        (0, [0, 0]), (1, [1, 0, 0]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_parts_of_a_split_are_rounded_up_until_nothing_is_left(
    provider: str, is_free: bool, size: int, parts: list[int]
) -> None:
    names = [f"y{number}" for number in range(len(parts))]
    outputs = ", ".join(f"float {name}" for name in names)
    text = f"""g (float[{"n" if is_free else size}] x) => ({outputs}) {{
        {", ".join(names)} = Split<num_outputs = {len(parts)}>(x) }}"""
    x = np.arange(size, dtype=np.float32)
    results = _run(provider, text, {"x": x}, {})
    assert [len(part) for part in results] == parts
    np.testing.assert_array_equal(np.concatenate(results), x)
