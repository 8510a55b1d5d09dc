"""Engine that runs a batch in this process, one part after the other."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ortpkg.scale.batches.batch_job import BatchJob
from ortpkg.scale.batches.batch_progress import PartDone
from ortpkg.scale.batches.engines import BatchEngine
from ortpkg.scale.batches.node_trial import NodeTrial, make_trial
from ortpkg.scale.batches.package_runner import PackageRunner, PackageUse
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.parts import reading_groups
from ortpkg.scale.batches.rows import Rows


class _LocalEngine:
    def __init__(self, use: PackageUse, tolerance: float | None) -> None:
        self._runner = PackageRunner(use)
        if tolerance is not None:
            self._runner.forbid_other_variants()

    def trials(self) -> list[NodeTrial]:
        return [make_trial(self._runner, platform.node())]

    def measure(self, rows: Rows, plan: RunPlan) -> Mapping[int, float]:
        return self._runner.measure(rows, plan)

    def run(self, job: BatchJob) -> Iterator[PartDone]:
        for group in reading_groups(job.to_do):
            for part, rows in job.reading.rows_of(group):
                outputs = self._runner.run(part, rows, job.plan)
                job.folder.write(part, outputs)
                yield PartDone(
                    part=part.number,
                    rows=len(outputs.row_ids),
                    errors=len(outputs.errors),
                    worker="this process",
                    node=platform.node(),
                    variants=self._runner.chosen,
                    notes=tuple(self._runner.notes),
                )


@contextmanager
def local_engine(use: PackageUse, tolerance: float | None = None) -> Iterator[BatchEngine]:
    """Yield the engine of this process; with a ``tolerance`` no other variant may take over.

    Raises:
        OrtpkgError: The package cannot be opened.
    """
    yield _LocalEngine(use, tolerance)
