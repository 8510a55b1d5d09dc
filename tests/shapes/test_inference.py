"""Types of values, and what happens where a model declares something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.expressions import symbols_of
from ortpkg.graph.shapes.inference import STRICT_VARIABLE, infer_sizes, infer_types
from ortpkg.graph.shapes.knowledge import KnownTensor
from ortpkg.graph.shapes.shape_context import ShapeContext
from ortpkg.graph.types import ElementType, Shape, TensorType
from ortpkg.runtime.providers.execution_provider import MetaDef
from ortpkg.runtime.providers.partition_body import partition_body
from tests.graph.model_factories import external_tensor, parse, save


def inferred(text: str, weights: dict[str, Any] | None = None) -> Graph:
    model = load_model(parse(text, weights))
    infer_types(model)
    return model.graph


def shape_of(graph: Graph, value: str) -> Shape | None:
    value_type = graph.types[value]
    assert isinstance(value_type, TensorType)
    return value_type.shape


def test_symbolic_dimensions_reach_the_outputs() -> None:
    graph = inferred(
        "g (float[N, 3] x) => (y) { a = MatMul(x, w) y = Relu(a) }",
        {"w": np.ones((3, 5), np.float32)},
    )

    assert graph.types["y"] == TensorType(ElementType.FLOAT, ("N", 5))
    assert graph.types["w"] == TensorType(ElementType.FLOAT, (3, 5))


def test_shapes_that_are_computed_are_followed() -> None:
    graph = inferred(
        """g (float[N, 4, 6] x) => (y) <int64[1] rest = {24}, int64[1] axes = {0}, int64 i = {0}>
           { s = Shape(x) n = Gather(s, i) m = Unsqueeze(n, axes) t = Concat <axis = 0> (m, rest) y = Reshape(x, t) }"""
    )

    assert shape_of(graph, "y") == ("N", 24)


def test_a_shape_in_which_minus_one_is_replaced_stays_a_formula() -> None:
    """How torch's exporter by tracing writes ``x.expand(a, -1, b)`` for free sizes."""
    graph = inferred(
        """g (float[N, 1, 6] x, int64[M] like) => (y)
           <int64[1] rest = {6}, int64[1] keeps = {-1}, int64[1] length = {3}> {
               n = Shape(like)  wanted = Concat <axis = 0> (n, keeps, rest)
               count = Shape(wanted)  ones = ConstantOfShape <value = int64[1] {1}> (count)
               isOpen = Equal(wanted, keeps)  sizes = Where(isOpen, ones, wanted)
               y = Expand(x, sizes) }"""
    )

    assert shape_of(graph, "y") == ("broadcast(M, N)", 1, 6)


@pytest.mark.parametrize(
    ("condition", "size"),
    [
        ("Equal(n, below)", "N"),  # a size is never below 0
        ("Equal(n, n)", "M"),
        ("Equal(more, n)", "N"),
        ("Equal(n, zero)", None),
        ("Greater(n, below)", "M"),
        ("Greater(n, more)", "N"),
        ("Greater(n, m)", None),
        ("GreaterOrEqual(n, zero)", "M"),
        ("GreaterOrEqual(n, more)", "N"),
        ("Less(n, zero)", "N"),
        ("Less(n, more)", "M"),
        ("Less(n, m)", None),
        ("LessOrEqual(n, n)", "M"),
        ("LessOrEqual(more, n)", "N"),
        ("LessOrEqual(n, zero)", None),
    ],
)
def test_sizes_are_compared_where_all_values_of_symbols_agree(
    condition: str, size: str | None
) -> None:
    graph = inferred(
        f"""g (float[N] x, float[M] z) => (y)
            <int64[1] below = {{-1}}, int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
                n = Shape(x)  m = Shape(z)  more = Add(n, one)  c = {condition}
                chosen = Where(c, m, n)  y = ConstantOfShape(chosen) }}"""
    )

    shape = shape_of(graph, "y")
    assert shape is not None
    assert shape == (size,) if size is not None else shape[0] not in {"N", "M"}


