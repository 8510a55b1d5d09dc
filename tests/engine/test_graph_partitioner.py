"""First come, first served: what each provider gets of a graph, and what becomes of its claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import (
    CompileError,
    ExecutionProviderError,
    KernelNotFoundError,
    StatusCode,
)
from ortpkg.foundations.errors.onnxruntime_exceptions import NotImplemented as OrtNotImplemented
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.graph_partitioner import partition_graph
from ortpkg.runtime.engine.kernel_lookup import find_kernels
from ortpkg.runtime.engine.partition import PartitionResult
from ortpkg.runtime.kernels.kernel_registry import KernelRegistry
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from tests.engine.plan_factories import fake_kernel
from tests.session.conftest import model_of

TEXT = """g (float[2] x) => (float[2] y) {
    [n0] a = Neg(x)
    [n1] b = Abs(a)
    [n2] c = Exp(b)
    [n3] y = Add(c, a)
}"""

Claim = Callable[[GraphViewer], list[ComputeCapability]]


class ClaimingProvider(ExecutionProvider):
    """A provider that claims what it is told to; its fused nodes return their first input."""

    def __init__(
        self, claim: Claim, *, name: str = "ClaimingExecutionProvider", compiles: int | None = None
    ) -> None:
        super().__init__(name)
        self.claim = claim
        self.compiles = compiles
        self.compiled: list[FusedNode] = []
        self.asked: list[list[str]] = []

    @property
    def kernel_registry(self) -> KernelRegistry:
        return KernelRegistry([fake_kernel("Neg"), fake_kernel("Abs")])

    def find_kernel(self, node: Node, types: Mapping[str, ElementType]) -> Any:
        return fake_kernel(node.op_type) if node.op_type in {"Neg", "Abs"} else None

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        self.asked.append([node.name for node in viewer.nodes])
        return self.claim(viewer)

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        self.compiled += fused_nodes
        count = len(fused_nodes) if self.compiles is None else self.compiles
        return [NodeComputeInfo(compute=lambda _state, inputs, _context: [inputs[0]])] * count


def graph_of(text: str = TEXT) -> Graph:
    model = load_model(model_of(text))
    infer_types(model)
    return model.graph


def single(*indices: int) -> Claim:
    return lambda viewer: [ComputeCapability(node_indices=(index,)) for index in indices]


def fused(
    indices: Sequence[int],
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("b",),
    name: str = "fused",
) -> Claim:
    meta = MetaDef(name=name, inputs=tuple(inputs), outputs=tuple(outputs))
    return lambda viewer: [ComputeCapability(node_indices=tuple(indices), meta_def=meta)]


def partition(graph: Graph, *providers: ExecutionProvider) -> PartitionResult:
    return partition_graph(graph, [*providers, CPUExecutionProvider()])


def assigned(graph: Graph) -> dict[str, str]:
    return {
        node.name: node.execution_provider.removesuffix("ExecutionProvider") for node in graph.nodes
    }


@pytest.mark.requirement("D05")
@pytest.mark.requirement("P06")
@pytest.mark.requirement("P07")
@pytest.mark.requirement("P14")
def test_claimed_nodes_go_to_their_provider_and_the_rest_to_cpu() -> None:
    graph = graph_of()
    result = partition(graph, ClaimingProvider(single(0, 2)))
    assert assigned(graph) == {"n0": "Claiming", "n1": "CPU", "n2": "Claiming", "n3": "CPU"}
    assert [(p.provider, p.node_names) for p in result.partitions] == [
        ("ClaimingExecutionProvider", ("n0", "n2")),
        ("CPUExecutionProvider", ("n1", "n3")),
    ]


@pytest.mark.requirement("P10")
@pytest.mark.requirement("P11")
def test_first_provider_in_order_keeps_a_node() -> None:
    first = ClaimingProvider(single(0, 1), name="First")
    second = ClaimingProvider(single(1, 2), name="Second")
    graph = graph_of()
    partition(graph, first, second)
    assert assigned(graph) == {"n0": "First", "n1": "First", "n2": "Second", "n3": "CPU"}


@pytest.mark.requirement("P10")
def test_fused_claim_with_a_taken_node_falls_as_a_whole() -> None:
    graph = graph_of()
    greedy = ClaimingProvider(fused([0, 1], outputs=("a", "b")), name="Greedy")
    partition(graph, ClaimingProvider(single(1), name="First"), greedy)
    assert assigned(graph) == {"n0": "CPU", "n1": "First", "n2": "CPU", "n3": "CPU"}
    assert greedy.compiled == []


@pytest.mark.requirement("D07")
def test_fused_claim_becomes_one_node_with_its_body() -> None:
    graph = graph_of()
    provider = ClaimingProvider(fused([1, 2], inputs=("a",), outputs=("c",)))
    result = partition(graph, provider)
    assert assigned(graph) == {"n0": "CPU", "fused": "Claiming", "n3": "CPU"}
    body = provider.compiled[0].body
    assert [node.op_type for node in body.nodes] == ["Abs", "Exp"]
    assert (body.inputs, body.outputs) == (("a",), ("c",))
    assert result.partitions[0].fused_node == "fused"
    assert [node.name for node in result.fused] == ["fused"]


@pytest.mark.requirement("D06")
def test_provider_may_have_several_partitions() -> None:
    graph = graph_of()
    claims = [
        fused([0], outputs=("a",), name="f0"),
        fused([2], inputs=("b",), outputs=("c",), name="f1"),
    ]
    provider = ClaimingProvider(lambda viewer: [claim(viewer)[0] for claim in claims])
    result = partition(graph, provider)
    assert [partition.fused_node for partition in result.partitions] == ["f0", "f1", ""]


@pytest.mark.requirement("P08")
def test_wrong_number_of_compute_functions_is_an_error() -> None:
    with pytest.raises(
        CompileError, match="returned 2 compute functions for 1 fused nodes"
    ) as caught:
        partition(graph_of(), ClaimingProvider(fused([0, 1], outputs=("a", "b")), compiles=2))
    assert caught.value.ep_name == "ClaimingExecutionProvider"


@pytest.mark.requirement("P18")
def test_capability_of_two_nodes_without_meta_definition_is_an_error() -> None:
    claim: Claim = lambda viewer: [ComputeCapability(node_indices=(0, 1))]  # noqa: E731
    with pytest.raises(ExecutionProviderError, match="claims 2 nodes without a meta definition"):
        partition(graph_of(), ClaimingProvider(claim))


def test_claim_that_would_make_a_cycle_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    graph = graph_of()
    partition(graph, ClaimingProvider(fused([0, 3], outputs=("a", "y"))))
    assert assigned(graph) == dict.fromkeys(["n0", "n1", "n2", "n3"], "CPU")
    assert "would depend on itself" in caplog.text


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (
            fused([0, 1], inputs=(), outputs=("a", "b")),
            "takes 'x', which its meta definition does not name as an input",
        ),
        (
            fused([0, 1], outputs=("b",)),
            "makes 'a', which its meta definition does not name as an output",
        ),
        (
            fused([0], outputs=("a", "c")),
            "does not make 'c', which its meta definition names as an output",
        ),
    ],
)
def test_meta_definition_must_cover_what_flows(claim: Claim, message: str) -> None:
    with pytest.raises(ExecutionProviderError, match=message):
        partition(graph_of(), ClaimingProvider(claim))


@pytest.mark.requirement("P12")
def test_default_capability_is_every_node_with_a_kernel() -> None:
    graph = graph_of()
    provider = ClaimingProvider(
        lambda viewer: ExecutionProvider.get_capability(provider, viewer, lambda node: {})
    )
    partition(graph, provider)
    assert assigned(graph) == {"n0": "Claiming", "n1": "Claiming", "n2": "CPU", "n3": "CPU"}


@pytest.mark.requirement("P13")
def test_provider_may_look_at_a_node_before_it_claims_it() -> None:
    graph = graph_of()
    provider = ClaimingProvider(
        lambda viewer: [
            ComputeCapability(node_indices=(n.index,)) for n in viewer.nodes if n.inputs == ("x",)
        ]
    )
    partition(graph, provider)
    assert [name for name, ep in assigned(graph).items() if ep == "Claiming"] == ["n0"]


@pytest.mark.requirement("D11")
@pytest.mark.requirement("M03")
@pytest.mark.requirement("P15")
def test_node_without_any_kernel_is_an_error_with_operator_opset_and_types() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { [odd] y = com.example.Frobnicate(x) }")
    model.opset_import.add(domain="com.example", version=3)
    graph = load_model(model).graph
    provider = CPUExecutionProvider()
    result = partition_graph(graph, [provider])
    with pytest.raises(
        KernelNotFoundError, match=r"operator 'Frobnicate' .* types \(T=float\), at node 'odd'"
    ) as caught:
        find_kernels(graph, [provider], result.fused)
    assert (caught.value.code, caught.value.op_type) == (StatusCode.FAIL, "Frobnicate")
    assert isinstance(caught.value, OrtNotImplemented), "as onnxruntime has it"


def test_graphs_inside_nodes_are_partitioned_too() -> None:
    text = """g (bool flag, float[2] x) => (float[2] y) {
        [choice] y = If (flag) <then_branch = t () => (float[2] r) { r = Neg(x) },
                                else_branch = e () => (float[2] r) { r = Exp(x) }>
    }"""
    by_kernel: Claim = lambda viewer: ExecutionProvider.get_capability(  # noqa: E731
        provider, viewer, lambda node: {}
    )
    provider = ClaimingProvider(by_kernel)
    result = partition(graph_of(text), provider)
    found = {(p.graph_path, p.op_types): p.provider for p in result.partitions}
    assert found["choice.then_branch", ("Neg",)] == "ClaimingExecutionProvider"
    assert found["choice.else_branch", ("Exp",)] == "CPUExecutionProvider"


def test_weights_of_a_fused_partition_go_along() -> None:
    graph = graph_of(
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) y = Neg(a) }"
    )
    provider = ClaimingProvider(fused([0, 1], outputs=("y",)))
    partition(graph, provider)
    np.testing.assert_array_equal(provider.compiled[0].body.initializers["w"].numpy(), [1, 2])


@pytest.mark.parametrize("named", [(99,), ("Neg_0",), (-1,)])
def test_a_claim_of_nodes_that_are_not_there_is_an_error(named: tuple[Any, ...]) -> None:
    for meta in (None, MetaDef(name="f", inputs=("x",), outputs=("y",))):
        provider = ClaimingProvider(
            lambda _viewer, meta=meta: [ComputeCapability(node_indices=named, meta_def=meta)]  # type: ignore[misc]
        )
        with pytest.raises(
            ExecutionProviderError, match=r"get_capability names .*no node of that index"
        ):
            partition_graph(load_model(model_of(TEXT)).graph, [provider, CPUExecutionProvider()])


def test_the_nodes_of_a_partition_come_after_those_that_they_need() -> None:
    body = Graph("body", opset_imports={"": 17})
    body.set_inputs(["x"])
    body.set_outputs(["c"])
    for taken, made in (("b", "c"), ("a", "b"), ("x", "a")):
        body.add_node("Neg", [taken], [made], name=made)
    fused = FusedNode(node=next(body.nodes), body=body)
    assert [node.name for node in fused.body.nodes] == ["c", "b", "a"]
    assert [node.name for node in fused.nodes] == ["a", "b", "c"]
