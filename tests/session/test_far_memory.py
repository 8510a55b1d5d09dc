"""Providers with memory that the CPU cannot read: values are copied only where they cross."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import (
    CancelledError,
    ExecutionProviderError,
    KernelNotFoundError,
    LimitExceededError,
    RunError,
)
from ortpkg.graph.graph import Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.engine.device_copies import copy_compute
from ortpkg.runtime.engine.memories import memories_of
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import (
    Allocator,
    ComputeCapability,
    CPUAllocator,
    ExecutionProvider,
    GraphViewer,
)
from ortpkg.runtime.session import session_parts
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode
from ortpkg.runtime.session.session_plan import describe_plan
from ortpkg.runtime.session.session_state import SessionState, create_session_state
from ortpkg.runtime.session.values.ort_value import OrtValue
from tests.session.conftest import model_of, options_of, session_of
from tests.session.far_devices import FarCompilingProvider, FarDevice, FarKernelProvider

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


class Far:
    """A session on two far devices, one that compiles and one with kernels, and the CPU."""

    def __init__(
        self,
        text: str,
        first: Sequence[str],
        second: Sequence[str] = (),
        *,
        compiles: Sequence[bool],
        **options: Any,
    ) -> None:
        self.text = text
        self.one, self.two = FarDevice("One:0"), FarDevice("Two:0", 512)
        providers: list[ExecutionProvider] = []
        for name, device, op_types, is_compiler in zip(
            ("OneExecutionProvider", "TwoExecutionProvider"),
            (self.one, self.two),
            (first, second),
            compiles,
            strict=True,
        ):
            kind = FarCompilingProvider if is_compiler else FarKernelProvider
            providers.append(kind(name, device, *op_types))
        self.state = create_session_state(
            load_model(model_of(text)), options_of(**options), [*providers, CPUExecutionProvider()]
        )

    def run(self, *inputs: Any) -> list[Any]:
        return self.state.executable.run(list(inputs), (), RunControl())

    def assert_as_on_cpu(self, runs: int = 3, **feeds: Any) -> None:
        with session_of(self.text) as plain:
            expected = plain.run(None, feeds)
        for _ in range(runs):
            results = self.run(*(feeds[name] for name in self.state.model.graph.inputs))
            for ours, theirs in zip(results, expected, strict=True):
                assert type(ours) is np.ndarray
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)

    def forget(self) -> None:
        """Counts anew."""
        for device in (self.one, self.two):
            for counts in (device.to_device, device.to_host, device.within, device.allocated):
                counts.clear()


KINDS = pytest.mark.parametrize(
    "compiles",
    [(False, False), (True, False), (False, True), (True, True)],
    ids=["kernels", "compiled-first", "compiled-second", "compiled"],
)

CHAIN = """g (float[2,3] x) => (float[2,3] y) {
    a = Neg(x)
    b = Exp(a)
    c = Sigmoid(b)
    d = Mul(c, c)
    e = Exp(d)
    y = Abs(e)
}"""


@KINDS
@pytest.mark.parametrize(
    "text", [CHAIN, CHAIN.replace("[2,3]", "[N,3]")], ids=["static", "dynamic"]
)
@pytest.mark.requirement("D08", "D02", "M01")
def test_values_are_copied_where_they_cross_and_nowhere_else(
    text: str, compiles: Sequence[bool]
) -> None:
    far = Far(text, ["Neg", "Mul"], ["Exp"], compiles=compiles)
    far.assert_as_on_cpu(x=X)
    far.forget()
    far.run(X)
    # x → One: Neg → Two: Exp → CPU: Sigmoid → One: Mul → Two: Exp → CPU: Abs
    assert far.one.to_device == far.two.to_device == far.one.to_host == far.two.to_host == [24, 24]
    assert far.one.within == far.two.within == []


@KINDS
@pytest.mark.parametrize("mode", [ExecutionMode.ORT_SEQUENTIAL, ExecutionMode.ORT_PARALLEL])
@pytest.mark.parametrize("pattern", [True, False])
@pytest.mark.requirement("D08")
def test_value_that_several_nodes_read_is_copied_once(
    compiles: Sequence[bool], mode: Any, pattern: bool
) -> None:
    text = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
        a = Exp(x)
        b = Neg(a)
        c = Sigmoid(a)
        d = Neg(a)
        e = Add(b, d)
        y = Mul(e, c)
        z = Exp(x)
    }"""
    far = Far(
        text,
        ["Exp"],
        ["Neg", "Add"],
        compiles=compiles,
        execution_mode=mode,
        enable_mem_pattern=pattern,
    )
    far.assert_as_on_cpu(x=X)
    far.forget()
    far.run(X)
    assert far.one.to_device == [24]
    assert sorted(far.one.to_host) == [24, 24]
    assert far.two.to_device == [24]


