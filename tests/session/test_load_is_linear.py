"""What making a session costs for each more of anything: always the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions
from tests.lines_run import lines_run

#: How many of something the models have; the chain of changing sizes has six sizes.
COUNTS = (12, 24, 36)

Nodes = list[onnx.NodeProto]


def value(name: str, size: int | str = 4) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])


def model(
    nodes: Nodes,
    inputs: dict[str, int | str],
    outputs: list[str],
    constants: dict[str, Any] | None = None,
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [value(name, size) for name, size in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(made.SerializeToString())


def names(stem: str, count: int) -> list[str]:
    return [f"{stem}{number}" for number in range(count)]


def numbers(count: int) -> dict[str, Any]:
    return {
        name: np.full(4, number + 1, np.float32) for number, name in enumerate(names("c", count))
    }


def equal_nodes_into_a_sum(count: int) -> bytes:
    equal = [helper.make_node("Relu", ["x"], [name]) for name in names("a", count)]
    return model([*equal, helper.make_node("Sum", names("a", count), ["y"])], {"x": 4}, ["y"])


def parts_of_a_split_renamed(count: int) -> bytes:
    split = helper.make_node("Split", ["x"], names("a", count), axis=0, num_outputs=count)
    renamed = [
        helper.make_node("Identity", [f"a{number}"], [f"y{number}"]) for number in range(count)
    ]
    return model([split, *renamed], {"x": count}, names("y", count))


def one_value_for_many_nodes(count: int) -> bytes:
    added = [
        helper.make_node("Add", ["r", f"c{number}"], [f"y{number}"]) for number in range(count)
    ]
    return model(
        [helper.make_node("Relu", ["x"], ["r"]), *added],
        {"x": "n"},
        names("y", count),
        numbers(count),
    )


def inputs_and_outputs(count: int) -> bytes:
    nodes = [helper.make_node("Neg", [f"x{number}"], [f"y{number}"]) for number in range(count)]
    return model(nodes, {f"x{number}": f"n{number}" for number in range(count)}, names("y", count))


def folded_constants(count: int) -> bytes:
    nodes = [helper.make_node("Neg", [f"c{number}"], [f"a{number}"]) for number in range(count)]
    total = helper.make_node("Sum", ["x", *names("a", count)], ["y"])
    return model([*nodes, total], {"x": 4}, ["y"], numbers(count))


def values_taken_by_branches(count: int) -> bytes:
    def branch(name: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node("Sum", names("a", count), [name])], name, [], [value(name)]
        )

    nodes = [
        helper.make_node("Identity", [f"b{number}"], [f"a{number}"]) for number in range(count)
    ]
    nodes = [
        helper.make_node("Add", ["x", f"c{number}"], [f"b{number}"]) for number in range(count)
    ] + nodes
    decision = helper.make_node(
        "If", ["is"], ["y"], then_branch=branch("p"), else_branch=branch("q")
    )
    return model([*nodes, decision], {"x": 4}, ["y"], {**numbers(count), "is": np.array(True)})


def chain_of_changing_sizes(count: int) -> bytes:
    pads = {"more": np.array([0, 64]), "less": np.array([0, -320])}
    nodes = [
        helper.make_node(
            "Pad", [f"a{number}", "less" if number % 6 == 5 else "more"], [f"a{number + 1}"]
        )
        for number in range(count)
    ]
    return model(nodes, {"a0": 100}, [f"a{count}"], pads)


@pytest.mark.parametrize(
    "many",
    [
        equal_nodes_into_a_sum,
        parts_of_a_split_renamed,
        one_value_for_many_nodes,
        inputs_and_outputs,
        folded_constants,
        values_taken_by_branches,
        chain_of_changing_sizes,
    ],
    ids=lambda many: many.__name__.replace("_", " "),
)
def test_the_last_dozen_of_a_model_costs_what_the_one_before_costs(
    many: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Quadratic, and so only for so many buffers.
    monkeypatch.setattr("ortpkg.foundations.buffer_layout._MOST_BUFFERS_FOR_BEST_LAYOUT", 0)
    models = [many(count) for count in COUNTS]
    session_of(models[0])  # what is looked up once per process

    few, more, most = (lines_run(partial(session_of, data)) for data in models)

    assert most - more < 1.005 * (more - few), f"lines: {few}, {more}, {most}"


def session_of(data: bytes) -> None:
    InferenceSession(data, providers=["cpu"]).close()


def test_the_last_dozen_of_partitions_costs_what_the_one_before_costs() -> None:
    models = [inputs_and_outputs(count) for count in COUNTS]

    def compiled(data: bytes) -> None:
        options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
        options.add_session_config_entry("ortpkg.backend", "llvm")
        InferenceSession(data, options).close()

    compiled(models[0])  # what is looked up once per process

    few, more, most = (lines_run(partial(compiled, data)) for data in models)

    assert most - more < 1.005 * (more - few), f"lines: {few}, {more}, {most}"
