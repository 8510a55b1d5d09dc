"""Tests that rules keep results of examples that differ in one thing from the form they fuse.

A rule may leave such an example as it is. If it changes the example, both are run and compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import TensorType
from ortpkg.runtime.engine.transformers.transform_context import TransformContext
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions
from ortpkg.runtime.session.transformation import transform_context
from tests.engine.transformers.broken_examples import broken_copies
from tests.engine.transformers.other_examples import OTHER_FORMS
from tests.engine.transformers.test_every_rule_by_example import CONTEXT, EXAMPLES, RULES, Example
from tests.engine.transformers.transformation import (
    Cleaned,
    feeds_for,
    parse,
)
from tests.kernels.node_runner import NoKernelError, compute_node
from tests.sampling import Sample

#: What a session on the numpy engine tells its transformers.
_ENGINE = transform_context([CPUExecutionProvider()])


def _model_of(example: Example) -> onnx.ModelProto:
    header = f'<ir_version: 10, opset_import: ["" : {example.opset}, "com.microsoft" : 1]>\n'
    return parse(f"{header}g {example.signature} {{ {example.before} }}")


def _loaded(proto: onnx.ModelProto) -> Model:
    model = load_model(proto)
    infer_types(model)
    return model


def _inner_types(model: Model) -> dict[str, onnx.TypeProto]:
    return {
        name: onnx.helper.make_tensor_type_proto(
            int(tensor_type.element_type),
            None if tensor_type.shape is None or None in tensor_type.shape else tensor_type.shape,
        )
        for name, tensor_type in model.graph.types.items()
        if isinstance(tensor_type, TensorType)
    }


def _run_steps(graph: Graph, feeds: dict[str, Any]) -> list[Any]:
    """Return what the numpy engine's kernels compute of a graph, node by node."""
    constants = {name: constant.numpy() for name, constant in graph.initializers.items()}
    values = {"": None, **constants, **feeds}
    for index in topological_order(graph):
        node = graph.node(index)
        arguments = [values[name] for name in node.inputs]
        results = compute_node(node, arguments, graph.opset_imports[node.domain])
        values.update(zip(node.outputs, results, strict=False))
    return [values[name] for name in graph.outputs]


def _is_changed(name: str, model: Model, context: TransformContext = _ENGINE) -> bool:
    """Apply a rule until nothing is left to do; return True if the rule itself changed something."""
    rule = Cleaned(RULES[name])
    for _ in range(20):
        if not rule.apply(model.graph, context):
            return bool(rule.changes)
    pytest.fail("the rule does not come to an end")


def _feeds(proto: onnx.ModelProto) -> Iterator[dict[str, Any]]:
    """Yield feeds of random numbers, and where there are integers small ones that sizes may be."""
    feeds = feeds_for(proto)
    yield feeds
    if any(value.dtype.kind == "i" for value in feeds.values()):
        yield {
            name: value * 0 + 1 if value.dtype.kind == "i" else value
            for name, value in feeds.items()
        }


def _run_session(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    with InferenceSession(proto.SerializeToString(), options, providers=["cpu"]) as session:
        outputs: list[Any] = session.run(None, feeds)
    return outputs


def _run(model: Model, feeds: dict[str, Any]) -> list[Any]:
    graph = model.graph
    if any(node.subgraphs for node in graph.nodes):
        return _run_session(to_model_proto(model), feeds)
    try:
        return _run_steps(graph, feeds)
    except NoKernelError:  # a session computes such types in float32
        return _run_session(to_model_proto(model), feeds)


def _assert_same_values(words: str, before: onnx.ModelProto, changed: Model) -> None:
    """Check that a changed model computes what the one before does, if that runs at all."""
    for feeds in _feeds(before):
        try:
            expected = _run(load_model(before), feeds)
        except Exception:  # noqa: BLE001  kernels alone raise what they like
            continue
        if not _is_as_declared(before, expected):
            continue
        try:
            _assert_close(words, expected, _run(changed, feeds))
        except Exception:
            if _is_valid(before):
                raise


def _is_as_declared(proto: onnx.ModelProto, outputs: list[Any]) -> bool:
    """Return True if outputs have the sizes that the model declares, which rules may rely on."""
    for declared, output in zip(proto.graph.output, outputs, strict=True):
        tensor_type = declared.type.tensor_type
        sizes = [dimension.dim_value for dimension in tensor_type.shape.dim]
        if tensor_type.HasField("shape") and (
            len(sizes) != np.ndim(output)
            or any(size not in (0, own) for size, own in zip(sizes, np.shape(output), strict=True))
        ):
            return False
    return True


def _assert_close(words: str, expected: list[Any], actual: list[Any]) -> None:
    for one, other in zip(map(np.asarray, expected), map(np.asarray, actual), strict=True):
        assert (other.dtype, other.shape) == (one.dtype, one.shape), words
        if one.dtype.kind in "iu":  # a sum that lies halfway may be rounded either way
            difference = other.astype(np.int64) - one.astype(np.int64)
            assert not difference.size or np.abs(difference).max() <= 1, words
        else:
            tolerance = 4e-3 if one.dtype == np.float16 else 1e-4
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance, err_msg=words)


