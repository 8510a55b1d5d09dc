"""Operators that run on onnx.reference: what the wrapper adds to it."""

from __future__ import annotations

import functools
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from ortpkg.foundations.errors import InvalidGraphError, LimitExceededError
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType, ValueType
from ortpkg.runtime.kernels.op_kernel import Compute, Tensor
from ortpkg.runtime.kernels.reference_kernels import (
    find_reference_kernel,
    has_reference_implementation,
)
from tests.kernels.node_runner import NodeInfo, RunContext, as_node
from tests.kernels.onnxruntime_peer import run_on_onnxruntime


class TypedInfo(NodeInfo):
    """An OpKernelInfo that knows the type of the first output."""

    first_output: ValueType | None = None

    def output_type(self, slot: int) -> ValueType | None:
        return self.first_output if slot == 0 else None


def made(
    op_type: str,
    inputs: list[str],
    outputs: list[str],
    *,
    version: int,
    domain: str = "",
    output_type: ValueType | None = None,
    **attributes: Any,
) -> Compute:
    proto = helper.make_node(op_type, inputs, outputs, domain=domain, **attributes)
    node = as_node(proto, {domain: version})
    definition = find_reference_kernel(node, {domain: version})
    assert definition is not None
    info = TypedInfo(node=node, opset=version)
    info.first_output = output_type
    return definition.factory(info)


#: What the operator requires.
MOMENTUM: dict[str, Any] = {"alpha": 0.9, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0}


def matrix(seed: int = 0) -> Tensor:
    return np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("domain", "op_type", "version", "expected"),
    [
        ("", "Det", 22, True),
        ("", "MeanVarianceNormalization", 13, True),  # by its function body
        ("", "Gelu", 20, True),  # by the body that its types make
        ("", "Loop", 21, False),  # a sub-graph would escape the session's limits
        ("", "NoSuchOperator", 21, False),
        ("ai.onnx.ml", "Binarizer", 1, True),
        ("ai.onnx.preview.training", "Adam", 1, True),
        ("ai.onnx.preview.training", "Gradient", 1, False),
        ("com.microsoft", "Gelu", 1, False),
    ],
)
def test_knows_what_the_reference_implements(
    domain: str, op_type: str, version: int, expected: bool
) -> None:
    assert has_reference_implementation(domain, op_type, version) is expected


def test_operator_without_implementation_is_no_kernel_and_no_error() -> None:
    node = Graph().add_node("NoSuchOperator", ["x"], ["y"], since_version=1)
    assert find_reference_kernel(node, {"": 21}) is None


@pytest.mark.parametrize(("op_type", "version"), [("MeanVarianceNormalization", 13), ("Gelu", 20)])
def test_function_is_computed_by_its_body(op_type: str, version: int) -> None:
    x = matrix().reshape(1, 3, 4, 1)
    result = made(op_type, ["x"], ["y"], version=version)(RunContext(), x)
    assert result.shape == x.shape
    assert result.dtype == np.float32


def test_left_out_inputs_and_outputs() -> None:
    compute = made("Dropout", ["x", ""], ["y", ""], version=13)
    y, mask = compute(RunContext(), matrix(), None)
    assert (y == matrix()).all()
    assert mask is None


def test_value_given_twice_is_fed_twice() -> None:
    y = made("Sum", ["x", "x"], ["y"], version=13)(RunContext(), matrix(), matrix())
    np.testing.assert_array_equal(y, 2 * matrix())


def test_output_never_shares_memory_with_an_input() -> None:
    x = matrix()
    y = made("Identity", ["x"], ["y"], version=21)(RunContext(), x)
    assert not np.may_share_memory(x, y)
    assert y.flags.writeable


def test_output_has_the_inferred_element_type() -> None:
    double = TensorType(ElementType.DOUBLE, None)
    y = made("Det", ["x"], ["y"], version=22, output_type=double)(
        RunContext(), np.eye(2, dtype=np.float32)
    )
    assert y.dtype == np.float64
    assert isinstance(y, np.ndarray)  # the reference gives a numpy scalar


def test_strings_are_objects() -> None:
    compute = made("StringNormalizer", ["x"], ["y"], version=10, case_change_action="UPPER")
    assert compute(RunContext(), np.array(["a", "b"], dtype=object)).dtype == np.dtype(object)


