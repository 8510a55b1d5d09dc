"""How many workers a batch has, on which nodes, and what each takes: no node is overcommitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.batches.batch_size import best_rate
from ortpkg.batches.engines import Workers
from ortpkg.batches.node_trial import NodeTrial
from ortpkg.batches.parts import Part
from ortpkg.errors import ClusterError
from ortpkg.quantities import nbytes_text

#: Ray's names of resources.
CPU, MEMORY = "CPU", "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Workers that take the same of a node.

    Attributes:
        node_ids: where they may run.
        count: how many they are.
        cpus: cores of each.
        devices: GPUs and NPUs of each, by Ray's names.
        memory_nbytes: of each.
        weight: the share of the rows that they get, in rows a second where that is recorded.
    """

    node_ids: tuple[str, ...]
    count: int
    cpus: float
    devices: Mapping[str, float]
    memory_nbytes: int
    weight: float


def worker_pools(
    trials: Sequence[NodeTrial], offers: Mapping[str, Mapping[str, float]], workers: Workers
) -> list[Pool]:
    """The workers on the nodes that can run the package, in pools of those that take the same.

    A worker takes its cores, the device that its variant runs on, and the memory that its plan
    says; workers go to nodes in turn, as many as fit.

    Args:
        trials: of these nodes.
        offers: node → what it has, by Ray's names.
        workers: how many, and their cores; no number is as many as fit.

    Raises ClusterError where not one fits.
    """
    room = {each.node_id: _most(each, offers[each.node_id], workers) for each in trials}
    total = sum(room.values())
    if not total:
        needs = " and ".join(
            [f"{workers.cpus:g} cores", nbytes_text(max(each.memory_nbytes for each in trials))]
        )
        raise ClusterError(f"no node has what a worker takes: {needs} of memory")
    counts = _in_turn(room, total if workers.count is None else min(workers.count, total))
    kinds: dict[tuple[tuple[str, float], ...], list[NodeTrial]] = {}
    for each in trials:
        if counts[each.node_id]:
            kinds.setdefault(tuple(sorted(each.resources.items())), []).append(each)
    return [
        Pool(
            node_ids=tuple(each.node_id for each in found),
            count=sum(counts[each.node_id] for each in found),
            cpus=workers.cpus,
            devices=dict(devices),
            memory_nbytes=max(each.memory_nbytes for each in found),
            weight=sum(counts[each.node_id] * _rate(each, trials) for each in found),
        )
        for devices, found in kinds.items()
    ]


def _most(trial: NodeTrial, offer: Mapping[str, float], workers: Workers) -> int:
    """How many workers fit on a node."""
    needs = {CPU: workers.cpus, MEMORY: trial.memory_nbytes, **trial.resources}
    return min(int(offer.get(name, 0) / need) for name, need in needs.items() if need)


def _in_turn(room: Mapping[str, int], count: int) -> dict[str, int]:
    """So many workers, one for each node after the other."""
    counts = dict.fromkeys(room, 0)
    while sum(counts.values()) < count:
        for node, most in room.items():
            if counts[node] < most and sum(counts.values()) < count:
                counts[node] += 1
    return counts


def _rate(trial: NodeTrial, trials: Sequence[NodeTrial]) -> float:
    """Rows a second, where that is recorded of all nodes; else each counts the same."""
    rates = [best_rate(each.batch_times or {}) for each in trials]
    return best_rate(trial.batch_times or {}) if all(rates) else 1.0


def shares(
    groups: Sequence[tuple[Part, ...]], pools: Sequence[Pool]
) -> list[list[tuple[Part, ...]]]:
    """What each pool reads and runs, by weight; all are busy from the beginning."""
    found: list[list[tuple[Part, ...]]] = [[] for _ in pools]
    rows = [0] * len(pools)
    for group in groups:
        count = sum(part.count for part in group)
        place = min(range(len(pools)), key=lambda at: (rows[at] + count) / pools[at].weight)
        found[place].append(group)
        rows[place] += count
    return found
