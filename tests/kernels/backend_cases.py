"""The onnx package's node test cases, by operator, and three ways to run them."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from tests.conformance.node_cases import node_cases
from tests.kernels.node_runner import as_value, assert_same, run_model

#: No two runs give the same.
_RANDOM = frozenset({"Bernoulli"})


@cache
def _all_cases() -> dict[str, list[Any]]:
    """Operator → the cases of this one node, beside which only constants stand."""
    found = defaultdict(list)
    for case in node_cases():
        op_types = {node.op_type for node in case.model.graph.node}
        main = op_types - {"Constant"} or op_types
        if len(main) == 1:
            found[main.pop()].append(case)
    return found


def cases_of(op_type: str) -> list[Any]:
    """The cases of one operator; those of expanded functions are not among them."""
    return _all_cases()[op_type]


def operators_with_cases() -> dict[str, list[Any]]:
    """Operator → its cases, of every operator that has a kernel and gives the same each time.

    Cases with sub-graphs are left out: an engine runs those.
    """
    own = {definition.op_type for definition in cpu_kernel_registry().definitions()} - _RANDOM
    found = {
        op_type: [case for case in cases_of(op_type) if not _has_sub_graph(case)]
        for op_type in sorted(own)
    }
    return {op_type: cases for op_type, cases in found.items() if cases}


def _has_sub_graph(case: Any) -> bool:
    return any(
        attribute.type == attribute.GRAPH
        for node in case.model.graph.node
        for attribute in node.attribute
    )


def check_case(case: Any) -> None:
    """Runs a case plainly, with outputs in their inputs' buffers, and with constant inputs."""
    for inputs, outputs in case.data_sets:
        feeds = [as_value(value) for value in inputs]
        for way in ({}, {"in_place": True}, {"constants": True}):
            results = run_model(case.model, feeds, **way)
            assert len(results) == len(outputs)
            for actual, expected in zip(results, outputs, strict=True):
                assert_same(actual, as_value(expected), rtol=case.rtol, atol=case.atol)
