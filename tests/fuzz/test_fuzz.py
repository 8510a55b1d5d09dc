"""A short slice of ``make fuzz``: the same seeds every time, so that what they found stays mended."""

from __future__ import annotations

import pytest

from tests.fuzz.driver import attack_seeds
from tests.fuzz.random_models import random_model

#: Seeds that once broke something: arity, attribute kinds, sub-graphs, huge dimensions, types that are not there.
ONCE_BROKEN = (2, 8, 103, 104, 389, 590, 668, 1086, 1724, 2283, 3599, 3644, 104013, 1003918, 1027386)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("first", [0, 200], ids=lambda first: f"from-{first}")
def test_random_models_run_or_are_refused(first: int) -> None:
    findings = attack_seeds(range(first, first + 200))

    assert not findings, "\n\n".join(f"seed {finding.seed}: {finding.problem}" for finding in findings)


@pytest.mark.timeout(240)
def test_what_was_once_broken_is_mended() -> None:
    findings = attack_seeds(ONCE_BROKEN)

    assert not findings, "\n\n".join(f"seed {finding.seed}: {finding.problem}" for finding in findings)


def test_a_seed_always_means_the_same_model() -> None:
    for seed in range(20):
        assert random_model(seed) == random_model(seed)


@pytest.mark.timeout(60)
def test_a_crash_is_a_finding_and_the_seeds_behind_it_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_FUZZ_CRASH_AT", "1")
    findings = attack_seeds(range(3))

    assert [finding.seed for finding in findings] == [1]
    assert findings[0].problem.startswith("exit code ")
