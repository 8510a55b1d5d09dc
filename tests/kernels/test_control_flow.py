"""If, Loop and Scan, with sub-graphs that are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import CancelledError, LimitExceededError
from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.kernels.control_flow import if_, loop, scan, scan_8
from ortpkg.runtime.kernels.op_kernel import KernelFactory, Tensor, Value
from tests.kernels.node_runner import NodeInfo, RunContext

Body = Callable[..., Sequence[Value]]


class BodyContext(RunContext):
    """Runs a Python function for each sub-graph; ends the run after ``patience`` iterations."""

    bodies: dict[str, Body]
    patience: int = 1000

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:
        return list(self.bodies[attribute](*feeds))

    @property
    def is_watched(self) -> bool:
        return False

    def check_cancelled(self) -> None:
        self.patience -= 1
        if self.patience < 0:
            raise CancelledError("the run was cancelled")


def body_graph(outputs: int, counter_shape: tuple[int, ...] = ()) -> Graph:
    graph = Graph("body")
    graph.set_inputs(["counter"])
    graph.set_type("counter", TensorType(ElementType.INT64, counter_shape))
    graph.set_outputs([f"out{index}" for index in range(outputs)])
    for name in graph.outputs:
        graph.set_type(name, TensorType(ElementType.FLOAT, ("n", 2)))
    return graph


def run(
    factory: KernelFactory,
    inputs: Sequence[Value],
    outputs: int,
    *,
    body: Body,
    graph: Graph | None = None,
    limit_nbytes: int = 1 << 20,
    **attributes: Any,
) -> Any:
    """Runs a control-flow kernel with one body (for If, the branch that is taken)."""
    names = tuple("" if value is None else f"x{slot}" for slot, value in enumerate(inputs))
    kinds = {int: "INT", tuple: "INTS"}
    found = {name: Attribute(kinds[type(value)], value) for name, value in attributes.items()}
    # a graph without nodes is falsy
    found["body"] = Attribute("GRAPH", body_graph(8) if graph is None else graph)
    node = Node(
        index=0,
        name="n",
        op_type=factory.__name__,
        domain="",
        inputs=names,
        outputs=tuple(f"y{index}" for index in range(outputs)),
        attributes=found,
    )
    context = BodyContext(limit_nbytes=limit_nbytes)
    context.bodies = {"body": body, "then_branch": body}
    return factory(NodeInfo(node=node, opset=21))(context, *inputs)


def number(value: Any) -> Tensor:
    return np.array(value)


YES, NO = number(True), number(False)
GRAPH_OF_2, GRAPH_OF_3 = body_graph(2), body_graph(3)


# --- If -------------------------------------------------------------------------------------------


def test_if_runs_one_branch_only() -> None:
    assert run(if_, [np.array([True])], 1, body=lambda: [number(1)]).item() == 1


def test_if_refuses_a_condition_of_several_elements() -> None:
    with pytest.raises(
        ValueError, match=r"the condition of If has one element, but this one has shape \(2,\)"
    ):
        run(if_, [np.array([True, False])], 1, body=lambda: [number(1)])


def test_branch_that_gives_one_value_twice_gives_two_arrays() -> None:
    value = np.zeros(3)
    first, second = run(if_, [YES], 2, body=lambda: [value, value])
    assert not np.may_share_memory(first, second)


# --- Loop -----------------------------------------------------------------------------------------


def counting(counter: Tensor, condition: Tensor, total: Tensor) -> list[Value]:
    return [number(bool(total < 5)), total + 1, total.astype(np.float32)]


@pytest.mark.parametrize(
    ("trips", "condition", "expected"),
    [
        (3, None, 3),  # for: the body's condition is ignored
        (9, None, 9),
        (None, True, 6),  # while
        (None, False, 0),
        (3, True, 3),  # whichever ends first
        (99, True, 6),
        (0, True, 0),
        (-4, True, 0),
    ],
)
def test_loop_ends_by_count_or_condition(
    trips: int | None, condition: bool | None, expected: int
) -> None:
    inputs = [
        None if trips is None else number(trips),
        None if condition is None else number(condition),
        number(0),
    ]
    total, scanned = run(loop, inputs, 2, body=counting, graph=GRAPH_OF_3)
    assert total.item() == expected
    assert len(scanned) == expected


def test_loop_without_count_and_condition_ends_when_it_is_cancelled() -> None:
    with pytest.raises(CancelledError):
        run(loop, [None, None, number(0)], 1, body=lambda _i, _c, x: [YES, x], graph=GRAPH_OF_2)


def test_scan_output_of_no_iterations_has_the_declared_type() -> None:
    _, scanned = run(loop, [number(0), None, number(0)], 2, body=counting, graph=GRAPH_OF_3)
    assert scanned.shape == (0, 0, 2)
    assert scanned.dtype == np.float32


def test_loop_hands_its_state_back_as_its_own() -> None:
    initial = np.zeros(3)
    for trips in (0, 2):
        inputs = [number(trips), None, initial]
        assert not np.may_share_memory(
            run(loop, inputs, 1, body=lambda _i, _c, x: [YES, x], graph=GRAPH_OF_2), initial
        )


@pytest.mark.parametrize("shape", [(), (1,)])
def test_loop_counter_has_the_rank_that_the_body_declares(shape: tuple[int, ...]) -> None:
    seen: list[tuple[int, ...]] = []

    def body(counter: Tensor, _condition: Tensor) -> list[Value]:
        seen.append(counter.shape)
        return [YES]

    run(loop, [number(2), None], 0, body=body, graph=body_graph(1, shape))
    assert seen == [shape, shape]


def test_what_a_loop_collects_counts_against_the_memory_limit() -> None:
    def body(_counter: Tensor, _condition: Tensor) -> list[Value]:
        return [YES, np.zeros(1000, np.float32)]

    with pytest.raises(LimitExceededError):
        run(loop, [number(10**9), None], 1, body=body, graph=GRAPH_OF_2, limit_nbytes=100_000)


def test_scan_outputs_keep_one_shape() -> None:
    def body(counter: Tensor, _condition: Tensor) -> list[Value]:
        return [YES, np.zeros(int(counter))]

    with pytest.raises(
        ValueError, match=r"has shape \(0,\) and type float64 in the first iteration, but \(1,\)"
    ):
        run(loop, [number(2), None], 1, body=body, graph=GRAPH_OF_2)


# --- Scan -----------------------------------------------------------------------------------------


def summing(state: Tensor, x: Tensor) -> list[Value]:
    return [state + x, state + x]


def test_scan_runs_along_the_first_axis() -> None:
    state, sums = run(
        scan,
        [np.zeros(2), np.arange(6.0).reshape(3, 2)],
        2,
        body=summing,
        graph=GRAPH_OF_2,
        num_scan_inputs=1,
    )
    assert state.tolist() == [6, 9]
    assert sums.tolist() == [[0, 1], [2, 4], [6, 9]]


def test_scan_of_scalars_feeds_scalars() -> None:
    state, sums = run(
        scan, [number(0.0), np.arange(3.0)], 2, body=summing, graph=GRAPH_OF_2, num_scan_inputs=1
    )
    assert state.shape == ()
    assert sums.tolist() == [0, 1, 3]


def test_scan_along_other_axes_and_backwards() -> None:
    x = np.arange(6.0).reshape(2, 3)
    _, sums = run(
        scan,
        [np.zeros(2), x],
        2,
        body=summing,
        graph=GRAPH_OF_2,
        num_scan_inputs=1,
        scan_input_axes=(-1,),
        scan_input_directions=(1,),
        scan_output_axes=(1,),
        scan_output_directions=(1,),
    )
    assert sums.tolist() == np.cumsum(x[:, ::-1], axis=1)[:, ::-1].tolist()


def test_scan_of_nothing_gives_empty_outputs() -> None:
    attributes: dict[str, Any] = {"num_scan_inputs": 1, "scan_output_axes": (1,)}
    state, sums = run(
        scan, [np.ones(2), np.zeros((0, 2))], 2, body=summing, graph=GRAPH_OF_2, **attributes
    )
    assert state.tolist() == [1, 1]
    assert sums.shape == (0, 0, 2)


def test_scan_inputs_have_one_length() -> None:
    with pytest.raises(ValueError, match=r"but these have \[2, 3\]"):
        run(
            scan,
            [np.zeros(2), np.zeros(3)],
            1,
            body=lambda a, b: [a + b],
            graph=body_graph(1),
            num_scan_inputs=2,
        )


def test_scan_8_runs_each_row_of_the_batch_to_its_length() -> None:
    x = np.arange(12.0).reshape(2, 3, 2)
    lengths, state = np.array([3, 1]), np.zeros((2, 2))
    final, sums = run(
        scan_8, [lengths, state, x], 2, body=summing, graph=GRAPH_OF_2, num_scan_inputs=1
    )
    assert final.tolist() == [[6, 9], [6, 7]]
    assert sums.tolist() == [[[0, 1], [2, 4], [6, 9]], [[6, 7], [0, 0], [0, 0]]]
