"""How many cases ran: the log of batches, its sums, and which seeds come next."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.__main__ import main, works
from tests.fuzz.driver import Attack, Finding
from tests.fuzz.kinds import BATCHES, NOTHING
from tests.fuzz.tally import Batch, Tally, append, read


def batch(kind: str, first: int, count: int, *findings: Finding) -> Batch:
    return Batch.of(
        kind, first, Attack(findings=findings, count=count, duration_s=9.0, processor_s=5.0)
    )


def test_a_log_keeps_each_batch(tmp_path: Path) -> None:
    log = tmp_path / "new" / "fuzz.jsonl"
    batches = [batch("models", 0, 40), batch("faults", 7, 2, Finding(seed=8, problem="odd"))]
    for each in batches:
        append(log, each)

    assert [(each.kind, each.first, each.count) for each in read(log)] == [
        ("models", 0, 40),
        ("faults", 7, 2),
    ]
    assert read(log) == batches


def test_no_log_has_no_batches(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl") == []


def test_a_table_adds_up_by_kind() -> None:
    tally = Tally([batch("models", 0, 40), batch("shapes", 0, 1000)])
    tally.add(batch("models", 40, 10, Finding(seed=41, problem="odd")))

    assert [" ".join(line.split()) for line in tally.table().splitlines()] == [
        "models 50 cases 1 findings 18 s 10 s of processors 5 cases for each",
        "shapes 1,000 cases 0 findings 9 s 5 s of processors 200 cases for each",
        "in all 1,050 cases 1 findings 27 s 15 s of processors 70 cases for each",
    ]
    assert tally.has_findings


def test_kinds_take_turns_and_every_seed_comes_once() -> None:
    last = 2 * BATCHES["faults"] + 3
    found = list(works(["models", "faults"], 10, 10 + last))

    assert [kind for kind, _ in found] == ["models", "faults", "faults", "faults"]
    for kind in ("models", "faults"):
        seeds = [seeds for each, seeds in found if each == kind]
        assert list(itertools.chain(*seeds)) == list(range(10, 10 + last))


@pytest.mark.timeout(60)
def test_a_run_goes_on_behind_the_last_seed_of_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "fuzz.jsonl"
    append(log, batch(NOTHING, 30, 20))
    command = ["fuzz", "--log", str(log), "--kind", NOTHING, "--cases", "2"]
    monkeypatch.setattr(sys, "argv", command)

    assert main() == 0
    assert [(each.first, each.count) for each in read(log)] == [(30, 20), (50, 2)]
    assert "2 cases" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*command, "--report"])
    assert main() == 0
    assert "22 cases" in capsys.readouterr().out


@pytest.mark.timeout(60)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes without a word")
def test_what_ran_before_an_interrupt_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORTPKG_FUZZ_INTERRUPT_AT", "2")  # the parent, at its third case
    log = tmp_path / "fuzz.jsonl"
    command = ["--log", str(log), "--kind", NOTHING, "--jobs", "1", "--minutes", "1"]
    subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *command],
        cwd=Path(__file__).resolve().parents[2],
        check=True,
    )

    (batch,) = read(log)
    assert 3 <= batch.count < BATCHES[NOTHING]
