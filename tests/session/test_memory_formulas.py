"""What ``plan`` says that symbolic models take, held against what their runs take.

All kernels here write where they are told to. What others take on their way stands in no plan.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.session.conftest import CHAIN, session_of

SIZES = {"N": 600, "M": 211, "K": 70, "S": 97}
#: Of a run's own objects, whatever the sizes are, and of what a block is aligned to.
OWN_NBYTES = 100_000

MODELS = {
    "a chain": CHAIN.replace("[N]", "[N, 256]"),
    "a product": """g (float[N, K] x, float[K, M] w) => (float[N, M] y) {
        a = MatMul(x, w)  b = Relu(a)  c = Exp(b)  y = Mul(c, b) }""",
    "attention": """g (float[N, S, 64] q, float[N, M, 64] k) => (float[N, S, 64] y) {
        t = Transpose <perm = [0, 2, 1]> (k)  s = MatMul(q, t)  p = Softmax(s)
        y = MatMul(p, k) }""",
    "a cache that grows": """g (float[N, S] x, float[N, M] past) => (float[N, T] y) {
        a = Concat <axis = 1> (past, x)  b = Exp(a)  c = Neg(b)  y = Add(c, a) }""",
    "what is broadcast": """g (float[N, 1] x, float[1, M] z) => (float[N, M] y) {
        a = Exp(x)  b = Exp(z)  c = Add(a, b)  d = Tanh(c)  y = Mul(d, c) }""",
    "a sum": """g (float[N, M] x) => (float[N, 1] y) <int64[1] axes = {1}> {
        a = Exp(x)  b = Tanh(a)  s = ReduceSum <keepdims = 1> (b, axes)  y = Sqrt(s) }""",
    "two branches": """g (float[N, 512] x, float[M, 512] z) => (float[N, 512] y, float[M, 512] v) {
        a = Exp(x)  b = Exp(z)  c = Tanh(a)  d = Tanh(b)  y = Add(c, a)  v = Add(d, b) }""",
}


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_a_run_takes_what_the_plan_says_of_its_sizes(text: str) -> None:
    with session_of(text) as session:
        said = session.get_plan(sizes=SIZES).graph
        assert said.peak_formulas
        feeds = {
            each.name: np.ones([_size(size) for size in each.shape or ()], np.float32)
            for each in session.get_inputs()
        }
        outputs: list[np.ndarray] = []
        tracemalloc.start()
        try:
            for _ in range(3):
                outputs.clear()
                outputs += session.run(None, feeds)
            _, most_nbytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    taken_nbytes = most_nbytes - sum(each.nbytes for each in outputs)
    assert said.least_possible_nbytes > 4 * OWN_NBYTES
    assert abs(taken_nbytes - said.least_possible_nbytes) < OWN_NBYTES


def _size(dimension: int | str | None) -> int:
    return SIZES[dimension] if isinstance(dimension, str) else dimension or 0
