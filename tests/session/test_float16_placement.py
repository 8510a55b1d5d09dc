"""Float16 models on providers that compute in float32: casts come before the partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ortpkg.graph.graph import Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.session.options import GraphOptimizationLevel
from ortpkg.runtime.session.session_state import SessionState, create_session_state
from tests.session.conftest import model_of, options_of

TEXT = """g (float16[2,3] x) => (float16[3,2] y, float16[2,3] z) {
    a = Exp(x)
    b = Relu(a)
    c = Transpose<perm = [1, 0]>(b)
    y = Relu(c)
    z = Abs(a)
}"""
X = np.array([[-1, 0, 1], [2, 3, 4]], np.float16)


def relu(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        return np.maximum(x, 0, out=context.output(0, x.shape, x.dtype))

    return compute


def transpose(_info: OpKernelInfo) -> Compute:
    return lambda _context, x: x.T.copy()


KERNELS = {"Relu": (14, relu), "Transpose": (21, transpose)}


class KernelProvider(ExecutionProvider):
    """Has kernels of its own for Relu, and for Transpose, of some types."""

    def __init__(
        self, *types: ElementType, op_types: Sequence[str] = ("Relu", "Transpose")
    ) -> None:
        super().__init__("KernelExecutionProvider")
        self._registry = KernelRegistry(
            KernelDef(
                op_type=op_type, since=(since,), factory=factory, types={"T": frozenset(types)}
            )
            for op_type, (since, factory) in KERNELS.items()
            if op_type in op_types
        )

    @property
    def kernel_registry(self) -> KernelRegistry:
        return self._registry


class FusingProvider(ExecutionProvider):
    """Compiles each float32 Relu alone, and asks nothing but ``types_of``."""

    def __init__(self) -> None:
        super().__init__("FusingExecutionProvider")
        self.compilations = 0

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        return [
            ComputeCapability(
                node_indices=(node.index,),
                meta_def=MetaDef(
                    name=f"Fused_{node.name}", inputs=node.inputs, outputs=node.outputs
                ),
            )
            for node in viewer.nodes
            if node.op_type == "Relu" and types_of(node) == {"T": ElementType.FLOAT}
        ]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        def compute(_state: Any, inputs: Sequence[Any], _context: OpKernelContext) -> Sequence[Any]:
            assert inputs[0].dtype == np.float32
            return [np.maximum(inputs[0], 0)]

        self.compilations += 1
        return [NodeComputeInfo(compute=compute)] * len(fused_nodes)


def state_of(provider: ExecutionProvider, level: int = 99, text: str = TEXT) -> SessionState:
    options = options_of(graph_optimization_level=GraphOptimizationLevel(level))
    return create_session_state(
        load_model(model_of(text)), options, [provider, CPUExecutionProvider()]
    )


def taken(state: SessionState, provider: ExecutionProvider) -> list[str]:
    return [
        op for each in state.partitions if each.provider == provider.name for op in each.op_types
    ]


def operators(state: SessionState) -> list[str]:
    return sorted(step.op_type for step in state.executable.plan.steps)


@pytest.mark.requirement("D04")
@pytest.mark.parametrize("level", GraphOptimizationLevel, ids=lambda level: level.name)
@pytest.mark.parametrize(
    "provider", [KernelProvider(ElementType.FLOAT), FusingProvider()], ids=["kernels", "compiling"]
)
def test_provider_with_a_float32_kernel_gets_the_nodes_of_a_float16_model_with_casts(
    provider: ExecutionProvider, level: int
) -> None:
    state = state_of(provider, level)
    y, z = state.executable.run([X], (), RunControl())
    assert taken(state, provider).count("Relu") == 2
    assert (y.dtype, z.dtype) == (np.float16, np.float16)
    np.testing.assert_allclose(y, np.exp(X.astype(np.float32)).T, rtol=1e-3)
    np.testing.assert_allclose(z, np.exp(X.astype(np.float32)), rtol=1e-3)


@pytest.mark.requirement("D04")
def test_what_lies_between_two_such_nodes_stays_in_float32() -> None:
    provider = KernelProvider(ElementType.FLOAT)
    state = state_of(provider)
    assert sorted(taken(state, provider)) == ["Relu", "Relu", "Transpose"]
    assert operators(state).count("Cast") == 3, "one at the input, two at the outputs"


@pytest.mark.requirement("D04")
def test_all_sub_graphs_of_a_provider_are_compiled_at_once() -> None:
    provider = FusingProvider()
    state_of(provider)
    assert provider.compilations == 1


@pytest.mark.parametrize(
    "provider",
    [
        KernelProvider(ElementType.FLOAT16, ElementType.FLOAT),
        KernelProvider(ElementType.FLOAT, op_types=("Transpose",)),
        KernelProvider(ElementType.DOUBLE),
    ],
    ids=["float16 itself", "moves only", "neither"],
)
def test_no_cast_is_made_for_a_provider_that_gains_nothing_by_it(provider: KernelProvider) -> None:
    text = "g (float16[2,3] x) => (float16[3,2] y) { b = Transpose(x) y = Relu(b) }"
    second = KernelProvider(ElementType.FLOAT16)
    second.name = "SecondExecutionProvider"
    state = create_session_state(
        load_model(model_of(text)), options_of(), [provider, second, CPUExecutionProvider()]
    )
    assert operators(state) == ["Relu", "Transpose"]


@pytest.mark.requirement("D04")
@pytest.mark.requirement("P10")
def test_the_first_provider_gets_a_node_with_casts_before_the_second_is_asked() -> None:
    first, second = KernelProvider(ElementType.FLOAT), KernelProvider(ElementType.FLOAT16)
    second.name = "SecondExecutionProvider"
    model = load_model(model_of(TEXT))
    state = create_session_state(model, options_of(), [first, second, CPUExecutionProvider()])
    assert taken(state, first).count("Relu") == 2
    assert taken(state, second) == []
