"""Attributes that no provider can compute with: refused by all of them, in the same sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ortpkg import InferenceSession
from ortpkg.foundations.errors import InvalidGraphError, OrtpkgError, RunError
from ortpkg.graph.attribute_checks import attribute_problems, open_question
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from tests.graph.model_factories import parse
from tests.kernels.node_runner import as_node

IMAGE = "float[1,4,6,6] x"


def windowed(operator: str, attributes: str, *, weight: str = "4,4,3,3") -> str:
    """A node of an image; ``weight``: the sizes of its weight, "" for pools."""
    inputs = f"{IMAGE}, float[{weight}] w" if weight else IMAGE
    taken = "x, w" if weight else "x"
    return f"g ({inputs}) => (float[A,B,C,D] y) {{ [n1] y = {operator} <{attributes}> ({taken}) }}"


def pool(operator: str, attributes: str) -> str:
    return windowed(operator, f"kernel_shape = [2, 2], {attributes}", weight="")


def simple(operator: str, attributes: str) -> str:
    return windowed(operator, attributes, weight="")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (windowed("Conv", "group = 0"), "the attribute 'group' of 0; numbers of 1 or more"),
        (windowed("ConvTranspose", "group = -1"), "'group' of -1; numbers of 1 or more"),
        (windowed("Conv", "pads = [-1, 0, 0, 0]"), "'pads' of (-1, 0, 0, 0); numbers of 0 or more"),
        (windowed("Conv", "strides = [0, 1]"), "'strides' of (0, 1); numbers of 1 or more"),
        (windowed("Conv", "dilations = [1, -1]"), "'dilations' of (1, -1); numbers of 1 or more"),
        (windowed("Conv", "kernel_shape = [0, 3]"), "'kernel_shape' of (0, 3); numbers of 1 or"),
        (
            windowed("Conv", 'auto_pad = "FOO"'),
            "'auto_pad' of 'FOO'; one of NOTSET, SAME_UPPER, SAME_LOWER, VALID was expected",
        ),
        (windowed("ConvTranspose", "output_padding = [-1, 0]"), "'output_padding' of (-1, 0)"),
        (windowed("ConvTranspose", "output_shape = [0, 1]"), "'output_shape' of (0, 1)"),
        (
            windowed("Conv", "strides = [4294967296, 1]"),
            "(4294967296, 1); numbers up to 2147483647",
        ),
        (windowed("ConvTranspose", "dilations = [1, 2147483648]"), "numbers up to 2147483647"),
        (pool("AveragePool", "pads = [0, 0, 0, 1099511627776]"), "numbers up to 2147483647"),
        (simple("LRN", "size = 4294967296"), "'size' of 4294967296; numbers up to 2147483647"),
        (simple("SpaceToDepth", "blocksize = 4294967297"), "numbers up to 2147483647"),
        (pool("AveragePool", "pads = [0, 0, -2, 0]"), "'pads' of (0, 0, -2, 0)"),
        (pool("AveragePool", 'auto_pad = "SAME"'), "'auto_pad' of 'SAME'"),
        (pool("MaxPool", "storage_order = 2"), "'storage_order' of 2; one of 0, 1 was expected"),
        (pool("LpPool", "p = 0"), "'p' of 0; numbers of 1 or more"),
        (
            pool("MaxPool", "strides = [1]"),
            "'strides' of (1,); 2 numbers were expected for windows over 2 axes",
        ),
        (pool("com.microsoft.NhwcMaxPool", "pads = [1, 1]"), "'pads' of (1, 1); 4 numbers were"),
        (simple("LRN", "size = 0"), "the attribute 'size' of 0; numbers of 1 or more"),
        (simple("LRN", "size = -1"), "the attribute 'size' of -1"),
        (simple("LpNormalization", "p = 3"), "'p' of 3; one of 1, 2 was expected"),
        (simple("DepthToSpace", "blocksize = 0"), "'blocksize' of 0"),
        (simple("DepthToSpace", 'blocksize = 2, mode = "X"'), "'mode' of 'X'; one of DCR, CRD"),
        (simple("SpaceToDepth", "blocksize = -2"), "'blocksize' of -2"),
        (simple("Gelu", 'approximate = "X"'), "'approximate' of 'X'; one of none, tanh"),
        (simple("Transpose", "perm = [0, 0, 1, 2]"), "'perm' of (0, 0, 1, 2); each axis was"),
        (
            f'g ({IMAGE}, int64[8] p) => (float[A,B,C,D] y) {{ [n1] y = Pad <mode = "X"> (x, p) }}',
            "'mode' of 'X'; one of constant, reflect, edge, wrap",
        ),
        (simple("Resize", 'nearest_mode = "X"'), "'nearest_mode' of 'X'; one of round_prefer_fl"),
        (simple("Resize", 'keep_aspect_ratio_policy = "X"'), "'keep_aspect_ratio_policy' of 'X'"),
        (
            (
                f"g ({IMAGE}, float[4] s) => (float[A,B,C,D] y)"
                " { [n1] y = GroupNormalization <num_groups = 0> (x, s, s) }"
            ),
            "'num_groups' of 0",
        ),
        (
            (
                "g (float[2,3,8] x) => (float[2,3,8] y)"
                " { [n1] y = com.microsoft.MultiHeadAttention <num_heads = 0> (x, x, x) }"
            ),
            "'num_heads' of 0",
        ),
        (
            (
                "g (float[T,1,2] x, float[1,8,2] w) => (float[A,B,C,D] y)"
                ' { [n1] y = LSTM <hidden_size = 2, direction = "X"> (x, w, w) }'
            ),
            "'direction' of 'X'; one of forward, reverse, bidirectional",
        ),
    ],
)
def test_refuses_an_attribute_when_the_model_is_read(text: str, message: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        load_model(parse(text))

    assert message in str(caught.value)
    assert caught.value.node_name == "n1"


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (
            windowed("Conv", "pads = [0, 9, 0, 9], group = 1, kernel_shape = [3, 3]"),
            (1, 4, 4, 22),
        ),
        (
            windowed("Conv", "kernel_shape = [3, 3], strides = [2, 1], dilations = [1, 2]"),
            (1, 4, 2, 2),
        ),
        (simple("LRN", "size = 2"), (1, 4, 6, 6)),
        (simple("Transpose", "perm = [3, 1, 2, 0]"), (6, 4, 6, 1)),
        (pool("MaxPool", "pads = [1, 0, 1, 0], storage_order = 1"), (1, 4, 7, 5)),
    ],
)
def test_lets_through_what_onnx_defines(text: str, shape: tuple[int, ...]) -> None:
    proto = parse(text)
    feeds = {
        value.name: np.ones([size.dim_value for size in value.type.tensor_type.shape.dim], "f4")
        for value in proto.graph.input
    }
    with InferenceSession(proto.SerializeToString(), providers=["cpu"]) as session:
        assert session.run(None, feeds)[0].shape == shape


def test_reads_attributes_that_onnx_defines_as_they_stand() -> None:
    text = simple("Resize", 'mode = "nearest", nearest_mode = "ceil"')
    (node,) = load_model(parse(text)).graph.nodes
    assert (node.attribute("mode"), node.attribute("nearest_mode")) == ("nearest", "ceil")


MISFITS = [
    (windowed("Conv", "kernel_shape = [2, 2]"), "'kernel_shape' of (2, 2), which does not fit its"),
    (windowed("ConvTranspose", "kernel_shape = [2, 2]"), "weight of shape (4, 4, 3, 3)"),
    (windowed("Conv", "kernel_shape = [3]"), "'kernel_shape' of (3,); 2 numbers were expected"),
    (windowed("Conv", "strides = [1]"), "'strides' of (1,); 2 numbers were expected"),
    (windowed("Conv", "pads = [1, 1]"), "'pads' of (1, 1); 4 numbers were expected"),
    (windowed("Conv", "group = 3"), "'group' of 3, which does not divide the first axis of its"),
    (
        f"g ({IMAGE}) => (float[A,B,C,D] y) {{ y = MaxPool <kernel_shape = [2]> (x) }}",
        "'kernel_shape' of (2,); 2 numbers were expected for windows over 2 axes",
    ),
    (
        (
            f"g ({IMAGE}) => (float[A,B,C,D] y) <float[4] s = {{1, 1, 2, 2}}>"
            "{ y = Resize <axes = [2, 3]> (x, , s) }"
        ),
        "takes 4 scales; 2 were expected, one for each axis",
    ),
    (
        (
            "g (float[T,1,2] x, float[1,8,2] w) => (float[A,B,C,D] y)"
            " { y = LSTM <hidden_size = 3> (x, w, w) }"
        ),
        "'hidden_size' of 3, which does not fit its weight R of shape (1, 8, 2)",
    ),
]


@pytest.mark.parametrize("provider", ["CPU", "LLVM", "OpenVINO"])
@pytest.mark.parametrize(("text", "message"), MISFITS)
def test_every_provider_refuses_an_attribute_that_does_not_fit_in_the_same_words(
    text: str, message: str, provider: str
) -> None:
    pytest.importorskip({"LLVM": "llvmlite", "OpenVINO": "openvino"}.get(provider, "numpy"))

    with pytest.raises(InvalidGraphError) as caught:
        InferenceSession(
            parse(text).SerializeToString(), providers=[f"{provider}ExecutionProvider"]
        )

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (windowed("Conv", "kernel_shape = [2, 2]", weight="4,4,K,L"), "that kernel_shape says"),
        (
            (
                "g (float[] a) => (y) { x = com.microsoft.Unknown(a)"
                " [n1] y = MaxPool <kernel_shape = [2, 2]> (x) }"
            ),
            "only a run shows how many axes its windows have",
        ),
        (windowed("Conv", "group = 1", weight="4,4,K,L"), ""),
        (windowed("Conv", "kernel_shape = [3, 3]"), ""),
    ],
)
def test_says_what_only_a_run_can_judge(text: str, reason: str) -> None:
    model = load_model(parse(text))
    infer_types(model)
    (node,) = (node for node in model.graph.nodes if node.name == "n1")

    assert reason in open_question(model.graph, node)
    assert bool(reason) == bool(open_question(model.graph, node))


def test_a_run_refuses_a_weight_of_another_size_than_the_attribute_says() -> None:
    text = windowed("Conv", "kernel_shape = [2, 2]", weight="4,4,K,L")
    feeds = {"x": np.ones((1, 4, 6, 6), np.float32), "w": np.ones((4, 4, 3, 3), np.float32)}

    with (
        InferenceSession(parse(text).SerializeToString(), providers=["cpu"]) as session,
        pytest.raises(OrtpkgError, match="kernel_shape"),
    ):
        session.run(None, feeds)


def _after(provider: str) -> list[str]:
    """Return the providers of a session that asks one before the embedded engine."""
    return ["cpu"] if provider == "cpu" else [provider, "cpu"]


@pytest.mark.parametrize("provider", ["cpu", "llvm", "openvino"])
@pytest.mark.parametrize(
    ("node", "inputs", "message"),
    [
        ("TopK (x, k)", "int64[2] k", "takes its k of shape (2); one number was expected"),
        ("Clip (x, k)", "float[4] k", "takes its min of shape (4); one number was expected"),
        ("Clip (x, , k)", "float[0] k", "takes its max of shape (0); one number was expected"),
        ("Trilu (x, k)", "int64[2] k", "takes its k of shape (2); one number was expected"),
        ("CumSum (x, k)", "int64[2] k", "takes its axis of shape (2); one number was expected"),
        (
            "BatchNormalization (x, k, k, k, v)",
            "float[4] k, float[1] v",
            "takes its input 4 of shape (1); a number for each of 4 channels was expected",
        ),
        (
            "BatchNormalization (x, k, k, k, k)",
            "float[3] k",
            "takes its input 1 of shape (3); a number for each of 4 channels was expected",
        ),
        (
            "GRU <hidden_size = 1, clip = -1.0> (y3, w, r)",
            "float[1,2,4] y3, float[1,3,4] w, float[1,3,1] r",
            "the attribute 'clip' of -1; a number of 0 or more was expected",
        ),
    ],
)
def test_numbers_that_are_too_many_or_too_small_are_refused_by_every_provider(
    node: str, inputs: str, message: str, provider: str
) -> None:
    pytest.importorskip({"llvm": "llvmlite", "openvino": "openvino"}.get(provider, "numpy"))
    text = f"g (float[2,4] x, {inputs}) => (float y) {{ y = {node} }}"
    if node.startswith("TopK"):
        text = text.replace("y = TopK", "y, i = TopK")
    with pytest.raises(InvalidGraphError) as caught:
        InferenceSession(parse(text), providers=_after(provider))
    assert message in str(caught.value)


@pytest.mark.parametrize("provider", ["cpu", "llvm", "openvino"])
@pytest.mark.parametrize(
    ("node", "inputs", "shapes", "message"),
    [
        ("TopK (x, k)", "int64[K] k", {"k": (2,)}, "k has the shape (2,); one number"),
        ("Clip (x, k)", "float[K] k", {"k": (4,)}, "min has the shape (4,); one number"),
        ("Clip (x, , k)", "float[K] k", {"k": (4,)}, "max has the shape (4,); one number"),
        ("Trilu (x, k)", "int64[K] k", {"k": (2,)}, "k has the shape (2,); one number"),
        ("CumSum (x, k)", "int64[K] k", {"k": (2,)}, "axis has the shape (2,); one number"),
        (
            "BatchNormalization (x, k, k, v, k)",
            "float[K] k, float[V] v",
            {"k": (4,), "v": (1,)},
            "have the shapes (4,), (4,), (1,) and (4,); a number for each channel was expected",
        ),
    ],
)
def test_numbers_that_a_run_shows_to_be_too_many_are_refused_by_every_provider(
    node: str, inputs: str, shapes: dict[str, tuple[int, ...]], message: str, provider: str
) -> None:
    pytest.importorskip({"llvm": "llvmlite", "openvino": "openvino"}.get(provider, "numpy"))
    text = f"g (float[2,4] x, {inputs}) => (float[A,B] y) {{ y = {node} }}"
    if node.startswith("TopK"):
        text = text.replace("y = TopK", "y, i = TopK")
    kind = np.int64 if "int64" in inputs else np.float32
    feeds = {name: np.ones(shape, kind) for name, shape in shapes.items()}
    feeds["x"] = np.ones((2, 4), np.float32)
    with (
        InferenceSession(parse(text), providers=_after(provider)) as session,
        pytest.raises(RunError) as caught,
    ):
        session.run(None, feeds)
    assert message in str(caught.value)


_NGRAMS = {
    "mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
    "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [1, 2, 3, 4],
    "weights": [1.0, 1.0, 1.0],
}  # fmt: skip


def _vectorizer(**changes: Any) -> bytes:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **{**_NGRAMS, **changes})
    ends = (
        [helper.make_tensor_value_info("x", TensorProto.INT64, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    graph = helper.make_graph([node], "g", *ends)
    imports = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ngram_indexes": [0, 1]}, "'ngram_indexes' of 2 numbers; 3 were expected"),
        ({"weights": [1.0]}, "'weights' of 1 numbers; 3 were expected"),
        ({"ngram_counts": [0, 5]}, "'ngram_counts' of (0, 5); places in the pool of 4 words"),
        ({"ngram_counts": [-1, 2]}, "'ngram_counts' of (-1, 2); places in the pool of 4 words"),
        ({"ngram_indexes": [0, -1, 2]}, "a number below 0 in the attribute 'ngram_indexes'"),
    ],
)
def test_ngrams_whose_lists_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        InferenceSession(_vectorizer(**changes), providers=["cpu"])
    assert message in str(caught.value)


def test_ngrams_whose_lists_fit_are_counted() -> None:
    with InferenceSession(_vectorizer(), providers=["cpu"]) as session:
        (counts,) = session.run(None, {"x": np.array([1, 3, 4, 1])})
    assert counts.tolist() == [2, 0, 1]


@pytest.mark.parametrize("scale", ["nan", "inf", "0.0", "-1.0"])
def test_scales_of_roi_align_are_numbers_above_0(scale: str) -> None:
    text = (
        "g (float[1,1,4,4] x, float[1,4] r, int64[1] b) => (float[A,B,C,D] y)"
        f" {{ y = RoiAlign <spatial_scale = {scale}> (x, r, b) }}"
    )
    with pytest.raises(InvalidGraphError, match=r"'spatial_scale' of \S+; a number above 0 was"):
        InferenceSession(parse(text))


@pytest.mark.parametrize(
    "attribute",
    ["dilations = [1]", "dilations = [1, 1, 1]", "pads = [0, 0]", "strides = [1]"],
)
def test_lists_of_col2im_have_numbers_for_each_axis(attribute: str) -> None:
    text = (
        "g (float[1,4,16] x) => (float[A,B,C,D] y) <int64[2] s = {5, 5}, int64[2] b = {2, 2}>"
        f" {{ y = Col2Im <{attribute}> (x, s, b) }}"
    )
    name = attribute.partition(" ")[0]
    with InferenceSession(parse(text)) as session, pytest.raises(RunError) as caught:
        session.run(None, {"x": np.ones((1, 4, 16), np.float32)})
    assert f"'{name}' has" in str(caught.value)
    assert "numbers were expected for images of 2 axes" in str(caught.value)


_TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
    "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nodes_nodeids", "2 numbers in the attribute 'nodes_nodeids'; 3 were expected"),
        ("nodes_modes", "2 numbers in the attribute 'nodes_modes'; 3 were expected"),
        ("nodes_truenodeids", "2 numbers in the attribute 'nodes_truenodeids'; 3 were expected"),
        ("nodes_falsenodeids", "'nodes_falsenodeids'; 3 were expected, as many as nodes_treeids"),
        ("target_nodeids", "1 numbers in the attribute 'target_nodeids'; 2 were expected"),
    ],
)
def test_trees_whose_lists_differ_in_length_are_refused(name: str, message: str) -> None:
    attributes = {**_TREE, name: _TREE[name][:-1]}
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attributes
    )
    ends = [
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, [2, 1])] for value in ("x", "y")
    ]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "g", ends[0], ends[1])
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    with pytest.raises(InvalidGraphError) as caught:
        InferenceSession(model.SerializeToString(), providers=["cpu"])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("RoiAlign", "spatial_scale"),
        ("GRU", "clip"),
        ("TfIdfVectorizer", "weights"),
        ("TfIdfVectorizer", "pool_int64s"),
        ("Transpose", "perm"),
    ],
)
@pytest.mark.parametrize("value", [1, 0.5, "text", [1, 2], [0.5], ["text"], "graph"])
def test_attributes_of_another_kind_than_theirs_are_no_fault_of_ours(
    operator: str, name: str, value: Any
) -> None:
    """They are let be here; whatever else is wrong is a refusal in our words."""
    if value == "graph":
        value = onnx.helper.make_graph([], "inner", [], [])
    node = onnx.helper.make_node(operator, ["x"], ["y"], **{name: value})
    problems = list(attribute_problems(as_node(node, {"": 21})))
    assert all(isinstance(problem, str) for problem in problems)
