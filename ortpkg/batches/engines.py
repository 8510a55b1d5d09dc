"""What runs a batch: this process, or workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ortpkg.batches.batch_job import BatchJob
from ortpkg.batches.package_runner import ModelFacts
from ortpkg.batches.progress import PartDone


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """How many workers run a batch, and how many cores each takes of its node."""

    count: int
    cpus: float = 1


class BatchEngine(Protocol):
    """Opens the package, and runs parts on it."""

    def facts(self) -> ModelFacts:
        """What a job has to know of the package. Raises what opening it raises."""

    def run(self, job: BatchJob) -> Iterator[PartDone]:
        """Reads, runs and writes every part that is not there yet, and tells of each as it is.

        Raises the first error that anything met.
        """
