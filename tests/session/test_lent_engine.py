"""The session's engine, lent to a provider: a graph of kernels that it runs by itself."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.foundations.errors import CancelledError, LimitExceededError, RunError
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.plain_context import PlainContext
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.kernels import quantization
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.op_kernel_info import NodeKernelInfo
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import FusedNode, GraphViewer, PlannedGraph
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.lent_engine import SessionGraphEngine
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions
from ortpkg.runtime.session.session_state import SessionState, create_session_state

_TEXT = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
#: A product with a bias and an activation, a normalization spelled out, and batch normalization
#: after a convolution.
_FUSIBLE = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2, 3, 8, 8] x) => (float[2, 4] y)
<int64[1] axis = {-1}, float two = {2}, float tiny = {0.00001}, float[4] scale = {1, 2, 3, 4},
 float[4] shift = {4, 3, 2, 1}, float[4] mean = {0.5, 0.25, 0, 1}, float[4] variance = {1, 2, 1, 2}>
{
    c = Conv<pads = [1, 1, 1, 1]>(x, filter)
    n = BatchNormalization(c, scale, shift, mean, variance)
    r = Relu(n)
    p = GlobalAveragePool(r)
    f = Flatten(p)
    m = MatMul(f, w)
    b = Add(m, shift)
    a = Tanh(b)
    u = ReduceMean(a, axis)
    d = Sub(a, u)
    q = Pow(d, two)
    v = ReduceMean(q, axis)
    e = Add(v, tiny)
    s = Sqrt(e)
    z = Div(d, s)
    t = Mul(z, scale)
    y = Add(t, shift)
}"""


class _Partition:
    def __init__(self, planned: PlannedGraph) -> None:
        self.planned = planned

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        return self.planned.run(inputs, context)


class _GraphsOfKernels(CompilingProvider):
    """Takes each node; its partitions are graphs that the lent engine optimizes, plans and runs.

    Attributes:
        graphs: what was planned, in order.
        info_of: what kernel factories see of a node.
    """

    def __init__(self, info_of: Callable[[Graph, Node], OpKernelInfo] = NodeKernelInfo) -> None:
        super().__init__("KernelGraphExecutionProvider")
        self.graphs: list[Graph] = []
        self.planned: list[PlannedGraph] = []
        self.info_of = info_of

    def supported_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        del types_of
        return [node.index for node in viewer.nodes]

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        assert self.graph_engine is not None
        graph, kernels = _copied(fused.body), CPUExecutionProvider()
        self.graph_engine.optimize(graph, kernels)
        self.graphs.append(graph)
        self.planned.append(self.graph_engine.plan(graph, kernels, self.info_of))
        return _Partition(self.planned[-1])

    def describe_environment(self) -> ContextDescriptor:
        return ContextDescriptor(ep=self.name, sdk_version="1", device="CPU")

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:
        raise NotImplementedError

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        raise NotImplementedError

    def close(self) -> None:
        for each in self.planned:
            each.release()


def _copied(graph: Graph) -> Graph:
    copy = Graph(graph.name, opset_imports=graph.opset_imports)
    copy.set_inputs(graph.inputs)
    copy.set_outputs(graph.outputs)
    for initializer in graph.initializers.values():
        copy.add_initializer(initializer)
    for node in graph.nodes:
        copy.add_copy(node)
    for value in sorted(graph.types):
        copy.set_type(value, graph.types[value])
    return copy


def _saved(folder: Path, text: str, **weights: np.ndarray) -> Path:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    onnx.save(proto, folder / "net.onnx")
    return folder / "net.onnx"


def _state_of(
    path: Path,
    provider: CompilingProvider,
    *,
    level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL,
) -> SessionState:
    options = SessionOptions()
    options.graph_optimization_level = level
    return create_session_state(load_model(path), options, [provider, CPUExecutionProvider()])