@KINDS
@pytest.mark.requirement("D08", "M06")
def test_constants_are_placed_once_in_each_memory_that_reads_them(compiles: Sequence[bool]) -> None:
    text = """g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}> {
        a = Add(x, w)
        b = Mul(a, w)
        y = Sub(b, w)
    }"""
    far = Far(text, ["Add"], ["Mul"], compiles=compiles)
    assert far.one.to_device.count(12) == far.two.to_device.count(12) == 1
    # Sub reads it in the memory of the CPU
    assert describe_plan(far.state, ()).graph.weight_nbytes == 3 * 12
    only_far = Far(text, ["Add", "Sub"], ["Mul"], compiles=compiles)
    assert describe_plan(only_far.state, ()).graph.weight_nbytes == 2 * 12
    far.forget()
    far.assert_as_on_cpu(x=X, runs=2)
    assert far.one.to_device == far.two.to_device == [24, 24]


@KINDS
@pytest.mark.requirement("D08")
def test_graph_outputs_in_the_middle_and_twice_are_the_callers_own(
    compiles: Sequence[bool],
) -> None:
    text = """g (float[2,3] x) => (float[2,3] a, float[2,3] b, float[2,3] x2) {
        a = Neg(x)
        b = Exp(a)
        x2 = Add(a, b)
    }"""
    far = Far(text, ["Neg", "Add"], ["Exp"], compiles=compiles)
    far.assert_as_on_cpu(x=X)
    first = far.run(X)
    kept = [array.copy() for array in first]
    far.run(X + 1)
    for array, copy in zip(first, kept, strict=True):
        assert array.flags.writeable
        np.testing.assert_array_equal(array, copy)


LOOP = """g (float[2,3] x, int64 n) => (float[2,3] y, float[K,2,3] all) <float[3] w = {1, 2, 3}> {
    far = Neg(x)
    y, all = Loop (n, , far) <body = body (int64 i, bool keep, float[2,3] state)
        => (bool keep_out, float[2,3] next, float[2,3] seen) <float[3] v = {0.5, 0.25, 0.125}> {
            keep_out = Identity(keep)
            s = Add(state, far)
            t = Mul(s, v)
            next = Add(t, w)
            seen = Exp(next)
        }>
}"""


@KINDS
@pytest.mark.requirement("D08", "P04")
def test_bodies_of_loops_read_outer_values_and_constants_that_were_placed_once(
    compiles: Sequence[bool],
) -> None:
    far = Far(LOOP, ["Add", "Mul"], ["Neg", "Exp"], compiles=compiles)
    assert sorted(far.one.to_device) == [12, 12]
    far.forget()
    n = np.array(4)
    far.assert_as_on_cpu(x=X, n=n, runs=2)
    far.forget()
    far.run(X, n)
    # Into One: `far` before the loop, and the state in each iteration; into Two: x, and `next` in
    # each.
    assert far.one.to_device == [24] * 5
    assert far.two.to_device == [24] * 5


@KINDS
@pytest.mark.requirement("D08")
def test_branches_copy_what_they_take_only_where_they_are_taken(compiles: Sequence[bool]) -> None:
    text = """g (bool p, float[2,3] x) => (float[2,3] y, float[2,3] far) {
        far = Neg(x)
        y = If(p) <
            then_branch = t () => (float[2,3] a) { b = Exp(x)  a = Mul(b, far) },
            else_branch = e () => (float[2,3] far) { }
        >
    }"""
    far = Far(
        text.replace("far) { }", "c) { c = Sigmoid(far) }"),
        ["Exp", "Mul"],
        ["Neg"],
        compiles=compiles,
    )
    for p in (True, False):
        far.assert_as_on_cpu(p=np.array(p), x=X, runs=2)
    far.forget()
    far.run(np.array(False), X)
    assert far.one.to_device == []
    far.run(np.array(True), X)
    assert far.one.to_device == [24, 24]