@pytest.mark.parametrize(
    ("value", "condition", "size"),
    [
        ("Abs(n)", "Equal(a, n)", "M"),
        ("Neg(n)", "LessOrEqual(a, n)", "M"),
        ("Add(n, one)", "Cast <to = 9> (a)", "M"),
        ("Identity(n)", "Cast <to = 9> (a)", None),
        ("Add(n, one)", "Equal(a, n)", "N"),
    ],
)
def test_signs_and_truth_of_sizes_are_followed(
    value: str, condition: str, size: str | None
) -> None:
    graph = inferred(
        f"""g (float[N] x, float[M] z) => (y) <int64[1] one = {{1}}> {{
                n = Shape(x)  m = Shape(z)  a = {value}  c = {condition}
                no = Not(c)  yes = Not(no)
                chosen = Where(yes, m, n)  y = ConstantOfShape(chosen) }}"""
    )

    shape = shape_of(graph, "y")
    assert shape is not None
    assert shape == (size,) if size is not None else shape[0] not in {"N", "M"}


def test_a_size_that_is_a_dimension_of_what_is_reshaped_is_one() -> None:
    """Though the formula of a window's places alone might be below 0."""
    graph = inferred(
        """g (float[B, 4, N] x) => (y)
           <float[4, 1, 3] w = {1,1,1, 1,1,1, 1,1,1, 1,1,1}, int64[1] first = {0},
            int64[1] last = {2}, int64[1] end = {9}, int64[2] heads = {2, -1}, int64[1] one = {1}> {
               c = Conv <group = 4> (x, w)  s = Shape(c)  b = Slice(s, first, one)
               l = Slice(s, last, end)  wanted = Concat <axis = 0> (b, heads, l)
               y = Reshape(c, wanted) }"""
    )

    assert shape_of(graph, "y") == ("B", 2, 2, "N - 2")


def test_pads_that_are_turned_around_are_followed() -> None:
    """How torch's exporter by tracing writes pads."""
    graph = inferred(
        """g (float[N, 6] x) => (y) <int64[4] given = {1, 2, 0, 0}, int64[2] pairs = {-1, 2},
              int64[1] last = {-1}, int64[1] before = {-5}, int64[1] first = {0}, int64[1] flat = {-1}>
           { rows = Reshape(given, pairs)  turned = Slice(rows, last, before, first, last)
             columns = Transpose <perm = [1, 0]> (turned)  pads = Reshape(columns, flat)
             y = Pad(x, pads) }"""
    )

    assert shape_of(graph, "y") == ("N", 9)


def test_a_partition_knows_the_elements_of_shapes_that_come_in() -> None:
    graph = inferred(
        """g (float[N, 4] x) => (y) <int64[1] rest = {2}, int64[1] first = {0}, int64[1] one = {1}>
           { s = Shape(x) n = Slice(s, first, one) t = Concat <axis = 0> (n, rest, rest)
             h = Hardmax(x) y = Reshape(h, t) }"""
    )
    (node,) = (node for node in graph.nodes if node.op_type == "Reshape")
    meta = MetaDef(name="part", inputs=("h", "t"), outputs=("y",))
    body = partition_body(graph, [node], meta, "test")

    infer_sizes(Model(graph=body, ir_version=10))

    assert body.known_elements["t"] == ("N", 2, 2)
    assert shape_of(body, "y") == ("N", 2, 2)


@pytest.mark.parametrize("declared", ["float[N, 8] a", "float[N, M] a"])
def test_elements_that_hang_on_a_declared_inner_size_are_not_told(declared: str) -> None:
    """A model may have been made for other sizes than its inputs say now."""
    graph = inferred(
        f"""g (float[N, M] x) => (y) <{declared}, int64 i = {{1}}>
            {{ a = Relu(x) s = Shape(a) n = Gather(s, i) y = Add(n, i) }}"""
    )

    assert graph.known_elements.get("n") == (None if "8" in declared else ("M",))


def test_constant_shapes_are_followed_though_other_weights_stay_behind() -> None:
    graph = inferred(
        "g (float[2, 3, 4] x) => (y) <int64[2] s = {6, 4}> { a = Reshape(x, s) y = MatMul(a, w) }",
        {"w": np.ones((4, 4096), np.float32)},
    )

    assert shape_of(graph, "y") == (6, 4096)