def test_missing_required_attribute_is_an_error_with_the_nodes_name() -> None:
    with pytest.raises(InvalidGraphError, match="TfIdfVectorizer node 'TfIdfVectorizer'") as caught:
        made("TfIdfVectorizer", ["x"], ["y"], version=9)
    assert caught.value.node_name == "TfIdfVectorizer"


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams_without_weights_count_alike(mode: str) -> None:
    attributes: dict[str, Any] = {
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "ngram_counts": [0, 2],
        "ngram_indexes": [0, 1, 2],
        "pool_int64s": [3, 4, 3, 4],
        "mode": mode,
    }
    x = np.array([[3, 4, 4, 3], [9, 9, 9, 9]])
    y = made("TfIdfVectorizer", ["x"], ["y"], version=9, **attributes)(RunContext(), x)
    np.testing.assert_array_equal(
        y, run_on_onnxruntime("TfIdfVectorizer", x, domain="", **attributes)
    )


@pytest.mark.parametrize("pool", ["pool_int64s", "pool_strings"])
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_weights_belong_to_the_ngrams_of_the_pool_in_any_order_of_columns(
    mode: str, pool: str
) -> None:
    ngrams = [3, 4, 5, 3, 4, 4, 4]
    attributes: dict[str, Any] = {
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 1,
        "ngram_counts": [0, 3],
        "ngram_indexes": [2, 4, 0, 6, 1],  # two columns are nobody's
        "weights": [0.5, 2.0, 3.0, 5.0, 7.0],
        "mode": mode,
        pool: ngrams if pool == "pool_int64s" else [str(word) for word in ngrams],
    }
    x: Tensor = np.array([[3, 4, 4, 3, 9], [9, 9, 5, 9, 4]])
    if pool == "pool_strings":
        x = x.astype(str).astype(object)
    y = made("TfIdfVectorizer", ["x"], ["y"], version=9, **attributes)(RunContext(), x)
    np.testing.assert_array_equal(
        y, run_on_onnxruntime("TfIdfVectorizer", x, domain="", **attributes)
    )


def test_labels_of_minus_one_can_be_ignored() -> None:
    x = matrix().reshape(3, 2, 2)
    labels = np.array([[0, -1], [1, 1], [-1, 0]])
    names = ["x", "labels"]
    y = made("NegativeLogLikelihoodLoss", names, ["y"], version=13, ignore_index=-1)(
        RunContext(), x, labels
    )
    # The mean is one of four labels, not of six.
    assert y == pytest.approx(-(x[0, 0, 0] + x[1, 1, 0] + x[1, 1, 1] + x[2, 0, 1]) / 4)


def test_older_version_means_what_it_meant() -> None:
    node = as_node(helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], mode="max"), {"": 10})
    definition = find_reference_kernel(node, {"": 10})
    assert definition is not None
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    box, batch = np.float32([[0, 0, 2, 2]]), np.int64([0])  # type: ignore[arg-type]
    old = definition.factory(NodeInfo(node=node, opset=10))(RunContext(), x, box, batch)
    compute = made("RoiAlign", ["x", "r", "b"], ["y"], version=16, mode="max")
    # half_pixel came with version 16
    assert old.item() != compute(RunContext(), x, box, batch).item()


