"""Two products with a softmax between them become one attention, and nothing else does."""

from __future__ import annotations

import onnx.parser
import pytest

from ortpkg.compiler.fusion.attention_of_products import fuse_attention
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Function,
    Read,
    along,
    parts_of,
    tensors_read,
)
from ortpkg.compiler.tensor_ir.operations import (
    Attention,
    Map,
    RowFunction,
    RowNormalize,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.expressions import symbol
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.attention_parts import MADE, AttentionParts, read_of, tensor_of, times


def _only_attention(program: TensorProgram) -> Attention:
    (attention,) = program.operations
    assert isinstance(attention, Attention)
    return attention


@pytest.mark.parametrize("scalar", [Scalar.F32, Scalar.F16])
def test_products_around_a_softmax_are_one_attention(scalar: Scalar) -> None:
    parts = AttentionParts(scalar=scalar)
    program = parts.program(parts.first, parts.softmax, parts.second, parts.side_by_side)
    attention = _only_attention(fuse_attention(program))
    assert (attention.batch, attention.queries, attention.keys) == ((2, 3), 5, 5)
    assert (attention.width, attention.value_width) == (8, 8)
    assert attention.query == read_of(parts.query, 0, 2, 1, 3)
    assert attention.key == read_of(parts.key, 0, 2, 1, 3)
    assert attention.value == read_of(parts.given, 0, 2, 1, 3)
    assert attention.score == Call(Function.ADD, (times(MADE, 0.25), read_of(parts.mask, 0, 3))), (
        "scaling and mask"
    )
    assert attention.output is parts.output
    assert attention.coordinates == (along(0), along(2), along(1), along(3))


def test_output_lies_as_the_product_where_no_map_follows() -> None:
    parts = AttentionParts()
    attention = _only_attention(
        fuse_attention(parts.program(parts.first, parts.softmax, parts.second))
    )
    assert attention.output is parts.mixed
    assert attention.coordinates == tuple(map(along, range(4)))


def test_a_map_that_computes_stays_behind() -> None:
    parts = AttentionParts()
    doubled = Map(
        output=parts.output,
        axes=parts.output.shape,
        value=times(read_of(parts.mixed, 0, 2, 1, 3), 2.0),
        coordinates=parts.side_by_side.coordinates,
    )
    program = parts.program(parts.first, parts.softmax, parts.second, doubled)
    attention, kept = fuse_attention(program).operations
    assert isinstance(attention, Attention)
    assert attention.output is parts.mixed
    assert kept is doubled


def test_a_map_that_takes_a_part_stays_behind() -> None:
    parts = AttentionParts()
    first = tensor_of("first", 2, 1, 3, 8)
    taking = Map(
        output=first,
        axes=first.shape,
        value=read_of(parts.mixed, 0, 2, 1, 3),
        coordinates=parts.side_by_side.coordinates,
    )
    program = parts.program(parts.first, parts.softmax, parts.second, taking)
    attention, kept = fuse_attention(program).operations
    assert isinstance(attention, Attention)
    assert kept is taking


@pytest.mark.parametrize("name", ["scores", "weights"])
def test_what_an_output_takes_is_not_fused_away(name: str) -> None:
    parts = AttentionParts()
    outputs = (parts.mixed, getattr(parts, name))
    program = parts.program(parts.first, parts.softmax, parts.second, outputs=outputs)
    assert fuse_attention(program).operations == program.operations


def test_what_another_operation_reads_is_not_fused_away() -> None:
    parts = AttentionParts()
    twice = Map(
        output=parts.output,
        axes=(2, 5, 3, 5),
        value=read_of(parts.weights, 0, 2, 1, 3),
        coordinates=tuple(map(along, range(4))),
    )
    program = parts.program(parts.first, parts.softmax, parts.second, twice)
    assert fuse_attention(program).operations == program.operations


def test_a_width_that_is_not_known_is_left() -> None:
    parts = AttentionParts(width=symbol("w"))
    program = parts.program(parts.first, parts.softmax, parts.second)
    assert fuse_attention(program).operations == program.operations


def test_another_function_of_rows_is_left() -> None:
    parts = AttentionParts()
    logarithms = RowNormalize(
        output=parts.weights,
        function=RowFunction.LOG_SOFTMAX,
        axes=parts.softmax.axes,
        value=parts.softmax.value,
    )
    program = parts.program(parts.first, logarithms, parts.second)
    assert fuse_attention(program).operations == program.operations


def test_scores_that_are_taken_elsewhere_than_they_lie_are_left() -> None:
    parts = AttentionParts()
    turned = RowNormalize(
        output=parts.weights,
        function=RowFunction.SOFTMAX,
        axes=parts.softmax.axes,
        value=read_of(parts.scores, 0, 1, 3, 2),
    )
    program = parts.program(parts.first, turned, parts.second)
    assert fuse_attention(program).operations == program.operations


@pytest.mark.parametrize(("width", "is_fused"), [(512, True), (513, False)])
def test_heads_that_fill_a_cache_are_left(width: int, is_fused: bool) -> None:
    parts = AttentionParts(width=width)
    program = parts.program(parts.first, parts.softmax, parts.second)
    kinds = [type(each) for each in fuse_attention(program).operations]
    assert (kinds == [Attention]) is is_fused


# --- of models ------------------------------------------------------------------------------------


def _fused(text: str) -> list[Attention]:
    """The attentions of a model after all passes; nothing of a softmax is left."""
    proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 17]>\n' + text)
    model = load_model(proto.SerializeToString())
    program = optimized(lower_graph(model.graph, infer_sizes(model), "partition"))
    assert not any(isinstance(each, RowNormalize) for each in program.operations)
    return [each for each in program.operations if isinstance(each, Attention)]