def test_sub_graphs_get_types_too() -> None:
    graph = inferred("""g (bool c, float[N] x) => (y) { t = Neg(x)
           y = If (c) <then_branch = b1 () => (p) { q = Exp(t) p = Relu(q) },
                       else_branch = b2 () => (r) { r = Abs(x) }> }""")

    (node,) = (node for node in graph.nodes if node.op_type == "If")
    assert node.subgraphs["then_branch"].types["q"] == TensorType(ElementType.FLOAT, ("N",))
    assert shape_of(graph, "y") == ("N",)


def test_declared_types_help_past_operators_that_nobody_knows() -> None:
    graph = inferred(
        "g (float[2] x) => (y) <float[2, 7] a> { a = com.microsoft.Unknown(x) b = Exp(a) y ="
        " Relu(b) }"
    )

    assert shape_of(graph, "y") == (2, 7)


def test_declared_types_help_past_shapes_that_only_a_run_knows() -> None:
    graph = inferred(
        "g (float[N] x, int64[2] s) => (y) <float[2, 7] a> { a = Reshape(x, s) y = Transpose <perm"
        " = [1, 0]> (a) }"
    )

    assert shape_of(graph, "a") == (2, 7)
    assert shape_of(graph, "y") == (7, 2)


def test_outputs_keep_the_names_of_their_dimensions() -> None:
    assert shape_of(inferred("g (float[N, 3] x) => (float[batch, 3] y) { y = Relu(x) }"), "y") == (
        "batch",
        3,
    )


def test_declared_dimensions_fill_what_inference_leaves_open() -> None:
    graph = inferred("g (float[2, 3] x, int64[2] s) => (float[6, 1] y) { y = Reshape(x, s) }")

    assert shape_of(graph, "y") == (6, 1)


def test_a_dimension_that_inference_makes_up_gets_a_name_that_the_model_does_not_use() -> None:
    graph = inferred(
        "g (float[N] x, int64[1] s) => (float[unk__0] y, z) { a = NonZero(x) z = Cast <to = 1> (a)"
        " y = Expand(x, s) }"
    )

    made_up = shape_of(graph, "a")
    assert made_up is not None
    assert isinstance(made_up[1], str)
    assert made_up[1] != "unk__0"
    assert shape_of(graph, "y") == ("unk__0",)


def test_where_declared_and_inferred_dimensions_differ_neither_is_believed() -> None:
    graph = inferred(
        "g (float[2, 3] x) => (float[2, 4] y) <float[9, 3] a> { a = Relu(x) y = Exp(a) }"
    )

    (rows, columns), (also_two, open_size) = shape_of(graph, "a") or (), shape_of(graph, "y") or ()
    assert (columns, also_two) == (3, 2)
    assert isinstance(rows, str)
    assert isinstance(open_size, str)
    assert rows != open_size


def test_where_declared_and_inferred_ranks_differ_neither_is_believed() -> None:
    assert shape_of(inferred("g (float[2, 3] x) => (float[2] y) { y = Relu(x) }"), "y") is None


@pytest.mark.parametrize("declared", ["int64[2]", "seq(float[2])"])
def test_refuses_a_declared_type_that_the_node_does_not_make(declared: str) -> None:
    with pytest.raises(
        InvalidGraphError,
        match=r"'y' is declared as .*, but Relu node 'n1' makes a tensor\(float\)",
    ):
        inferred(f"g (float[2] x) => ({declared} y) {{ [n1] y = Relu(x) }}")


def test_a_node_that_cannot_be_inferred_leaves_its_type_unknown() -> None:
    graph = inferred("g (float[2, 3] x, float[4, 5] z) => (y) { a = MatMul(x, z) y = Relu(x) }")

    assert shape_of(graph, "y") == (2, 3)
    assert graph.type_of("a") in (None, TensorType(ElementType.FLOAT, None))