def _chain_model(folder: Path) -> Path:
    steps = "  ".join(f"v{i + 1} = {'Sin' if i % 2 else 'Exp'}(v{i})" for i in range(7))
    return _saved(
        folder,
        f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] v0) => (float[N] v8) {{ {steps}  v8 = Cos(v7) }}""",
    )


def test_a_planned_graph_runs_in_the_trial_of_a_context_as_well() -> None:
    graph = load_model(onnx.parser.parse_model(_TEXT).SerializeToString()).graph
    planned = SessionGraphEngine(SessionOptions()).plan(
        graph, CPUExecutionProvider(), NodeKernelInfo
    )
    (y,) = planned.run([np.ones(2, np.float32)], PlainContext(RunControl()))
    assert y.tolist() == [-1.0, -1.0]


def test_constants_are_folded_even_where_the_engine_folds_nothing(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}>
    { s = Add(a, b)  t = Mul(s, s)  y = Add(x, t) }"""
    provider = _GraphsOfKernels()
    state = _state_of(
        _saved(tmp_path, text), provider, level=GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    (graph,) = provider.graphs
    assert [node.op_type for node in graph.nodes] == ["Add"]
    assert list(graph.initializers) == ["t"]
    (y,) = state.run([np.array([1, 1], np.float32)], RunControl())
    np.testing.assert_array_equal(y, [17, 37])


@pytest.mark.parametrize(
    "level", [GraphOptimizationLevel.ORT_DISABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL]
)
def test_a_partition_is_what_a_session_at_the_highest_level_would_run(
    tmp_path: Path, level: GraphOptimizationLevel
) -> None:
    random = np.random.default_rng(5)
    weights = {"filter": (4, 3, 3, 3), "w": (4, 4)}
    path = _saved(
        tmp_path,
        _FUSIBLE,
        **{key: random.standard_normal(of).astype(np.float32) for key, of in weights.items()},
    )
    plain = SessionOptions()
    plain.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    x = random.standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = InferenceSession(path, plain).run(None, {"x": x})[0]
    optimized = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert len(optimized) < len(onnx.load(path).graph.node)
    provider = _GraphsOfKernels()
    state = _state_of(path, provider, level=level)
    (graph,) = provider.graphs
    assert [graph.node(index).op_type for index in topological_order(graph)] == optimized
    np.testing.assert_array_equal(state.run([x], RunControl())[0], expected)


def test_a_run_takes_no_memory_but_that_of_its_outputs(tmp_path: Path) -> None:
    state = _state_of(_chain_model(tmp_path), _GraphsOfKernels())
    x = np.linspace(-1, 1, 1 << 18, dtype=np.float32)
    for _ in range(2):  # the first run of a shape lays its memory out, the second takes it
        state.run([x], RunControl())
    tracemalloc.start()
    try:
        state.run([x], RunControl())
        _, peak_nbytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert x.nbytes <= peak_nbytes < 1.5 * x.nbytes


def test_a_released_graph_keeps_no_memory(tmp_path: Path) -> None:
    provider = _GraphsOfKernels()
    state = _state_of(_chain_model(tmp_path), provider)
    x = np.linspace(-1, 1, 1 << 18, dtype=np.float32)
    tracemalloc.start()
    try:
        for _ in range(3):
            state.run([x], RunControl())
        open_nbytes, _ = tracemalloc.get_traced_memory()
        provider.close()
        closed_nbytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert open_nbytes >= x.nbytes
    assert closed_nbytes < x.nbytes / 4


def test_every_size_of_a_dynamic_dimension_is_right(tmp_path: Path) -> None:
    path = _chain_model(tmp_path)
    state, plain = _state_of(path, _GraphsOfKernels()), InferenceSession(path)
    for size in (5, 1, 5, 300, 1, 0, 300):
        x = np.linspace(-1, 1, size, dtype=np.float32)
        np.testing.assert_array_equal(
            state.run([x], RunControl())[0], plain.run(None, {"v0": x})[0]
        )


def test_what_a_kernel_lays_out_can_be_kept_and_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Tensor] = {}

    class Keeping(NodeKernelInfo):
        def prepacked(self, name: str, make: Callable[[], Tensor]) -> Tensor:
            return kept[name] if name in kept else kept.setdefault(name, make())

    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (uint8[2, 64] x) => (int32[2, 32] y) { y = MatMulInteger(x, w) }"""
    weights = np.arange(64 * 32, dtype=np.int32).astype(np.int8).reshape(64, 32)
    path = _saved(tmp_path, text, w=weights)
    x = np.arange(128, dtype=np.uint8).reshape(2, 64)
    expected = InferenceSession(path).run(None, {"x": x})[0]
    _state_of(path, _GraphsOfKernels(Keeping))
    assert kept

    def fail(*_arguments: object) -> None:
        raise AssertionError("the kernel lays its weights out again")

    monkeypatch.setattr(quantization, "integer_matrix", fail)
    monkeypatch.setattr(quantization, "bounds_of", fail)
    state = _state_of(path, _GraphsOfKernels(Keeping))
    np.testing.assert_array_equal(state.run([x], RunControl())[0], expected)


def test_outputs_are_the_callers_own(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[1, 2] y, float[2, 1] z, float[2] w) <int64[2] a = {1, 2}, int64[2] b = {2, 1}>
    { y = Reshape(x, a)  z = Reshape(x, b)  w = Identity(x) }"""
    x = np.array([1, 2], np.float32)
    outputs = _state_of(_saved(tmp_path, text), _GraphsOfKernels()).run([x], RunControl())
    for number, array in enumerate(outputs):
        array += number + 1
    np.testing.assert_array_equal(x, [1, 2])
    assert [array.reshape(-1).tolist() for array in outputs] == [[2, 3], [3, 4], [4, 5]]


def test_a_partition_that_is_the_whole_model_divides_by_zero_in_silence(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) { e = Exp(x)  r = Reciprocal(x)  y = Add(e, r) }"""
    state = _state_of(_saved(tmp_path, text), _GraphsOfKernels())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (y,) = state.run([np.zeros(2, np.float32)], RunControl())
    np.testing.assert_array_equal(y, [np.inf, np.inf])


def test_limits_and_cancelling_reach_into_partitions(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (int64[1] n) => (float y) { a = ConstantOfShape(n)  b = Exp(a)  y = ReduceSum<keepdims=0>(b) }"""
    state = _state_of(_saved(tmp_path, text), _GraphsOfKernels())
    with pytest.raises(LimitExceededError):
        state.run([np.array([1 << 20], np.int64)], RunControl(memory_limit_nbytes=1 << 20))
    with pytest.raises(CancelledError):
        state.run([np.array([4], np.int64)], RunControl(is_terminated=lambda: True))


def test_an_error_names_the_node_inside_the_partition(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] x, float[M] z) => (float[K] y) { e = Exp(x)  y = Add(e, z) }"""
    state = _state_of(_saved(tmp_path, text), _GraphsOfKernels())
    with pytest.raises(RunError, match="Add"):
        state.run([np.ones(2, np.float32), np.ones(3, np.float32)], RunControl())
