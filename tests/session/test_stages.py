"""The stages of start-up: their order, optimization levels, and whose kernels run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import ModelError, StatusCode
from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.engine.transformers import TransformLevel
from ortpkg.runtime.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import Allocator, CPUAllocator, ExecutionProvider
from ortpkg.runtime.session import graph_planner, session_state, transformation
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel
from ortpkg.runtime.session.session_state import create_session_state
from tests.session.conftest import model_of, options_of

TEXT = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Neg(b) }"
BRANCHES = """g (bool c, float[2] x) => (float[2] y) {
    y = If (c) <then_branch = inner () => (float[2] p) {
        p = If (c) <then_branch = innermost () => (float[2] q) { q = Neg(x) },
                    else_branch = innermost_too () => (float[2] r) { r = Abs(x) }> },
                else_branch = other () => (float[2] s) { s = Exp(x) }> }"""


class OwnProvider(ExecutionProvider):
    """A device of its own, whose kernels multiply by ``factor`` whatever their operator."""

    def __init__(self, name: str, op_type: str, factor: float) -> None:
        super().__init__(name)
        self.allocated: list[int] = []

        def factory(_info: OpKernelInfo) -> Compute:
            def compute(context: OpKernelContext, x: Tensor) -> Tensor:
                return np.multiply(x, np.float32(factor), out=context.output(0, x.shape, x.dtype))

            return compute

        self._registry = KernelRegistry(
            [KernelDef(op_type=op_type, domain="", since=(13,), factory=factory)]
        )

    @property
    def kernel_registry(self) -> KernelRegistry:
        return self._registry

    def create_allocator(self) -> Allocator:
        return _Device(self)


class _Device(CPUAllocator):
    def __init__(self, provider: OwnProvider) -> None:
        self.name = provider.name
        self._provider = provider

    def allocate(self, nbytes: int) -> Any:
        self._provider.allocated.append(nbytes)
        return super().allocate(nbytes)


@pytest.mark.requirement("P01")
def test_each_provider_runs_its_nodes_by_its_own_kernels_in_the_memory_of_its_device() -> None:
    doubling, tripling = (
        OwnProvider("DoublingProvider", "Neg", 2),
        OwnProvider("TriplingProvider", "Abs", 3),
    )
    model = load_model(model_of(TEXT))
    state = create_session_state(model, options_of(), [doubling, tripling, CPUExecutionProvider()])
    (y,) = state.executable.run([np.ones(2, np.float32)], (), RunControl())

    assert y.tolist() == [2 * 3 * 2] * 2
    assert [(p.provider, len(p.node_names)) for p in state.partitions] == [
        ("DoublingProvider", 2),
        ("TriplingProvider", 1),
    ]
    assert {step.kernel.op_type for step in state.executable.plan.steps} == {"Neg", "Abs"}
    assert doubling.allocated
    assert tripling.allocated


class KernellessProvider(OwnProvider):
    """Whose factory forgets to return the kernel."""

    def __init__(self) -> None:
        super().__init__("KernellessProvider", "Abs", 1)
        self._registry = KernelRegistry(
            [
                KernelDef(
                    op_type="Abs",
                    since=(13,),
                    factory=lambda _info: None,  # type: ignore[arg-type, return-value]
                )
            ]
        )


@pytest.mark.requirement("P15")
@pytest.mark.parametrize("profiler", [None, Profiler()])
def test_a_node_whose_kernel_is_none_is_a_failure_that_names_it(profiler: Profiler | None) -> None:
    with pytest.raises(
        ModelError, match=r"no kernel for node 'Abs_.* \(Abs\): KernellessProvider made NoneType"
    ) as caught:
        create_session_state(
            load_model(model_of(TEXT)),
            options_of(),
            [KernellessProvider(), CPUExecutionProvider()],
            profiler,
        )
    assert (caught.value.code, (caught.value.node_name or "")[:4]) == (StatusCode.FAIL, "Abs_")


@pytest.mark.requirement("P04")
def test_stages_run_in_order_and_sub_graphs_are_planned_before_the_graph_around_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages: list[str] = []

    def spied(module: ModuleType, name: str, label: Callable[..., str]) -> None:
        original = getattr(module, name)

        def spy(*arguments: Any, **options: Any) -> Any:
            stages.append(label(*arguments))
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, spy)

    def planned(viewer: Any, *_rest: Any) -> str:
        graph: Graph = viewer.graph
        return f"plan {graph.name}"

    spied(session_state, "infer_types", lambda _model: "infer")
    spied(transformation, "infer_types", lambda _model: "infer")
    spied(
        transformation,
        "apply_transformers",
        lambda _model, level, *_: f"transform {TransformLevel(level).name}",
    )
    spied(session_state, "partition_graph", lambda *_: "partition")
    spied(graph_planner, "create_execution_plan", planned)
    create_session_state(load_model(model_of(BRANCHES)), options_of(), [CPUExecutionProvider()])

    assert [stage for stage in stages if stage != "infer"] == [
        "transform BASIC",
        "partition",
        "transform DEFAULT",
        "transform EXTENDED",
        "transform LAYOUT",
        "plan innermost",
        "plan innermost_too",
        "plan inner",
        "plan other",
        "plan g",
    ]
    assert stages[0] == "infer"


@pytest.mark.requirement("P17")
@pytest.mark.parametrize("level", GraphOptimizationLevel, ids=lambda level: level.name)
def test_casts_that_a_provider_needs_are_inserted_at_every_optimization_level(
    level: GraphOptimizationLevel,
) -> None:
    """The CPU provider here has a Relu for float only: float16 takes casts around it."""
    registry = CPUExecutionProvider().kernel_registry
    kernels = [
        definition
        for definition in registry.definitions()
        if definition.op_type in {"Cast", "Identity", "Relu"}
    ]
    narrow = KernelRegistry(
        [
            replace(definition, types={"T": frozenset({ElementType.FLOAT})})
            if definition.op_type == "Relu"
            else definition
            for definition in kernels
        ]
    )
    model = load_model(
        model_of("g (float16[2] x) => (float16[2] y) { i = Identity(x) y = Relu(i) }")
    )
    options = options_of(graph_optimization_level=level)
    state = create_session_state(model, options, [CPUExecutionProvider(registry=narrow)])
    (y,) = state.executable.run([np.array([-1, 2], np.float16)], (), RunControl())

    operators = [step.op_type for step in state.executable.plan.steps]
    assert operators[-3:] == ["Cast", "Relu", "Cast"]
    assert ("Identity" in operators) == (level is GraphOptimizationLevel.ORT_DISABLE_ALL)
    assert (y.dtype, y.tolist()) == (np.float16, [0, 2])


@pytest.mark.parametrize("level", GraphOptimizationLevel, ids=lambda level: level.name)
def test_float16_nodes_pass_float32_on_at_every_optimization_level_as_in_onnxruntime(
    level: GraphOptimizationLevel,
) -> None:
    """90,000 is past float16's range; its root is not."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = model_of(
        "g (float16[2] x) => (float16[2] y) { s = Mul(x, x) r = Sqrt(s) y = Add(r, x) }"
    )
    x = np.array([300, 0.1], np.float16)
    peer_options = onnxruntime.SessionOptions()
    peer_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(int(level))
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), peer_options, providers=["CPUExecutionProvider"]
    )
    session = InferenceSession(
        model.SerializeToString(), options_of(graph_optimization_level=level)
    )

    (y,) = session.run(None, {"x": x})

    assert y.tolist() == peer.run(None, {"x": x})[0].tolist() == [600, np.float16(2 * x[1])]


@pytest.mark.requirement("P03")
def test_kernels_are_looked_for_and_bound_when_a_session_is_made_and_never_in_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step of the plan holds its node's kernel, by the place of the node in the plan."""
    found: list[str] = []
    find = KernelRegistry.try_find_kernel

    def counted(self: KernelRegistry, node: Any, types: Any) -> KernelDef | None:
        found.append(node.op_type)
        return find(self, node, types)

    monkeypatch.setattr(KernelRegistry, "try_find_kernel", counted)
    own = OwnProvider("Own", "Abs", 3)
    state = create_session_state(
        load_model(model_of(TEXT)), options_of(), [own, CPUExecutionProvider()]
    )
    assert {"Neg", "Abs"} <= set(found)
    computes = [instruction.compute for instruction in state.executable.instructions]
    found.clear()

    for _ in range(3):
        (y,) = state.executable.run([np.ones(2, np.float32)], (), RunControl())
        assert y.tolist() == [3, 3]

    assert found == []
    assert [instruction.compute for instruction in state.executable.instructions] == computes
