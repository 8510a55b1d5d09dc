"""The onnx package's node cases of the operators that have numpy kernels: all, three ways each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortpkg.kernels.cpu_kernels import cpu_kernel_registry
from tests.kernels.backend_cases import cases_of, check_case, operators_with_cases

CASES = operators_with_cases()


@pytest.mark.requirement("P14", "D11")
@pytest.mark.parametrize("op_type", CASES)
def test_every_node_case_of_the_operator_passes(op_type: str) -> None:
    for case in CASES[op_type]:
        check_case(case)


def test_an_operator_without_cases_is_named_by_a_test() -> None:
    """Those of com.microsoft, for the most part; what has sub-graphs runs in tests/conformance."""
    own = {definition.op_type for definition in cpu_kernel_registry().definitions()}
    tests = Path(__file__).resolve().parents[1]
    words = {
        word
        for folder in ("kernels", "engine", "session")
        for path in (tests / folder).glob("test_*.py")
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }

    silent = {op_type for op_type in own if op_type not in words and not cases_of(op_type)}
    assert silent == set(), "hold the kernel against onnxruntime in tests/kernels"
