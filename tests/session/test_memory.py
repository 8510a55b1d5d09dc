"""What a run does with memory: traced once, then no more allocation than what the caller gets."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from ortpkg.engine.allocation_planner import AllocKind
from ortpkg.engine.execution_frame import ExecutionFrame
from ortpkg.engine.memory_pattern import Buffer, least_possible_peak
from ortpkg.engine.run_control import RunControl
from ortpkg.engine.sequential_executor import execute_sequentially
from ortpkg.errors import PlanVerificationError, StatusCode
from tests.session.conftest import session_of

SIZE = 1 << 16
NBYTES = 4 * SIZE
CHAIN = """g (float[N] x) => (float[N] y) {
    a = Exp(x)
    b = Tanh(a)
    c = Add(b, x)
    d = Mul(c, a)
    e = Sigmoid(d)
    y = Sub(e, c)
}"""
STATIC = CHAIN.replace("[N]", f"[{SIZE}]")
X = {"x": np.linspace(-1, 1, SIZE, dtype=np.float32)}


def peak_nbytes(session: Any) -> int:
    tracemalloc.start()
    try:
        session.run(None, X)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.requirement("M23")
@pytest.mark.parametrize("text", [CHAIN, STATIC], ids=["dynamic", "static"])
def test_third_run_allocates_nothing_but_its_output(text: str) -> None:
    with session_of(text) as session:
        for _ in range(2):
            session.run(None, X)
        assert peak_nbytes(session) < NBYTES + 65536


#: What a transformer's layer spends its time in. Blocks of 64 kB, two per thread, are what activations need besides.
LAYER = """g (float[1,128,512] x) => (float[1,128,512] y)
<float[512,512] w = {0}, float[512] scale = {1}, float[512] shift = {2}> {
    h = LayerNormalization(x, scale, shift)
    p = MatMul(h, w)
    q = Softmax(p)
    r = Gelu(q)
    s = Add(r, x)
    t = MatMul(s, w)
    u = Erf(t)
    y = Add(u, s)
}"""


@pytest.mark.requirement("M23")
@pytest.mark.parametrize("threads", [1, 2])
def test_layers_of_transformers_allocate_blocks_at_most(threads: int) -> None:
    values = np.random.default_rng(0).standard_normal((3, 512, 512)).astype(np.float32)
    text = LAYER
    for number, value in enumerate((values[0], values[1, 0], values[2, 0])):
        text = text.replace(f"{{{number}}}", "{" + ", ".join(f"{v:.4f}" for v in value.ravel()) + "}")
    x = {"x": values[:1, :128]}
    with session_of(text, intra_op_num_threads=threads) as session:
        for _ in range(2):
            session.run(None, x)
        tracemalloc.start()
        try:
            (y,) = session.run(None, x)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < y.nbytes + threads * 5 * 65536 + 32768


@pytest.mark.requirement("M23")
def test_without_pattern_and_reuse_a_run_takes_more() -> None:
    with session_of(CHAIN, enable_mem_pattern=False, enable_mem_reuse=False) as plain:
        plain.run(None, X)
        assert peak_nbytes(plain) > 3 * NBYTES


@pytest.mark.requirement("M23")
def test_peak_is_near_the_best_possible_for_the_order() -> None:
    with session_of(STATIC) as session:
        executable = session._state.executable
        assert executable.pool is not None
        patterns = executable.pool.patterns_of(())
        assert patterns is not None
        buffers = [
            Buffer(owner, size, tuple(zip(counter.starts, counter.ends, strict=True)))
            for owner, size in patterns.patterns[0].sizes.items()
            for counter in [executable.allocation.buffers[owner]]
        ]
        assert patterns.peak_size <= 1.1 * least_possible_peak(buffers)


@pytest.mark.requirement("M12")
@pytest.mark.requirement("M20")
def test_first_run_of_a_shape_is_traced_and_gives_the_pattern_that_static_shapes_have_at_once() -> None:
    with session_of(CHAIN) as dynamic, session_of(STATIC) as static:
        dynamic.run(None, X)
        pools = [session._state.executable.pool for session in (dynamic, static)]
        assert pools[0] is not None
        assert pools[1] is not None
        traced = pools[0].patterns_of(dynamic._state.executable._signature([X["x"]]))
        planned = pools[1].patterns_of(())
    assert traced == planned


@pytest.mark.requirement("M12")
def test_a_traced_run_records_what_was_there_what_came_and_what_was_reused() -> None:
    with session_of(CHAIN) as session:
        executable = session._state.executable
        tracer = executable._tracer()
        values = executable.initial_values()
        values[executable.plan.inputs[0]] = X["x"]
        frame = ExecutionFrame(executable, values, RunControl(), tracer=tracer)
        execute_sequentially(executable.instructions, frame)
    assert tracer is not None
    name_of = executable.plan.values.name_of
    assert {name_of(r.value_index): (r.allocation_step, name_of(r.reused_buffer)) for r in tracer.records()} == {
        "x": (0, "x"),
        "a": (0, "a"),
        "b": (1, "b"),
        "c": (2, "b"),
        "d": (3, "d"),
        "e": (4, "d"),
    }


@pytest.mark.requirement("M19")
@pytest.mark.parametrize("kind", [AllocKind.PRE_EXISTING, "elsewhere"])
def test_a_kind_that_no_output_can_have_is_a_failure_that_names_the_node(kind: Any) -> None:
    with session_of(CHAIN) as session:
        executable = session._state.executable
        frame = ExecutionFrame(executable, executable.initial_values(), RunControl())
        slot = executable.instructions[0].outputs[0]._replace(kind=kind)
        with pytest.raises(PlanVerificationError, match=r"node 'Exp_.*planned as '.*', which nothing") as caught:
            frame.allocate(slot, (SIZE,), np.dtype(np.float32), 0)
    assert caught.value.code is StatusCode.FAIL


@pytest.mark.requirement("M18")
@pytest.mark.requirement("M19")
def test_values_lie_where_their_kind_says() -> None:
    with session_of(STATIC) as session:
        executable = session._state.executable
        kinds = {
            executable.plan.values.name_of(index): value.alloc_kind
            for index, value in enumerate(executable.allocation.values)
        }
        assert kinds["x"] is AllocKind.PRE_EXISTING
        assert kinds["y"] is AllocKind.ALLOCATE_OUTPUT
        session.run(None, X)
        assert executable.pool is not None
        patterns = executable.pool.patterns_of(())
        assert patterns is not None
        views = executable.pool.take((), patterns).views
        placed = {name for name in kinds if views[executable.plan.values.index_of(name)] is not None}
    assert placed == {"a", "b", "c", "d", "e"}
