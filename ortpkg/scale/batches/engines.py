"""Interface of what runs a batch: this process, or the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ortpkg.scale.batches.batch_job import BatchJob
from ortpkg.scale.batches.batch_progress import PartDone
from ortpkg.scale.batches.node_trial import NodeTrial
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """Number of workers of a batch (None for as many as fit), and cores of each."""

    count: int | None
    cpus: float = 1


class BatchEngine(Protocol):
    """Engine that opens the package and runs parts on it."""

    def trials(self) -> list[NodeTrial]:
        """Return the trials of the nodes that can run the package.

        Raises:
            UsageError: Results must be the same everywhere, and the variants differ too much.
            OrtpkgError: No node can run the package; the first node's error.
        """

    def measure(self, rows: Rows, plan: RunPlan) -> Mapping[int, float]:
        """Return the seconds of a run by number of rows, measured with these rows on one node."""

    def run(self, job: BatchJob) -> Iterator[PartDone]:
        """Read, run and write every missing part, and yield each when it is written.

        Raises:
            OrtpkgError: The first error of any part.
        """
