"""A backend that fails in every way: the benchmark survives and says how each variant failed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from tests.measuring.conftest import (
    FAULTY_EP,
    CommandLine,
    Done,
    LineMaker,
    add_samples,
    scale_model,
)
from tests.warm.popen import warm_popen

#: Fault → how its measurement must end.
_OUTCOMES = {
    "abort": "crashed",
    "exit": "crashed",
    "hang": "over the limit",
    "raise": "failed",
    "memory": "over the limit",
    "wrong": "wrong output",
    "nan": "wrong output",
    "shape": "failed",
    "refuse": "fell back",
    "chatter": "measured",
    "none": "measured",
}
_CAUSES = {"crashed": "CRASH", "failed": "ERROR", "wrong output": "WRONG_OUTPUT"}


@dataclass(frozen=True)
class Benched:
    """A package with a variant per fault, and one with what hangs, measured once.

    What hangs is ended at a limit that it is sure to pass, and nothing else has to keep to.
    """

    root: Path
    hanging: Path
    ortpkg: CommandLine
    done: Done
    hung: Done

    def result(self, variant: str) -> Any:
        done = self.hung if variant == "hang" else self.done
        assert done.code == 0, done.err
        return next(each for each in done.json["results"] if each["variant"] == variant)


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory, command_line: LineMaker) -> Benched:
    folder = tmp_path_factory.mktemp("faults")
    model = scale_model(folder / "double.onnx")

    def package(name: str, faults: list[str]) -> Path:
        variants = [
            ortpkg.NewVariant(
                model=model,
                name=fault,
                ep=FAULTY_EP,
                device="cpu",
                provider_options={"fault": fault},
            )
            for fault in faults
        ]
        root = folder / f"{name}.ortpackage"
        ortpkg.create(root, [*variants, ortpkg.NewVariant(model=model, name="cpu", ep="cpu")])
        add_samples(root)
        return root

    root = package("faults", [fault for fault in _OUTCOMES if fault != "hang"])
    hanging = package("hanging", ["hang"])
    run = command_line(folder)
    options = ("--rounds", 1, "--repeat", 3, "--memory-limit", 800_000_000, "--trust", "--json")
    with warm_popen():
        return Benched(
            root=root,
            hanging=hanging,
            ortpkg=run,
            done=run("bench", root, "--timeout", 120, *options),
            hung=run("bench", hanging, "--timeout", 5, *options),
        )


@pytest.mark.parametrize("fault", _OUTCOMES)
def test_names_how_a_variant_failed(benched: Benched, fault: str) -> None:
    assert benched.result(fault)["outcome"] == _OUTCOMES[fault]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("abort", "SIGABRT; its last words: 'driver: assertion failed'"),
        ("hang", "not measured: over the limit: no answer within 5 s; it is not quarantined"),
        ("raise", "failed: device lost"),
        ("exit", "it ended with status 0 without a result"),
        ("memory", "not measured: over the limit: it held more than 800 MB of memory"),
        ("wrong", "y is off by up to 1"),
        ("nan", "y has NaN or infinity where a number is expected"),
        ("shape", "it gets from FaultyExecutionProvider 'y' as float32[1, 2]"),
        ("refuse", "FaultyExecutionProvider took no node of it"),
    ],
)
def test_says_why(benched: Benched, fault: str, said: str) -> None:
    assert said in benched.result(fault)["reason"]


def test_other_variants_are_measured_all_the_same(benched: Benched) -> None:
    measured = [
        each
        for each in benched.done.json["results"]
        if each["variant"] in {"cpu", "none", "chatter"}
    ]
    assert len(measured) >= 3
    for result in measured:
        assert result["outcome"] == "measured"
        assert result["is_accurate"] is True
        assert result["times"]["count"] >= 3
        assert result["cold_start_s"] > result["session_creation_s"] > 0


def test_accurate_ones_come_first_in_the_order_of_their_medians(benched: Benched) -> None:
    results = benched.done.json["results"]
    good = [each["times"]["p50_s"] for each in results if each["outcome"] == "measured"]
    assert good == sorted(good)
    assert all(each["outcome"] == "measured" for each in results[: len(good)])


def test_quarantines_exactly_what_failed(benched: Benched) -> None:
    listed = benched.ortpkg("quarantine", "list", benched.root, "--json").json["entries"]
    expected = {
        fault: _CAUSES[outcome] for fault, outcome in _OUTCOMES.items() if outcome in _CAUSES
    }
    assert {entry["variant_name"]: entry["cause"] for entry in listed} == expected
    assert {entry["ep_version"] for entry in listed} == {"1.0"}
    assert benched.ortpkg("quarantine", "list", benched.hanging, "--json").json["entries"] == []


def test_an_escape_sequence_of_a_backend_reaches_no_terminal(benched: Benched) -> None:
    listed = benched.ortpkg("quarantine")
    assert "device lost" in listed.out
    assert "\x1b" not in listed.out
