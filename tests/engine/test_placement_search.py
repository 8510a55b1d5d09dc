"""The cheapest placement is that which trying all of them finds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.runtime.engine import placement_search
from ortpkg.runtime.engine.placement_search import HOST, PlacementProblem, find_cheapest, weigh

#: Two providers: one in the CPU's memory, one far away. A copy costs 10 each way.
FAR = {"memory_of": (1, 0), "crossing_costs": (0, 0), "limits": (None, None)}


def chain(costs: list[dict[int, int]], copy: int = 10) -> PlacementProblem:
    """Each node reads what the one before it made."""
    count = len(costs)
    return PlacementProblem(
        costs=costs,
        reads=[[number] for number in range(count)],
        writes=[[number + 1] for number in range(count)],
        graph_inputs=[0],
        graph_outputs=[count],
        copy_costs=[(0, copy)] * (count + 1),
        constants=[[]] * count,
        memory_of=(1, 0),
        crossing_costs=(0, 0),
        limits=(None, None),
    )


@pytest.mark.requirement("P10", "M03")
@pytest.mark.parametrize(
    ("costs", "providers"),
    [
        # what is saved does not pay for the way there and back
        (
            [{0: 1, 1: 5}, {0: 1, 1: 5}],
            (1, 1),
        ),
        ([{0: 1, 1: 20}, {0: 1, 1: 20}], (0, 0)),
        ([{0: 1, 1: 50}, {0: 9, 1: 1}, {0: 1, 1: 50}], (0, 0, 0)),  # not back for one node
        ([{0: 1, 1: 50}, {0: 90, 1: 1}, {0: 1, 1: 50}], (0, 1, 0)),
        ([{0: 1, 1: 50}, {1: 1}, {0: 1, 1: 50}], (0, 1, 0)),  # the far one cannot run it
        ([{0: 5, 1: 5}], (1,)),
    ],
)
def test_operator_and_transfer_are_weighed_against_each_other(
    costs: list[dict[int, int]], providers: tuple[int, ...]
) -> None:
    found = find_cheapest(chain(costs))
    assert found is not None
    assert (found.providers, found.is_exact) == (providers, True)


@pytest.mark.requirement("M03")
def test_equal_costs_go_to_the_provider_that_comes_first() -> None:
    found = find_cheapest(chain([{0: 5, 1: 5}, {0: 5, 1: 5}], copy=0))
    assert found is not None
    assert found.providers == (0, 0)


@pytest.mark.requirement("M03")
def test_value_is_copied_once_for_all_that_read_it() -> None:
    problem = PlacementProblem(
        costs=[{1: 1}, {0: 1, 1: 9}, {0: 1, 1: 9}],
        reads=[[0], [1], [1]],
        writes=[[1], [2], [3]],
        graph_inputs=[0],
        graph_outputs=[],
        copy_costs=[(0, 10)] * 4,
        constants=[[], [], []],
        memory_of=(1, 0),
        crossing_costs=(0, 0),
        limits=(None, None),
    )
    found = find_cheapest(problem)
    assert found is not None
    assert (found.providers, found.compute_cost, found.transfer_cost) == ((1, 0, 0), 3, 10)


@pytest.mark.requirement("M03")
def test_limit_of_a_providers_memory_keeps_nodes_away_and_shared_constants_count_once() -> None:
    problem = PlacementProblem(
        costs=[{0: 1, 1: 100}] * 3,
        reads=[[], [], []],
        writes=[[0], [1], [2]],
        graph_inputs=[],
        graph_outputs=[],
        copy_costs=[(0, 0)] * 3,
        constants=[[(0, 60)], [(1, 60)], [(0, 60)]],
        memory_of=(1, 0),
        crossing_costs=(0, 0),
        limits=(100, None),
    )
    found = find_cheapest(problem)
    assert found is not None
    assert found.providers == (0, 1, 0)
    assert not weigh(problem, (0, 0, 0)).is_within_limits


@pytest.mark.parametrize(
    ("limit", "providers"), [(60, (0, 1, 1)), (59, (1, 1, 1)), (120, (0, 1, 0))]
)
def test_memory_is_used_to_the_last_byte_by_what_is_placed_there(
    limit: int, providers: tuple[int, ...]
) -> None:
    problem = PlacementProblem(
        costs=[{0: 1, 1: 100}, {1: 1}, {0: 10, 1: 20}],
        reads=[[], [], []],
        writes=[[0], [1], [2]],
        graph_inputs=[],
        graph_outputs=[],
        copy_costs=[(0, 0)] * 3,
        constants=[[(0, 60)], [(1, 60)], [(2, 60)]],
        memory_of=(1, 0),
        crossing_costs=(0, 0),
        limits=(limit, None),
    )
    found = find_cheapest(problem)
    assert found is not None
    assert found.providers == providers


@pytest.mark.parametrize(
    ("limit", "most", "expected"),
    [
        (30, 4, ((1, 1, 0), True)),
        (30, 1, None),  # the only way was forgotten
        (59, 4, ((0, 1, 0), True)),
        (59, 1, ((0, 1, 0), False)),
    ],
)
def test_a_dearer_way_that_needs_less_memory_is_kept_behind_one_that_is_worse_in_both(
    limit: int,
    most: int,
    expected: tuple[tuple[int, ...], bool] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After two nodes the ways are (0, 1): cost 1, 10 bytes; (0, 0): 2, 30 bytes.

    (1, 1): 3, none.
    """
    problem = PlacementProblem(
        costs=[{0: 0, 1: 2}, {0: 2, 1: 1}, {0: 0}],
        reads=[[], [], []],
        writes=[[0], [1], [2]],
        graph_inputs=[],
        graph_outputs=[],
        copy_costs=[(0, 0)] * 3,
        constants=[[(0, 10)], [(1, 20)], [(2, 30)]],
        memory_of=(1, 0),
        crossing_costs=(0, 0),
        limits=(limit, None),
    )
    monkeypatch.setattr(placement_search, "_MOST_CHOICES_OF_A_STATE", most)
    found = find_cheapest(problem)
    assert (found and (found.providers, found.is_exact)) == expected


