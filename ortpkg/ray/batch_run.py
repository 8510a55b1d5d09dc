"""Runs a batch on the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ortpkg.batches.batch_job import BatchJob
from ortpkg.batches.engines import BatchEngine, Workers
from ortpkg.batches.package_runner import ModelFacts, PackageRunner, PackageUse
from ortpkg.batches.parts import readings
from ortpkg.batches.progress import PartDone
from ortpkg.errors import OrtpkgError
from ortpkg.ray.cluster import cluster
from ortpkg.ray.stages import DONE, FAILED, PARTS, RunPackage, read_parts, write_part

#: Of a core, while a part is read or written: what mostly waits for a disk.
_FILE_CPUS = 0.25
#: Cores that a cluster of our own has for reading and writing beside those of its workers.
FILE_CORES = 1


class _RayEngine:
    """Runs batches on a cluster that is connected."""

    def __init__(self, ray: Any, use: PackageUse, workers: Workers) -> None:
        self._ray = ray
        self._use = use
        self._workers = workers

    def facts(self) -> ModelFacts:
        """What a job has to know of the package, from the node that can first open it.

        Raises what a worker raises there.
        """
        found = self._ray.get(self._ray.remote(_facts).remote(self._use))
        if isinstance(found, OrtpkgError):
            raise found
        return found  # type: ignore[no-any-return]  # of Ray, which has no types here

    def run(self, job: BatchJob) -> Iterator[PartDone]:
        """Reads, runs and writes every part that is not there yet, and tells of each as it is.

        Raises the first error that a worker met.
        """
        data = self._ray.data
        to_do = readings(job.to_do)
        if not to_do:
            return
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.target_max_block_size = 1  # every part a block of its own: one worker's, then
        dataset = (
            data.from_items([{PARTS: group} for group in to_do], override_num_blocks=len(to_do))
            .flat_map(read_parts, fn_kwargs={"reading": job.reading}, num_cpus=_FILE_CPUS)
            .map(
                RunPackage,
                fn_constructor_kwargs={"use": self._use, "plan": job.plan},
                compute=data.ActorPoolStrategy(size=self._workers.count),
                num_cpus=self._workers.cpus,
            )
            .map(write_part, fn_kwargs={"folder": job.folder}, num_cpus=_FILE_CPUS)
        )
        for row in dataset.iter_rows():
            if row[FAILED] is not None:
                raise row[FAILED]
            yield row[DONE]


@contextmanager
def ray_engine(use: PackageUse, address: str | None, workers: Workers) -> Iterator[BatchEngine]:
    """Workers on a cluster: that at ``address``, or one of this machine's own for as long.

    Raises as :func:`~ortpkg.ray.cluster.cluster`.
    """
    with cluster(address, int(workers.count * workers.cpus) + FILE_CORES) as ray:
        yield _RayEngine(ray, use, workers)


def _facts(use: PackageUse) -> ModelFacts | OrtpkgError:
    try:
        return PackageRunner(use).facts
    except OrtpkgError as error:
        return error
