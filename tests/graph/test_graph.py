"""The graph's mutators keep producers and use lists right, whatever is done in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.graph import ArrayInitializer, Attribute, Graph, Use
from ortpkg.graph.graph_checks import check_consistency
from ortpkg.graph.types import ElementType, TensorType

VALUES = ["x", "w", "a", "b", "c", "d", ""]
value_names = st.sampled_from(VALUES)
operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.lists(value_names, max_size=3), st.lists(value_names, max_size=2)
        ),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("replace_input"), st.integers(0, 9), st.integers(0, 2), value_names),
        st.tuples(st.just("set_outputs"), st.integers(0, 9), st.lists(value_names, max_size=2)),
        st.tuples(st.just("replace_uses"), value_names.filter(bool), value_names.filter(bool)),
        st.tuples(st.just("implicit"), st.integers(0, 9), value_names.filter(bool)),
    ),
    max_size=25,
)


def base_graph() -> Graph:
    graph = Graph("g")
    graph.set_inputs(["x"])
    graph.add_initializer(ArrayInitializer("w", np.ones(2, np.float32), ElementType.FLOAT))
    return graph


def with_subgraph(graph: Graph, outer: str) -> Graph:
    """A sub-graph that takes ``outer``."""
    inner = Graph("inner", parent=graph)
    name = inner.make_name("inner")
    inner.add_node("Neg", [outer], [name])
    inner.set_outputs([name])
    return inner


def perform(graph: Graph, operation: tuple[object, ...]) -> None:
    nodes = list(graph.nodes)
    match operation:
        case ("add", list(inputs), list(outputs)):
            graph.add_node("Op", inputs, outputs)
        case ("replace_uses", str(old), str(new)):
            graph.replace_all_uses(old, new)
        case (str(kind), int(position), *rest) if position < len(nodes):
            node = nodes[position]
            match (kind, *rest):
                case ("remove",):
                    graph.remove_node(node)
                case ("replace_input", int(slot), str(value)) if slot < len(node.inputs):
                    graph.replace_input(node, slot, value)
                case ("set_outputs", list(values)):
                    graph.set_node_outputs(node, values)
                case ("implicit", str(value)):
                    graph.set_attributes(
                        node, {"body": Attribute("GRAPH", with_subgraph(graph, value))}
                    )
                    graph.set_implicit_inputs(node, [value])


@settings(max_examples=150, deadline=None)
@given(operations)
def test_mutators_keep_use_lists_consistent(steps: list[tuple[object, ...]]) -> None:
    graph = base_graph()
    for step in steps:
        try:
            perform(graph, step)
        except InvalidGraphError:
            continue  # refused, and then nothing may have changed
        finally:
            assert check_consistency(graph) == []


def test_the_checker_sees_a_broken_use_list() -> None:
    graph = base_graph()
    node = graph.add_node("Op", ["x"], ["a"])
    node._inputs = ("w",)  # past the mutators

    assert check_consistency(graph) == [
        "the use list of 'w' differs from what the nodes take",
        "the use list of 'x' differs from what the nodes take",
    ]


def test_knows_producer_and_consumers() -> None:
    graph = base_graph()
    first = graph.add_node("Op", ["x", "", "x"], ["a", ""])
    second = graph.add_node("Op", ["a", "x"], ["b"])

    assert graph.producer_of("a") is first
    assert graph.producer_of("x") is None
    assert graph.consumers_of("x") == (Use(0, 0), Use(0, 2), Use(1, 1))
    assert graph.consumer_nodes("x") == [first, second]


def test_replacing_uses_reaches_into_sub_graphs_and_their_outputs() -> None:
    graph = base_graph()
    inner = Graph("inner", parent=graph)
    inner.set_outputs(["x"])
    node = graph.add_node(
        "If", [], ["y"], attributes={"b": Attribute("GRAPH", inner)}, implicit_inputs=["x"]
    )

    graph.replace_all_uses("x", "w")

    assert inner.outputs == ("w",)
    assert node.implicit_inputs == ("w",)


def test_refuses_a_second_producer() -> None:
    graph = base_graph()
    graph.add_node("Op", ["x"], ["a"], name="first")
    other = graph.add_node("Op", ["x"], ["b"], name="second")

    for name in ("a", "x", "w"):
        with pytest.raises(
            InvalidGraphError, match=f"Op node 'third': its output '{name}' already has a producer"
        ):
            graph.add_node("Op", ["x"], [name], name="third")
    with pytest.raises(
        InvalidGraphError, match="Op node 'second': its output 'a' already has a producer"
    ):
        graph.set_node_outputs(other, ["a"])
    with pytest.raises(InvalidGraphError, match="'a' is both an initializer and a node's output"):
        graph.add_initializer(ArrayInitializer("a", np.ones(1), ElementType.DOUBLE))


def test_an_initializer_that_is_an_input_is_only_a_default() -> None:
    graph = base_graph()
    assert graph.is_constant("w")

    graph.set_inputs(["x", "w"])

    assert not graph.is_constant("w")
    assert graph.constant("w") is None


def test_constants_and_types_of_outer_graphs_are_seen_inside() -> None:
    graph = base_graph()
    graph.set_type("x", TensorType(ElementType.FLOAT, (2,)))
    inner = Graph("inner", parent=graph)

    assert inner.constant("w") is graph.initializers["w"]
    assert inner.type_of("x") == TensorType(ElementType.FLOAT, (2,))
    inner.add_node("Op", ["x"], ["w2"])
    assert inner.constant("w2") is None


def test_made_names_are_new_in_every_graph_of_the_model() -> None:
    graph = base_graph()
    inner = Graph("inner", parent=graph)
    inner.add_node("Op", ["x"], ["a__0"])

    assert graph.make_name("a") == "a__1"
    assert inner.make_name("a") == "a__2"


def test_sub_graphs_share_the_imports_of_the_model() -> None:
    graph = Graph("g", opset_imports={"": 21})
    inner = Graph("inner", parent=graph)

    graph.opset_imports["com.microsoft"] = 1

    assert inner.opset_imports == {"": 21, "com.microsoft": 1}


class CountedNames(dict[str, tuple[int, int]]):
    """Counts what is asked of it."""

    count = 0

    def __getitem__(self, name: str) -> tuple[int, int]:
        self.count += 1
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.count += 1
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.count += 1
        return super().get(name, default)


def test_new_names_for_the_many_outputs_of_one_node_cost_one_look_each() -> None:
    graph, count = Graph(), 300
    node = graph.add_node("Split", ["x"], [f"a{number}" for number in range(count)])
    graph.use_lists.producers = names = CountedNames(graph.use_lists.producers)
    for number in range(count):
        graph.rename_output(node, f"a{number}", f"b{number}")

    assert names.count <= 5 * count
    assert node.outputs == tuple(f"b{number}" for number in range(count))
    assert graph.producer_of("b7") is node
    assert graph.producer_of("a7") is None


class CountedList(list[str]):
    """Counts how often it is gone through."""

    rounds = 0

    def __iter__(self) -> Iterator[str]:
        self.rounds += 1
        return super().__iter__()


class CountedKeys(dict[str, None]):
    """Counts how often it is gone through."""

    rounds = 0

    def __iter__(self) -> Iterator[str]:
        self.rounds += 1
        return super().__iter__()


def test_many_inputs_of_one_node_are_exchanged_without_a_look_at_the_others() -> None:
    graph, count = base_graph(), 300
    node = graph.add_node("Sum", [f"a{number}" for number in range(count)], ["y"])
    node._inputs = names = CountedList(node.inputs)
    for number in range(0, count, 2):
        graph.replace_all_uses(f"a{number}", "x")
    for number in range(1, count, 2):
        graph.replace_input(node, number, "w")

    assert node._inputs is names
    assert names.rounds == 0
    assert node.inputs == ("x", "w") * (count // 2)
    assert check_consistency(graph) == []


def test_many_outer_values_of_a_sub_graph_are_exchanged_without_a_look_at_the_others() -> None:
    graph, count = base_graph(), 300
    outer = [f"a{number}" for number in range(count)]
    for name in outer:
        graph.add_node("Op", ["x"], [name])
    inner = Graph("inner", parent=graph)
    inner.add_node("Sum", outer, [inner.make_name("sum")])
    inner.set_outputs([*outer, "a7"])
    node = graph.add_node(
        "If", ["x"], ["y"], attributes={"b": Attribute("GRAPH", inner)}, implicit_inputs=outer
    )
    inner._outputs = names = CountedList(inner.outputs)
    node._implicit_inputs = implicit = CountedKeys(dict.fromkeys(outer))
    for name in outer[1:]:
        graph.replace_all_uses(name, "w")

    assert inner._outputs is names
    assert node._implicit_inputs is implicit
    assert (names.rounds, implicit.rounds) == (0, 0)
    assert inner.outputs == ("a0", *["w"] * count)
    assert [inner.is_output(name) for name in ("w", "a7")] == [True, False]
    assert node.implicit_inputs == ("a0", "w")
    assert check_consistency(graph) == []


def test_the_uses_of_a_value_are_counted_without_naming_them() -> None:
    graph = base_graph()
    graph.add_node("Op", ["x", "x"], ["a"])

    assert [graph.use_count(value) for value in ("x", "a", "nothing")] == [2, 0, 0]


def test_an_output_cannot_take_the_name_of_another() -> None:
    graph = Graph()
    node = graph.add_node("Split", ["x"], ["a", "b"])

    with pytest.raises(InvalidGraphError, match="its output 'b' already has a producer"):
        graph.rename_output(node, "a", "b")
    assert node.outputs == ("a", "b")