@pytest.mark.requirement("D08")
def test_branch_hands_out_an_outer_value_that_lies_far_away() -> None:
    text = """g (bool p, float[2,3] x) => (float[2,3] y) {
        far = Neg(x)
        y = If(p) <
            then_branch = t () => (float[2,3] a) { a = Identity(far) },
            else_branch = e () => (float[2,3] b) { b = Exp(far) }
        >
    }"""
    far = Far(text, ["Neg", "Exp"], compiles=(False, False))
    for p in (True, False):
        far.assert_as_on_cpu(p=np.array(p), x=X)


@pytest.mark.requirement("D08")
def test_input_with_a_default_is_copied_in_each_run() -> None:
    text = """g (float[2,3] x, float[3] w) => (float[2,3] y) <float[3] w = {1, 2, 3}> {
        y = Add(x, w)
    }"""
    far = Far(text, ["Add"], compiles=(False, False))
    for w in (None, np.array([4, 5, 6], np.float32)):
        (y,) = far.run(X, w)
        np.testing.assert_array_equal(y, X + (np.array([1, 2, 3], np.float32) if w is None else w))


@pytest.mark.requirement("D08")
def test_kernel_reads_the_inputs_that_it_names_in_the_memory_of_the_cpu() -> None:
    text = """g (float[2,3] x, int64[1] s) => (float[K] y) { a = Neg(x)  b = Reshape(a, s)  y = Exp(b) }"""
    far = Far(text, ["Neg", "Reshape", "Exp"], compiles=(False, False))
    far.assert_as_on_cpu(x=X, s=np.array([6]))
    far.forget()
    far.run(X, np.array([6]))
    assert (far.one.to_device, far.one.to_host) == ([24], [24])


@pytest.mark.requirement("D08")
def test_empty_tensors_and_scalars_cross() -> None:
    text = "g (float[N] x, float s) => (float[N] y) { a = Neg(x)  b = Neg(s)  y = Mul(a, b) }"
    far = Far(text, ["Neg"], ["Mul"], compiles=(False, True))
    for x in (np.zeros(0, np.float32), np.ones(3, np.float32)):
        far.assert_as_on_cpu(x=x, s=np.array(2, np.float32))


@KINDS
@pytest.mark.requirement("M13", "M14", "M17", "M24")
def test_each_memory_has_a_block_of_its_own_that_runs_share(compiles: Sequence[bool]) -> None:
    text = """g (float[300,300] x) => (float[300,300] y) {
        a = Neg(x)  b = Abs(a)  c = Neg(b)  d = Exp(c)  e = Mul(d, d)  y = Exp(e)
    }"""
    far = Far(text, ["Neg", "Abs"], ["Exp", "Mul"], compiles=compiles)
    x = np.linspace(-1, 1, 90000, dtype=np.float32).reshape(300, 300)
    far.assert_as_on_cpu(x=x, runs=2)
    far.forget()
    far.run(x)
    pool = far.state.executable.pool
    assert pool is not None
    entry = pool.find(())
    assert entry is not None
    patterns = entry.patterns
    peaks = {device.name: patterns.pattern_of(device) for device in patterns.locations}
    assert set(peaks) == {"Cpu", "One:0", "Two:0"}
    for device, is_compiler in zip((far.one, far.two), compiles, strict=True):
        pattern = peaks[device.name]
        assert pattern is not None
        assert all(offset % device.alignment == 0 for offset in pattern.offsets.values())
        # what a partition makes is no planned memory
        assert len(device.allocated) == (1 if is_compiler else 0)
    assert far.one.live_nbytes + far.two.live_nbytes < 8 * x.nbytes


@pytest.mark.requirement("D08")
def test_two_providers_of_one_memory_share_it_without_a_copy() -> None:
    device = FarDevice("Shared:0")
    providers = [
        FarCompilingProvider("AExecutionProvider", device, "Neg"),
        FarKernelProvider("BExecutionProvider", device, "Exp"),
        CPUExecutionProvider(),
    ]
    text = "g (float[2,3] x) => (float[2,3] y) { a = Neg(x)  b = Exp(a)  y = Neg(b) }"
    state = create_session_state(load_model(model_of(text)), options_of(), providers)
    (y,) = state.executable.run([X], (), RunControl())
    np.testing.assert_allclose(y, -np.exp(-X), rtol=1e-6)
    assert (device.to_device, device.to_host, device.within) == ([24], [24], [])


