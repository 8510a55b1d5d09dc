"""What a run does with memory: traced once, then no more allocation than what the caller gets."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.buffer_layout import Buffer, least_possible_peak
from ortpkg.foundations.errors import LimitExceededError, PlanVerificationError, StatusCode
from ortpkg.runtime.engine.allocation_planner import AllocKind
from ortpkg.runtime.engine.execution_frame import ExecutionFrame
from ortpkg.runtime.engine.memory_pattern import OrtValuePatternPlanner
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.engine.sequential_executor import execute_sequentially
from ortpkg.runtime.session.options import RunOptions
from tests.session.conftest import CHAIN, reference, session_of

SIZE = 1 << 16
NBYTES = 4 * SIZE
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


#: What a transformer's layer spends its time in. Blocks of 64 kB, two per thread, are what
#: activations need besides.
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
        text = text.replace(
            f"{{{number}}}", "{" + ", ".join(f"{v:.4f}" for v in value.ravel()) + "}"
        )
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
        entry = executable.pool.find(())
        assert entry is not None
        patterns = entry.patterns
        buffers = [
            Buffer(owner, size, tuple(zip(counter.starts, counter.ends, strict=True)))
            for owner, size in patterns.patterns[0].sizes.items()
            for counter in [executable.allocation.buffers[owner]]
        ]
        assert patterns.peak_size <= 1.1 * least_possible_peak(buffers)


@pytest.mark.requirement("M12")
@pytest.mark.requirement("M20")
def test_first_run_of_symbolic_sizes_gives_the_pattern_that_static_shapes_have_at_once() -> None:
    with session_of(CHAIN) as dynamic, session_of(STATIC) as static:
        dynamic.run(None, X)
        pools = [session._state.executable.pool for session in (dynamic, static)]
        assert pools[0] is not None
        assert pools[1] is not None
        found, planned = pools[0].find(X["x"].shape), pools[1].find(())
    assert found is not None
    assert planned is not None
    assert found.patterns == planned.patterns


@pytest.mark.requirement("M12")
def test_a_traced_run_records_what_was_there_what_came_and_what_was_reused() -> None:
    with session_of(CHAIN) as session:
        executable = session._state.executable
        tracer = OrtValuePatternPlanner(executable.plan, executable.allocation)
        values = executable.initial_values()
        values[executable.plan.inputs[0]] = X["x"]
        frame = ExecutionFrame(executable.ground, values, RunControl(), tracer=tracer)
        execute_sequentially(executable.instructions, frame)
    name_of = executable.plan.values.name_of
    assert {
        name_of(r.value_index): (r.allocation_step, name_of(r.reused_buffer))
        for r in tracer.records()
    } == {
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
        frame = ExecutionFrame(executable.ground, executable.initial_values(), RunControl())
        slot = executable.instructions[0].outputs[0]._replace(kind=kind)
        with pytest.raises(
            PlanVerificationError, match=r"node 'Exp_.*planned as '.*', which nothing"
        ) as caught:
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
        entry = executable.pool.find(())
        assert entry is not None
        views = executable.pool.take(entry).views
        placed = {
            name for name in kinds if views[executable.plan.values.index_of(name)] is not None
        }
    assert placed == {"a", "b", "c", "d", "e"}


#: A step of a decoder: its cache grows by one place each time, and what it computes grows with it.
GROWING = """g (float[B,1,16] x, float[B,P,16] past) => (float[B,1,16] y, float[B,T,16] present) {
    a = Neg(x)
    b = Neg(a)
    present = Concat <axis = 1> (past, b)
    turned = Transpose <perm = [0, 2, 1]> (present)
    products = MatMul(a, turned)
    weights = Softmax(products)
    mixed = MatMul(weights, present)
    y = Add(mixed, x)
}"""


def growing_feeds(past: int, batch: int = 1) -> dict[str, Any]:
    generator = np.random.default_rng(past)
    shapes = {"x": (batch, 1, 16), "past": (batch, past, 16)}
    return {
        name: generator.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()
    }


@pytest.mark.requirement("M21")
def test_a_cache_that_grows_finds_its_pattern_ready() -> None:
    with session_of(GROWING) as session:
        pool = session._state.executable.pool
        assert pool is not None
        for past in (5, 6):
            session.run(None, growing_feeds(past))
        entry = pool.find((1, 6))
        for past in range(6, 60):
            feeds = growing_feeds(past)
            assert pool.find((1, past)) is entry
            for ours, theirs in zip(
                session.run(None, feeds), reference(GROWING, feeds), strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        assert len(pool.classes) == 2


@pytest.mark.requirement("M21")
def test_caches_whose_lengths_have_no_names_grow_together() -> None:
    caches = [f"past{number}" for number in range(12)]
    inputs = ", ".join(f"float[1,?,4] {name}" for name in caches)
    nodes = "\n".join(
        f"doubled{number} = Add({name}, {name}) e{number} = Exp(doubled{number}) s{number} ="
        f" ReduceSum(e{number})"
        for number, name in enumerate(caches)
    )
    text = (
        f"g ({inputs}) => (float[1,1,1] y) {{ {nodes} y ="
        f" Sum({', '.join(f's{n}' for n in range(12))}) }}"
    )
    with session_of(text) as session:
        pool = session._state.executable.pool
        assert pool is not None
        for length in range(100, 112):
            feeds = {
                name: np.full((1, length, 4), number / 9, np.float32)
                for number, name in enumerate(caches)
            }
            np.testing.assert_allclose(
                session.run(None, feeds)[0], reference(text, feeds)[0], rtol=1e-4
            )
        assert len(pool.classes) == 2


@pytest.mark.requirement("M21")
def test_lengths_and_batches_in_any_order_stay_right() -> None:
    with session_of(GROWING) as session:
        runs = [
            (700, 1),
            (0, 3),
            (701, 1),
            (1, 1),
            (90, 2),
            (702, 3),
            (12, 1),
            (0, 1),
            *((n, 1) for n in range(9)),
        ]
        for past, batch in runs:
            feeds = growing_feeds(past, batch)
            for ours, theirs in zip(
                session.run(None, feeds), reference(GROWING, feeds), strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_room_to_grow_is_no_reason_to_pass_the_memory_limit() -> None:
    limit = RunOptions(memory_limit_nbytes=1 << 20)
    with session_of(GROWING) as session:
        for past in (5, 6):
            session.run(None, growing_feeds(past))
        pool = session._state.executable.pool
        entry = pool.find((1, 6)) if pool is not None else None
        assert entry is not None
        large = tuple(
            dataclasses.replace(each, peak_size=1 << 30) for each in entry.patterns.patterns
        )
        entry.patterns = dataclasses.replace(entry.patterns, patterns=large)
        assert session.run(None, growing_feeds(7), limit)[1].shape == (1, 8, 16)


@pytest.mark.requirement("M12")
def test_where_only_a_run_can_tell_sizes_the_first_run_of_a_class_is_traced() -> None:
    text = """g (float[N] x) => (float[M] y) <int64[1] all = {-1}> {
        found = NonZero(x)
        floats = Cast <to = 1> (found)
        doubled = Add(floats, floats)
        flat = Reshape(doubled, all)
        y = Exp(flat)
    }"""
    with session_of(text) as session:
        executable = session._state.executable
        assert executable.pool is not None
        assert executable.size_classes is not None
        assert not executable.size_classes.is_complete
        for size in (8, 8, 4, 9, 300, 8):
            feeds = {"x": np.ones(size, np.float32)}
            np.testing.assert_allclose(session.run(None, feeds)[0], reference(text, feeds)[0])
        assert executable.pool.find((8,)) is not None


DOUBLING = """g (float[N] x, int64 n) => (float[M] y) {
  y = Loop <body = b (int64 i, bool c, float[K] s) => (bool go, float[L] t) {
    go = Identity(c) t = Concat<axis=0>(s, s) }> (n, , x) }"""
GROWING_SEQUENCE = """g (float[N] x, int64 n, int64[1] size, float one) => (seq(float[N]) s) {
  empty = SequenceEmpty()
  s = Loop <body = b (int64 i, bool c, seq(float[N]) r) => (bool go, seq(float[N]) t) {
    go = Identity(c) wide = Expand(one, size) most = ReduceMax<keepdims=0>(wide)
    next = Mul(x, most) t = SequenceInsert(r, next) }> (n, , empty) }"""


def test_what_a_loop_carries_counts_beside_what_it_makes_of_that() -> None:
    feeds = {"x": np.ones(1 << 18, np.float32), "n": np.array(3)}  # of 1 MiB, then 2, 4 and 8
    with session_of(DOUBLING) as session:
        with pytest.raises(LimitExceededError, match=r"beside the 4\.2 MB that it holds"):
            session.run(None, feeds, RunOptions(memory_limit_nbytes=10 << 20))
        (y,) = session.run(None, feeds, RunOptions(memory_limit_nbytes=13 << 20))
    assert y.shape == (1 << 21,)


def test_a_sequence_that_a_loop_carries_counts_beside_what_the_body_needs() -> None:
    feeds = {"x": np.ones(1 << 18, np.float32), "n": np.array(4), "one": np.float32(1)}
    feeds["size"] = np.array([1 << 20])  # 4 MiB beside up to 3 elements of 1 MiB
    with session_of(GROWING_SEQUENCE) as session:
        with pytest.raises(LimitExceededError, match=r"beside the 3\.2 MB that it holds"):
            session.run(None, feeds, RunOptions(memory_limit_nbytes=13 << 19))
        (s,) = session.run(None, feeds, RunOptions(memory_limit_nbytes=11 << 20))
    assert len(s) == 4