def _is_valid(proto: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


_CASES: dict[str, tuple[str, Example]] = {
    **{name: (name, example) for name, example in EXAMPLES.items()},
    **OTHER_FORMS,
}


@pytest.mark.parametrize("case", _CASES)
def test_an_example_that_differs_in_one_thing_computes_what_it_did(
    case: str, sample: Sample[Any]
) -> None:
    rule, example = _CASES[case][0], _model_of(_CASES[case][1])
    assert _is_changed(rule, _loaded(example))
    for words, before in sample(broken_copies(example, _inner_types(_loaded(example))), 4):
        try:
            model = _loaded(before)
        except OrtpkgError:
            continue  # it is no model any more
        if _is_changed(rule, model):
            _assert_same_values(words, before, model)


# --- what belongs to others -----------------------------------------------------------------------


def _node_indices(model: Model) -> list[int]:
    return topological_order(model.graph)


@pytest.mark.parametrize("case", _CASES)
def test_a_rule_leaves_nodes_that_it_may_not_change(case: str) -> None:
    rule, example = _CASES[case][0], _model_of(_CASES[case][1])
    mine = replace(_ENGINE, execution_providers=frozenset({"mine"}))
    for number in range(len(example.graph.node)):
        model = _loaded(example)
        theirs = model.graph.node(_node_indices(model)[number])
        theirs.execution_provider = "theirs"
        RULES[rule].apply(model.graph, mine)
        assert model.graph.has_node(theirs.index), number


@pytest.mark.parametrize("case", sorted(_CASES.keys() - {"unused-removal"}))
def test_a_rule_makes_no_node_of_two_providers_nodes(case: str) -> None:
    """A node may go alone, or what reads it may become another; not two of different providers."""
    rule, example = _CASES[case][0], _model_of(_CASES[case][1])
    for number in range(len(example.graph.node)):
        model = _loaded(example)
        indices = _node_indices(model)
        for position, index in enumerate(indices):
            model.graph.node(index).execution_provider = "ab"[position == number]
        RULES[rule].apply(model.graph, CONTEXT)
        gone = [
            position for position, index in enumerate(indices) if not model.graph.has_node(index)
        ]
        assert len({position == number for position in gone}) < 2, (number, gone)


@pytest.mark.parametrize("case", sorted(_CASES.keys() - {"unused-removal"}))
def test_a_rule_leaves_nodes_of_other_domains(case: str) -> None:
    """They may do anything, whatever they are called."""
    rule, example = _CASES[case][0], _model_of(_CASES[case][1])
    for number in range(len(example.graph.node)):
        changed = onnx.ModelProto()
        changed.CopyFrom(example)
        changed.graph.node[number].domain = "other"
        changed.opset_import.append(onnx.helper.make_opsetid("other", 1))
        model = _loaded(changed)
        RULES[rule].apply(model.graph, CONTEXT)
        assert any(node.domain == "other" for node in model.graph.nodes), number


@pytest.mark.parametrize("case", _CASES)
def test_a_rule_makes_only_nodes_that_have_kernels(case: str) -> None:
    rule, model = _CASES[case][0], _loaded(_model_of(_CASES[case][1]))
    asked: list[Node] = []

    def has_no_kernel(node: Node, _types: object) -> bool:
        asked.append(node)
        return False

    nothing = replace(_ENGINE, kernel_exists=has_no_kernel)
    before = {(node.domain, node.op_type) for node in model.graph.nodes}
    RULES[rule].apply(model.graph, nothing)
    new_kinds = {(node.domain, node.op_type) for node in model.graph.nodes} - before
    assert not any(domain for domain, _ in new_kinds)
    assert not new_kinds & {(node.domain, node.op_type) for node in asked}


_BOUNDED = {
    "constant-folding", "conv-affine-fusion", "conv-batch-normalization-fusion",
    "batch-normalization-affine-fusion", "weight-dequantization",
}  # fmt: skip


@pytest.mark.parametrize("case", [case for case in _CASES if _CASES[case][0] in _BOUNDED])
@pytest.mark.parametrize("limit_nbytes", [0, 7, 15, 31])
def test_a_rule_makes_no_constant_above_the_limit(case: str, limit_nbytes: int) -> None:
    rule, model = _CASES[case][0], _loaded(_model_of(_CASES[case][1]))
    before = set(model.graph.initializers)
    RULES[rule].apply(model.graph, replace(_ENGINE, largest_constant_nbytes=limit_nbytes))
    constants = [value for name, value in model.graph.initializers.items() if name not in before]
    assert all(value.nbytes <= limit_nbytes for value in constants)