_HEADS = """
    q0 = MatMul (x, wq)  q1 = Reshape (q0, heads)  q = Transpose <perm = [0, 2, 1, 3]> (q1)
    k0 = MatMul (x, wk)  k1 = Reshape (k0, heads)  k = Transpose <perm = [0, 2, 3, 1]> (k1)
    v0 = MatMul (x, wv)  v1 = Reshape (v0, heads)  v = Transpose <perm = [0, 2, 1, 3]> (v1)
"""
_BEHIND = """
    mixed = MatMul (weights, v)
    turned = Transpose <perm = [0, 2, 1, 3]> (mixed)
    joined = Reshape (turned, rows)
    y = MatMul (joined, wo)
"""
_KNOWN = """
    <int64[4] heads = {0, 0, 4, 16}, int64[3] rows = {0, 0, 64}, float four = {4.0},
     float quarter = {0.25}, float least = {-3.4028235e38}>
"""
_WEIGHTS = "float[64, 64] wq, float[64, 64] wk, float[64, 64] wv, float[64, 64] wo"


@pytest.mark.parametrize("shape", ["1, 9", "b, s"])
def test_attention_of_bert(shape: str) -> None:
    batch, coordinates = shape.split(", ")
    (attention,) = _fused(f"""
        bert (float[{shape}, 64] x, float[{batch}, 1, 1, {coordinates}] mask, {_WEIGHTS})
        => (float[{shape}, 64] y) {_KNOWN} {{
            {_HEADS}
            scores = MatMul (q, k)
            scaled = Div (scores, four)
            masked = Add (scaled, mask)
            weights = Softmax <axis = -1> (masked)
            {_BEHIND}
        }}""")
    assert attention.score is not None
    assert [each.name for each in tensors_read(attention.score)] == ["mask"]
    assert attention.coordinates == (along(0), along(2), along(1), along(3))
    assert (attention.width, attention.value_width) == (16, 16)
    assert isinstance(attention.query, Read)
    assert isinstance(attention.key, Read)
    assert isinstance(attention.value, Read)


def test_attention_of_vit_has_no_mask() -> None:
    (attention,) = _fused(f"""
        vit (float[1, 17, 64] x, {_WEIGHTS}) => (float[1, 17, 64] y) {_KNOWN} {{
            {_HEADS}
            scores = MatMul (q, k)
            scaled = Mul (scores, quarter)
            weights = Softmax <axis = -1> (scaled)
            {_BEHIND}
        }}""")
    assert attention.score is not None
    assert tensors_read(attention.score) == []
    assert attention.queries == attention.keys == 17


def test_attention_of_gpt2_hides_later_places_by_a_choice() -> None:
    (attention,) = _fused(f"""
        gpt2 (float[b, s, 64] x, bool[1, 1, s, s] seen, {_WEIGHTS}) => (float[b, s, 64] y) {_KNOWN} {{
            {_HEADS}
            scores = MatMul (q, k)
            scaled = Mul (scores, quarter)
            masked = Where (seen, scaled, least)
            weights = Softmax <axis = -1> (masked)
            {_BEHIND}
        }}""")
    assert attention.score is not None
    functions = [each.function for each in parts_of(attention.score) if isinstance(each, Call)]
    assert Function.SELECT in functions


def test_attention_to_a_cache_reads_what_was_joined() -> None:
    (attention,) = _fused(f"""
        gpt2 (float[b, 1, 64] x, float[b, 4, past, 16] past_key, float[b, 4, past, 16] past_value,
              {_WEIGHTS})
        => (float[b, 1, 64] y, float[b, 4, all, 16] key, float[b, 4, all, 16] value) {_KNOWN} {{
            {_HEADS}
            k2 = Transpose <perm = [0, 1, 3, 2]> (k)
            key = Concat <axis = 2> (past_key, k2)
            value = Concat <axis = 2> (past_value, v)
            keys = Transpose <perm = [0, 1, 3, 2]> (key)
            scores = MatMul (q, keys)
            weights = Softmax <axis = -1> (scores)
            mixed = MatMul (weights, value)
            turned = Transpose <perm = [0, 2, 1, 3]> (mixed)
            joined = Reshape (turned, rows)
            y = MatMul (joined, wo)
        }}""")
    assert attention.queries == 1
    assert attention.score is None
    assert [each.name for each in tensors_read(attention.key)] == ["key"]
    assert [each.name for each in tensors_read(attention.value)] == ["value"]


def test_weights_that_the_model_gives_out_are_computed() -> None:
    proto = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 17]>
        vit (float[1, 17, 64] x, {_WEIGHTS})
        => (float[1, 17, 64] y, float[1, 4, 17, 17] weights) {_KNOWN} {{
            {_HEADS}
            scores = MatMul (q, k)
            weights = Softmax <axis = -1> (scores)
            {_BEHIND}
        }}""")
    model = load_model(proto.SerializeToString())
    program = optimized(lower_graph(model.graph, infer_sizes(model), "partition"))
    assert not any(isinstance(each, Attention) for each in program.operations)
