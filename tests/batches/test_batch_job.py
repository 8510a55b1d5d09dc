"""What has to be the same for a batch to go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.package.package_info import ValueInfo
from ortpkg.scale.batches.batch_job import BatchJob, BatchWishes, prepared_job, verify_wishes
from ortpkg.scale.batches.input_files import RowFormat
from ortpkg.scale.batches.node_trial import NodeTrial
from ortpkg.scale.batches.package_runner import ModelFacts, PackageUse
from ortpkg.selection.matching.wishes import SelectionWishes

USE = PackageUse(reference="digits", wishes=SelectionWishes(variant="cpu-fp32", ep="cpu"))
TRIAL = NodeTrial(
    node="here",
    facts=ModelFacts(
        identity={"name": "digits", "version": "1", "digest": "sha256:0"},
        inputs=(ValueInfo(name="image", type="tensor(float)", shape=("n", 64)),),
        outputs=(ValueInfo(name="logits", type="tensor(float)", shape=("n", 10)),),
    ),
)


def prepare(wishes: BatchWishes, use: PackageUse = USE) -> BatchJob:
    with prepared_job(verify_wishes(wishes), wishes, use, [TRIAL]) as job:
        return job


@pytest.fixture
def wishes(tmp_path: Path) -> BatchWishes:
    """Those of a batch that began."""
    np.save(tmp_path / "rows.npy", np.zeros((3, 64), np.float32))
    found = BatchWishes(
        inputs=(tmp_path / "rows.npy",), output=tmp_path / "out", columns={}, batch_size=2
    )
    prepare(found)
    return replace(found, resume=True)


def test_a_batch_of_the_same_wishes_goes_on(wishes: BatchWishes) -> None:
    for job in (
        prepare(wishes),
        prepare(replace(wishes, batch_size=None, format=RowFormat.NPY)),
        prepare(wishes, replace(USE, threads=3, trust=True, canary=True)),
    ):
        assert (job.plan.batch_size, len(job.to_do), job.row_count) == (2, 1, 3)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"part_rows": 2}, "--part-rows"),
        ({"format": RowFormat.CSV}, "--format"),
        ({"kept_columns": ("data",)}, "--keep"),
        ({"collects_errors": True}, "--errors"),
        ({"resize": True}, "--resize"),
        ({"same_results": 0.0}, "--same-results"),
        ({"batch_size": 1}, "--batch-size"),
    ],
)
def test_other_wishes_of_rows_are_refused_by_name(
    wishes: BatchWishes, change: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError, match=f"^--resume: .*{name}"):
        prepare(replace(wishes, **change))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"variant": "cpu-int8"}, "--variant"),
        ({"device": "cpu"}, "--device"),
        ({"ep": None}, "--ep"),
        ({"backend": "embedded"}, "--backend"),
        ({"policy": "prefer-cpu"}, "--policy"),
        ({"provider_options": {"device_type": "CPU"}}, "--provider-option"),
    ],
)
def test_other_wishes_of_variants_are_refused_by_name(
    wishes: BatchWishes, change: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError, match=f"is of another batch: {name} differs;"):
        prepare(wishes, replace(USE, wishes=replace(USE.wishes, **change)))


def test_another_component_is_refused(wishes: BatchWishes) -> None:
    with pytest.raises(UsageError, match="is of another batch: --component differs;"):
        prepare(wishes, replace(USE, component="classifier"))
