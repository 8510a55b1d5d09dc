"""GPUs and NPUs of nodes, without any: what Ray is asked for, held against a Ray that notes it.

Nothing of this has run on a real GPU or NPU (docs/batches.md and docs/scaling_reference.md say so).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.scale.batches.engines import BatchEngine, WorkerPlan
from ortpkg.scale.batches.node_trial import NodeTrial
from ortpkg.scale.batches.package_runner import ChosenVariant, PackageUse
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.ray import batch_run, cluster, package_app
from ortpkg.scale.ray.stages import DONE, FAILED, RunPackage

GIB = 1 << 30
#: Node → what it offers, in Ray's words; and the kind of device that its variant runs on.
NODES: dict[str, dict[str, float]] = {
    "plain": {"CPU": 4, "memory": 64 * GIB},
    "gpus": {"CPU": 8, "GPU": 2, "memory": 64 * GIB},
    "npu": {"CPU": 4, "NPU": 1, "memory": 64 * GIB},
}
KINDS = {"plain": DeviceType.CPU, "gpus": DeviceType.GPU, "npu": DeviceType.NPU}


def trial(node_id: str) -> NodeTrial:
    kind = KINDS[node_id]
    chosen = ChosenVariant(
        component="model",
        variant=str(kind),
        ep="AnyExecutionProvider",
        backend="onnxruntime",
        device=f"a {kind}",
        device_type=kind,
        reason="",
    )
    return NodeTrial(node=node_id, node_id=node_id, chosen=(chosen,), memory_nbytes=GIB)


class NotingRay:
    """What a batch uses of Ray; keeps what workers ask for.

    Attributes:
        tried: node → options of what tries the package there.
        pools: options of the stage that runs, for each pool.
        started: options of a cluster.
    """

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self) -> None:
        self.tried: dict[str, dict[str, Any]] = {}
        self.pools: list[dict[str, Any]] = []
        self.started: dict[str, Any] = {}
        self.data = SimpleNamespace(from_items=self._from_items, ActorPoolStrategy=dict)

    def init(self, **options: Any) -> None:
        self.started = options

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": name, "Alive": True, "Resources": offer} for name, offer in NODES.items()
        ]

    def remote(self, _function: Any) -> Any:
        def with_options(*, scheduling_strategy: str, **options: Any) -> Any:
            self.tried[scheduling_strategy] = options
            return SimpleNamespace(remote=lambda *_arguments: trial(scheduling_strategy))

        return SimpleNamespace(options=with_options)

    def get(self, value: Any) -> Any:
        return value

    def _from_items(self, items: list[Any], **_options: Any) -> Any:
        return _NotingDataset(self, items)


class _NotingDataset:
    context = SimpleNamespace()

    def __init__(self, ray: NotingRay, items: list[Any]) -> None:
        self._ray, self._items = ray, items

    def flat_map(self, _function: Any, **_options: Any) -> _NotingDataset:
        return self

    def map(self, function: Any, **options: Any) -> _NotingDataset:
        if function is RunPackage:
            self._ray.pools.append(options)
        return self

    def union(self, *others: _NotingDataset) -> _NotingDataset:
        return _NotingDataset(self._ray, [*self._items, *(i for o in others for i in o._items)])

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        return ({FAILED: None, DONE: each} for each in self._items)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> NotingRay:
    found = NotingRay()

    @contextmanager
    def connected(*_arguments: Any) -> Iterator[NotingRay]:
        yield found

    monkeypatch.setattr(batch_run, "cluster", connected)
    strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node_id, **_: node_id)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ray.util", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
    return found


def run(engine: BatchEngine, parts: int = 40) -> None:
    to_do = tuple(
        Part(number=number, files=(f"{number}",), first_row=number, file_row=0, count=1)
        for number in range(parts)
    )
    job: Any = SimpleNamespace(to_do=to_do, reading=None, plan=None, folder=None)
    assert len(list(engine.run(job))) == parts


def test_a_package_is_tried_on_a_node_with_one_of_its_devices(ray: NotingRay) -> None:
    with batch_run.ray_engine(
        PackageUse(reference="digits"), "any", WorkerPlan(count=None)
    ) as engine:
        assert len(engine.trials()) == 3
    assert {name: (each["num_gpus"], each["resources"]) for name, each in ray.tried.items()} == {
        "plain": (0, None),
        "gpus": (1, None),
        "npu": (0, {"NPU": 1}),
    }


def test_each_worker_takes_the_device_that_its_variant_runs_on(ray: NotingRay) -> None:
    with batch_run.ray_engine(
        PackageUse(reference="digits"), "any", WorkerPlan(count=None)
    ) as engine:
        engine.trials()
        run(engine)
    found = {
        each["label_selector"]["ray.io/node-id"]: (
            each["compute"]["size"],
            each["num_gpus"],
            each["resources"],
        )
        for each in ray.pools
    }
    assert found == {
        "in(plain)": (4, None, None),
        "in(gpus)": (2, 1, None),
        "in(npu)": (1, None, {"NPU": 1}),
    }


def test_a_cluster_of_its_own_offers_the_devices_of_the_machine(
    ray: NotingRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = (DeviceType.CPU, DeviceType.GPU, DeviceType.GPU, DeviceType.NPU)
    devices = [
        EpDevice(ep_name="AnyExecutionProvider", device=HardwareDevice(type=kind, name=f"{place}"))
        for place, kind in enumerate(kinds)
    ]
    machine = SimpleNamespace(ep_devices=devices)
    monkeypatch.setattr(cluster, "this_machine", lambda: machine)
    cluster._start(ray, "folder", 3)
    taken = {name: ray.started[name] for name in ("num_cpus", "num_gpus", "resources")}
    assert taken == {"num_cpus": 3, "num_gpus": 2, "resources": {"NPU": 1}}


@pytest.mark.parametrize(
    ("device", "taken"),
    [("gpu", {"num_gpus": 1}), ("NPU", {"resources": {"NPU": 1}}), (None, {})],
)
def test_a_replica_takes_the_device_that_is_wished(
    device: str | None, taken: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: dict[str, Any] = {}

    def deployment(**options: Any) -> Any:
        noted.update(options)
        return lambda _replica: SimpleNamespace(bind=lambda _use: None)

    serve = SimpleNamespace(ingress=lambda _application: lambda each: each, deployment=deployment)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(serve=serve))
    package_app("digits", device=device, threads=2)
    assert noted["ray_actor_options"] == {"num_cpus": 2, **taken}
