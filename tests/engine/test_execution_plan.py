from __future__ import annotations

import pytest

from ortpkg.foundations.errors import InvalidGraphError, ModelError, StatusCode
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.engine.execution_plan import ABSENT, OrtValueNameIdxMap, create_execution_plan
from ortpkg.runtime.providers.execution_provider import GraphViewer
from tests.engine.plan_factories import DEVICE, PROVIDER, execution_plan_of, fake_kernel, graph_of

DIAMOND = """
    a = Split(x)
    c = Relu(b)
    b = Relu(a)
    y = Add(c, a)
"""


@pytest.mark.requirement("M04")
def test_value_indices_are_unique_contiguous_and_stable() -> None:
    names = OrtValueNameIdxMap(["x", "w", "x"])
    assert [names.add("y"), names.add("x"), names.add("w")] == [2, 0, 1]
    assert [names.name_of(index) for index in range(len(names))] == ["x", "w", "y"]
    assert [names.index_of(name) for name in ("x", "w", "y")] == [0, 1, 2]


@pytest.mark.requirement("M04")
def test_unknown_value_name_is_an_error_that_names_it() -> None:
    with pytest.raises(ModelError, match="Could not find OrtValue with name 'nowhere'") as caught:
        OrtValueNameIdxMap(["x"]).index_of("nowhere")
    assert caught.value.code is StatusCode.FAIL


@pytest.mark.requirement("M02")
def test_nodes_run_after_what_they_use_whatever_the_order_in_the_model() -> None:
    plan = execution_plan_of(graph_of(DIAMOND))
    assert [step.node_name for step in plan.steps] == ["Split_a", "Relu_b", "Relu_c", "Add_y"]


@pytest.mark.requirement("M02")
def test_cycle_is_an_error_that_names_a_node() -> None:
    with pytest.raises(InvalidGraphError, match="cycle through Relu node 'Relu_"):
        execution_plan_of(graph_of("a = Relu(b)\nb = Relu(a)\ny = Relu(b)"))


@pytest.mark.requirement("M03")
@pytest.mark.requirement("P15")
def test_node_without_a_kernel_is_an_error_that_names_it() -> None:
    graph = graph_of("y = Relu(x)")
    with pytest.raises(ModelError, match="no kernel found for Relu node 'Relu_y'") as caught:
        create_execution_plan(GraphViewer(graph, topological_order(graph)), {PROVIDER: DEVICE}, {})
    assert (caught.value.code, caught.value.node_name) == (StatusCode.FAIL, "Relu_y")


@pytest.mark.requirement("M03")
def test_node_of_a_provider_that_the_session_lacks_is_an_error() -> None:
    graph = graph_of("y = Relu(x)")
    kernels = {node.index: fake_kernel("Relu") for node in graph.nodes}
    with pytest.raises(
        ModelError, match="assigned to 'FakeExecutionProvider', which the session does not have"
    ):
        create_execution_plan(GraphViewer(graph, topological_order(graph)), {}, kernels)


@pytest.mark.requirement("M01")
@pytest.mark.requirement("M22")
def test_same_graph_gives_the_same_plan() -> None:
    first, second = (execution_plan_of(graph_of(DIAMOND)) for _ in range(2))
    assert [(s.node_index, s.inputs, s.outputs) for s in first.steps] == [
        (s.node_index, s.inputs, s.outputs) for s in second.steps
    ]
    assert first.locations == second.locations


def test_inputs_weights_and_outputs_have_their_indices() -> None:
    plan = execution_plan_of(graph_of("y = Add(x, w)", weights="w"))
    named = [
        [plan.values.name_of(i) for i in part]
        for part in (plan.inputs, plan.initializers, plan.outputs)
    ]
    assert named == [["x"], ["w"], ["y"]]


def test_left_out_input_is_absent() -> None:
    plan = execution_plan_of(graph_of("y = Clip(x, , x)"))
    assert plan.steps[0].inputs == (0, ABSENT, 0)


def test_a_value_that_nobody_makes_is_an_error_that_names_it_and_its_node() -> None:
    with pytest.raises(
        InvalidGraphError, match="Add node 'Add_y' takes 'lost', which is no input"
    ) as caught:
        execution_plan_of(graph_of("a = Relu(x)\ny = Add(a, lost)"))
    assert caught.value.node_name == "Add_y"


def test_an_output_that_nobody_makes_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidGraphError, match="the output 'lost' is no input"):
        execution_plan_of(graph_of("y = Relu(x)", outputs="y lost"))
