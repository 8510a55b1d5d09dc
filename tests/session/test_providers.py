"""Sessions over several providers: partitions that compute, fail, and are released."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidSessionOptionError, RunError
from ortpkg.graph.graph import Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import (
    Allocator,
    ComputeCapability,
    CPUAllocator,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.session.provider_list import register_execution_providers
from ortpkg.runtime.session.session_state import SessionState, create_session_state
from tests.session.conftest import model_of, options_of

TEXT = """g (float[N] x) => (float[N] y) {
    a = Neg(x)
    b = Exp(a)
    c = Exp(b)
    y = Abs(c)
}"""


class ExpProvider(ExecutionProvider):
    """Fuses runs of Exp into one node."""

    def __init__(self, compute: Callable[[Any, Sequence[Any]], Sequence[Any]]) -> None:
        super().__init__("ExpExecutionProvider")
        self.compute = compute
        self.states: list[str] = []

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        nodes = [node for node in viewer.nodes if node.op_type == "Exp"]
        meta = MetaDef(name="ExpExp", inputs=nodes[0].inputs, outputs=nodes[-1].outputs)
        return [ComputeCapability(node_indices=tuple(node.index for node in nodes), meta_def=meta)]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        def create(name: str) -> str:
            self.states.append(name)
            return name

        def compute(state: Any, inputs: Sequence[Any], _context: OpKernelContext) -> Sequence[Any]:
            return self.compute(state, inputs)

        return [
            NodeComputeInfo(compute=compute, create_state=create, release_state=self.states.remove)
        ]


def state_of(
    provider: ExecutionProvider, profiler: Profiler | None = None, **options: Any
) -> SessionState:
    return create_session_state(
        load_model(model_of(TEXT)),
        options_of(**options),
        [provider, CPUExecutionProvider()],
        profiler,
    )


def run(state: SessionState, x: Any) -> Any:
    return state.executable.run([x], (), RunControl())[0]


@pytest.mark.requirement("P09")
@pytest.mark.requirement("D02")
@pytest.mark.requirement("D12")
def test_one_model_runs_across_two_providers() -> None:
    state = state_of(ExpProvider(lambda _state, inputs: [np.exp(np.exp(inputs[0]))]))
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    for _ in range(3):
        np.testing.assert_allclose(run(state, x), np.exp(np.exp(-x)), rtol=1e-6)
    assert [p.provider for p in state.partitions] == [
        "ExpExecutionProvider",
        "CPUExecutionProvider",
    ]


@pytest.mark.requirement("P08")
def test_state_of_a_partition_is_made_once_and_released_at_the_end() -> None:
    provider = ExpProvider(
        lambda state, inputs: [np.exp(np.exp(inputs[0]))] if state == "ExpExp" else []
    )
    state = state_of(provider)
    for _ in range(2):
        run(state, np.ones(2, np.float32))
    assert provider.states == ["ExpExp"]
    state.close()
    assert provider.states == []


@pytest.mark.parametrize("count", [0, 2])
def test_partition_that_returns_the_wrong_number_of_outputs_is_an_error(count: int) -> None:
    state = state_of(ExpProvider(lambda _state, inputs: [np.exp(inputs[0])] * count))
    with pytest.raises(
        RunError, match=rf"node 'ExpExp'.*returned {count} outputs where the node has 1"
    ):
        run(state, np.ones(2, np.float32))


def test_partition_that_returns_its_input_does_not_spoil_it() -> None:
    state = state_of(ExpProvider(lambda _state, inputs: [inputs[0]]))
    x = np.array([1, 2], np.float32)
    assert run(state, x).tolist() == run(state, x).tolist() == [1, 2]
    assert x.tolist() == [1, 2]


def test_compiled_partitions_cannot_be_written_as_an_optimized_model(tmp_path: Any) -> None:
    provider = ExpProvider(lambda _state, inputs: [inputs[0]])
    with pytest.raises(
        InvalidSessionOptionError, match="compiled partitions, which ONNX cannot hold"
    ):
        state_of(provider, optimized_model_filepath=tmp_path / "m.onnx")


def test_stages_leave_a_kernel_per_step_fixed_at_initialization() -> None:
    state = state_of(ExpProvider(lambda _state, inputs: [inputs[0]]))
    computes = [instruction.compute for instruction in state.executable.instructions]
    run(state, np.ones(2, np.float32))
    assert [instruction.compute for instruction in state.executable.instructions] == computes
    assert len(computes) == 3


@pytest.mark.requirement("D07")
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            [np.zeros(2)],
            (
                r"it gets from ExpExecutionProvider 'c' as float64\[2\], declared is"
                r" tensor\(float\)\['N'\]"
            ),
        ),
        ([np.zeros(2, ">f4")], r"'c' as >f4\[2\], declared is"),
        ([np.zeros((2, 1), np.float32)], r"'c' as float32\[2, 1\], declared is"),
        ([[1.0, 2.0]], r"'c' as list, declared is"),
        ([1.0], r"'c' as float, declared is"),
        ([None], r"'c' as NoneType, declared is"),
        (
            np.zeros((1, 2), np.float32),
            r"returned float32\[1, 2\] where a list of its 1 outputs belongs",
        ),
        (None, r"returned NoneType where a list of its 1 outputs belongs"),
    ],
)
def test_what_a_plugins_partition_returns_is_checked(returned: Any, message: str) -> None:
    state = state_of(ExpProvider(lambda _state, inputs: returned))
    with pytest.raises(RunError, match=message):
        run(state, np.ones(2, np.float32))


def test_a_plugins_partition_gives_the_sizes_that_are_known() -> None:
    state = create_session_state(
        load_model(model_of(TEXT.replace("[N]", "[2]"))),
        options_of(),
        [ExpProvider(lambda _state, inputs: [inputs[0][:1]]), CPUExecutionProvider()],
    )
    with pytest.raises(RunError, match=r"'c' as float32\[1\], declared is tensor\(float\)\[2\]"):
        run(state, np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("given", "is_right"), [(np.float32(3), True), (np.float64(3), False), (3.0, False)]
)
def test_a_plugin_may_return_a_numpy_scalar_of_the_right_type_for_rank_0(
    given: Any, is_right: bool
) -> None:
    text = "g (float x) => (float y) { a = Exp(x)\n y = Exp(a) }"
    provider = ExpProvider(lambda _state, _inputs: [given])
    state = create_session_state(
        load_model(model_of(text)), options_of(), [provider, CPUExecutionProvider()]
    )
    if is_right:
        found = run(state, np.array(0, np.float32))
        assert type(found) is np.ndarray
        assert found == 3
    else:
        with pytest.raises(RunError, match=r"'y' as float(64)?(\[\])?, declared is"):
            run(state, np.array(0, np.float32))


class OwnKernels(ExecutionProvider):
    """A kernel for Exp that gives numbers of one type."""

    def __init__(self, dtype: type) -> None:
        super().__init__("OwnExecutionProvider")
        self._dtype = dtype

    @property
    def kernel_registry(self) -> KernelRegistry:
        return KernelRegistry(
            [
                KernelDef(
                    op_type="Exp",
                    domain="",
                    since=(6, 13),
                    factory=lambda _info: lambda _context, x: np.exp(x, dtype=self._dtype),
                )
            ]
        )


def test_what_a_plugins_kernel_returns_is_checked() -> None:
    state = create_session_state(
        load_model(model_of(TEXT)), options_of(), [OwnKernels(float), CPUExecutionProvider()]
    )
    with pytest.raises(
        RunError, match=r"it gets from OwnExecutionProvider 'b' as float64\[2\], declared is"
    ):
        run(state, np.ones(2, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_plugins_kernel_may_return_a_numpy_scalar_of_the_right_type_for_rank_0(
    dtype: type,
) -> None:
    model = load_model(model_of("g (float x) => (float y) { y = Exp(x) }"))
    state = create_session_state(model, options_of(), [OwnKernels(dtype), CPUExecutionProvider()])
    if dtype is np.float32:
        assert run(state, np.array(0, np.float32)) == 1
        return
    with pytest.raises(RunError, match=r"'y' as float64(\[\])?, declared is"):
        run(state, np.array(0, np.float32))


def test_an_element_type_of_our_own_providers_is_checked_and_a_shape_only_on_request() -> None:
    """A model may declare shapes that inference cannot know.

    Kernels then go by what they compute.
    """
    for strict, returned, message in [
        ("0", np.zeros((2, 1), np.float32), ""),
        ("1", np.zeros((2, 1), np.float32), r"float32\[2, 1\]"),
        ("0", np.zeros(2), "float64"),
    ]:
        options = options_of()
        options.add_session_config_entry("ortpkg.strict_fused_nodes", strict)
        provider = ExpProvider(lambda _state, _inputs, returned=returned: [returned])  # type: ignore[misc]
        provider.made_by("openvino")
        state = create_session_state(
            load_model(model_of(TEXT)), options, [provider, CPUExecutionProvider()]
        )
        if message:
            with pytest.raises(RunError, match=message):
                run(state, np.ones(2, np.float32))
        else:
            assert run(state, np.ones(2, np.float32)).shape == (2, 1)


@pytest.mark.parametrize("given", [np.ones((2, 1), np.float32), np.ones(2)], ids=["rank", "type"])
def test_what_goes_into_a_partition_is_checked_on_request(given: Any) -> None:
    options = options_of()
    options.add_session_config_entry("ortpkg.strict_fused_nodes", "1")
    model = load_model(model_of("g (float[N] x) => (float[N] y) { y = Exp(x) }"))
    provider = ExpProvider(lambda _state, _inputs: [np.ones(2, np.float32)])
    state = create_session_state(model, options, [provider, CPUExecutionProvider()])
    assert run(state, np.zeros(2, np.float32)).tolist() == [1, 1]
    with pytest.raises(
        RunError, match=r"the fused node takes 'x' as float\d\d\[2.*\], declared is tensor\(float\)"
    ):
        run(state, given)


def test_cpu_fallback_can_be_forbidden() -> None:
    options = options_of()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    provider = ExpProvider(lambda _state, inputs: [inputs[0]])
    with pytest.raises(
        InvalidSessionOptionError, match="2 nodes would run on the CPU provider: 'Neg_"
    ):
        create_session_state(
            load_model(model_of(TEXT)), options, [provider, CPUExecutionProvider()]
        )


class FarAllocator(CPUAllocator):
    """An allocator of another device that counts its blocks."""

    name = "Far"
    alignment = 256
    blocks = 0

    def allocate(self, nbytes: int) -> Any:
        FarAllocator.blocks += 1
        return super().allocate(nbytes)


class FarProvider(CPUExecutionProvider):
    """The CPU's kernels, in the memory of another device."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "FarExecutionProvider"

    def create_allocator(self) -> Allocator:
        return FarAllocator()


