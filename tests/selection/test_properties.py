"""Properties of selection on machines and packages that hypothesis makes up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.documents.frozen import FrozenMapping
from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.policies import POLICIES
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.measurements import (
    Measurement,
    QuarantineCause,
    QuarantineEntry,
    SelectionRecords,
    device_key,
)
from ortpkg.selection.matching.request import make_request
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.verdict import ReasonCode, Selection
from ortpkg.selection.matching.wishes import SelectionWishes

_EPS = (
    CPU_EP,
    OPENVINO_EP,
    "CUDAExecutionProvider",
    "QNNExecutionProvider",
    "PluginExecutionProvider",
)
_RATINGS = tuple(rating.value for rating in CompiledModelCompatibility)

_hardware = st.builds(
    HardwareDevice,
    type=st.sampled_from(DeviceType),
    name=st.sampled_from(("a", "b")),
    is_discrete=st.sampled_from((True, False, None)),
    memory_nbytes=st.sampled_from((None, 1 << 30, 1 << 34)),
    free_memory_nbytes=st.sampled_from((None, 1 << 29)),
    architecture=st.sampled_from((None, "haswell", "skylake")),
)
_ep_devices = st.builds(
    EpDevice,
    ep_name=st.sampled_from(_EPS),
    device=st.none() | _hardware,
    backend=st.sampled_from(("embedded", "openvino", "onnxruntime", "plugin")),
)
_constraints = st.builds(
    Constraints,
    ep=st.none() | st.sampled_from(_EPS),
    device=st.none() | st.sampled_from(("cpu", "gpu", "npu", "weird")),
    ep_compatibility_info=st.none() | st.sampled_from((*_RATINGS, "raises")),
    architecture=st.none() | st.sampled_from(("haswell", "skylake", "zen4")),
)
_metadata = st.fixed_dictionaries(
    {},
    optional={
        "nbytes": st.sampled_from((1 << 10, 1 << 29, 1 << 32, "odd")),
        "peak_memory_nbytes": st.sampled_from((1 << 20, 1 << 33)),
        "quantization": st.sampled_from((None, "qdq-int8", "fp16")),
    },
)
_stated = st.tuples(_constraints, _metadata)
_policies = st.sampled_from(sorted(POLICIES))
_devices = st.none() | st.sampled_from(("cpu", "gpu", "npu"))
_asked = st.builds(
    SelectionWishes, policy=_policies, device=_devices, check_architecture=st.booleans()
) | st.builds(
    SelectionWishes,
    policy=_policies,
    device=_devices,
    check_architecture=st.booleans(),
    max_memory=st.none() | st.just(1 << 30),
    max_size=st.none() | st.just(1 << 20),
    min_precision=st.none() | st.just("fp16"),
    max_latency=st.none() | st.just(0.002),
    strict_facts=st.booleans(),
)


@dataclass(frozen=True)
class Wishes:
    """What is asked for, and records: (variant, EP device, median in ms; None: quarantine)."""

    asked: SelectionWishes
    recorded: list[tuple[int, int, int | None]]


_wishes = st.builds(
    Wishes,
    asked=_asked,
    recorded=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.none() | st.integers(1, 3)), max_size=4
    ),
)
_ROOT = Path("package").absolute()
Stated = tuple[Constraints, dict[str, Any]]


def _component(stated: list[Stated]) -> ComponentInfo:
    variants = tuple(
        VariantInfo(
            name=f"v{i}",
            component_name="m",
            directory=_ROOT,
            model_path=None,
            constraints=found,
            metadata=FrozenMapping(metadata),
        )
        for i, (found, metadata) in enumerate(stated)
    )
    return ComponentInfo(name="m", directory=_ROOT, variants=variants)


def _rate(_ep_device: EpDevice, info: str) -> CompiledModelCompatibility:
    if info == "raises":
        raise RuntimeError(info)
    return CompiledModelCompatibility(info)


def _records(wishes: Wishes, ep_devices: list[EpDevice]) -> SelectionRecords:
    """Records of variants that may not exist, on these EP devices, whose order decides nothing."""
    placed = [
        (f"v{variant_at}", ep_devices[ep_device_at], median_ms)
        for variant_at, ep_device_at, median_ms in wishes.recorded
        if ep_device_at < len(ep_devices)
    ]
    places: list[dict[str, Any]] = [
        {
            "component_name": "m",
            "variant_name": name,
            "ep_name": each.ep_name,
            "backend": each.backend,
            "device": device_key(each, ep_devices),
        }
        for name, each, _ in placed
    ]
    measured: dict[str, Any] = {
        "p95_s": 0.002,
        "throughput_per_s": 1.0,
        "cold_start_s": 1.0,
        "first_run_s": 1.0,
    }
    failed: dict[str, Any] = {
        "ep_version": "",
        "driver_version": "",
        "detail": "",
        "recorded_at": "yesterday",
    }
    return SelectionRecords(
        measurements=tuple(
            Measurement(**place, p50_s=median_ms / 1e3, **measured)
            for place, (_, _, median_ms) in zip(places, placed, strict=True)
            if median_ms is not None
        ),
        quarantined=tuple(
            QuarantineEntry(**place, cause=QuarantineCause.CRASH, **failed)
            for place, (_, _, median_ms) in zip(places, placed, strict=True)
            if median_ms is None
        ),
    )


def _select(
    component: ComponentInfo,
    ep_devices: list[EpDevice],
    wishes: Wishes,
    records: SelectionRecords | None = None,
) -> Selection:
    hardware = [ep_device.device for ep_device in ep_devices if ep_device.device is not None]
    # The hardware list is what the system says; its order is the system's and not part of what is
    # shuffled.
    hardware.sort(key=repr)
    request = make_request(
        component,
        ep_devices,
        wishes.asked,
        hardware=hardware,
        compatibility=_rate,
        records=_records(wishes, ep_devices) if records is None else records,
    )
    return select_ep_devices(component, request)


def _given(test: Callable[..., None]) -> Callable[..., None]:
    return settings(max_examples=100, deadline=None)(
        given(
            stated=st.lists(_stated, max_size=5),
            ep_devices=st.lists(_ep_devices, max_size=5, unique_by=repr),
            wishes=_wishes,
            seed=st.integers(0, 1 << 16),
        )(test)
    )


@pytest.mark.requirement("K12")
@_given
def test_the_order_of_discovery_never_changes_the_choice(
    stated: list[Stated], ep_devices: list[EpDevice], wishes: Wishes, seed: int
) -> None:
    component = _component(stated)
    shuffled = random.Random(seed).sample(ep_devices, len(ep_devices))

    records = _records(wishes, ep_devices)

    assert _select(component, ep_devices, wishes, records) == _select(
        component, shuffled, wishes, records
    )


@_given
def test_removing_a_rejected_variant_never_changes_the_choice(
    stated: list[Stated], ep_devices: list[EpDevice], wishes: Wishes, seed: int
) -> None:
    component = _component(stated)
    selection = _select(component, ep_devices, wishes)
    eligible = {verdict.variant.name for verdict in selection.verdicts if verdict.is_eligible}
    rejected = [variant for variant in component.variants if variant.name not in eligible]
    removed = random.Random(seed).sample(rejected, min(len(rejected), 2))
    kept = tuple(variant for variant in component.variants if variant not in removed)

    again = _select(ComponentInfo(name="m", directory=_ROOT, variants=kept), ep_devices, wishes)

    assert (again.best and (again.best.variant, again.best.ep_device)) == (
        selection.best and (selection.best.variant, selection.best.ep_device)
    )


@_given
def test_the_choice_is_the_best_of_the_written_order(
    stated: list[Stated], ep_devices: list[EpDevice], wishes: Wishes, seed: int
) -> None:
    selection = _select(_component(stated), ep_devices, wishes)
    ranks = [verdict.rank for verdict in selection.verdicts if verdict.rank is not None]

    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
    assert (selection.best is None) == (not ranks)
    if selection.best is not None:
        assert selection.best.rank == min(ranks)


@_given
def test_every_variant_has_a_verdict_on_every_ep_device_or_says_that_its_ep_is_missing(
    stated: list[Stated], ep_devices: list[EpDevice], wishes: Wishes, seed: int
) -> None:
    component = _component(stated)
    selection = _select(component, ep_devices, wishes)

    for variant in component.variants:
        own = [verdict for verdict in selection.verdicts if verdict.variant is variant]
        if own[0].code is ReasonCode.EP_NOT_AVAILABLE:
            assert len(own) == 1
        else:
            assert len(own) == len(ep_devices)
        assert all(verdict.reason for verdict in own)
