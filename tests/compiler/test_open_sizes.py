"""Sizes that are known only when it runs are formulas, not tensors: nodes that compute them vanish."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.assembly.program_assembly import machine_model
from ortpkg.compiler.assembly.size_guards import size_guards
from ortpkg.compiler.claims import examine_partition, reasons_in_partition
from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.machine_code.cpu_targets import target_named
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.schedules.schedules_by_form import SchedulesByForm
from ortpkg.compiler.tensor_ir.tensor_text import operations_text
from ortpkg.compiler.tensor_stages import TensorStages
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.compared_with_engine import assert_as_engine
from tests.compiler.reference_program import run_program
from tests.engine.transformers.transformation import HEADER

Array = npt.NDArray[Any]


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_what_computes_the_shape_of_a_reshape_leaves_no_operation() -> None:
    text = """g (float[batch, length, 8] x) => (float[m, n, k] z)
        <int64[1] first = {0}, int64[1] two = {2}, int64[2] rest = {-1, 4}> {
            y = Relu(x)  s = Shape(y)  b = Gather(s, first)  c = Mul(b, two)
            t = Concat<axis = 0>(c, rest)  z = Reshape(y, t) }"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    program = optimized(lower_graph(model.graph, infer_sizes(model), "program"))
    assert operations_text(program.operations) == (
        "y: f32[batch, length, 8] = map\n"
        "    axes: (batch, length, 8)\n"
        "    value: max(x[a0, a1, a2], 0)\n"
        "    coordinates: (a0, a1, a2)\n"
        "z: f32[2*batch, length, 4] = alias\n"
        "    source: y: f32[batch, length, 8]\n"
    )


@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 1, 8), (0, 3, 8), (2, 0, 8)])
def test_sizes_that_are_asked_for_as_tensors_are_formulas(shape: tuple[int, ...]) -> None:
    text = """g (float[batch, length, 8] x) => (int64[3] s, int64[n] steps, float[d, e] wide)
        <int64 zero = {0}, int64 one = {1}, int64[1] last = {-1}> {
            s = Shape(x)  length = Gather(s, one)  steps = Range(zero, length, one)
            y = ReduceSum<keepdims = 0>(x, last)  f = Cast<to = 1>(steps)  wide = Add(f, y) }"""
    assert_as_engine(text, {"x": _random(*shape)}, rtol=1e-6)


@pytest.mark.parametrize("length", [1, 4])
def test_a_filling_of_one_element_less_is_guarded(length: int) -> None:
    text = """g (float[length, 3] x) => (float[n, m] y) <int64[1] one = {1}, int64[1] first = {0}> {
        s = Shape(x)  l = Slice(s, first, one)  less = Sub(l, one)
        wanted = Concat<axis = 0>(less, l)  y = ConstantOfShape(wanted) }"""
    program = assert_as_engine(text, {"x": _random(length, 3)})
    assert "length - 1" in [str(each) for each in program.margins]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_an_expansion_to_a_free_batch_as_tracing_exporters_write_it(rows: int) -> None:
    text = """g (float[batch, 4] x, float[1, 4] token) => (float[n, 4] y)
        <int64[1] first = {0}, int64[1] one = {1}, int64[1] keeps = {-1}> {
            s = Shape(x)  b = Slice(s, first, one)  wanted = Concat<axis = 0>(b, keeps)
            count = Shape(wanted)  ones = ConstantOfShape<value = int64[1] {1}>(count)
            isOpen = Equal(wanted, keeps)  sizes = Where(isOpen, ones, wanted)
            tokens = Expand(token, sizes)  y = Concat<axis = 0>(x, tokens) }"""
    assert_as_engine(text, {"x": _random(rows, 4), "token": _random(1, 4)})


@pytest.mark.parametrize("length", [0, 1, 5, 7])
def test_a_slice_up_to_an_open_size_is_as_long_as_that(length: int) -> None:
    text = """g (float[length, 4] x, float[7, 4] table) => (float[n, 4] y)
        <int64[1] first = {0}, int64[1] one = {1}> {
            s = Shape(x)  l = Slice(s, first, one)  t = Slice(table, first, l)  y = Add(x, t) }"""
    assert_as_engine(text, {"x": _random(length, 4), "table": _random(7, 4)})


def test_what_may_be_shorter_than_what_it_is_added_to_is_guarded() -> None:
    text = """g (float[length, 4] x, float[7, 4] table) => (float[length, 4] y)
        <int64[1] first = {0}, int64[1] one = {1}> {
            s = Shape(x)  l = Slice(s, first, one)  t = Slice(table, first, l)  y = Add(x, t) }"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    program = lower_graph(model.graph, infer_sizes(model), "program")
    margins = {str(each.margin) for each in size_guards(program) if not each.axes}
    assert margins == {"-length + min(7, length)", "length - min(7, length)"}


def test_a_size_that_is_in_a_value_is_told() -> None:
    text = """g (float[m, 4] x, int64 n) => (float[k, 4] y)
        <int64 zero = {0}, int64 one = {1}> {
            i = Range(zero, n, one)  y = Gather(x, i) }"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    target = CompilationTarget(target_named("linux-x86_64_v3"))
    reasons = reasons_in_partition(model.graph, SchedulesByForm(machine_model(target)))
    assert set(reasons.values()) == {"a size of what it makes is in no input of its partition"}


