"""What runs a batch on each machine: trials, batch sizes, mixes of variants, variants that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.cli.app import run
from ortpkg.foundations.errors import ExecutionProviderError, NoSuitableVariantError, UsageError
from ortpkg.scale.batches import package_runner
from ortpkg.scale.batches.batch_size import best_batch_size
from ortpkg.scale.batches.local_run import local_engine
from ortpkg.scale.batches.model_layout import model_layout
from ortpkg.scale.batches.node_trial import (
    NodeTrial,
    make_trial,
    mark_other_packages,
    try_here,
    usable_trials,
)
from ortpkg.scale.batches.package_runner import ChosenVariant, PackageRunner, PackageUse
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Rows
from ortpkg.scale.batches.same_results import verify_same_results
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.cli.conftest import DIGITS

USE = PackageUse(
    reference=str(DIGITS), wishes=SelectionWishes(backend="embedded", device="cpu"), threads=1
)
IMAGES = np.random.default_rng(1).random((5, 64), np.float32)
ROWS = Rows(row_ids=np.arange(5), columns={"image": IMAGES})
PART = Part(number=0, files=("rows",), first_row=0, file_row=0, count=5)


@pytest.mark.parametrize(
    ("times", "most_rows", "size"),
    [
        ({}, 1000, 64),
        ({}, 10, 10),
        ({1: 0.001, 8: 0.002, 32: 0.0065, 128: 0.025}, 1000, 32),
        ({1: 0.001, 8: 0.008, 32: 0.04}, 1000, 1),
        ({1: 0.001, 512: 0.002}, 100, 1),
    ],
)
def test_a_run_takes_the_fewest_rows_that_come_near_the_best_rate(
    times: Mapping[int, float], most_rows: int, size: int
) -> None:
    assert best_batch_size(times, most_rows) == size


def chosen(variant: str) -> ChosenVariant:
    return ChosenVariant(
        component="model",
        variant=variant,
        ep="CPUExecutionProvider",
        backend="embedded",
        device="",
        device_type="cpu",
        reason="",
    )


def node(name: str, variant: str, error: float | None) -> NodeTrial:
    return NodeTrial(node=name, chosen=(chosen(variant),), errors={"model": error})


def test_variants_whose_errors_are_near_may_be_mixed() -> None:
    verify_same_results([node("a", "fp32", 0.0), node("b", "int8", 0.01)], 0.01)
    verify_same_results([node("a", "int4", 0.5), node("b", "int8", 0.505)], 0.01)
    verify_same_results([node("a", "fp32", None), node("b", "fp32", None)], 0.0)


@pytest.mark.parametrize(
    ("trials", "message"),
    [
        (
            [node("a", "fp32", 0.0), node("b", "int8", 0.25)],
            "whose recorded errors differ by 0.25 (int8 on CPUExecutionProvider (embedded) on b",
        ),
        (
            [node("a", "fp32", 0.0), node("b", "int8", None)],
            "no error is recorded on b: run ortpkg bench there",
        ),
    ],
)
def test_other_mixes_are_refused(trials: Sequence[NodeTrial], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        verify_same_results(trials, 0.01)
    assert message in str(raised.value)


def test_a_node_says_what_it_would_run_and_what_that_takes() -> None:
    found = try_here(USE, "here")
    assert [each.variant for each in found.chosen] == ["cpu-fp32"]
    assert found.facts is not None
    assert found.facts.identity["name"] == "digits"
    assert found.resources == {}
    assert found.memory_nbytes > 100 << 20


def test_memory_grows_with_the_rows_of_a_run() -> None:
    runner = PackageRunner(USE)
    assert 10 * runner.planned_nbytes(64) < runner.planned_nbytes(6400)


def test_nodes_that_cannot_run_the_package_are_left_out() -> None:
    wrong = PackageUse(
        reference=str(DIGITS), wishes=SelectionWishes(variant="cuda", backend="embedded")
    )
    failed = try_here(wrong, "there")
    assert isinstance(failed.problem, NoSuitableVariantError)
    here = try_here(USE, "here")
    assert usable_trials([failed, here]) == [here]
    with pytest.raises(NoSuitableVariantError):
        usable_trials([failed])


def test_a_node_where_the_reference_leads_to_another_package_runs_nothing() -> None:
    here = try_here(USE, "here")
    assert here.facts is not None
    identity = {**here.facts.identity, "digest": "sha256:0"}
    there = replace(here, node="there", facts=replace(here.facts, identity=identity))
    unknown = replace(there, facts=replace(here.facts, identity={**identity, "digest": "stat:1"}))
    first, second, third = mark_other_packages([here, there, unknown])
    assert (first.problem, third.problem) == (None, None)
    assert str(second.problem) == "the reference leads to another package there than on here"


class Vanished:
    """A session whose device is gone."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def run(self, *_arguments: Any) -> Any:
        raise ExecutionProviderError("the device has vanished", ep_name="CPUExecutionProvider")


