"""Convolutions of codes lose their zero points, and give the engine's integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import helper

from ortpkg.compiler.fusion.integer_convolutions import without_zero_points
from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.tensor_ir.operations import Operation
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.compared_with_engine import assert_as_engine
from tests.compiler.fusion_pairs import is_changed
from tests.compiler.rewritten_programs import assert_becomes, lowered
from tests.engine.transformers.transformation import HEADER, parse

Array = npt.NDArray[Any]


def _bytes(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    random = np.random.default_rng(7)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _kinds(operations: Sequence[Operation]) -> Counter[str]:
    return Counter(type(each).__name__ for each in operations)


_WINDOWS = {
    "pixels": ("1, 1", "", (6, 7)),
    "pixels apart": ("1, 1", "strides = [2, 3]", (3, 3)),
    "pixels with padding": ("1, 1", "pads = [1, 0, 2, 1]", (9, 8)),
    "padded before": ("2, 2", "pads = [1, 1, 0, 0]", (6, 7)),
    "padded behind": ("2, 2", "pads = [0, 0, 1, 1]", (6, 7)),
    "windows": ("3, 2", "", (4, 6)),
    "padded windows": ("3, 3", "pads = [1, 1, 1, 1]", (6, 7)),
    "windows apart": ("3, 3", "pads = [0, 1, 1, 0], strides = [2, 2]", (3, 3)),
    "wide windows": ("2, 3", "dilations = [3, 2]", (3, 3)),
    "windows that leave pixels out": ("2, 2", "strides = [4, 4]", (2, 2)),
    "same": ("3, 3", 'auto_pad = "SAME_UPPER", strides = [2, 2]', (3, 4)),
}


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("windows", _WINDOWS)
def test_sums_of_windows_are_exact(windows: str, groups: int) -> None:
    kernel, attributes, (height, width) = _WINDOWS[windows]
    channels = 4 // groups
    given = ", ".join(filter(None, (f"group = {groups}", attributes)))
    text = f"""g (uint8[2, 4, 6, 7] x, int8[4, {channels}, {kernel}] w, int8[4] q)
        => (int32[2, 4, {height}, {width}] y) <uint8 p = {{131}}>
        {{ y = ConvInteger<{given}>(x, w, p, q) }}"""
    shape = tuple(map(int, kernel.split(",")))
    feeds = {"x": _bytes("uint8", 2, 4, 6, 7), "w": _bytes("int8", 4, channels, *shape),
             "q": np.array([3, -7, 0, 90], np.int8)}  # fmt: skip
    fused = assert_as_engine(text, feeds)
    assert _kinds(fused.operations)["Convolution"] == (2 if groups == 1 else 1)


@pytest.mark.parametrize("spatial", [(9,), (3, 4, 5)])
def test_one_and_three_dimensions_are_convolved(spatial: tuple[int, ...]) -> None:
    sizes = ", ".join(map(str, spatial))
    made = ", ".join(str(size - 1) for size in spatial)
    kernel = (2,) * len(spatial)
    text = f"""g (int8[1, 3, {sizes}] x, uint8[2, 3, {", ".join("2" * len(spatial))}] w)
        => (int32[1, 2, {made}] y) {{ y = ConvInteger(x, w) }}"""
    feeds = {"x": _bytes("int8", 1, 3, *spatial), "w": _bytes("uint8", 2, 3, *kernel)}
    assert_as_engine(text, feeds)


def test_codes_are_convolved_to_codes() -> None:
    text = """g (uint8[1, 3, 5, 5] x, int8[2, 3, 3, 3] w) => (uint8[1, 2, 5, 5] y)
        <float s = {0.02}, uint8 p = {131}, float[2] t = {0.01, 0.02}, int8[2] q = {0, 0},
        float u = {0.5}, uint8 r = {100}, int32[2] b = {4000, -900}>
        { y = QLinearConv<pads = [1, 1, 1, 1]>(x, s, p, w, t, q, u, r, b) }"""
    assert_as_engine(text, {"x": _bytes("uint8", 1, 3, 5, 5), "w": _bytes("int8", 2, 3, 3, 3)})


def test_images_of_any_size_are_convolved() -> None:
    text = """g (uint8[batch, 3, height, width] x, int8[4, 3, 3, 3] w)
        => (int32[batch, 4, rows, columns] y) <uint8 p = {3}>
        { y = ConvInteger<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, p) }"""
    for shape in ((2, 3, 7, 6), (1, 3, 1, 4)):
        assert_as_engine(text, {"x": _bytes("uint8", *shape), "w": _bytes("int8", 4, 3, 3, 3)})


@pytest.mark.parametrize(
    ("inputs", "constants"),
    [
        ("int8[1, 2, 4, 4] x, int8[3, 2, 2, 2] w", ""),
        ("uint8[1, 2, 4, 4] x, uint8[3, 2, 2, 2] w", "uint8 p = {0}"),
        ("int8[1, 2, 4, 4] x, int8[3, 2, 2, 2] w, int8 p", ""),
        ("uint8[1, 2, 4, 4] x, int8[3, 2, 2, 2] w, uint8 p, int8 q", ""),
        ("int8[1, 2, 4, 4] x, uint8[3, 2, 2, 2] w, int8 p, uint8 q", ""),
        ("uint8[1, 2, 4, 4] x, uint8 p", "int8[1, 2, 1, 1] w = {5, -7}"),
        ("int8[1, 2, 4, 4] x, int8 p", "uint8[1, 2, 1, 1] w = {5, 200}"),
    ],
)
def test_zero_points_left_out_and_given_at_run_time_are_taken_off(
    inputs: str, constants: str
) -> None:
    names = [word for word in ("p", "q") if f"int8 {word}" in f"{inputs} {constants}"]
    channels = 3 if " w" in inputs else 1
    size = 5 if channels == 3 else 6
    text = f"""g ({inputs}) => (int32[1, {channels}, {size}, {size}] y) <{constants}>
        {{ y = ConvInteger<pads = [1, 1, 1, 1]>({", ".join(["x", "w", *names])}) }}""".replace(
        "<>", ""
    )
    feeds = {}
    for value_info in parse(text).graph.input:
        tensor = value_info.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feeds[value_info.name] = _bytes(dtype.name, *(size.dim_value for size in tensor.shape.dim))
    assert_as_engine(text, feeds)


def test_windows_of_open_sizes_that_are_padded_behind_are_whole() -> None:
    text = """g (uint8[1, 2, height, width] x, int8[3, 2, 2, 2] w)
        => (int32[1, 3, rows, columns] y) <uint8 p = {131}>
        { y = ConvInteger<pads = [0, 0, 1, 1], strides = [2, 2]>(x, w, p) }"""
    for shape in ((1, 2, 5, 7), (1, 2, 4, 6)):
        assert_as_engine(text, {"x": _bytes("uint8", *shape), "w": _bytes("int8", 3, 2, 2, 2)})


def test_constant_weights_become_i8_once() -> None:
    text = """g (uint8[1, 2, 4, 4] x) => (int32[1, 1, 4, 4] y) <uint8 p = {3},
        uint8[1, 2, 1, 1] w = {5, 200}> { y = ConvInteger(x, w, p) }"""
    fused = assert_as_engine(text, {"x": _bytes("uint8", 1, 2, 4, 4)})
    assert _kinds(fused.operations) == {"Convolution": 2}


@pytest.mark.parametrize(("kernel", "is_own"), [((6, 43), True), ((7, 37), False)])
def test_a_channel_by_itself_has_so_many_taps_that_sums_are_exact(
    kernel: tuple[int, int], is_own: bool
) -> None:
    """258 products of two differences of bytes, and 259."""
    height, width = kernel
    text = f"""g (uint8[1, 2, {height}, {width}] x, int8[2, 1, {height}, {width}] w)
        => (int32[1, 2, 1, 1] y) <uint8 p = {{255}}> {{ y = ConvInteger<group = 2>(x, w, p) }}"""
    assert is_changed(lowered(text), without_zero_points) is not is_own
    feeds = {"x": np.zeros((1, 2, *kernel), np.uint8), "w": np.full((2, 1, *kernel), -128, np.int8)}
    feeds["w"][:, :, 0, 0] = -127
    assert_as_engine(text, feeds)


def test_convolutions_of_floats_stay_as_they_are() -> None:
    text = (
        "g (float[1, 2, 3, 3] x, float[2, 2, 1, 1] w) => (float[1, 2, 3, 3] y) { y = Conv(x, w) }"
    )
    assert not is_changed(lowered(text), without_zero_points)


def test_convolutions_of_u8_without_zero_points_stay_as_they_are() -> None:
    weights = ", ".join(str(each) for each in _bytes("int8", 9))
    conv = "QLinearConv(%s, s, p, w, s, q, s, p)"
    text = f"""g (uint8[2, 3, 4, 5] x) => (uint8[2, 3, 4, 5] y)
        <float s = {{0.05}}, uint8 p = {{0}}, int8 q = {{0}}, int8[3, 3, 1, 1] w = {{{weights}}}>
        {{ a = {conv % "x"} b = {conv % "a"} y = {conv % "b"} }}"""
    fused = assert_as_engine(text, {"x": _bytes("uint8", 2, 3, 4, 5)})
    assert _kinds(fused.operations) == {"Convolution": 3}


def test_groups_of_several_channels_are_convolved() -> None:
    text = """g (int8[1, 4, 3, 3] x, int8[6, 2, 2, 2] w) => (int32[1, 6, 4, 4] y)
        <int8 p = {-3}> { y = ConvInteger<group = 2, pads = [1, 1, 1, 1]>(x, w, p) }"""
    assert_as_engine(text, {"x": _bytes("int8", 1, 4, 3, 3), "w": _bytes("int8", 6, 2, 2, 2)})


def test_groups_of_several_channels_whose_weights_have_zero_points_are_left() -> None:
    text = """g (uint8[1, 4, 3, 3] x, uint8[4, 2, 1, 1] w) => (int32[1, 4, 3, 3] y)
        { y = ConvInteger<group = 2>(x, w) }"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    with pytest.raises(NotLoweredError, match="its weights have zero points"):
        lower_graph(model.graph, infer_sizes(model), "program")


def test_a_zero_point_is_taken_from_the_sums() -> None:
    graph = """
        g (uint8[1, 1, 2, 2] x) => (int32[1, 2, 2, 2] y)
        <uint8 p = {3}, int8 q = {0}, int8[2, 1, 1, 1] w = {1, -2}> {
            y = ConvInteger(x, w, p, q) }
        """
    assert_becomes(
        lowered(graph),
        without_zero_points,
        before="""
        y: i32[1, 2, 2, 2] = convolution
            source: x: u8[1, 1, 2, 2]
            weights: w: i8[2, 1, 1, 1]
            groups: 1
            window: kernel (1, 1), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
            source_zero: 3
            weights_zero: 0
        """,
        after="""
        y: i32[1, 2, 2, 2] = convolution
            source: x: u8[1, 1, 2, 2]
            weights: w: i8[2, 1, 1, 1]
            groups: 1
            window: kernel (1, 1), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
            epilogue: (made - y_zero_terms[a1])
        """,
    )