def test_nothing_fits_is_said() -> None:
    problem = PlacementProblem(
        costs=[{0: 1}],
        reads=[[]],
        writes=[[0]],
        graph_inputs=[],
        graph_outputs=[],
        copy_costs=[(0, 0)],
        constants=[[(0, 60)]],
        memory_of=(1,),
        crossing_costs=(0,),
        limits=(10,),
    )
    assert find_cheapest(problem) is None


@st.composite
def problems(draw: st.DrawFn) -> PlacementProblem:
    """Small graphs of any shape, two or three providers, limits, values that several nodes read."""
    providers = draw(st.integers(2, 3))
    count = draw(st.integers(1, 6))
    given = draw(st.integers(1, 2))
    reads, made, values = [], [], given
    for _ in range(count):
        reads.append(draw(st.lists(st.integers(0, values - 1), min_size=1, max_size=3)))
        outputs = draw(st.integers(1, 2))
        made.append(list(range(values, values + outputs)))
        values += outputs
    allowed = st.dictionaries(st.integers(0, providers - 1), st.integers(0, 20), min_size=1)
    constants = st.lists(st.tuples(st.integers(0, 3), st.just(7)), max_size=2)
    return PlacementProblem(
        costs=[draw(allowed) for _ in range(count)],
        reads=reads,
        writes=made,
        graph_inputs=list(range(given)),
        graph_outputs=draw(st.lists(st.integers(0, values - 1), max_size=3, unique=True)),
        copy_costs=[(0, draw(st.integers(0, 9)), draw(st.integers(0, 9))) for _ in range(values)],
        constants=[draw(constants) for _ in range(count)],
        memory_of=[draw(st.integers(0, 2)) for _ in range(providers)],
        crossing_costs=[draw(st.integers(0, 5)) for _ in range(providers)],
        limits=[draw(st.none() | st.integers(0, 30)) for _ in range(providers)],
    )


def cost_by_hand(problem: PlacementProblem, providers: tuple[int, ...]) -> int | None:
    """What a placement costs, run step by step; None where it passes a limit."""
    cost = sum(problem.costs[node][provider] for node, provider in enumerate(providers))
    home = dict.fromkeys(problem.graph_inputs, HOST)
    home |= {
        value: provider for node, provider in enumerate(providers) for value in problem.writes[node]
    }
    lies = {value: {problem.memory(by)} for value, by in home.items()}
    crossed: set[tuple[int, int]] = set()
    uses = [
        (value, provider)
        for node, provider in enumerate(providers)
        for value in problem.reads[node]
    ]
    for value, reader in [*uses, *((value, HOST) for value in problem.graph_outputs)]:
        for side in (reader, home[value]):
            if reader != home[value] and (value, side) not in crossed and side != HOST:
                crossed.add((value, side))
                cost += problem.crossing_costs[side]
        target, start = problem.memory(reader), problem.memory(home[value])
        if target in lies[value]:
            continue
        if 0 not in lies[value]:
            cost += problem.copy_costs[value][start]
            lies[value].add(0)
        if target != 0:
            cost += problem.copy_costs[value][target]
            lies[value].add(target)
    for provider, limit in enumerate(problem.limits):
        held = {
            each
            for node, by in enumerate(providers)
            if by == provider
            for each in problem.constants[node]
        }
        if limit is not None and sum(nbytes for _, nbytes in held) > limit:
            return None
    return cost


@pytest.mark.requirement("P10", "M03")
@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_agrees_with_trying_every_placement(problem: PlacementProblem) -> None:
    every = itertools.product(*(sorted(costs) for costs in problem.costs))
    costs = [cost for providers in every if (cost := cost_by_hand(problem, providers)) is not None]
    found = find_cheapest(problem)
    if not costs:
        assert found is None
        return
    assert found is not None
    assert found.is_exact
    assert found.is_within_limits
    assert found.cost == cost_by_hand(problem, found.providers) == min(costs)


@settings(max_examples=50, deadline=None)
@given(problem=problems())
def test_few_choices_still_give_a_placement_within_the_limits_and_are_not_called_exact(
    problem: PlacementProblem,
) -> None:
    best, found = find_cheapest(problem), find_cheapest(problem, most_choices=1)
    if found is not None:
        assert best is not None
        assert found.is_within_limits
        assert found.cost >= best.cost
        assert not found.is_exact or found.cost == best.cost


@pytest.mark.requirement("M22")
@settings(max_examples=30, deadline=None)
@given(problem=problems())
def test_placement_is_deterministic(problem: PlacementProblem) -> None:
    assert find_cheapest(problem) == find_cheapest(problem)
