"""Shape inference on huge sizes and missing types, which onnx's own does not survive."""

from __future__ import annotations

import pytest

from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.types import ElementType, Shape, TensorType
from tests.graph.model_factories import parse

#: Elements that would take 10^14 bytes when listed one by one.
HUGE = 10**12


def inferred(text: str, opset: int = 21) -> Graph:
    model = load_model(
        parse(
            f'<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.ml" : 5, "own" : 1]>\n{text}'
        )
    )
    infer_types(model)
    return model.graph


def shape_of(graph: Graph, value: str) -> Shape | None:
    found = graph.type_of(value)
    assert isinstance(found, TensorType)
    return found.shape


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("node", "shape"),
    [
        ("Add(x, x)", (HUGE,)),
        ("Mul(x, x)", (HUGE,)),
        ("Sub(x, x)", (HUGE,)),
        ("Cast<to = 7>(x)", (HUGE,)),
        ("Concat<axis = 0>(x, x)", (2 * HUGE,)),
        ("Gather(x, i)", (3,)),
        ("Slice(x, i, i)", None),
        ("Size(x)", ()),
        ("GreaterOrEqual(x, x)", (HUGE,)),
    ],
)
def test_declared_sizes_may_be_huge(node: str, shape: Shape | None) -> None:
    graph = inferred(f"g (int64[{HUGE}] x, int64[3] i) => (y) {{ y = {node} }}")

    if shape is not None:
        assert shape_of(graph, "y") == shape


@pytest.mark.timeout(30)
def test_computed_sizes_may_be_huge() -> None:
    graph = inferred(f"""g (int64[2] x) => (y) <int64[1] n = {{{HUGE}}}>
            {{ a = ConstantOfShape(n) b = Concat<axis = 0>(a, a) y = Neg(b) }}""")

    assert shape_of(graph, "y") == (2 * HUGE,)


@pytest.mark.timeout(30)
def test_sizes_that_only_following_data_finds_may_be_huge() -> None:
    """Eight squarings of 256: the shape of ``a`` is known only to who follows the data."""
    squarings = " ".join(f"n{i + 1} = Mul(n{i}, n{i})" for i in range(2))
    graph = inferred(
        f"g (float[1024] x) => (y) {{ n0 = Shape(x) {squarings} a = ConstantOfShape(n2) y = Add(a,"
        " a) }"
    )

    assert graph.type_of("y") is not None


@pytest.mark.timeout(30)
def test_expand_to_more_dimensions_than_there_are() -> None:
    by_input = f"g (float[2] x, int64[{HUGE}] s) => (y) {{ y = Expand(x, s) }}"
    by_constant = (
        f"g (float[2] x) => (y) <int64[1] n = {{{HUGE}}}> {{ s = ConstantOfShape(n) y = Expand(x,"
        " s) }"
    )

    for graph in (inferred(by_input, opset=8), inferred(by_constant, opset=12)):
        assert shape_of(graph, "s") == (HUGE,)
        assert graph.types["y"] == TensorType(ElementType.FLOAT, None)


def test_small_sizes_are_followed_still() -> None:
    graph = inferred(
        """g (float[N, 4, 6] x) => (y) <int64[1] rest = {24}, int64[1] axes = {0}, int64 i = {0}>
           { s = Shape(x) n = Gather(s, i) m = Unsqueeze(n, axes) t = Concat<axis = 0>(m, rest)
             a = Reshape(x, t) b = Add(a, a) u = Shape(b) y = Expand(b, u) }"""
    )

    assert shape_of(graph, "y") == ("N", 24)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("EyeLike<dtype = 1>(x)", ElementType.FLOAT),
        ("ai.onnx.ml.LabelEncoder<keys_int64s = [1], values_int64s = [2]>(x)", ElementType.INT64),
        ('RegexFullMatch<pattern = "a">(x)', ElementType.BOOL),
        ("ai.onnx.ml.DictVectorizer<int64_vocabulary = [1]>(x)", None),
    ],
)
def test_inputs_without_a_type_are_no_matter(node: str, expected: ElementType | None) -> None:
    graph = inferred(f"g (float[2, 2] w) => (y) {{ x = own.Unknown(w) y = {node} }}")

    assert "x" not in graph.types
    assert graph.types.get("y") == (None if expected is None else TensorType(expected, None))


def test_a_node_that_makes_rank_from_a_declared_shape_keeps_its_element_type() -> None:
    graph = inferred("g (float[N] x, int64[1] s) => (y) { a = Reshape(x, s) y = Add(a, a) }")

    assert graph.types["y"] == TensorType(ElementType.FLOAT, shape_of(graph, "y"))
    assert len(shape_of(graph, "y") or ()) == 1


@pytest.mark.timeout(30)
def test_sizes_that_are_squared_again_and_again_stay_numbers_of_64_bits() -> None:
    """Flattened outer products: without a bound, the last size has 2^45 digits."""
    squarings = " ".join(
        f"t{i} = Transpose<perm = [1, 0]>(f{i}) m{i} = Mul(f{i}, t{i})"
        f" f{i + 1} = Flatten<axis = 2>(m{i})"
        for i in range(45)
    )
    for size in (1 << 40, "N"):
        graph = inferred(f"g (float[{size}, 1] f0) => (y) {{ {squarings} y = Neg(f45) }}")

        for sizes in filter(None, map(graph.type_of, ("m0", "f1", "f2", "y"))):
            assert isinstance(sizes, TensorType)
            assert all(
                isinstance(each, str) or each < 1 << 63 for each in sizes.shape or () if each
            )


@pytest.mark.timeout(30)
def test_a_followed_vector_in_very_many_parts_is_looked_at_once() -> None:
    count = 30_000
    outputs = ", ".join(f"o{i}" for i in range(count))
    graph = inferred(
        f"g () => (o0, o1023, o1024) <int64[1024] c = {{{', '.join(map(str, range(1024)))}}}>"
        f" {{ {outputs} = Split<num_outputs = {count}>(c) }}"
    )

    assert [shape_of(graph, name) for name in ("o0", "o1023", "o1024")] == [(1,), (1,), (0,)]


@pytest.mark.timeout(30)
def test_elements_of_very_many_inputs_are_not_followed() -> None:
    inputs = ", ".join(["c"] * 200_000)
    graph = inferred(
        f"g () => (y) <int64[1024] c = {{{', '.join(map(str, range(1024)))}}}>"
        f" {{ y = Max({inputs}) }}"
    )

    assert shape_of(graph, "y") == (1024,)


@pytest.mark.timeout(30)
def test_quotients_of_large_numbers_are_exact() -> None:
    graph = inferred(
        """g (float[N] x) => (y) <int64[1] n = {-9007199254740993}, int64[1] one = {-1},
           int64[1] two = {2}> { q = Div(n, one) r = Mod(q, two) s = Add(r, two) y = Expand(r, s) }"""
    )

    assert shape_of(graph, "y") == (3,)