@pytest.mark.requirement("D08")
@pytest.mark.requirement("D01")
def test_block_of_a_device_comes_from_its_providers_allocator() -> None:
    model = load_model(model_of(TEXT.replace("[N]", "[5]")))
    FarAllocator.blocks = 0
    state = create_session_state(model, options_of(), [FarProvider(), CPUExecutionProvider()])
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    for _ in range(3):
        np.testing.assert_allclose(run(state, x), np.exp(np.exp(-x)), rtol=1e-6)
    assert FarAllocator.blocks == 1


@pytest.mark.requirement("D05")
@pytest.mark.requirement("P14")
def test_the_cpu_provider_is_added_last_where_the_caller_left_it_out() -> None:
    own = ExpProvider(lambda _state, inputs: [np.exp(np.exp(inputs[0]))])
    providers = register_execution_providers([own])
    assert [type(each) for each in providers] == [ExpProvider, CPUExecutionProvider]
    assert not providers[-1].is_requested
    state = create_session_state(load_model(model_of(TEXT)), options_of(), providers)
    (y,) = state.executable.run([np.ones(2, np.float32)], (), RunControl())
    np.testing.assert_allclose(y, np.exp(np.exp(-np.ones(2, np.float32))), rtol=1e-6)


@pytest.mark.requirement("P11")
def test_the_cpu_provider_keeps_the_place_that_the_caller_gave_it_and_comes_last_too() -> None:
    cpu, own = CPUExecutionProvider(), ExpProvider(lambda _state, inputs: inputs)
    assert register_execution_providers([cpu, own]) == [cpu, own, cpu]
    assert register_execution_providers([own, cpu]) == [own, cpu]
