"""What the component generation may say: the strict verdict and that of onnxruntime 1.31, package by package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ortpkg.errors import Severity
from ortpkg.package.reader import check_package
from ortpkg.package.reading_rules import ONNXRUNTIME_1_31
from tests.package.component_cases import ALL_CASES, OPENS, Case, write_case

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the verdicts on names that Windows cannot hold are those of other systems"
)


def written(case: Case, folder: Path) -> Path:
    try:
        return write_case(case, folder)
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")


def verdict(root: Path, compat: str | None, expected: str) -> str:
    """``expected`` where the package has that verdict, else what it has."""
    package, findings = check_package(root, compat=compat)
    if package is not None:
        return OPENS
    rules = [finding.rule for finding in findings if finding.severity is Severity.ERROR]
    return expected if set(rules) == {expected} else " ".join(map(str, findings))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ALL_CASES])
def test_strict_verdict(case: Case, tmp_path: Path) -> None:
    assert verdict(written(case, tmp_path), None, case.strict) == case.strict


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ALL_CASES])
def test_verdict_of_onnxruntime_1_31(case: Case, tmp_path: Path) -> None:
    assert verdict(written(case, tmp_path), ONNXRUNTIME_1_31, case.compat) == case.compat
