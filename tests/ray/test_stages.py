"""The stages of a batch, called as Ray does."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import ClusterError, NoSuitableVariantError, UsageError
from ortpkg.scale.batches.batch_folder import BatchFolder
from ortpkg.scale.batches.batch_progress import PartDone
from ortpkg.scale.batches.input_files import RowFormat, find_input
from ortpkg.scale.batches.model_layout import model_layout
from ortpkg.scale.batches.package_runner import PackageRunner, PackageUse
from ortpkg.scale.batches.part_planning import PartLimits, plan_parts
from ortpkg.scale.batches.part_reading import Reading
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.ray.shipping import NodeCopies
from ortpkg.scale.ray.stages import (
    DONE,
    FAILED,
    MOST_ATTEMPTS,
    PARTS,
    RunPackage,
    read_parts,
    write_part,
)
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.cli.conftest import DIGITS

USE = PackageUse(reference=str(DIGITS), wishes=SelectionWishes(backend="embedded"), threads=1)


@pytest.fixture(autouse=True)
def on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_node_id=lambda: "0123456789")
    stub = SimpleNamespace(get_runtime_context=lambda: context)
    monkeypatch.setitem(sys.modules, "ray", stub)


class Job:
    """Ten rows in parts of four, as an npy file in ``root``."""

    def __init__(self, root: Path) -> None:
        np.save(root / "rows.npy", np.random.default_rng(3).random((10, 64), np.float32))
        source = find_input([root / "rows.npy"])
        self.parts = plan_parts(source, PartLimits(most_rows=4))
        self.reading = Reading(format=source.format)
        self.folder = BatchFolder(root / "out", RowFormat.NPY)
        self.running = ExitStack()
        self.running.enter_context(self.folder.new_job({}))
        facts = PackageRunner(USE).facts
        layout = model_layout(facts.inputs, facts.outputs)
        self.plan = RunPlan(layout=layout, columns={"image": ("data",)}, batch_size=4)

    def rows(self) -> list[dict[str, Any]]:
        return [row for part in self.parts for row in read_parts({PARTS: (part,)}, self.reading)]


def test_a_part_goes_through_all_stages(tmp_path: Path) -> None:
    job = Job(tmp_path)
    worker = RunPackage(USE, job.plan, job.folder, NodeCopies())
    told = [write_part(worker(row), job.folder) for row in job.rows()]
    done: list[PartDone] = [each[DONE] for each in told]
    assert [(each.part, each.rows, each.errors) for each in done] == [
        (0, 4, 0),
        (1, 4, 0),
        (2, 2, 0),
    ]
    assert done[0].node.endswith("/012345")
    assert job.folder.written(job.parts) == {0, 1, 2}


def test_what_fails_in_a_stage_reaches_the_end_as_it_is(tmp_path: Path) -> None:
    job = Job(tmp_path)
    (tmp_path / "rows.npy").unlink()
    worker = RunPackage(USE, job.plan, job.folder, NodeCopies())
    told = [write_part(worker(row), job.folder) for row in job.rows()]
    assert all(isinstance(each[FAILED], UsageError) for each in told)
    assert not job.folder.written(job.parts)


def test_a_node_that_cannot_run_the_package_says_so_with_its_first_part(tmp_path: Path) -> None:
    job = Job(tmp_path)
    use = PackageUse(reference=str(DIGITS), wishes=SelectionWishes(variant="cuda"))
    (first, *_) = job.rows()
    told = RunPackage(use, job.plan, job.folder, NodeCopies())(first)
    assert isinstance(told[FAILED], NoSuitableVariantError)


def test_a_part_that_ends_worker_after_worker_is_not_tried_for_ever(tmp_path: Path) -> None:
    job = Job(tmp_path)
    (first, *_) = job.rows()
    for _ in range(MOST_ATTEMPTS):
        job.folder.attempt(job.parts[0])
    told = RunPackage(USE, job.plan, job.folder, NodeCopies())(first)
    assert isinstance(told[FAILED], ClusterError)
    assert "rows 0 to 3" in str(told[FAILED])
    assert f"ended {MOST_ATTEMPTS} workers" in str(told[FAILED])
    job.running.close()
    with job.folder.resumed_job({}):
        assert RunPackage(USE, job.plan, job.folder, NodeCopies())(first)[FAILED] is None
