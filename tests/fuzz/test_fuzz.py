"""A short slice of ``make fuzz``: the same seeds every time, so that what they found stays mended."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from google.protobuf import text_format  # type: ignore[import-untyped]

from ortpkg.errors import OrtpkgError
from tests.fuzz.child import attack_model
from tests.fuzz.driver import attack_seeds
from tests.fuzz.mutants import model_of_sizes, mutated_document, mutated_model
from tests.fuzz.random_models import random_model

#: Models that broke something, one each.
FINDINGS = Path(__file__).parent / "findings"

#: Seeds that once broke something: arity, attribute kinds, sub-graphs, huge dimensions, types that are not there.
ONCE_BROKEN = (2, 8, 103, 104, 389, 590, 668, 1086, 1724, 2283, 3599, 3644, 104013, 1003918, 1027386)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kind", "count"), [("models", 150), ("mutants", 60), ("shapes", 100), ("documents", 15), ("faults", 10)]
)
def test_a_few_of_each_kind_end_in_a_result_or_a_typed_error(kind: str, count: int) -> None:
    findings = attack_seeds(range(count), kind=kind)

    assert not findings, "\n\n".join(f"seed {finding.seed}: {finding.problem}" for finding in findings)


@pytest.mark.timeout(240)
def test_what_was_once_broken_is_mended() -> None:
    findings = attack_seeds(ONCE_BROKEN)

    assert not findings, "\n\n".join(f"seed {finding.seed}: {finding.problem}" for finding in findings)


@pytest.mark.parametrize("path", sorted(FINDINGS.glob("*.textproto")), ids=lambda path: path.stem)
def test_a_model_that_once_broke_something_runs_or_is_refused(path: Path) -> None:
    model = text_format.Parse(path.read_text(encoding="utf-8"), onnx.ModelProto()).SerializeToString()
    for seed in (0, 1):  # without optimization, and with all
        try:
            problem = attack_model(model, seed)
        except OrtpkgError as error:
            problem = None if str(error).isprintable() else f"unprintable message: {str(error)!a}"
        assert problem is None


def test_a_seed_always_means_the_same_model() -> None:
    for seed in range(20):
        assert random_model(seed) == random_model(seed)
        assert mutated_model(seed) == mutated_model(seed)
        assert model_of_sizes(seed) == model_of_sizes(seed)
        assert mutated_document(seed, '{"a": [1, {"b": 2}]}') == mutated_document(seed, '{"a": [1, {"b": 2}]}')


@pytest.mark.timeout(60)
def test_a_crash_is_a_finding_and_the_seeds_behind_it_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_FUZZ_CRASH_AT", "1")
    findings = attack_seeds(range(3))

    assert [finding.seed for finding in findings] == [1]
    assert findings[0].problem.startswith("exit code ")
