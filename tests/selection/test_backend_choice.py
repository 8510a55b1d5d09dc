"""Which backend runs a variant: recorded as fastest and accurate, else the usual order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
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

_ROOT = Path("package").absolute()
_CPU = HardwareDevice(type=DeviceType.CPU, name="Xeon", vendor_id=0x8086)
_GPUS = tuple(
    HardwareDevice(
        type=DeviceType.GPU,
        name="Arc",
        vendor_id=0x8086,
        device_id=0x7D55,
        is_discrete=True,
        metadata={"pci_address": f"0000:0{number}:00.0"},
    )
    for number in (1, 2)
)
_ON_CPU = {
    "openvino": EpDevice(
        ep_name="OpenVINOExecutionProvider", backend="openvino", ep_version="2026.1", device=_CPU
    ),
    "onnxruntime": EpDevice(ep_name=CPU_EP, backend="onnxruntime", ep_version="1.31", device=_CPU),
    "plug-in": EpDevice(
        ep_name="FastExecutionProvider", backend="fast", ep_version="1", device=None
    ),
    "embedded": EpDevice(ep_name=CPU_EP, backend="embedded", ep_version="1", device=_CPU),
}
_HERE = tuple(each for name, each in _ON_CPU.items() if name != "plug-in")


def _component(*constraints: Constraints) -> ComponentInfo:
    variants = tuple(
        VariantInfo(
            name=f"v{at}",
            component_name="m",
            directory=_ROOT,
            model_path=_ROOT / "m.onnx",
            constraints=each,
        )
        for at, each in enumerate(constraints)
    )
    return ComponentInfo(name="m", directory=_ROOT, variants=variants)


def _measured(
    place: EpDevice,
    median_ms: float,
    *,
    highest_ms: float | None = None,
    is_accurate: bool | None = True,
    variant: str = "v0",
    places: tuple[EpDevice, ...] = _HERE,
) -> Measurement:
    return Measurement(
        component_name="m",
        variant_name=variant,
        ep_name=place.ep_name,
        backend=place.backend,
        device=device_key(place, places),
        p50_s=median_ms / 1e3,
        p95_s=median_ms / 500,
        throughput_per_s=1.0,
        cold_start_s=1.0,
        first_run_s=1.0,
        is_accurate=is_accurate,
        lowest_s=median_ms / 1e3,
        highest_s=(median_ms if highest_ms is None else highest_ms) / 1e3,
    )


def _failed(place: EpDevice, places: tuple[EpDevice, ...] = _HERE) -> QuarantineEntry:
    return QuarantineEntry(
        component_name="m",
        variant_name="v0",
        ep_name=place.ep_name,
        backend=place.backend,
        device=device_key(place, places),
        ep_version=place.ep_version,
        driver_version="",
        cause=QuarantineCause.CRASH,
        detail="",
        recorded_at="2026-11-20",
    )


def _select(
    records: SelectionRecords | None,
    *,
    component: ComponentInfo | None = None,
    places: tuple[EpDevice, ...] = _HERE,
    **wishes: Any,
) -> Selection:
    component = component or _component(Constraints())
    request = make_request(
        component,
        places,
        SelectionWishes(**wishes),
        hardware=(*_GPUS, _CPU),
        compatibility=lambda _device, _info: CompiledModelCompatibility.NOT_APPLICABLE,
        records=records,
    )
    return select_ep_devices(component, request)


def _chosen(selection: Selection) -> str:
    assert selection.best is not None
    assert selection.best.ep_device is not None
    return selection.best.ep_device.backend


# backend → (median, highest median of a round, whether accurate), or "failed"; which backend is
# chosen
_TABLE: dict[str, tuple[dict[str, Any], str]] = {
    "nothing recorded": ({}, "openvino"),
    "the usual one is fastest": ({"openvino": (1, 1, True), "embedded": (3, 3, True)}, "openvino"),
    "another is fastest": (
        {"openvino": (3, 3, True), "embedded": (1, 1, True), "onnxruntime": (2, 2, True)},
        "embedded",
    ),
    "another is fastest, the usual one within its interval": (
        {"openvino": (1.2, 1.3, True), "embedded": (1, 1.2, True), "onnxruntime": (2, 2, True)},
        "openvino",
    ),
    "the usual one just outside of the interval": (
        {"openvino": (1.21, 1.3, True), "embedded": (1, 1.2, True), "onnxruntime": (2, 2, True)},
        "embedded",
    ),
    "two in the interval, neither the usual one": (
        {"openvino": (9, 9, True), "embedded": (1, 1.2, True), "onnxruntime": (1.1, 1.4, True)},
        "onnxruntime",
    ),
    "the fastest is wrong": (
        {"openvino": (3, 3, True), "embedded": (1, 1, False), "onnxruntime": (2, 2, True)},
        "onnxruntime",
    ),
    "the fastest was compared with nothing": (
        {"openvino": (3, 3, True), "embedded": (1, 1, None), "onnxruntime": (2, 2, True)},
        "onnxruntime",
    ),
    "none was compared with anything": (
        {"openvino": (3, 3, None), "embedded": (1, 1, None)},
        "openvino",
    ),
    "the fastest failed since": (
        {"openvino": (3, 3, True), "embedded": "failed", "onnxruntime": (2, 2, True)},
        "onnxruntime",
    ),
    "the usual one failed": (
        {"openvino": "failed", "embedded": (1, 1, True), "onnxruntime": (2, 2, True)},
        "embedded",
    ),
    "one was not measured": ({"embedded": (1, 1, True), "onnxruntime": (2, 2, True)}, "embedded"),
    "only one was measured": ({"embedded": (1, 1, True)}, "openvino"),
    "only one was measured, and it is wrong": ({"openvino": (1, 1, False)}, "onnxruntime"),
}


def _records_of(row: dict[str, Any], **facts: Any) -> SelectionRecords:
    return SelectionRecords(
        measurements=tuple(
            _measured(_ON_CPU[name], each[0], highest_ms=each[1], is_accurate=each[2])
            for name, each in row.items()
            if each != "failed"
        ),
        quarantined=tuple(_failed(_ON_CPU[name]) for name, each in row.items() if each == "failed"),
        **facts,
    )


@pytest.mark.parametrize(("row", "expected"), _TABLE.values(), ids=_TABLE)
def test_the_fastest_accurate_backend_is_chosen(row: dict[str, Any], expected: str) -> None:
    assert _chosen(_select(_records_of(row))) == expected


@pytest.mark.parametrize("policy", ["default", "prefer-cpu", "max-efficiency", "min-overall-power"])
def test_every_policy_of_ours_goes_by_it(policy: str) -> None:
    assert (
        _chosen(_select(_records_of(_TABLE["another is fastest"][0]), policy=policy)) == "embedded"
    )


def test_stale_records_choose_nothing() -> None:
    records = _records_of(
        _TABLE["another is fastest"][0], stale_reason="EP openvino was 2025.4, is 2026.1"
    )

    assert _chosen(_select(records)) == "openvino"


def test_records_of_another_variant_or_device_choose_nothing() -> None:
    other_variant = tuple(_measured(each, 9 - at, variant="v1") for at, each in enumerate(_HERE))
    other_device = tuple(
        replace(_measured(each, 9 - at), device="gpu:8086:7d55") for at, each in enumerate(_HERE)
    )

    assert (
        _chosen(_select(SelectionRecords(measurements=other_variant + other_device))) == "openvino"
    )


def test_records_without_an_interval_go_by_the_median_alone() -> None:
    old = tuple(
        replace(_measured(each, 9 - at), lowest_s=None, highest_s=None)
        for at, each in enumerate(_HERE)
    )

    assert _chosen(_select(SelectionRecords(measurements=old))) == "embedded"


def test_records_choose_the_backend_and_never_the_variant() -> None:
    two = _component(Constraints(), Constraints(ep=CPU_EP))
    slow = tuple(_measured(each, 10 + at, variant="v1") for at, each in enumerate(_HERE[1:]))
    fast = tuple(_measured(each, 3 - at) for at, each in enumerate(_HERE))

    before, after = (
        _select(None, component=two),
        _select(SelectionRecords(measurements=fast + slow), component=two),
    )

    assert before.best is not None
    assert after.best is not None
    assert (before.best.variant.name, after.best.variant.name) == ("v1", "v1")
    assert _chosen(after) == "onnxruntime"


def test_each_device_has_a_choice_of_its_own() -> None:
    places = tuple(
        EpDevice(ep_name=ep, backend=backend, device=gpu)
        for ep, backend in (
            ("OpenVINOExecutionProvider", "openvino"),
            ("DmlExecutionProvider", "onnxruntime"),
        )
        for gpu in _GPUS
    )
    on_first = [place for place in places if place.device == _GPUS[0]]
    records = SelectionRecords(
        measurements=tuple(
            _measured(each, 3 - at, places=places) for at, each in enumerate(on_first)
        )
    )

    best = _select(records, places=places).best

    assert best is not None
    assert best.ep_device is not None
    assert (best.ep_device.backend, best.ep_device.device) == ("onnxruntime", _GPUS[0])


def test_it_says_why() -> None:
    selection = _select(_records_of(_TABLE["one was not measured"][0]))

    told = {
        verdict.ep_device.backend: verdict.reason
        for verdict in selection.verdicts
        if verdict.ep_device
    }
    there = (
        "it can run, but on CPUExecutionProvider (embedded) it was measured here as accurate, with"
        " a median of 1.0 ms"
    )
    assert told == {
        "embedded": (
            "it is the best of all that can run here; of its backends on this device "
            "CPUExecutionProvider (embedded) was measured as accurate, and as fast as any"
        ),
        "onnxruntime": f"{there}, which is faster: this one has 2.0 ms",
        "openvino": f"{there}; this one was not measured here",
    }
    assert [verdict.decided_by for verdict in selection.verdicts] == [None, "backend", "backend"]


def test_it_says_that_two_cannot_be_told_apart() -> None:
    row = _TABLE["another is fastest, the usual one within its interval"][0]

    told = {
        each.ep_device.backend: each.reason
        for each in _select(_records_of(row)).verdicts
        if each.ep_device is not None
    }

    assert (
        "1.2 ms, which cannot be told apart and comes first by the usual order: this one has 1.0 ms"
        in (told["embedded"])
    )


def test_another_variant_is_not_told_that_the_chosen_backend_is_known_to_be_faster() -> None:
    two = _component(Constraints(), Constraints())
    places = (_ON_CPU["onnxruntime"], _ON_CPU["embedded"])
    records = SelectionRecords(
        measurements=tuple(_measured(each, 3 - at, places=places) for at, each in enumerate(places))
    )

    selection = _select(records, component=two, places=places)

    assert _chosen(selection) == "embedded"
    other = [
        each
        for each in selection.verdicts
        if each.variant.name == "v1" and each.decided_by == "backend"
    ]
    assert [each.reason for each in other] == [
        (
            "it can run, but 'v0' comes first in the order of backends, where what was measured here"
            " counts"
        )
    ]


_times = st.one_of(
    st.none(),
    st.just("failed"),
    st.tuples(st.integers(1, 4), st.integers(0, 2), st.sampled_from([True, False, None])),
)


@settings(max_examples=200, deadline=None)
@given(rows=st.fixed_dictionaries({each.backend: _times for each in _HERE}))
def test_what_was_recorded_as_wrong_or_failed_is_never_chosen(rows: dict[str, Any]) -> None:
    recorded = {
        name: each if each == "failed" else (each[0], each[0] + each[1], each[2])
        for name, each in rows.items()
        if each is not None
    }
    records = _records_of(recorded)
    bad = {name for name, each in recorded.items() if each == "failed" or each[2] is False}
    good = {name: each for name, each in recorded.items() if each != "failed" and each[2] is True}

    selection = _select(records)

    assert (selection.best is None) == (len(bad) == len(_HERE))
    if selection.best is None:
        return
    chosen = _chosen(selection)
    assert chosen not in bad
    if len(good) > 1:
        fastest = min(good.values(), key=lambda each: each[0])
        least_certain = min(each[1] for each in good.values() if each[0] == fastest[0])
        most_certain = max(each[1] for each in good.values() if each[0] == fastest[0])
        assert chosen in good
        assert good[chosen][0] <= most_certain
        usual = [each.backend for each in _HERE]
        sure = [name for name in usual if name in good and good[name][0] <= least_certain]
        assert usual.index(chosen) <= usual.index(sure[0])
    else:
        assert chosen == next(each.backend for each in _HERE if each.backend not in bad)
    ranks = [verdict.rank for verdict in selection.verdicts if verdict.rank is not None]
    assert ranks == sorted(set(ranks))
    assert all(each.code is not ReasonCode.SELECTED for each in selection.verdicts[1:])
