"""Engine that runs a batch on the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortpkg.authoring.opening import is_packed
from ortpkg.foundations.errors import ClusterError, OrtpkgError, PackageNotFoundError, printable
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.scale.batches.batch_job import BatchJob
from ortpkg.scale.batches.batch_progress import PartDone
from ortpkg.scale.batches.engines import BatchEngine, WorkerPlan
from ortpkg.scale.batches.node_trial import NodeTrial, mark_other_packages, try_here, usable_trials
from ortpkg.scale.batches.package_runner import PackageRunner, PackageUse
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.parts import Part, reading_groups
from ortpkg.scale.batches.rows import Rows
from ortpkg.scale.batches.same_results import verify_same_results
from ortpkg.scale.ray.cluster import cluster
from ortpkg.scale.ray.shipping import NodeCopies, forget, packed_bytes, with_local_copy
from ortpkg.scale.ray.stages import (
    DONE,
    FAILED,
    PARTS,
    RunPackage,
    node_name,
    read_parts,
    write_part,
)
from ortpkg.scale.ray.worker_pools import CPU, Pool, shares, worker_pools

#: Ray's names of devices besides cores.
_DEVICES = ("GPU", "NPU")
#: Least limit of concurrent reading tasks, and of writing tasks; otherwise the number of workers.
_LEAST_FILE_TASKS = 2
_CLEANUP_S = 30.0
_NODE_ID = "ray.io/node-id"


class _RayEngine:
    """Engine that runs batches on a connected cluster.

    Args:
        ray: The library.
        use: The package.
        workers: Number and cores of workers.
        tolerance: Most that errors of variants may differ; None if they need not be known.
    """

    def __init__(
        self, ray: Any, use: PackageUse, workers: WorkerPlan, tolerance: float | None
    ) -> None:
        self._ray = ray
        self._use = use
        self._workers = workers
        self._tolerance = tolerance
        self._offers = {
            node["NodeID"]: node["Resources"]
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get(CPU, 0) >= workers.cpus
        }
        if not self._offers:
            raise ClusterError(f"the cluster has no node with {workers.cpus:g} cores for a worker")
        self._trials: list[NodeTrial] = []
        self._copies = NodeCopies()
        self._all_usable = True

    def trials(self) -> list[NodeTrial]:
        node_trials = self._try_nodes(list(self._offers))
        without_package = [
            trial for trial in node_trials if isinstance(trial.problem, PackageNotFoundError)
        ]
        if without_package and Path(self._use.reference).exists():
            content = packed_bytes(self._use.reference)
            if content is not None:
                self._copies = replace(self._copies, content=self._ray.put(content))
            again = {
                trial.node_id: trial
                for trial in self._try_nodes([trial.node_id for trial in without_package])
            }
            node_trials = [again.get(trial.node_id, trial) for trial in node_trials]
        node_trials = mark_other_packages(node_trials)
        self._trials = usable_trials(node_trials)
        self._all_usable = len(self._trials) == len(node_trials)
        if self._tolerance is not None:
            verify_same_results(self._trials, self._tolerance)
            allowed = frozenset(variant.key for trial in self._trials for variant in trial.chosen)
            self._use = replace(self._use, allowed=allowed)
        return node_trials

    def measure(self, rows: Rows, plan: RunPlan) -> Mapping[int, float]:
        node_id = self._trials[0].node_id
        times: Mapping[int, float] = self._ray.get(
            self._on(node_id, _measure, self._use, self._copies, rows, plan)
        )
        return times

    def close(self) -> None:
        """Remove what nodes unpacked."""
        if self._copies.content is not None or is_packed(Path(self._use.reference)):
            removals = [self._on(node_id, forget, self._copies.key) for node_id in self._offers]
            self._ray.wait(removals, num_returns=len(removals), timeout=_CLEANUP_S)

    def _try_nodes(self, node_ids: Sequence[str]) -> list[NodeTrial]:
        pending = [self._on(item, _try, self._use, self._copies) for item in node_ids]
        return [
            self._trial_result(item, node_id)
            for item, node_id in zip(pending, node_ids, strict=True)
        ]

    def _on(self, node_id: str, function: Any, *arguments: Any) -> Any:
        """Call a function on a node, with the devices that it has."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # an extra

        offer = self._offers[node_id]
        return (
            self._ray.remote(function)
            .options(
                num_cpus=0,
                num_gpus=min(1, offer.get("GPU", 0)),
                resources={"NPU": 1} if offer.get("NPU", 0) >= 1 else None,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            .remote(*arguments)
        )

    def _trial_result(self, pending: Any, node_id: str) -> NodeTrial:
        try:
            trial: NodeTrial = self._ray.get(pending)
        except self._ray.exceptions.RayError as error:
            problem = ClusterError(f"node {node_id[:6]} was lost: {printable(error)}")
            return NodeTrial(node=node_name(node_id), node_id=node_id, problem=problem)
        return trial

    # --- the run ----------------------------------------------------------------------------------

    def run(self, job: BatchJob) -> Iterator[PartDone]:
        groups = reading_groups(job.to_do)
        if not groups:
            return
        pools = worker_pools(self._trials, self._offers, self._workers)
        mine = [
            self._dataset(job, pool, share, is_only=len(pools) == 1)
            for pool, share in zip(pools, shares(groups, pools), strict=True)
            if share
        ]
        dataset = mine[0].union(*mine[1:]) if len(mine) > 1 else mine[0]
        rows = iter(dataset.iter_rows())
        try:
            with closing(rows):  # also ends the workers if not everything was run
                for row in rows:
                    if row[FAILED] is not None:
                        raise row[FAILED]
                    yield row[DONE]
        except self._ray.exceptions.RayError as error:
            raise ClusterError(
                f"the cluster failed: {printable(error)}; --resume goes on from what is written"
            ) from error

    def _dataset(
        self, job: BatchJob, pool: Pool, groups: Sequence[tuple[Part, ...]], *, is_only: bool
    ) -> Any:
        """Return the dataset of what one pool of workers reads, runs and writes."""
        data = self._ray.data
        most = min(len(groups), max(_LEAST_FILE_TASKS, pool.count))
        file_tasks = {"num_cpus": 0, "concurrency": most}
        runs_anywhere = is_only and self._all_usable
        node_selector = None if runs_anywhere else {_NODE_ID: f"in({','.join(pool.node_ids)})"}
        others = {name: count for name, count in pool.devices.items() if name != "GPU"}
        items = data.from_items(
            [{PARTS: group} for group in groups], override_num_blocks=len(groups)
        )
        # A copy of the context, which derived datasets share; other users in this process keep
        # theirs.
        items.context.enable_progress_bars = False
        items.context.target_max_block_size = 1  # makes every part a block, which one worker gets
        return (
            items.flat_map(read_parts, fn_kwargs={"reading": job.reading}, **file_tasks)
            .map(
                RunPackage,
                fn_constructor_kwargs={
                    "use": self._use,
                    "plan": job.plan,
                    "folder": job.folder,
                    "copies": self._copies,
                },
                compute=data.ActorPoolStrategy(size=min(pool.count, len(groups))),
                num_cpus=pool.cpus,
                num_gpus=pool.devices.get("GPU"),
                resources=others or None,
                memory=pool.memory_nbytes or None,
                label_selector=node_selector,
            )
            .map(write_part, fn_kwargs={"folder": job.folder}, **file_tasks)
        )


@contextmanager
def ray_engine(
    use: PackageUse, address: str | None, workers: WorkerPlan, tolerance: float | None = None
) -> Iterator[BatchEngine]:
    """Yield an engine on the cluster at ``address``, or on a temporary cluster of this machine.

    ``tolerance`` is the most that the recorded errors of variants on different nodes may differ.

    Raises:
        ClusterError: No node has the cores.
        OrtpkgError: See :func:`~ortpkg.scale.ray.cluster.cluster`.
    """
    count = workers.count or max(1, int(usable_cores() / workers.cpus))
    with cluster(address, int(count * workers.cpus)) as ray:
        engine = _RayEngine(ray, use, workers, tolerance)
        try:
            yield engine
        finally:
            engine.close()


def _try(use: PackageUse, copies: NodeCopies) -> NodeTrial:
    import ray  # this runs where Ray does alone

    node_id = ray.get_runtime_context().get_node_id()
    try:
        return try_here(with_local_copy(use, copies), node_name(node_id), node_id)
    except OrtpkgError as error:
        return NodeTrial(node=node_name(node_id), node_id=node_id, problem=error)


def _measure(use: PackageUse, copies: NodeCopies, rows: Rows, plan: RunPlan) -> Mapping[int, float]:
    try:
        return PackageRunner(with_local_copy(use, copies)).measure(rows, plan)
    except OrtpkgError:  # the run itself reports what is wrong
        return {}
