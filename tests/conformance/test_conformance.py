"""A fixed tenth of the onnx package's node cases and its small models on our engine.

`make conformance` runs all.
"""

from __future__ import annotations

import re
import zlib

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from tests.conformance.cases import Case, DataSet, load_cases
from tests.conformance.comparison import difference
from tests.conformance.known_failures import (
    KNOWN_FAILURES,
    RANDOM_CASES,
)
from tests.conformance.runtimes import (
    Runtime,
    default_runtime,
    failure,
    machine_code_runtime,
    openvino_runtime,
    ortpkg_runtime,
)

_NODE_SLICES = 4
_ONE_IN = 10


def floats(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def failures(cases: list[Case], runtime: Runtime = ortpkg_runtime) -> dict[str, str]:
    """Case → why it fails on our engine; random cases and known failures left out."""
    known = {**KNOWN_FAILURES, **RANDOM_CASES}
    chosen = [case for case in cases if case.id not in known]
    assert chosen
    found = {case.id: failure(runtime, case) for case in chosen}
    return {case: reason for case, reason in found.items() if reason is not None}


@pytest.mark.requirement("P14", "D11")
@pytest.mark.parametrize("part", range(_NODE_SLICES))
def test_tenth_of_the_node_cases_passes(part: int) -> None:
    numbers = {case.id: zlib.crc32(case.name.encode()) for case in load_cases("node")}
    cases = [case for case in load_cases("node") if numbers[case.id] % _ONE_IN == 0]
    assert (
        failures([case for case in cases if numbers[case.id] // _ONE_IN % _NODE_SLICES == part])
        == {}
    )


@pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
def test_twentieth_of_the_node_cases_passes_as_machine_code() -> None:
    """Other cases than those of our engine: most operators are in both."""
    cases = load_cases("node")
    chosen = [case for case in cases if zlib.crc32(case.name.encode()) % (2 * _ONE_IN) == 1]
    assert failures(chosen, machine_code_runtime) == {}


def test_twentieth_of_the_node_cases_passes_where_nobody_names_a_provider() -> None:
    pytest.importorskip("openvino")
    cases = load_cases("node")
    chosen = [case for case in cases if zlib.crc32(case.name.encode()) % (2 * _ONE_IN) == 2]
    assert failures(chosen, default_runtime) == {}


def test_small_models_pass_on_openvino() -> None:
    """Sequences of numbers without dimensions among them, which nobody may write to."""
    pytest.importorskip("openvino")
    assert failures(load_cases("simple"), openvino_runtime) == {}


@pytest.mark.parametrize("suite", ["simple", "pytorch-operator"])
def test_small_models_pass(suite: str) -> None:
    assert failures(load_cases(suite)) == {}


@pytest.mark.parametrize("case_id", sorted(KNOWN_FAILURES))
def test_known_failure_still_fails(case_id: str) -> None:
    suite, _, name = case_id.partition("/")
    (case,) = (case for case in load_cases(suite) if case.name == name)
    assert failure(ortpkg_runtime, case) is not None, "it passes: take it out of KNOWN_FAILURES"


def test_random_cases_are_cases() -> None:
    assert set(RANDOM_CASES) <= {case.id for case in load_cases("node")}


@pytest.mark.parametrize(
    ("actual", "expected", "problem"),
    [
        ([floats(1)], [floats(1)], None),
        ([floats(1)], [floats(1.1)], "1 of 1 elements differ"),
        ([floats(np.nan)], [floats(np.nan)], None),
        ([floats(1)], [np.ones(1)], "type float32 instead of float64"),
        ([floats(1)], [floats(1)[None]], r"shape \(1,\) instead of \(1, 1\)"),
        ([], [floats(1)], "0 outputs instead of 1"),
        ([[floats(1)]], [[floats(2)]], "in the sequence, output 0: 1 of 1 elements differ"),
        ([None], [floats(1)], "NoneType instead of ndarray"),
        ([np.array(["a"], object)], [np.array(["b"], object)], "other strings"),
    ],
)
def test_comparison_says_what_differs(
    actual: list[object], expected: list[object], problem: str | None
) -> None:
    found = difference(actual, expected, rtol=1e-3, atol=1e-7)
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(problem, found)


def test_failure_of_a_runtime_is_a_reason_and_not_an_error() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    )
    data = [DataSet([floats(1)], [floats(2)])]
    case = Case(
        suite="s", name="n", load_model=lambda: model, load_data_sets=lambda: data, rtol=0, atol=0
    )

    def broken(_model: onnx.ModelProto) -> object:
        raise RuntimeError("no such\nthing")

    assert failure(broken, case) == "RuntimeError: no such thing"  # type: ignore[arg-type]
    assert (
        failure(ortpkg_runtime, case)
        == "output 0: 1 of 1 elements differ, first [0]: 1.0 instead of 2.0"
    )