def test_weights_over_protobufs_limit_are_no_matter(tmp_path: Path) -> None:
    proto = parse("g (float[2, 65536] x) => (y) { y = MatMul(x, w) }")
    proto.graph.initializer.append(external_tensor("w", "w.bin", dims=(65536, 16384)))
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(65536 * 16384 * 4)  # 4 GiB, sparse on disk

    model = load_model(save(proto, tmp_path))
    infer_types(model)

    assert model.graph.types["y"] == TensorType(ElementType.FLOAT, (2, 16384))


def test_is_not_confused_by_nodes_out_of_order() -> None:
    proto = parse("g (float[2] x) => (y) { y = Relu(a) a = Cast <to = 7> (x) }")
    proto.graph.node[0].CopyFrom(helper.make_node("Neg", ["a"], ["y"]))
    model = load_model(proto)
    infer_types(model)

    assert model.graph.types["y"] == TensorType(ElementType.INT64, (2,))


@pytest.mark.parametrize(
    ("equation", "inputs", "shape"),
    [
        ("ij,jk->ik", "x, z", (2, 5)),
        ("...ij, ...jk -> ...ik", "x, z", (2, 5)),
        ("ii", "q", ()),
        ("i,j", "v, w", (2, 3)),
        ("->", "s", ()),
        ("...i->...", "x", (2,)),
    ],
)
def test_takes_every_right_einsum_equation(equation: str, inputs: str, shape: Shape) -> None:
    declared = "float[2, 3] x, float[3, 5] z, float[2, 2] q, float[2] v, float[3] w, float s"
    proto = parse(f"g ({declared}) => (y) {{ y = Einsum ({inputs}) }}")
    proto.graph.node[0].attribute.append(helper.make_attribute("equation", equation))
    model = load_model(proto)

    infer_types(model)

    assert shape_of(model.graph, "y") == shape


def test_outputs_of_one_type_have_it_whatever_goes_in() -> None:
    graph = inferred("""g (x) => (y, z) { a = com.microsoft.Unknown(x) b = Identity(a)
           y = RegexFullMatch <pattern = "a"> (b) z = RegexFullMatch <pattern = "a"> (x) }""")

    assert graph.types["y"] == graph.types["z"] == TensorType(ElementType.BOOL, None)
    assert "a" not in graph.types


def test_inputs_without_a_type_do_not_keep_others_from_their_types() -> None:
    graph = inferred(
        'g (x, float[2] v) => (y, z) { y = RegexFullMatch <pattern = "a"> (x) z = Relu(v) }'
    )

    assert graph.types["z"] == TensorType(ElementType.FLOAT, (2,))


@pytest.mark.parametrize("declared", ["", "<string[3] b>"])
def test_texts_are_followed_through_operators(declared: str) -> None:
    graph = inferred(
        f'g (string[3] x) => (y) {declared} {{ b = Identity(x) c = RegexFullMatch <pattern = "a">'
        " (b) y = Not(c) }"
    )

    assert graph.types["y"] == TensorType(ElementType.BOOL, (3,))


def test_a_shape_function_that_fails_leaves_shapes_open_and_warns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(STRICT_VARIABLE)
    monkeypatch.setattr("ortpkg.graph.shapes.inference.find_inference", lambda *_operator: _failing)

    graph = inferred("g (float[N] x) => (y) { a = Relu(x) y = Abs(a) }")

    assert graph.types["y"] == TensorType(ElementType.FLOAT, None)
    assert "shapes of Relu node 'Relu_0' are left open: IndexError: 'no such input'" in caplog.text


def test_a_shape_function_that_fails_in_tests_ends_inference_and_names_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ortpkg.graph.shapes.inference.find_inference", lambda *_operator: _failing)

    with pytest.raises(IndexError, match="no such input") as caught:
        inferred("g (float[N] x) => (y) { y = Relu(x) }")
    assert caught.value.__notes__ == ["raised by the shape function of Relu node 'Relu_0'"]


def _failing(_context: ShapeContext) -> None:
    raise IndexError("no such input")


def test_dimensions_with_names_that_are_no_identifiers_keep_them() -> None:
    batch = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch size"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Neg", ["x"], ["z"]), helper.make_node("Neg", ["z"], ["y"])]
    model = load_model(
        helper.make_model(helper.make_graph(nodes, "g", [batch], [result])).SerializeToString()
    )
    infer_types(model)

    assert model.graph.types["z"] == TensorType(ElementType.FLOAT, ("batch size",))


