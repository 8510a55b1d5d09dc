"""Bytes in use over the steps of a plan, and where blocks have their peak."""

from __future__ import annotations

import pytest

from ortpkg.runtime.session.memory_profile import block_peaks, bytes_in_use, laid_out_values
from tests.session.conftest import CHAIN, session_of
from tests.session.planned_graphs import planned_graph, planned_value

_CHAIN = CHAIN.replace("[N]", "[1000]")
_BRANCHED = """g (float[64] x) => (float[64] y) {
    a = Exp(x)
    b = Neg(a)
    s = ReduceSum <keepdims = 1> (b)
    c = Mul(a, s)
    d = Concat <axis = 0> (c, b)
    e = ReduceMax <keepdims = 1> (d)
    y = Add(e, a)
}"""


@pytest.mark.parametrize("text", [_CHAIN, _BRANCHED])
def test_the_most_that_is_in_use_is_the_least_possible_peak(text: str) -> None:
    with session_of(text) as session:
        graph = session.get_plan().graph
    values = laid_out_values(graph)
    assert max(bytes_in_use(values, len(graph.nodes))) == graph.least_possible_nbytes > 0


def test_a_buffer_that_is_handed_on_counts_once() -> None:
    graph = planned_graph(
        5, [planned_value("a", (0, 100), (0, 2)), planned_value("b", (0, 60), (2, 3), buffer="a")]
    )
    assert bytes_in_use(laid_out_values(graph), 5) == (100, 100, 100, 100, 0)


def test_a_buffer_that_is_taken_up_again_counts_only_while_it_is_held() -> None:
    graph = planned_graph(
        6, [planned_value("a", (0, 100), (0, 1)), planned_value("b", (0, 100), (4, 5), buffer="a")]
    )
    assert bytes_in_use(laid_out_values(graph), 6) == (100, 100, 0, 0, 100, 100)


def test_what_outlives_the_last_step_ends_with_it() -> None:
    graph = planned_graph(
        2, [planned_value("a", (0, 8), (1, 2)), planned_value("b", (8, 8), (0, None))]
    )
    assert [value.last_step for value in laid_out_values(graph)] == [1, 1]
    assert bytes_in_use(laid_out_values(graph), 2) == (8, 16)


def test_the_peak_is_where_the_block_is_reached_with_most_in_use() -> None:
    values = [
        planned_value("top, early", (90, 10), (0, 1)),
        planned_value("below", (0, 90), (3, 4)),
        planned_value("top, late", (90, 10), (4, 5)),
    ]
    graph = planned_graph(6, values)
    (peak,) = block_peaks(graph, laid_out_values(graph))
    assert (peak.device, peak.nbytes, peak.step) == ("Cpu", 100, 4)


def test_each_memory_has_a_peak_of_its_own() -> None:
    values = [
        planned_value("a", (0, 100), (0, 1)),
        planned_value("b", (0, 30), (2, 2), device="Gpu"),
    ]
    graph = planned_graph(3, values)
    peaks = block_peaks(graph, laid_out_values(graph))
    assert [(peak.device, peak.nbytes, peak.step) for peak in peaks] == [
        ("Cpu", 100, 0),
        ("Gpu", 30, 2),
    ]