class HostAllocator(CPUAllocator):
    """Memory that the CPU reads, aligned to pages; remembers its blocks."""

    name = "Pinned"
    alignment = 4096

    def __init__(self) -> None:
        self.blocks: list[Any] = []

    def allocate(self, nbytes: int) -> Any:
        self.blocks.append(super().allocate(nbytes))
        return self.blocks[-1]


class PinnedProvider(CPUExecutionProvider):
    """Runs Tanh by the CPU's kernel, and remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "PinnedExecutionProvider"
        self.allocator = HostAllocator()
        self.given: list[Any] = []

    def create_allocator(self) -> Allocator:
        return self.allocator

    def find_kernel(self, node: Any, types: Any) -> Any:
        return super().find_kernel(node, types) if node.op_type == "Tanh" else None


@pytest.mark.requirement("D08", "M24")
@pytest.mark.parametrize("pattern", [True, False])
def test_memory_that_the_cpu_reads_is_shared_and_still_gives_the_provider_its_inputs(
    pattern: bool,
) -> None:
    provider = PinnedProvider()
    text = "g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  b = Tanh(a)  y = Exp(b) }"
    options = options_of(enable_mem_pattern=pattern)
    state = create_session_state(
        load_model(model_of(text)), options, [provider, CPUExecutionProvider()]
    )
    assert [step.op_type for step in state.executable.plan.steps] == ["Exp", "Tanh", "Exp"]
    (y,) = state.executable.run([X], (), RunControl())
    np.testing.assert_allclose(y, np.exp(np.tanh(np.exp(X))), rtol=1e-6)
    plan = state.executable.plan
    places = {plan.values.name_of(i): plan.locations[i].name for i in range(len(plan.values))}
    assert places == {"x": "Cpu", "a": "Pinned", "b": "Pinned", "y": "Cpu"}
    assert provider.allocator.blocks
    assert all(block.ctypes.data % 4096 == 0 for block in provider.allocator.blocks)


@pytest.mark.requirement("D08")
def test_memory_that_the_cpu_reads_is_not_copied_to_beside_one_that_it_cannot_read() -> None:
    far, pinned = FarDevice("Far:0"), PinnedProvider()
    providers = [
        FarKernelProvider("FarExecutionProvider", far, "Neg"),
        pinned,
        CPUExecutionProvider(),
    ]
    text = "g (float[2,3] x) => (float[2,3] y) { a = Neg(x)  b = Tanh(a)  y = Exp(b) }"
    state = create_session_state(load_model(model_of(text)), options_of(), providers)
    (y,) = state.executable.run([X], (), RunControl())
    np.testing.assert_allclose(y, np.exp(np.tanh(-X)), rtol=1e-6)
    copied = [
        step.op_type
        for step in state.executable.plan.steps
        if step.op_type not in {"Neg", "Tanh", "Exp"}
    ]
    assert copied == ["MemcpyFromHost", "MemcpyToHost"]
    assert (far.to_device, far.to_host) == ([24], [24])


def faulty(result: Any) -> SessionState:
    provider = FarCompilingProvider(
        "OneExecutionProvider", FarDevice("One:0"), "Neg", result=result
    )
    text = "g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  b = Neg(a)  y = Mul(b, a) }"
    return create_session_state(
        load_model(model_of(text)), options_of(), [provider, CPUExecutionProvider()]
    )


def _moved(tensor: Any) -> DeviceTensor:
    """The tensor, said to lie in another memory."""
    return DeviceTensor(
        memory="Two:0", block=tensor.block, offset=0, shape=tensor.shape, dtype=tensor.dtype
    )


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda device, _inputs, outputs: [device.read(outputs[0])],
            r"returned ndarray where a tensor in memory 'One:0'",
        ),
        (
            lambda _device, _inputs, outputs: [_moved(outputs[0])],
            r"returned float32\[2, 3\] in memory 'Two:0', where the value lies in memory 'One:0'",
        ),
    ],
)
@pytest.mark.requirement("D08")
def test_partition_that_returns_a_value_in_another_memory_is_an_error(
    result: Any, message: str
) -> None:
    with pytest.raises(RunError, match=message):
        faulty(result).executable.run([X], (), RunControl())


@pytest.mark.requirement("D08")
def test_partition_that_returns_its_input_gets_a_copy_within_its_memory() -> None:
    devices: list[FarDevice] = []

    def result(device: FarDevice, inputs: Sequence[Any], _outputs: list[Any]) -> list[Any]:
        devices.append(device)
        return [inputs[0]]

    (y,) = faulty(result).executable.run([X], (), RunControl())
    np.testing.assert_allclose(y, np.exp(X) ** 2, rtol=1e-6)
    assert devices[0].within == [24]


@pytest.mark.requirement("D08")
def test_memory_that_gives_no_block_is_an_error_that_names_it() -> None:
    device = FarDevice("Full:0")
    device.allocate = lambda nbytes: (_ for _ in ()).throw(MemoryError("all taken"))  # type: ignore[method-assign]
    text = "g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }"
    with pytest.raises(
        ExecutionProviderError, match=r"its memory 'Full:0' gave no block of 12 bytes: all taken"
    ):
        create_session_state(
            load_model(model_of(text)),
            options_of(),
            [FarKernelProvider("FullExecutionProvider", device, "Add"), CPUExecutionProvider()],
        )


@pytest.mark.requirement("D08")
def test_memory_limit_of_a_run_counts_what_lies_far_away() -> None:
    text = "g (float[300,300] x) => (float[300,300] y) { a = Neg(x)  b = Exp(a)  y = Sigmoid(b) }"
    far = Far(text, ["Neg", "Exp"], compiles=(False, False))
    x = np.zeros((300, 300), np.float32)
    with pytest.raises(LimitExceededError):
        far.state.executable.run([x], (), RunControl(memory_limit_nbytes=x.nbytes * 2 - 1))
    far.state.executable.run([x], (), RunControl(memory_limit_nbytes=x.nbytes * 4))


class Alone(FarCompilingProvider):
    """Fuses each node alone."""

    def get_capability(self, viewer: GraphViewer, _types_of: Any) -> list[ComputeCapability]:
        return [
            self._capability(viewer, [node], number) for number, node in enumerate(viewer.nodes)
        ]


@pytest.mark.requirement("D08")
def test_what_a_partition_made_itself_counts_until_nobody_reads_it_any_more() -> None:
    def of_its_own(device: FarDevice, _inputs: Sequence[Any], outputs: list[Any]) -> list[Any]:
        made = replace(outputs[0], block=device.allocate(outputs[0].nbytes), offset=0)
        device.write(made, device.read(outputs[0]))
        return [made]

    x = np.ones((300, 300), np.float32)
    values = ["x", *(f"v{number}" for number in range(15)), "y"]
    nodes = " ".join(f"{made} = Neg({read})" for read, made in itertools.pairwise(values))
    provider = Alone("OneExecutionProvider", FarDevice("One:0"), "Neg", result=of_its_own)
    state = create_session_state(
        load_model(model_of(f"g (float[300,300] x) => (float[300,300] y) {{ {nodes} }}")),
        options_of(),
        [provider, CPUExecutionProvider()],
    )
    (y,) = state.executable.run([x], (), RunControl(memory_limit_nbytes=8 * x.nbytes))
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (FarDevice("Same:0"), FarDevice("Same:0", 64), r"mean different things by memory 'Same:0'"),
        (
            FarDevice("Cpu"),
            FarDevice("Two:0"),
            r"and the CPU mean different things by memory 'Cpu'",
        ),
    ],
)
@pytest.mark.requirement("M13")
def test_memories_of_one_name_must_be_one_memory(
    first: FarDevice, second: FarDevice, message: str
) -> None:
    providers = [
        FarKernelProvider("A", first, "Neg"),
        FarKernelProvider("B", second, "Exp"),
        CPUExecutionProvider(),
    ]
    with pytest.raises(ExecutionProviderError, match=message):
        create_session_state(load_model(model_of(CHAIN)), options_of(), providers)


class _Mute(CPUAllocator):
    name = "Mute:0"
    is_host_accessible = False


def test_memory_that_the_cpu_cannot_read_needs_an_allocator_that_copies() -> None:
    provider = FarKernelProvider("MuteExecutionProvider", _Mute(), "Neg")  # type: ignore[arg-type]
    with pytest.raises(
        ExecutionProviderError, match=r"its allocator cannot copy; derive it from DeviceAllocator"
    ):
        create_session_state(
            load_model(model_of(CHAIN)), options_of(), [provider, CPUExecutionProvider()]
        )


@pytest.mark.parametrize("op_type", ["MemcpyFromHost", "MemcpyToHost"])
@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,3] x) => (float[2,3] y) {{ a = Neg(x)  [own] y = {}(a) }}",
        (
            "g (bool c, float[2,3] x) => (float[2,3] y) {{ y = If (c) <then_branch = t () =>"
            " (float[2,3] p) {{ [own] p = {}(x) }}, else_branch = e () => (float[2,3] q) {{ q ="
            " Neg(x) }}> }}"
        ),
    ],
    ids=["main graph", "branch"],
)
def test_copy_nodes_of_a_model_itself_have_no_kernel(text: str, op_type: str) -> None:
    with pytest.raises(KernelNotFoundError, match=f"'{op_type}' .* at node 'own'"):
        Far(text.format(op_type), ["Neg"], compiles=(False, False))
    with pytest.raises(KernelNotFoundError, match="at node 'own'"):
        session_of(text.format(op_type))


@pytest.mark.requirement("D08")
def test_constants_are_folded_without_the_kernels_of_far_devices() -> None:
    text = """g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}> { v = Neg(w)  y = Add(x, v) }"""
    far = Far(text, ["Neg", "Add"], compiles=(False, False))
    far.assert_as_on_cpu(x=X)
    assert "Neg" not in [step.op_type for step in far.state.executable.plan.steps]


@KINDS
@pytest.mark.requirement("D08", "M01", "M24")
def test_plan_weighs_and_shows_each_copy(compiles: Sequence[bool]) -> None:
    far = Far(CHAIN, ["Neg", "Mul"], ["Exp"], compiles=compiles)
    far.one.seconds_per_copy, far.one.seconds_per_byte = 0.5, 0.25
    graph = describe_plan(far.state, ()).graph
    ways = [(copy.source, copy.target, copy.nbytes) for copy in graph.copies]
    assert ways == [
        ("Cpu", "One:0", 24),
        ("One:0", "Cpu", 24),
        ("Cpu", "Two:0", 24),
        ("Two:0", "Cpu", 24),
        ("Cpu", "One:0", 24),
        ("One:0", "Cpu", 24),
        ("Cpu", "Two:0", 24),
        ("Two:0", "Cpu", 24),
    ]
    assert [copy.duration_s for copy in graph.copies[:2]] == [6.5, 6.5]
    assumed_s = graph.copies[2].duration_s  # Two states nothing: a copy is neither free nor slow
    assert assumed_s is not None
    assert 1e-6 < assumed_s < 1e-3
    assert graph.kernel_counts["copy"] == 8
    assert graph.nodes[graph.copies[0].step].provider == "OneExecutionProvider"
    assert set(graph.peaks) == {"Cpu", "One:0", "Two:0"}
    assert sum(graph.peaks.values()) == graph.peak_nbytes


@pytest.mark.requirement("D07", "D08")
def test_strict_invocation_checks_types_and_shapes_of_what_lies_far_away() -> None:
    options = options_of()
    options.add_session_config_entry("ortpkg.strict_fused_nodes", "1")
    device = FarDevice("One:0")
    text = "g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  b = Neg(a)  y = Mul(b, a) }"
    for result, message in (
        (None, ""),
        (
            lambda _device, _inputs, outputs: [outputs[0].viewed_as((3, 2), outputs[0].dtype)],
            r"as float32\[3, 2\]",
        ),
    ):
        provider = FarCompilingProvider("OneExecutionProvider", device, "Neg", result=result)
        state = create_session_state(
            load_model(model_of(text)), options, [provider, CPUExecutionProvider()]
        )
        if message:
            with pytest.raises(RunError, match=message):
                state.executable.run([X], (), RunControl())
        else:
            np.testing.assert_allclose(
                state.executable.run([X], (), RunControl())[0], -(np.exp(X) ** 2), rtol=1e-6
            )


@pytest.fixture(params=[False, True], ids=["kernels", "compiled"])
def session(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[InferenceSession]:
    """A profiled session on one far device and the CPU."""
    kind = FarCompilingProvider if request.param else FarKernelProvider
    provider = kind("OneExecutionProvider", FarDevice("One:0"), "Neg", "Exp")
    monkeypatch.setattr(session_parts, "create_session_providers", lambda *_: ([provider], False))
    text = (
        "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Neg(x)  y = Exp(a)  z ="
        " Sigmoid(y) }"
    )
    options = options_of(enable_profiling=True, profile_file_prefix=str(tmp_path / "profile_"))
    with InferenceSession(model_of(text).SerializeToString(), options) as made:
        yield made


@pytest.mark.requirement("D08")
def test_bound_arrays_of_the_caller_are_read_and_written_across_memories(
    session: InferenceSession,
) -> None:
    binding = session.io_binding()
    x, y = X.copy(), np.zeros_like(X)
    binding.bind_ortvalue_input("x", OrtValue.ortvalue_from_numpy(x))
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    binding.bind_output("z")
    for shift in (0, 1):
        x[:] = X + shift
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(y, np.exp(-x), rtol=1e-6)
        np.testing.assert_allclose(
            binding.copy_outputs_to_cpu()[1], 1 / (1 + np.exp(-np.exp(-x))), rtol=1e-5
        )


@pytest.mark.requirement("D08", "D09")
def test_threads_run_one_session_across_memories_at_the_same_time(
    session: InferenceSession,
) -> None:
    inputs = [X + number for number in range(16)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda x: session.run(["y"], {"x": x})[0], inputs))
    for x, y in zip(inputs, found, strict=True):
        np.testing.assert_allclose(y, np.exp(-x), rtol=1e-6)


@pytest.mark.requirement("D08")
def test_copies_stand_in_the_profile_and_their_time_in_the_placement(
    session: InferenceSession,
) -> None:
    session.run(None, {"x": X})
    far, _cpu = session.get_placement().entries
    assert (far.ep_name, far.node_count) == ("OneExecutionProvider", 2)
    assert far.duration_s is not None
    profile = json.loads(Path(session.end_profiling()).read_text())
    operators = [event["args"].get("op_name") for event in profile]
    assert operators.count("MemcpyFromHost") == 1
    assert operators.count("MemcpyToHost") == 1


@KINDS
@pytest.mark.requirement("D08")
def test_views_and_strided_results_cross_as_plain_arrays(compiles: Sequence[bool]) -> None:
    text = """g (float[2,3] x) => (float[3,2] y) {
        s = Sigmoid(x)
        t = Transpose(s)
        a = Neg(t)
        y = Exp(a)
    }"""
    Far(text, ["Neg"], ["Exp"], compiles=compiles).assert_as_on_cpu(x=X)


@pytest.mark.requirement("D08")
def test_strided_arrays_are_laid_out_before_they_are_copied() -> None:
    device = FarDevice("One:0")
    memories = memories_of([FarKernelProvider("OneExecutionProvider", device, "Neg")])
    far = memories.devices["OneExecutionProvider"]
    np.testing.assert_array_equal(device.read(memories.placed(far, X.T, "w")), X.T)
    copy = Node(
        index=0, name="c", op_type="MemcpyFromHost", domain="", inputs=("x",), outputs=("y",)
    )

    class Context:
        def output(self, _index: int, shape: tuple[int, ...], dtype: Any) -> DeviceTensor:
            block = device.allocate(24)
            return DeviceTensor(memory="One:0", block=block, offset=0, shape=shape, dtype=dtype)

    np.testing.assert_array_equal(device.read(copy_compute(copy, device)(Context(), X.T)), X.T)


@pytest.mark.parametrize(
    ("raised", "told"),
    [(ValueError("no room"), ExecutionProviderError), (CancelledError("ended"), CancelledError)],
    ids=["anything", "an error of ours"],
)
def test_a_constant_that_its_memory_does_not_take_is_an_error(
    raised: Exception, told: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> None:
        raise raised

    monkeypatch.setattr(FarDevice, "copy_from_host", refuse)
    with pytest.raises(told, match=r"ended|constant 'w.* could not be copied there: no room"):
        Far(
            "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
            ["Add"],
            compiles=(False, False),
        )