@pytest.mark.parametrize(
    ("scale", "size"),
    [
        (1.5, "floor(3*N/2)"),
        (0.75, "floor(3*N/4)"),
        (2.0, "2*N"),
        (0.5, "floor(N/2)"),
    ],
)
def test_an_axis_of_free_size_that_is_scaled_is_a_formula(scale: float, size: str) -> None:
    scales = {"scales": np.array([scale], np.float32)}
    graph = inferred("g (float[N] x) => (y) { y = Resize(x, , scales) }", scales)
    assert shape_of(graph, "y") == (size,)


def test_a_scale_whose_products_are_rounded_has_no_formula() -> None:
    scales = {"scales": np.array([0.7], np.float32)}
    model = load_model(parse("g (float[N] x) => (y) { y = Resize(x, , scales) }", scales))
    made = infer_sizes(model)["y"]
    assert isinstance(made, KnownTensor)
    assert made.shape is not None
    assert [each.is_anonymous for each in symbols_of(made.shape[0])] == [True]
    known = inferred("g (float[10] x) => (y) { y = Resize(x, , scales) }", scales)
    assert shape_of(known, "y") == (7,)


def test_classes_may_be_counted_by_a_constant_float() -> None:
    graph = inferred(
        "g (int64[N] x, float[2] values) => (y) <float depth = {12.0}>"
        " { y = OneHot(x, depth, values) }"
    )
    assert shape_of(graph, "y") == ("N", 12)


_GROWING = """g (float[B, 4] x, float[C, 4] other, int64 n, bool go) => (y, z, parts) {
    y, z, parts = Loop(n, go, x, other) <
        body = step (int64 i, bool on, float[p, 4] a, float[q, 4] b) => (out, c, d, e) {
            out = Identity(on)  c = Concat<axis = 0>(a, b)  d = Neg(b)  e = Relu(b) }
    >
}"""


def test_a_size_that_grows_from_one_iteration_to_the_next_opens_that_axis_alone() -> None:
    graph = inferred(_GROWING)
    grown, kept = shape_of(graph, "y"), shape_of(graph, "z")
    assert grown is not None
    assert grown[0] not in {"B", "C"}
    assert (grown[1], kept) == (4, ("C", 4))


def test_what_a_loop_hands_its_body_stands_in_the_types_of_the_body() -> None:
    """Names that the body declares for sizes are nobody else's."""
    graph = inferred(_GROWING)
    (loop,) = graph.nodes
    body = loop.subgraphs["body"]
    carried, other = shape_of(body, "a"), shape_of(body, "b")
    assert carried is not None
    assert other == shape_of(body, "e") == ("C", 4)
    assert carried[0] not in {"B", "C", "p", "q"}
    assert shape_of(body, "c") == (f"{carried[0]} + C", 4) or shape_of(body, "c") == (
        f"C + {carried[0]}",
        4,
    )


@pytest.mark.parametrize(("kind", "count"), [("float", "N"), ("double", "N"), ("float16", None)])
def test_a_range_up_to_a_size_as_a_float_has_so_many_numbers(kind: str, count: str | None) -> None:
    code = {"float": 1, "double": 11, "float16": 10}[kind]
    graph = inferred(
        f"""g (float[N, 4] x) => (y) <int64 axis = {{0}}, {kind} first = {{0}}, {kind} one = {{1}}> {{
            s = Shape(x)  n = Gather(s, axis)  limit = Cast<to = {code}>(n)
            y = Range(first, limit, one) }}"""
    )
    shape = shape_of(graph, "y")
    assert shape is not None
    assert (shape[0] == "N") is (count is not None)


def test_steps_of_a_half_up_to_a_size_are_not_counted() -> None:
    graph = inferred(
        """g (float[N, 4] x) => (y) <int64 axis = {0}, float first = {0}, float half = {0.5}> {
            s = Shape(x)  n = Gather(s, axis)  limit = Cast<to = 1>(n)
            y = Range(first, limit, half) }"""
    )
    shape = shape_of(graph, "y")
    assert shape is not None
    assert "N" not in str(shape[0])
