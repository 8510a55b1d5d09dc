"""What runs a batch: this process, or workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ortpkg.batches.batch_job import BatchJob
from ortpkg.batches.batch_progress import PartDone
from ortpkg.batches.node_trial import NodeTrial
from ortpkg.batches.part_run import RunPlan
from ortpkg.batches.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """How many workers run a batch (None: as many as fit), and the cores that each takes."""

    count: int | None
    cpus: float = 1


class BatchEngine(Protocol):
    """Opens the package, and runs parts on it."""

    def trials(self) -> list[NodeTrial]:
        """What the nodes say that can run the package. Raises what the first one says if none can.

        Where results have to be the same everywhere, UsageError for variants that differ too much.
        """

    def measure(self, rows: Rows, plan: RunPlan) -> Mapping[int, float]:
        """Rows → seconds of a run on these rows, on one of the nodes."""

    def run(self, job: BatchJob) -> Iterator[PartDone]:
        """Reads, runs and writes every part that is not there yet, and tells of each as it is.

        Raises the first error that anything met.
        """
