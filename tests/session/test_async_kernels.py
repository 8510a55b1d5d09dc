"""Asynchronous and non-strict nodes: nobody waits too early, nothing is written over."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import CancelledError, LimitExceededError, RunError
from ortpkg.graph.graph import Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, OpKernelInfo
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.session import graph_planner
from ortpkg.runtime.session.options import ExecutionMode
from ortpkg.runtime.session.session_state import SessionState, create_session_state
from tests.session.conftest import model_of, options_of

LONGEST_S = 20.0
SIZE = 300
X = np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32)
POOL = ThreadPoolExecutor(8)

ComputeInputs = Callable[[Sequence[Any]], Any]


class Fusing(ExecutionProvider):
    """Fuses each node of one operator alone, and computes it as it is told to."""

    def __init__(
        self,
        op_type: str,
        compute: ComputeInputs,
        *,
        is_async: bool = False,
        is_strict: bool = True,
    ) -> None:
        super().__init__(f"{op_type}ExecutionProvider")
        self._op_type = op_type
        self._compute = compute
        self._is_async = is_async
        self._is_strict = is_strict

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        return [
            ComputeCapability(
                node_indices=(node.index,),
                meta_def=MetaDef(
                    name=f"{self._op_type}_{node.outputs[0]}",
                    inputs=node.inputs,
                    outputs=node.outputs,
                ),
            )
            for node in viewer.nodes
            if node.op_type == self._op_type
        ]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        def compute(_state: Any, inputs: Sequence[Any], _context: OpKernelContext) -> Any:
            return self._compute(inputs)

        return [
            NodeComputeInfo(compute=compute, is_async=self._is_async, is_strict=self._is_strict)
            for _ in fused_nodes
        ]


def in_background(function: ComputeInputs) -> ComputeInputs:
    return lambda inputs: POOL.submit(function, inputs)


def state_of(
    text: str, *providers: ExecutionProvider, profiler: Profiler | None = None, **options: Any
) -> SessionState:
    return create_session_state(
        load_model(model_of(text)),
        options_of(**options),
        [*providers, CPUExecutionProvider()],
        profiler,
    )


def run(state: SessionState, control: RunControl | None = None) -> Any:
    return state.executable.run([X], (), control or RunControl())[0]


def wait_for(event: threading.Event) -> None:
    assert event.wait(LONGEST_S), "nobody ran meanwhile"


BESIDE = (
    f"g (float[{SIZE},{SIZE}] x) => (float[{SIZE},{SIZE}] y) {{ a = Exp(x) b = Neg(x) y = Add(a,"
    " b) }"
)


@pytest.mark.requirement("D07")
def test_other_nodes_run_while_an_asynchronous_one_is_under_way() -> None:
    is_negated = threading.Event()

    def exp(inputs: Sequence[Any]) -> list[Any]:
        wait_for(is_negated)
        return [np.exp(inputs[0])]

    def neg(inputs: Sequence[Any]) -> list[Any]:
        is_negated.set()
        return [-inputs[0]]

    state = state_of(BESIDE, Fusing("Exp", in_background(exp), is_async=True), Fusing("Neg", neg))
    np.testing.assert_allclose(run(state), np.exp(X) - X, rtol=1e-5)


@pytest.mark.parametrize(
    "is_alone", [True, False], ids=["asynchronous but alone", "nothing asynchronous"]
)
def test_where_nothing_overlaps_nodes_run_in_plain_order(
    is_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exp(inputs: Sequence[Any]) -> list[Any]:
        return [np.exp(inputs[0])]

    monkeypatch.setattr(graph_planner, "AsyncExecutor", None)  # cannot be made
    text = (
        f"g (float[{SIZE},{SIZE}] x) => (float[{SIZE},{SIZE}] y) {{ y = Exp(x) }}"
        if is_alone
        else BESIDE
    )
    state = state_of(
        text, *([Fusing("Exp", in_background(exp), is_async=True)] if is_alone else [])
    )
    np.testing.assert_allclose(run(state), np.exp(X) if is_alone else np.exp(X) - X, rtol=1e-5)


#: Everything after p could take its memory, were it not read by a node that is under way until c is
#: made.
CHAIN = f"""g (float[{SIZE},{SIZE}] x) => (float[{SIZE},{SIZE}] y) {{
    p = Tanh(x)
    a = Exp(p)
    b = Sin(x)
    c = Cos(b)
    d = Neg(c)
    y = Add(a, d)
}}"""


@pytest.mark.requirement("D07")
@pytest.mark.requirement("M09")
@pytest.mark.parametrize("shape", [f"[{SIZE},{SIZE}]", "[M,N]"], ids=["static", "dynamic"])
@pytest.mark.parametrize("pattern", [True, False], ids=["pattern", "plain"])
def test_what_an_asynchronous_node_reads_stays_until_it_is_done(shape: str, pattern: bool) -> None:
    is_over = threading.Event()

    def exp(inputs: Sequence[Any]) -> list[Any]:
        wait_for(is_over)
        return [np.exp(inputs[0])]

    def neg(inputs: Sequence[Any]) -> list[Any]:
        is_over.set()
        return [-inputs[0]]

    text = CHAIN.replace(f"[{SIZE},{SIZE}]", shape)
    providers = (Fusing("Exp", in_background(exp), is_async=True), Fusing("Neg", neg))
    state = state_of(text, *providers, enable_mem_pattern=pattern)
    for _ in range(3):
        is_over.clear()
        np.testing.assert_allclose(
            run(state), np.exp(np.tanh(X)) - np.cos(np.sin(X)), rtol=1e-4, atol=1e-5
        )


@pytest.mark.requirement("D07")
@pytest.mark.requirement("M09")
def test_what_nobody_reads_any_more_is_gone_while_an_asynchronous_node_is_under_way() -> None:
    is_over, made, alive = threading.Event(), list[weakref.ref[np.ndarray]](), list[bool]()

    def exp(inputs: Sequence[Any]) -> list[Any]:
        wait_for(is_over)
        return [np.exp(inputs[0])]

    def neg(inputs: Sequence[Any]) -> list[Any]:
        alive.extend(each() is not None for each in made)
        fresh = -inputs[0]
        made.append(weakref.ref(fresh))
        if len(made) == 2:
            is_over.set()
        return [fresh]

    text = f"""g (float[{SIZE},{SIZE}] x) => (float[{SIZE},{SIZE}] y) {{
        a = Exp(x) b = Neg(x) c = Sin(b) d = Cos(c) e = Neg(d) y = Add(a, e) }}"""
    providers = (Fusing("Exp", in_background(exp), is_async=True), Fusing("Neg", neg))
    run(state_of(text, *providers, enable_mem_pattern=False, enable_mem_reuse=False))
    assert alive == [False]


@pytest.mark.requirement("D07")
def test_an_output_that_nobody_takes_and_a_graph_output_are_waited_for() -> None:
    text = (
        f"g (float[{SIZE},{SIZE}] x) => (float[{SIZE},{SIZE}] a, float[{SIZE},{SIZE}] b) {{ a ="
        " Exp(x) b = Neg(x) }"
    )
    state = state_of(
        text, Fusing("Exp", in_background(lambda inputs: [np.exp(inputs[0])]), is_async=True)
    )
    a, b = state.executable.run([X], (), RunControl())
    np.testing.assert_allclose(a, np.exp(X), rtol=1e-5)
    np.testing.assert_array_equal(b, -X)


@pytest.mark.requirement("D07")
def test_a_non_strict_node_is_called_before_its_inputs_are_there_and_waits_for_them_itself() -> (
    None
):
    is_called = threading.Event()

    def exp(inputs: Sequence[Any]) -> list[Any]:
        wait_for(is_called)
        return [np.exp(inputs[0])]

    def add(inputs: Sequence[Any]) -> list[Any]:
        pending, there = inputs
        assert not pending.done()
        is_called.set()
        return [pending.result(LONGEST_S) + there]

    providers = (
        Fusing("Exp", in_background(exp), is_async=True),
        Fusing("Add", add, is_strict=False),
    )
    np.testing.assert_allclose(run(state_of(BESIDE, *providers)), np.exp(X) - X, rtol=1e-5)


@pytest.mark.requirement("D07")
def test_a_non_strict_node_may_do_without_an_input() -> None:
    is_called = threading.Event()
    ended: list[bool] = []

    def exp(inputs: Sequence[Any]) -> list[Any]:
        wait_for(is_called)
        time.sleep(0.05)
        ended.append(True)
        return [np.exp(inputs[0])]

    def add(inputs: Sequence[Any]) -> list[Any]:
        is_called.set()
        return [inputs[1].copy()]

    providers = (
        Fusing("Exp", in_background(exp), is_async=True),
        Fusing("Add", add, is_strict=False),
    )
    np.testing.assert_array_equal(run(state_of(BESIDE, *providers)), -X)
    assert ended, "a run ends when nothing is under way any more"


@pytest.mark.requirement("P16")
def test_an_error_of_an_asynchronous_node_names_it() -> None:
    def exp(_inputs: Sequence[Any]) -> list[Any]:
        raise ValueError("the device is gone")

    with pytest.raises(RunError, match=r"node 'Exp_a' .*failed: the device is gone"):
        run(state_of(BESIDE, Fusing("Exp", in_background(exp), is_async=True)))
    with pytest.raises(RunError, match=r"node 'Exp_a' .*returned 2 outputs where the node has 1"):
        run(
            state_of(
                BESIDE, Fusing("Exp", in_background(lambda inputs: [inputs[0]] * 2), is_async=True)
            )
        )


def test_a_run_that_fails_elsewhere_ends_when_nothing_is_under_way_any_more() -> None:
    is_begun = threading.Event()
    ended: list[bool] = []

    def exp(inputs: Sequence[Any]) -> list[Any]:
        is_begun.set()
        time.sleep(0.2)
        ended.append(True)
        return [np.exp(inputs[0])]

    def neg(_inputs: Sequence[Any]) -> list[Any]:
        wait_for(is_begun)
        raise ValueError("no")

    with pytest.raises(RunError, match="'Neg_b'"):
        run(state_of(BESIDE, Fusing("Exp", in_background(exp), is_async=True), Fusing("Neg", neg)))
    assert ended


@pytest.mark.parametrize(
    "text", [BESIDE, "g (float[300,300] x) => (float[300,300] y) { y = Exp(x) }"]
)
def test_limits_hold_while_the_run_waits(text: str) -> None:
    def exp(inputs: Sequence[Any]) -> list[Any]:
        time.sleep(0.4)
        return [np.exp(inputs[0])]

    state = state_of(text, Fusing("Exp", in_background(exp), is_async=True))
    with pytest.raises(LimitExceededError, match="time limit"):
        run(state, RunControl(timeout_s=0.1))
    with pytest.raises(CancelledError):
        run(state, RunControl(is_terminated=iter([False] * 4 + [True] * 99).__next__))
    np.testing.assert_allclose(
        run(state, RunControl(timeout_s=LONGEST_S)),
        np.exp(X) - X if text == BESIDE else np.exp(X),
        rtol=1e-5,
    )


@pytest.mark.requirement("D07")
@pytest.mark.parametrize("mode", ExecutionMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    "text", [BESIDE, "g (float[300,300] x) => (float[300,300] y) { y = Exp(x) }"]
)
def test_results_are_the_same_in_every_mode_and_in_a_graph_of_one_node(
    mode: ExecutionMode, text: str
) -> None:
    provider = Fusing("Exp", in_background(lambda inputs: [np.exp(inputs[0])]), is_async=True)
    expected = np.exp(X) - X if text == BESIDE else np.exp(X)
    np.testing.assert_allclose(
        run(state_of(text, provider, execution_mode=mode)), expected, rtol=1e-5
    )


def test_the_profile_has_the_whole_time_of_an_asynchronous_node() -> None:
    def exp(inputs: Sequence[Any]) -> list[Any]:
        time.sleep(0.1)
        return [np.exp(inputs[0])]

    profiler = Profiler()
    run(state_of(BESIDE, Fusing("Exp", in_background(exp), is_async=True), profiler=profiler))
    assert profiler.node_durations_s()["ExpExecutionProvider", "Exp_a"] >= 0.1


class Kernels(ExecutionProvider):
    """A kernel of its own for Exp, which is asynchronous."""

    def __init__(self) -> None:
        super().__init__("KernelsExecutionProvider")

        def factory(_info: OpKernelInfo) -> Any:
            return lambda _context, x: POOL.submit(np.exp, x)

        self._registry = KernelRegistry(
            [
                KernelDef(
                    op_type="Exp",
                    since=(13,),
                    factory=factory,
                    uses_output_buffer=False,
                    is_async=True,
                )
            ]
        )

    @property
    def kernel_registry(self) -> KernelRegistry:
        return self._registry


@pytest.mark.requirement("D07")
def test_kernels_may_be_asynchronous_too() -> None:
    np.testing.assert_allclose(run(state_of(BESIDE, Kernels())), np.exp(X) - X, rtol=1e-5)


def test_an_asynchronous_kernel_brings_its_own_memory() -> None:
    with pytest.raises(ValueError, match="asynchronous kernel for Exp must bring its own memory"):
        KernelDef(op_type="Exp", since=(13,), factory=lambda _info: np.exp, is_async=True)
