"""Distribution of a batch's workers over nodes, so that no node is overcommitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.foundations.errors import ClusterError
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.scale.batches.batch_size import best_rate
from ortpkg.scale.batches.engines import WorkerPlan
from ortpkg.scale.batches.node_trial import NodeTrial
from ortpkg.scale.batches.parts import Part

#: Names of Ray's resources.
CPU, MEMORY = "CPU", "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Workers that need the same resources of a node.

    Attributes:
        node_ids: Nodes where they may run.
        count: Number of workers.
        cpus: Cores of each.
        devices: GPUs and NPUs of each, by Ray's names.
        memory_nbytes: Memory of each in bytes.
        weight: Their share of the rows, in rows per second if that is recorded.
    """

    node_ids: tuple[str, ...]
    count: int
    cpus: float
    devices: Mapping[str, float]
    memory_nbytes: int
    weight: float


def worker_pools(
    trials: Sequence[NodeTrial], offers: Mapping[str, Mapping[str, float]], workers: WorkerPlan
) -> list[Pool]:
    """Return the workers on the nodes that can run the package, in pools with equal needs.

    A worker needs its cores, the device of its variant, and the memory of its plan. Workers are
    assigned to nodes in turn, as many as fit.

    Args:
        trials: Trials of these nodes.
        offers: Resources of each node, by Ray's names.
        workers: Number of workers (None for as many as fit), and their cores.

    Raises:
        ClusterError: Not one fits.
    """
    room = {trial.node_id: _most(trial, offers[trial.node_id], workers) for trial in trials}
    total = sum(room.values())
    if not total:
        needs = " and ".join(
            [f"{workers.cpus:g} cores", nbytes_text(max(trial.memory_nbytes for trial in trials))]
        )
        raise ClusterError(f"no node has what a worker takes: {needs} of memory")
    counts = _in_turn(room, total if workers.count is None else min(workers.count, total))
    kinds: dict[tuple[tuple[str, float], ...], list[NodeTrial]] = {}
    for trial in trials:
        if counts[trial.node_id]:
            kinds.setdefault(tuple(sorted(trial.resources.items())), []).append(trial)
    return [
        Pool(
            node_ids=tuple(trial.node_id for trial in members),
            count=sum(counts[trial.node_id] for trial in members),
            cpus=workers.cpus,
            devices=dict(devices),
            memory_nbytes=max(trial.memory_nbytes for trial in members),
            weight=sum(counts[trial.node_id] * _rate(trial, trials) for trial in members),
        )
        for devices, members in kinds.items()
    ]


def _most(trial: NodeTrial, offer: Mapping[str, float], workers: WorkerPlan) -> int:
    """Return the number of workers that fit on a node."""
    needs = {CPU: workers.cpus, MEMORY: trial.memory_nbytes, **trial.resources}
    return min(int(offer.get(name, 0) / need) for name, need in needs.items() if need)


def _in_turn(room: Mapping[str, int], count: int) -> dict[str, int]:
    """Assign ``count`` workers to the nodes in turn."""
    counts = dict.fromkeys(room, 0)
    while sum(counts.values()) < count:
        for node, most in room.items():
            if counts[node] < most and sum(counts.values()) < count:
                counts[node] += 1
    return counts


def _rate(trial: NodeTrial, trials: Sequence[NodeTrial]) -> float:
    """Return a node's rows per second if all nodes have records, else 1."""
    rates = [best_rate(other.batch_times or {}) for other in trials]
    return best_rate(trial.batch_times or {}) if all(rates) else 1.0


def shares(
    groups: Sequence[tuple[Part, ...]], pools: Sequence[Pool]
) -> list[list[tuple[Part, ...]]]:
    """Return the parts of each pool, divided by weight so that all are busy from the start."""
    assigned: list[list[tuple[Part, ...]]] = [[] for _ in pools]
    rows = [0] * len(pools)
    for group in groups:
        count = sum(part.count for part in group)
        pool_index = min(
            range(len(pools)), key=lambda index: (rows[index] + count) / pools[index].weight
        )
        assigned[pool_index].append(group)
        rows[pool_index] += count
    return assigned
