"""Random graphs give the same whatever the engine does with memory and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.runtime.session.options import ExecutionMode, GraphOptimizationLevel
from tests.session.conftest import reference, session_of

#: Operator → number of inputs. Every value has the shape [N, 4]; some operators work in place, some
#: give views, some have kernels of ours, some only the reference's.
OPERATORS = {
    "Neg": 1,
    "Tanh": 1,
    "Sigmoid": 1,
    "Relu": 1,
    "Identity": 1,
    "Selu": 1,
    "Softsign": 1,
    "Add": 2,
    "Mul": 2,
    "Sub": 2,
    "Max": 2,
    "Where": 2,
    "Flatten": 1,
    "Reshape": 1,
    "Transpose": 1,
    "MatMul": 1,
    "Softmax": 1,
    "Split": 1,
    "If": 1,
}


def line_of(op_type: str, number: int, used: list[str]) -> str:
    """One or more nodes that make ``v<number>`` from values of shape [N, 4]."""
    made, first = f"v{number}", used[0]
    match op_type:
        case "Where":
            return (
                f"m{number} = Less({first}, {used[1]}) {made} = Where(m{number}, {first},"
                f" {used[1]})"
            )
        case "Reshape":
            return f"r{number} = Reshape({first}, by_two) {made} = Reshape(r{number}, by_four)"
        case "Flatten":
            return f"f{number} = Flatten<axis = 0>({first}) {made} = Reshape(f{number}, by_four)"
        case "Transpose":
            return f"t{number} = Transpose({first}) {made} = Transpose(t{number})"
        case "MatMul":
            return f"{made} = MatMul({first}, w)"
        case "Split":
            halves = f"l{number}, h{number} = Split<axis = 1, num_outputs = 2>({first})"
            return f"{halves} {made} = Concat<axis = 1>(h{number}, l{number})"
        case "If":
            return (
                f"{made} = If (flag) <then_branch = t{number} () => (float[N,4] p{number}) {{"
                f" q{number} = Neg({first}) p{number} = Tanh(q{number}) }}, else_branch = e{number}"
                f" () => (float[N,4] o{number}) {{ o{number} = Identity({first}) }}>"
            )
    return f"{made} = {op_type}({', '.join(used)})"


@st.composite
def random_models(draw: st.DrawFn) -> str:
    values, lines = ["x", "c"], []
    for number in range(draw(st.integers(1, 14))):
        op_type = draw(st.sampled_from(sorted(OPERATORS)))
        used = [draw(st.sampled_from(values[-5:])) for _ in range(OPERATORS[op_type])]
        lines.append(line_of(op_type, number, used))
        values.append(f"v{number}")
    made = values[2:]
    outputs = {made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))}
    declared = ", ".join(f"float[N,4] {name}" for name in sorted(outputs))
    matrix = ", ".join(str(n / 8) for n in range(-8, 8))
    shapes = "int64[2] by_two = {-1, 2}, int64[2] by_four = {-1, 4}"
    weights = f"float[1,4] c = {{1, -2, 0.5, 3}}, float[4,4] w = {{{matrix}}}, {shapes}"
    body = "\n".join(lines)
    return f"g (bool flag, float[N,4] x) => ({declared}) <{weights}>\n{{\n z = Neg(x)\n{body}\n}}"


OPTIONS: list[dict[str, Any]] = [
    {},
    {"graph_optimization_level": GraphOptimizationLevel.ORT_DISABLE_ALL},
    {"enable_mem_pattern": False},
    {"enable_mem_pattern": False, "enable_mem_reuse": False},
    {"execution_mode": ExecutionMode.ORT_PARALLEL, "inter_op_num_threads": 2},
]


@pytest.mark.requirement("M21")
@settings(max_examples=25, deadline=None)
@given(text=random_models(), flag=st.booleans())
def test_all_options_agree_with_the_reference(text: str, flag: bool) -> None:
    feeds = [
        {
            "flag": np.array(flag),
            "x": np.random.default_rng(size).standard_normal((size, 4), dtype=np.float32),
        }
        for size in (3, 1)
    ]
    expected = [reference(text, feed) for feed in feeds]
    for options in OPTIONS:
        with session_of(text, **options) as session:
            for turn in (0, 0, 1, 0, 1, 0):
                for ours, theirs in zip(
                    session.run(None, feeds[turn]), expected[turn], strict=True
                ):
                    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