def plan_of(runner: PackageRunner) -> RunPlan:
    facts = runner.facts
    layout = model_layout(facts.inputs, facts.outputs)
    return RunPlan(layout=layout, columns={"image": ("image",)}, batch_size=4)


@pytest.fixture
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "records"))


@pytest.mark.usefixtures("own_records")
def test_a_variant_that_fails_is_put_into_quarantine_and_the_next_one_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runner = PackageRunner(USE)
    runner.session = Vanished(runner.session)
    outputs = runner.run(PART, ROWS, plan_of(PackageRunner(USE)))
    assert outputs.columns["logits"].shape == (5, 10)  # type: ignore[union-attr]  # an array
    assert [each.variant for each in runner.chosen] == ["cpu-int8"]
    (note,) = make_trial(runner, "here").notes
    assert note.startswith("variant 'cpu-fp32' failed on CPUExecutionProvider (embedded)")
    assert note.endswith("the device has vanished")
    assert [each.variant for each in PackageRunner(USE).chosen] == ["cpu-int8"]
    run(["quarantine", "list"])
    assert "the device has vanished" in capsys.readouterr().out


@pytest.mark.usefixtures("own_records")
def test_where_no_variant_is_left_it_says_so() -> None:
    use = PackageUse(
        reference=str(DIGITS), wishes=SelectionWishes(backend="embedded", variant="cpu-int8")
    )
    runner = PackageRunner(use)
    runner.session = Vanished(runner.session)
    with pytest.raises(NoSuitableVariantError, match="the device has vanished"):
        runner.run(PART, ROWS, plan_of(PackageRunner(USE)))


@pytest.mark.usefixtures("own_records")
def test_what_is_not_allowed_does_not_run_in_its_place() -> None:
    (key,) = [each.key for each in PackageRunner(USE).chosen]
    use = PackageUse(
        reference=USE.reference, wishes=USE.wishes, threads=1, allowed=frozenset([key])
    )
    runner = PackageRunner(use)
    runner.session = Vanished(runner.session)
    with pytest.raises(NoSuitableVariantError, match="--same-results does not allow it"):
        runner.run(PART, ROWS, plan_of(PackageRunner(USE)))


@pytest.mark.usefixtures("own_records")
def test_one_process_keeps_to_its_variant_where_results_have_to_be_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ortpkg.InferenceSession, "run", Vanished(None).run)
    for tolerance, left in ((0.0, "--same-results does not allow it"), (None, "no variant")):
        with local_engine(USE, tolerance) as engine:
            job = SimpleNamespace(
                to_do=(PART,),
                plan=plan_of(PackageRunner(USE)),
                reading=SimpleNamespace(rows_of=lambda _group: [(PART, ROWS)]),
            )
            with pytest.raises(NoSuitableVariantError, match=left):
                list(engine.run(job))  # type: ignore[arg-type]  # all that it needs of a job


def test_batch_sizes_are_measured_on_rows_of_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_runner, "_MEASURING_S", 0.1)
    runner = PackageRunner(USE)
    times = runner.measure(ROWS, plan_of(runner))
    assert set(times) <= {1, 8, 32, 128, 512}
    assert times[1] > 0
