"""The onnx package's node test cases, by operator, for parametrised tests of a kernel family."""

from __future__ import annotations

from typing import Any

from tests.conformance.node_cases import node_cases
from tests.kernels.node_runner import as_value, assert_same, run_model


def cases_of(*op_types: str, without: tuple[str, ...] = ()) -> list[Any]:
    """Cases whose model consists of nodes of ``op_types`` only (so no expanded functions), except
    ``without``.
    """
    wanted = set(op_types)
    return [
        case
        for case in node_cases()
        if {node.op_type for node in case.model.graph.node} <= wanted and case.name not in without
    ]


def check_case(case: Any) -> None:
    """Runs a case three ways: plainly, with outputs in their inputs' buffers, and with constant
    inputs prepared.
    """
    for inputs, outputs in case.data_sets:
        feeds = [as_value(value) for value in inputs]
        for way in ({}, {"in_place": True}, {"constants": True}):
            results = run_model(case.model, feeds, **way)
            assert len(results) == len(outputs)
            for actual, expected in zip(results, outputs, strict=True):
                assert_same(actual, as_value(expected), rtol=case.rtol, atol=case.atol)