def test_elements_that_are_no_size_of_an_input_are_read() -> None:
    text = """g (float[n, 4, a] x, int64[2] t) => (int64[4] y, int64[1] z)
        <int64[1] one = {1}> {
            s = Shape <end = 2> (x)  y = Concat <axis = 0> (s, t)  z = Gather(t, one) }"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    model.graph.known_elements = {"t": ("h", "a")}  # as another partition knows it
    target = CompilationTarget(target_named("linux-x86_64_v3"))
    schedules = SchedulesByForm(machine_model(target))
    examined = examine_partition(model.graph, schedules)
    assert examined.reasons == {}
    assert examined.stages is not None
    for stages in (examined.stages, TensorStages.of(model.graph, schedules)):
        made = run_program(stages.fused, [_random(3, 4, 9), np.array([7, 9])])
        assert [each.tolist() for each in made] == [[3, 4, 7, 9], [9]]


@pytest.mark.parametrize("attributes", ["", "<exclusive = 1>", "<reverse = 1>",
                                        "<exclusive = 1, reverse = 1>"])  # fmt: skip
@pytest.mark.parametrize("kind", ["float", "int64"])
def test_running_sums_go_forward_and_back_with_and_without_the_place_itself(
    attributes: str, kind: str
) -> None:
    text = f"""g ({kind}[batch, length] x) => ({kind}[batch, length] y)
        <int64 axis = {{-1}}> {{ y = CumSum{attributes}(x, axis) }}"""
    x = np.arange(12).reshape(3, 4) - 5
    assert_as_engine(text, {"x": x.astype("float32" if kind == "float" else kind)}, rtol=1e-6)


def test_elements_by_indices_of_any_rank_are_those_of_the_engine() -> None:
    text = """g (float[b, 3, 4] x, int64[b, 2, 4] i, int64[b, 5, 2] j)
        => (float[b, 2, 4] y, float[b, 5] z, float[b, 5, 6] w)
        <int64 depth = {6}, float[2] values = {-1, 2}, int64[1] m = {-1}> {
            y = GatherElements<axis = 1>(x, i)  z = GatherND<batch_dims = 1>(x, j)
            k = ReduceSum<keepdims = 0>(j, m)  w = OneHot(k, depth, values) }"""
    random = np.random.default_rng(1)
    feeds = {"x": _random(2, 3, 4), "i": random.integers(-3, 3, (2, 2, 4)),
             "j": random.integers(-3, 3, (2, 5, 2))}  # fmt: skip
    assert_as_engine(text, feeds)


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (2, 3, 1, 4)])
@pytest.mark.parametrize("sizes", ["n, 3, h, w", "n, 3, h, {width}"])
def test_a_pool_of_a_whole_picture_of_open_size_reduces_it(
    operator: str, shape: tuple[int, ...], sizes: str
) -> None:
    text = f"g (float[{sizes.format(width=shape[3])}] x) => (float[n, 3, 1, 1] y) "
    assert_as_engine(text + f"{{ y = {operator}(x) }}", {"x": _random(*shape)}, rtol=1e-5)


_PYRAMID = """g (float[1, 2, h, w] x) => (float[1, 2, h, w] y) <float[4] scales = {1, 1, 2, 2}> {
    p = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)
    q = Resize<mode = "nearest">(p, , scales)  y = Add(q, x) }"""


@pytest.mark.parametrize("shape", [(1, 2, 8, 16), (1, 2, 2, 6)])
def test_a_map_that_is_halved_and_doubled_has_its_size_again(shape: tuple[int, ...]) -> None:
    program = assert_as_engine(_PYRAMID, {"x": _random(*shape)})
    asked = {str(margin) for pair in program.equal_sizes for margin in pair}
    assert any("broadcast" in text for text in asked)


def test_sizes_of_other_symbols_are_not_taken_for_equal() -> None:
    text = "g (float[n, 4] x, float[m, 4] z) => (float[k, 4] y) { y = Add(x, z) }"
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())
    with pytest.raises(NotLoweredError, match="whether its inputs broadcast"):
        lower_graph(model.graph, infer_sizes(model), "program")


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_steps_up_to_a_size_that_is_a_float_are_counted_as_it(rows: int) -> None:
    """As exporters of detectors write the centres of their cells."""
    text = """g (float[n, 4] x) => (float[n, 4] y)
        <int64 axis = {0}, float first = {0}, float one = {1}, float half = {0.5}, int64[1] last = {1}> {
            s = Shape(x)  count = Gather(s, axis)  limit = Cast<to = 1>(count)
            steps = Range(first, limit, one)  centres = Add(steps, half)
            column = Unsqueeze(centres, last)  y = Add(x, column) }"""
    assert_as_engine(text, {"x": _random(rows, 4)})
