"""The onnx package's node cases of the operators that have numpy kernels: all, three ways each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from tests.kernels.backend_cases import cases_of, check_case, operators_with_cases

CASES = operators_with_cases()


@pytest.mark.requirement("P14", "D11")
@pytest.mark.parametrize("op_type", CASES)
def test_every_node_case_of_the_operator_passes(op_type: str) -> None:
    for case in CASES[op_type]:
        check_case(case)


def test_an_operator_without_cases_is_named_by_a_test() -> None:
    """What has sub-graphs runs in tests/conformance.

    A case of onnx is about its own operator, so one of com.microsoft is named in a file about
    these, even where onnx has one of its name.
    """
    own = {(each.domain, each.op_type) for each in cpu_kernel_registry().definitions()}
    tests = Path(__file__).resolve().parents[1]
    words: dict[bool, set[str]] = {False: set(), True: set()}
    for folder in ("kernels", "engine", "session"):
        for path in (tests / folder).glob("test_*.py"):
            text = path.read_text(encoding="utf-8")
            words[re.search(r"com\.microsoft|\bMS\b|MICROSOFT", text) is not None].update(
                re.findall(r"\w+", text)
            )

    microsoft = {op_type for domain, op_type in own if domain == "com.microsoft"}
    others = {op_type for domain, op_type in own if domain != "com.microsoft"}
    silent = (microsoft - words[True]) | {
        each for each in others if each not in words[False] | words[True] and not cases_of(each)
    }
    assert silent == set(), "hold the kernel against onnxruntime in tests/kernels"