@pytest.mark.parametrize(
    ("compute", "inputs"),
    [
        (
            lambda: made(
                "RoiAlign",
                ["x", "r", "b"],
                ["y"],
                version=16,
                output_height=10**5,
                output_width=10**5,
            ),
            (
                np.zeros((1, 1, 2, 2), np.float32),
                np.zeros((1, 4), np.float32),
                np.zeros(1, np.int64),
            ),
        ),
        (
            lambda: made("RoiAlign", ["x", "r", "b"], ["y"], version=16, output_height=10**5),
            (
                np.zeros((1, 1, 2, 2), np.float32),
                np.zeros((0, 4), np.float32),
                np.zeros(2, np.int64),
            ),
        ),
        (
            lambda: made(
                "TfIdfVectorizer",
                ["x"],
                ["y"],
                version=9,
                max_gram_length=1,
                max_skip_count=0,
                min_gram_length=1,
                mode="TF",
                ngram_counts=[0],
                ngram_indexes=[10**8],
                pool_int64s=[1],
            ),
            (np.zeros(0, np.int64),),
        ),
        (
            lambda: made(
                "Det", ["x"], ["y"], version=22, output_type=TensorType(ElementType.FLOAT, (10**6,))
            ),
            (np.eye(2, dtype=np.float32),),
        ),
        (
            lambda: made("SoftmaxCrossEntropyLoss", ["x", "y"], ["z"], version=13),
            (np.zeros((30_000, 2), np.float32), np.zeros(30_000, np.int64)),
        ),
        (
            lambda: made(
                "LinearAttention",
                ["q", "k", "v"],
                ["y", "s"],
                version=27,
                q_num_heads=1,
                kv_num_heads=1,
                update_rule="linear",
            ),
            (np.zeros((1, 1, 1000), np.float32),) * 3,
        ),
        (
            lambda: made("CausalConvWithState", ["x", "w"], ["y", "s"], version=27),
            (np.zeros((1000, 1, 1), np.float32), np.zeros((1, 1, 1000), np.float32)),
        ),
        (
            lambda: made("DeformConv", ["x", "w", "o"], ["y"], version=22),
            (
                np.zeros((1, 1, 20, 20), np.float32),
                np.zeros((1000, 1, 1, 1), np.float32),
                np.zeros((1, 2, 20, 20), np.float32),
            ),
        ),
        (
            lambda: made(
                "QLinearMatMul", ["a", "s", "z", "b", "t", "u", "v", "w"], ["y"], version=21
            ),
            (
                np.zeros((1000, 1), ml_dtypes.float8_e4m3fn),
                np.float32(1),
                np.zeros((), ml_dtypes.float8_e4m3fn),
                np.zeros((1, 1000), ml_dtypes.float8_e4m3fn),
                np.float32(1),
                np.zeros((), ml_dtypes.float8_e4m3fn),
                np.float32(1),
                np.zeros((), ml_dtypes.float8_e4m3fn),
            ),
        ),
        *(
            (
                functools.partial(
                    made,
                    op_type,
                    ["r", "t", "x", "g", *states],
                    ["y", *states],
                    version=1,
                    domain="ai.onnx.preview.training",
                    **attributes,
                ),
                (np.float32(1), np.int64(1), column, column.T, *[column] * len(states)),
            )
            for op_type, states, attributes in (
                ("Adagrad", ["h"], {}),
                ("Adam", ["v", "h"], {}),
                ("Momentum", ["v"], MOMENTUM),
            )
            for column in [np.ones((1000, 1), np.float32)]
        ),
    ],
)
def test_output_that_passes_the_memory_limit_is_refused_before_it_is_made(
    compute: Any, inputs: tuple[Tensor, ...]
) -> None:
    with pytest.raises(LimitExceededError):
        compute()(RunContext(limit_nbytes=1_000_000), *inputs)


def test_types_that_the_operator_does_not_take_have_no_kernel() -> None:
    node = as_node(helper.make_node("Upsample", ["x", "s"], ["y"]), {"": 9})

    assert find_reference_kernel(node, {"": 9}, {"T": ElementType.FLOAT}) is not None
    assert find_reference_kernel(node, {"": 9}, {"T": ElementType.INT2}) is None


@pytest.mark.requirement("D09", "D10")
@pytest.mark.parametrize("op_type", ["Det", "Gelu"])
def test_one_kernel_serves_many_threads(op_type: str) -> None:
    compute = made(op_type, ["x"], ["y"], version=22)
    inputs = [
        np.random.default_rng(seed).normal(size=(4, 4)).astype(np.float32) for seed in range(8)
    ]
    expected = [compute(RunContext(), x) for x in inputs]
    found: dict[int, list[bool]] = {}

    def work(index: int) -> None:
        found[index] = [
            np.array_equal(compute(RunContext(), inputs[index]), expected[index]) for _ in range(30)
        ]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(all(results) for results in found.values())
    assert len(found) == len(inputs)


def test_node_is_left_as_it_was() -> None:
    node: Node = as_node(helper.make_node("Det", ["x"], ["y"]), {"": 22})
    before = (node.inputs, node.outputs, dict(node.attributes))
    definition = find_reference_kernel(node, {"": 22})
    assert definition is not None
    definition.factory(NodeInfo(node=node, opset=22))(RunContext(), np.eye(2, dtype=np.float32))
    assert (node.inputs, node.outputs, dict(node.attributes)) == before
