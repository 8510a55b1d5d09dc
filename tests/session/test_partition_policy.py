"""Partitioning by cost in a session: operator, limits and transfers are weighed.

First come stays the default.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidSessionOptionError
from ortpkg.graph.graph import Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine import partition_policy
from ortpkg.runtime.engine.partition_costs import PartitionCosts
from ortpkg.runtime.engine.placement_search import Placement, PlacementProblem, weigh
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    GraphViewer,
)
from ortpkg.runtime.session.partition_entries import parse_costs
from ortpkg.runtime.session.session_plan import describe_plan
from ortpkg.runtime.session.session_state import SessionState, create_session_state
from tests.session.conftest import model_of, options_of, session_of
from tests.session.far_devices import FarCompilingProvider, FarDevice, FarKernelProvider

TypesOf = Callable[[Node], Mapping[str, ElementType]]

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
CHAIN = """g (float[2,3] x) => (float[2,3] y) {
    a = Neg(x)
    b = Exp(a)
    c = Sigmoid(b)
    d = Exp(c)
    y = Neg(d)
}"""
CPU, ONE, TWO = "CPUExecutionProvider", "OneExecutionProvider", "TwoExecutionProvider"
COPY_US = 10.0


def costs_of(providers: Mapping[str, Mapping[str, float]], **memory: float) -> str:
    """Microseconds per node and operator.

    A copy to or from a device takes ten, a run on the CPU counts per node.
    """
    return json.dumps(
        {
            "providers": {
                name: {
                    "operators": {op_type: us * 1e-6 / 6 for op_type, us in operators.items()},
                    "seconds_per_operation": 1e-6,
                    "seconds_per_node": 0,
                    **({"memory_nbytes": memory[name]} if name in memory else {}),
                }
                for name, operators in providers.items()
            },
            "transfers": {
                name: {"seconds_per_copy": COPY_US * 1e-6, "seconds_per_byte": 0}
                for name in ("One:0", "Two:0")
            },
        }
    )


def state_of(
    text: str,
    providers: Sequence[ExecutionProvider],
    costs: str | None = None,
    policy: str | None = "cost",
) -> SessionState:
    options = options_of()
    if policy is not None:
        options.add_session_config_entry("ortpkg.partition_policy", policy)
    if costs is not None:
        options.add_session_config_entry("ortpkg.partition_costs", costs)
    return create_session_state(
        load_model(model_of(text)), options, [*providers, CPUExecutionProvider()]
    )


def one(*op_types: str, compiles: bool = False) -> ExecutionProvider:
    return (FarCompilingProvider if compiles else FarKernelProvider)(
        ONE, FarDevice("One:0"), *op_types
    )


def assert_runs(state: SessionState, text: str) -> None:
    with session_of(text) as plain:
        (expected,) = plain.run(None, {"x": X})
    (y,) = state.executable.run([X], (), RunControl())
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def placed(state: SessionState) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for partition in state.partitions:
        found.setdefault(partition.provider, []).extend(partition.op_types)
    return found


@pytest.mark.requirement("P10")
@pytest.mark.parametrize("policy", [None, "first-come"])
def test_first_come_first_served_stays_the_default_whatever_things_cost(policy: str | None) -> None:
    costs = costs_of({ONE: {"Neg": 1000, "Exp": 1000}, CPU: {"Neg": 1, "Exp": 1, "Sigmoid": 1}})
    state = state_of(CHAIN, [one("Neg", "Exp")], costs, policy)
    assert placed(state) == {ONE: ["Neg", "Exp", "Exp", "Neg"], CPU: ["Sigmoid"]}
    assert describe_plan(state, ()).choices == ()


@pytest.mark.requirement("M03", "P10")
@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize(
    ("far", "near", "expected"),
    [
        # Two copies for each pair of nodes: worth it where the CPU takes more than 20 us longer.
        (
            {"Neg": 1, "Exp": 1},
            {"Neg": 1, "Exp": 25},
            {ONE: ["Neg", "Exp", "Exp", "Neg"], CPU: ["Sigmoid"]},
        ),
        (
            {"Neg": 1, "Exp": 1},
            {"Neg": 1, "Exp": 19},
            {CPU: ["Neg", "Exp", "Sigmoid", "Exp", "Neg"]},
        ),
        (
            {"Neg": 50, "Exp": 1},
            {"Neg": 1, "Exp": 25},
            {ONE: ["Exp", "Exp"], CPU: ["Neg", "Sigmoid", "Neg"]},
        ),
    ],
)
def test_operators_are_weighed_against_transfers(
    compiles: bool,
    far: Mapping[str, float],
    near: Mapping[str, float],
    expected: Mapping[str, list[str]],
) -> None:
    state = state_of(
        CHAIN,
        [one("Neg", "Exp", compiles=compiles)],
        costs_of({ONE: far, CPU: {**near, "Sigmoid": 1}}),
    )
    assert placed(state) == expected
    assert_runs(state, CHAIN)


@pytest.mark.requirement("M03")
def test_plan_shows_what_both_policies_give_and_what_that_costs() -> None:
    costs = costs_of({ONE: {"Neg": 50, "Exp": 1}, CPU: {"Neg": 1, "Exp": 25, "Sigmoid": 1}})
    (choice,) = describe_plan(state_of(CHAIN, [one("Neg", "Exp")], costs), ()).choices
    assert choice.is_exact
    assert choice.differs
    assert choice.first_come.node_counts == {ONE: 4, CPU: 1}
    assert choice.cost.node_counts == {ONE: 2, CPU: 3}
    assert choice.first_come.compute_s == pytest.approx(103e-6)
    assert (
        choice.first_come.transfer_s == choice.cost.transfer_s == pytest.approx(4 * COPY_US * 1e-6)
    )
    assert choice.sources == {ONE: "stated", CPU: "stated"}
    assert choice.cost.total_s == pytest.approx(5e-6 + 40e-6)


@pytest.mark.requirement("M03")
def test_of_three_providers_each_gets_what_it_is_best_at() -> None:
    two = FarCompilingProvider(TWO, FarDevice("Two:0"), "Exp", "Neg")
    costs = costs_of(
        {
            ONE: {"Neg": 1, "Exp": 900},
            TWO: {"Neg": 900, "Exp": 1},
            CPU: {"Neg": 500, "Exp": 500, "Sigmoid": 1},
        }
    )
    state = state_of(CHAIN, [one("Neg", "Exp"), two], costs)
    assert placed(state) == {ONE: ["Neg", "Neg"], TWO: ["Exp", "Exp"], CPU: ["Sigmoid"]}
    assert_runs(state, CHAIN)


WEIGHTS = """g (float[2,3] x) => (float[2,3] y)
<float[3,3] v = {1,0,0,0,1,0,0,0,1}, float[3,3] w = {2,0,0,0,2,0,0,0,2}> {
    a = MatMul(x, v)
    b = MatMul(a, w)
    y = MatMul(b, v)
}"""


@pytest.mark.requirement("M03")
@pytest.mark.parametrize(("limit", "count"), [(100, 3), (71, 1), (35, 0)])
def test_weights_keep_within_the_memory_of_the_device(limit: int, count: int) -> None:
    costs = costs_of({ONE: {"MatMul": 1}, CPU: {"MatMul": 900}}, **{ONE: limit})
    state = state_of(WEIGHTS, [one("MatMul")], costs)
    # v is read twice and lies there once: with room for one of the two, v's nodes are the ones to
    # have.
    assert len(placed(state).get(ONE, [])) == (2 if limit == 71 else count)
    (choice,) = describe_plan(state, ()).choices
    assert choice.cost.is_within_limits
    assert choice.first_come.is_within_limits == (limit == 100)
    assert_runs(state, WEIGHTS)


@pytest.mark.requirement("M03")
def test_measured_times_of_the_whole_model_are_divided_among_its_nodes() -> None:
    for far_s, expected in ((1e-3, {ONE, CPU}), (1.0, {CPU})):
        costs = json.dumps({"providers": {ONE: {"model_s": far_s}, CPU: {"model_s": 0.5}}})
        assert set(placed(state_of(CHAIN, [one("Neg", "Exp")], costs))) == expected


class SayingProvider(FarKernelProvider):
    """Says itself what its nodes take."""

    def estimate_node_s(self, node: Any, operations: int) -> float | None:
        return 1e-9 * operations if node.op_type == "Exp" else 1.0


@pytest.mark.requirement("M03")
def test_what_a_provider_says_of_its_nodes_counts_where_nobody_states_costs() -> None:
    device = FarDevice("One:0")
    device.seconds_per_copy = device.seconds_per_byte = 0
    state = state_of(CHAIN, [SayingProvider(ONE, device, "Neg", "Exp")])
    (choice,) = describe_plan(state, ()).choices
    assert choice.sources == {ONE: "its own", CPU: "assumed"}
    assert placed(state) == {ONE: ["Exp", "Exp"], CPU: ["Neg", "Sigmoid", "Neg"]}


@pytest.mark.requirement("P10")
def test_equal_costs_leave_what_first_come_gives() -> None:
    device = FarDevice("One:0")
    device.seconds_per_copy = device.seconds_per_byte = 0
    state = state_of(CHAIN, [FarKernelProvider(ONE, device, "Neg", "Exp")])
    assert placed(state) == {ONE: ["Neg", "Exp", "Exp", "Neg"], CPU: ["Sigmoid"]}
    (choice,) = describe_plan(state, ()).choices
    assert not choice.differs


@pytest.mark.requirement("M03", "P04")
def test_sub_graphs_are_weighed_each_by_itself() -> None:
    text = """g (float[2,3] x, bool p) => (float[2,3] y) {
        y = If(p) <
            then_branch = t () => (float[2,3] a) { b = Exp(x)  a = Neg(b) },
            else_branch = e () => (float[2,3] c) { c = Neg(x) }
        >
    }"""
    costs = costs_of({ONE: {"Neg": 1, "Exp": 1}, CPU: {"Neg": 10, "Exp": 90}})
    state = state_of(text, [one("Neg", "Exp")], costs)
    choices = {choice.graph_path: choice for choice in describe_plan(state, ()).choices}
    (then,) = (choice for path, choice in choices.items() if path.endswith("then_branch"))
    (other,) = (choice for path, choice in choices.items() if path.endswith("else_branch"))
    assert (then.cost.node_counts, other.cost.node_counts) == ({ONE: 2}, {CPU: 1})
    with session_of(text) as plain:
        for p in (True, False):
            (expected,) = plain.run(None, {"x": X, "p": np.array(p)})
            (y,) = state.executable.run([X, np.array(p)], (), RunControl())
            np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.requirement("P10")
def test_what_first_come_gives_is_kept_where_the_search_finds_nothing_cheaper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def all_on_cpu(problem: PlacementProblem) -> Placement:
        return weigh(problem, [1] * len(problem.costs))

    monkeypatch.setattr(partition_policy, "find_cheapest", all_on_cpu)
    costs = costs_of({ONE: {"Neg": 1, "Exp": 1}, CPU: {"Neg": 90, "Exp": 90, "Sigmoid": 1}})
    state = state_of(CHAIN, [one("Neg", "Exp")], costs)
    assert placed(state) == {ONE: ["Neg", "Exp", "Exp", "Neg"], CPU: ["Sigmoid"]}
    (choice,) = describe_plan(state, ()).choices
    assert (choice.cost, choice.is_exact) == (choice.first_come, False)


def test_costs_come_from_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(costs_of({CPU: {"Neg": 1}}))
    assert parse_costs(str(path)) == parse_costs(path.read_text())


def test_a_file_of_costs_has_a_mebibyte_at_most(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text("{}" + " " * ((1 << 20) - 2))
    assert parse_costs(str(path)) == PartitionCosts()
    path.write_text("{}" + " " * ((1 << 20) - 1))
    with pytest.raises(InvalidSessionOptionError, match="has more than 1048576 bytes"):
        parse_costs(str(path))


@pytest.mark.parametrize(
    ("value", "is_right"), [(0, True), (1e15, True), (-0.5, False), (1e16, False), (True, False)]
)
def test_an_amount_is_a_number_from_0_on_that_makes_sense(value: float, is_right: bool) -> None:
    text = json.dumps({"providers": {"cpu": {"model_s": value}}})
    if is_right:
        assert parse_costs(text).providers["CPUExecutionProvider"].model_s == value
        return
    with pytest.raises(
        InvalidSessionOptionError, match="'providers/cpu/model_s' is a number from 0 on"
    ):
        parse_costs(text)


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("policy", "cheap", "ortpkg.partition_policy is one of first-come, cost, not 'cheap'"),
        ("costs", "nowhere.json", "'nowhere.json' is no JSON object, and no file that can be read"),
        ("costs", "{", "not JSON"),
        (
            "costs",
            '{"provider": {}}',
            r"'the document' has 'provider' \(did you mean 'providers'\?\)",
        ),
        ("costs", '{"providers": []}', r"'providers' is an object, not '\[\]'"),
        (
            "costs",
            '{"providers": {"cpu": {"model_s": -1}}}',
            "'providers/cpu/model_s' is a number from 0 on, not '-1'",
        ),
        (
            "costs",
            '{"providers": {"cpu": {"operators": {"Add": NaN}}}}',
            "'providers/cpu/operators/Add' is a number",
        ),
        (
            "costs",
            '{"transfers": {"A": {"seconds_per_copy": 1}}}',
            "'transfers/A/seconds_per_byte' is a number",
        ),
    ],
)
def test_entries_that_make_no_sense_are_refused(entry: str, value: str, message: str) -> None:
    with pytest.raises(InvalidSessionOptionError, match=message):
        state_of(
            CHAIN, [], value if entry == "costs" else None, value if entry == "policy" else "cost"
        )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes among files")
def test_costs_in_a_pipe_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidSessionOptionError, match="read: it is not a regular file"):
        parse_costs(str(tmp_path / "pipe"))


class CpuWithoutNeg(CPUExecutionProvider):
    """Has no kernel for Neg."""

    def get_capability(self, viewer: GraphViewer, types_of: TypesOf) -> list[ComputeCapability]:
        named = {node.index for node in viewer.nodes if node.op_type == "Neg"}
        return [
            each
            for each in super().get_capability(viewer, types_of)
            if not named & set(each.node_indices)
        ]

    def find_kernel(self, node: Node, types: Mapping[str, ElementType]) -> KernelDef | None:
        return None if node.op_type == "Neg" else super().find_kernel(node, types)


@pytest.mark.requirement("P10")
def test_a_node_that_the_cpu_has_no_kernel_for_stays_with_its_provider_however_dear() -> None:
    costs = costs_of({ONE: {"Neg": 1000, "Exp": 1000}, CPU: {"Neg": 1, "Exp": 1, "Sigmoid": 1}})
    options = options_of()
    options.add_session_config_entry("ortpkg.partition_policy", "cost")
    options.add_session_config_entry("ortpkg.partition_costs", costs)
    state = create_session_state(
        load_model(model_of(CHAIN)), options, [one("Neg", "Exp"), CpuWithoutNeg()]
    )
    assert placed(state) == {ONE: ["Neg", "Neg"], CPU: ["Exp", "Sigmoid", "Exp"]}
    assert_runs(state, CHAIN)
