"""Before/after pairs: a transformer turns one text into the other, and both compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from ortpkg.graph.graph import ArrayInitializer, Graph, Node
from ortpkg.graph.graph_checks import check_consistency, verify_graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import element_type_of
from ortpkg.runtime.engine.transformers.transform_context import GraphTransformer, TransformContext
from ortpkg.runtime.engine.transformers.unused_removal import UNUSED_REMOVAL
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions

HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
_RANDOM_SEED = 7
#: A provider that has every kernel.
EVERY_KERNEL = TransformContext(kernel_exists=lambda _node, _types: True)


class Cleaned:
    """A transformer, and what leaves no unused nodes behind it.

    ``changes``: how many the transformer itself made.
    """

    def __init__(self, transformer: GraphTransformer) -> None:
        self.name = transformer.name
        self.changes = 0
        self._transformer = transformer

    def apply(self, graph: Graph, context: TransformContext) -> int:
        own = self._transformer.apply(graph, context)
        self.changes += own
        for node in graph.nodes:
            own += sum(self.apply(subgraph, context) for subgraph in node.subgraphs.values())
        return own + UNUSED_REMOVAL.apply(graph, context)


def run_engine(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Runs a model as it is: no transformer touches it."""
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    outputs: list[Any] = InferenceSession(proto.SerializeToString(), options).run(None, feeds)
    return outputs


def run_reference(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    # Models here divide by zero on purpose, and the evaluator pads integers with NaN for MaxPool,
    # by no elements.
    with np.errstate(divide="ignore", invalid="ignore"):
        outputs: list[Any] = ReferenceEvaluator(proto).run(None, feeds)
    return outputs


def evaluate(graph: Graph, node: Node, inputs: Sequence[Any]) -> Sequence[Any] | None:
    """A constant evaluator on the reference implementation."""
    one = Graph("one", opset_imports=graph.opset_imports)
    for name, value in zip(node.inputs, inputs, strict=True):
        if name and name not in one.initializers:
            one.add_initializer(ArrayInitializer(name, value, element_type_of(value.dtype)))
    one.add_node(
        node.op_type,
        node.inputs,
        node.outputs,
        domain=node.domain,
        attributes=node.attributes,
        since_version=1,
    )
    one.set_outputs([output for output in node.outputs if output])
    return run_reference(to_model_proto(Model(graph=one, ir_version=10)), {})


def parse(text: str, weights: dict[str, Any] | None = None) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(text if text.lstrip().startswith("<") else HEADER + text)
    for name, array in (weights or {}).items():
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return proto


def named_constants(arrays: dict[str, Any], *texts: str) -> dict[str, Any]:
    """Those of the arrays whose names stand in one of the texts."""
    words = {
        word
        for text in texts
        for word in text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    }
    return {name: array for name, array in arrays.items() if name in words}


def describe(graph: Graph) -> list[str]:
    """The nodes in topological order, a line each."""
    lines = []
    for index in topological_order(graph):
        node = graph.node(index)
        attributes = {name: attribute.value for name, attribute in sorted(node.attributes.items())}
        shown = {
            name: describe(value) if isinstance(value, Graph) else getattr(value, "shape", value)
            for name, value in attributes.items()
        }
        lines.append(
            f"{','.join(node.outputs)} = {node.domain}.{node.op_type} {shown}"
            f" ({','.join(node.inputs)})"
        )
    return lines


def feeds_for(proto: onnx.ModelProto, symbols: int = 3) -> dict[str, Any]:
    generator = np.random.default_rng(_RANDOM_SEED)
    feeds = {}
    for value in proto.graph.input:
        tensor = value.type.tensor_type
        shape = [
            dim.dim_value if dim.HasField("dim_value") else symbols for dim in tensor.shape.dim
        ]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        numbers = generator.standard_normal(shape) * 3
        feeds[value.name] = (
            np.abs(numbers) * 30 if np.dtype(dtype).kind == "u" else numbers
        ).astype(dtype)
    return feeds


def apply(
    transformer: GraphTransformer,
    text: str,
    weights: dict[str, Any] | None = None,
    context: TransformContext | None = None,
    prepare: Callable[[Graph], None] | None = None,
) -> Graph:
    """The graph after the transformer has nothing more to do; it computes what it did before."""
    before = parse(text, weights)
    model = load_model(before)
    infer_types(model)
    if prepare is not None:
        prepare(model.graph)
    context = context or TransformContext(evaluate=evaluate)
    for _ in range(20):
        if not transformer.apply(model.graph, context):
            break
    else:
        pytest.fail("the transformer does not come to an end")
    assert check_consistency(model.graph) == []
    verify_graph(model.graph)
    after = to_model_proto(model)
    feeds = feeds_for(before)
    for expected, actual in zip(
        run_reference(before, feeds), run_reference(after, feeds), strict=True
    ):
        assert np.asarray(actual).dtype == np.asarray(expected).dtype
        if (
            np.asarray(actual).dtype.kind in "iu"
        ):  # a sum that lies halfway may be rounded either way
            np.testing.assert_allclose(actual.astype(np.int64), expected.astype(np.int64), atol=1)
            continue
        np.testing.assert_allclose(
            actual, expected, rtol=2e-3 if actual.dtype == np.float16 else 1e-4, atol=1e-4
        )
    return model.graph


def assert_becomes(
    transformer: GraphTransformer,
    *,
    before: str,
    after: str,
    weights: dict[str, Any] | None = None,
    context: TransformContext | None = None,
) -> Graph:
    """The transformer makes ``after`` of ``before``."""
    graph = apply(transformer, before, weights, context)
    expected = parse(after)
    defined = {value.name for value in expected.graph.input}
    defined |= {tensor.name for tensor in expected.graph.initializer}
    defined |= {name for node in expected.graph.node for name in node.output}
    for name in dict.fromkeys(name for node in expected.graph.node for name in node.input):
        if (
            name and name not in defined
        ):  # a constant; the text says where it goes, running it says what it is
            expected.graph.initializer.append(numpy_helper.from_array(np.zeros(()), name))
    assert describe(graph) == describe(load_model(expected).graph)
    return graph


def assert_unchanged(
    transformer: GraphTransformer,
    text: str,
    weights: dict[str, Any] | None = None,
    context: TransformContext | None = None,
) -> None:
    """The transformer leaves ``text`` as it is."""
    assert_becomes(transformer, before=text, after=text, weights=weights, context=context)
