"""How many workers a batch has, and where."""

from __future__ import annotations

from typing import Any

import pytest

from ortpkg.foundations.errors import ClusterError
from ortpkg.scale.batches.engines import WorkerPlan
from ortpkg.scale.batches.node_trial import NodeTrial
from ortpkg.scale.batches.package_runner import ChosenVariant
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.ray.worker_pools import Pool, shares, worker_pools

GIB = 1 << 30


def trial(node: str, device: str = "cpu", **facts: Any) -> NodeTrial:
    chosen = ChosenVariant(
        component="model",
        variant=device,
        ep="",
        backend="embedded",
        device=device,
        device_type=device,
        reason="",
    )
    return NodeTrial(node=node, node_id=node, chosen=(chosen,), **{"memory_nbytes": GIB, **facts})


def counts(pools: list[Pool]) -> list[tuple[tuple[str, ...], int]]:
    return [(each.node_ids, each.count) for each in pools]


def test_workers_go_to_nodes_in_turn() -> None:
    offers = {name: {"CPU": 4, "memory": 64 * GIB} for name in "ab"}
    (pool,) = worker_pools([trial("a"), trial("b")], offers, WorkerPlan(count=3))
    assert counts([pool]) == [(("a", "b"), 3)]
    assert (pool.cpus, pool.devices, pool.memory_nbytes) == (1, {}, GIB)


def test_no_node_is_overcommitted() -> None:
    offers = {"a": {"CPU": 8.0, "memory": 3.5 * GIB}, "b": {"CPU": 5.0, "memory": 64.0 * GIB}}
    trials = [trial("a"), trial("b")]
    assert counts(worker_pools(trials, offers, WorkerPlan(count=100, cpus=2))) == [(("a", "b"), 5)]
    assert counts(worker_pools(trials, offers, WorkerPlan(count=None))) == [(("a", "b"), 8)]


def test_where_not_one_worker_fits_it_says_what_it_takes() -> None:
    offers = {"a": {"CPU": 8, "memory": GIB / 2}}
    with pytest.raises(ClusterError, match=r"2 cores and 1\.1 GB of memory"):
        worker_pools([trial("a")], offers, WorkerPlan(count=1, cpus=2))


def test_devices_are_resources_and_have_pools_of_their_own() -> None:
    offers = {
        "cpu": {"CPU": 2, "memory": 64 * GIB},
        "gpu": {"CPU": 32, "GPU": 2, "memory": 64 * GIB},
        "npu": {"CPU": 4, "NPU": 1, "memory": 64 * GIB},
    }
    trials = [trial("cpu"), trial("gpu", "gpu"), trial("npu", "npu")]
    pools = worker_pools(trials, offers, WorkerPlan(count=None))
    assert counts(pools) == [(("cpu",), 2), (("gpu",), 2), (("npu",), 1)]
    assert [each.devices for each in pools] == [{}, {"GPU": 1}, {"NPU": 1}]


def test_pools_get_rows_by_recorded_rates() -> None:
    offers = {name: {"CPU": 1, "GPU": 1, "memory": 64 * GIB} for name in ("a", "b")}
    trials = [
        trial("a", batch_times={1: 0.01, 64: 0.1}),
        trial("b", "gpu", batch_times={1: 0.01, 64: 0.02}),
    ]
    pools = worker_pools(trials, offers, WorkerPlan(count=None))
    groups = [
        (Part(number=place, files=("x",), first_row=place, file_row=place, count=1),)
        for place in range(60)
    ]
    found = shares(groups, pools)
    assert [len(each) for each in found] == [10, 50]
    assert sorted(part.number for each in found for (part,) in each) == list(range(60))
