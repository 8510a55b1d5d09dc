"""Where a rule or the order turns: values on the edge, facts of several devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.documents.frozen import FrozenMapping
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.measurements import (
    QuarantineCause,
    QuarantineEntry,
    SelectionRecords,
    device_key,
)
from ortpkg.selection.matching.provider_option_devices import device_option_of
from ortpkg.selection.matching.request import make_request
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.variant_facts import Precision, precision_of
from ortpkg.selection.matching.verdict import ReasonCode, Selection
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.selection.conftest import facts_of

_ROOT = Path("package").absolute()
_CPU = HardwareDevice(type=DeviceType.CPU, name="CPU")
_GB = 10**9


def _variant(
    name: str = "v",
    *,
    peak: int | None = None,
    options: dict[str, str] | None = None,
    **stated: Any,
) -> Any:
    return VariantInfo(
        name=name,
        component_name="m",
        directory=_ROOT,
        model_path=None,
        constraints=Constraints(**stated),
        provider_options=options or {},
        metadata=FrozenMapping({} if peak is None else {"peak_memory_nbytes": peak}),
    )


def _select(variants: list[VariantInfo], ep_devices: list[EpDevice], **wishes: Any) -> Selection:
    component = ComponentInfo(name="m", directory=_ROOT, variants=tuple(variants))
    facts = facts_of(wishes)
    request = make_request(
        component,
        ep_devices,
        SelectionWishes(**wishes),
        hardware=[each.device for each in ep_devices if each.device is not None],
        compatibility=lambda _ep_device, _info: CompiledModelCompatibility.NOT_APPLICABLE,
        **facts,
    )
    return select_ep_devices(component, request)


def _codes(selection: Selection) -> list[ReasonCode]:
    return [verdict.code for verdict in selection.verdicts]


def _offer(
    backend: str, device: HardwareDevice | None = _CPU, ep: str = "CPUExecutionProvider"
) -> EpDevice:
    return EpDevice(ep_name=ep, backend=backend, device=device)


def test_backends_rank_openvino_onnxruntime_plugins_and_then_our_own() -> None:
    backends = ["embedded", "llvm", "acme", "onnxruntime", "openvino"]
    variants = [_variant(ep="CPUExecutionProvider")]

    selection = _select(variants, [_offer(backend) for backend in backends])

    assert [each.ep_device and each.ep_device.backend for each in selection.verdicts] == list(
        reversed(backends)
    )


@pytest.mark.parametrize(
    ("device", "most"),
    [
        (replace(_CPU, memory_nbytes=8 * _GB), 8 * _GB),
        (replace(_CPU, memory_nbytes=8 * _GB, free_memory_nbytes=4 * _GB), 3_600_000_000),
        (HardwareDevice(type=DeviceType.GPU, is_discrete=True, memory_nbytes=6 * _GB), 6 * _GB),
    ],
)
def test_a_variant_may_take_its_last_byte_and_no_more(device: HardwareDevice, most: int) -> None:
    offers = [_offer("onnxruntime", device, ep="XExecutionProvider")]

    for wishes in ({}, {"max_memory": "1TB"}):
        assert _codes(_select([_variant(peak=most)], offers, **wishes)) == [ReasonCode.SELECTED]
        assert _codes(_select([_variant(peak=most + 1)], offers, **wishes)) == [
            ReasonCode.MEMORY_TOO_SMALL
        ]


def test_limits_hold_on_their_last_byte() -> None:
    offers = [_offer("embedded")]
    assert _codes(_select([_variant(peak=1000)], offers, max_memory=1000)) == [ReasonCode.SELECTED]
    assert _codes(_select([_variant(peak=1001)], offers, max_memory=1000)) == [
        ReasonCode.MEMORY_TOO_LARGE
    ]


@pytest.mark.parametrize("kind", [DeviceType.GPU, DeviceType.NPU])
@pytest.mark.parametrize("is_discrete", [False, None])
def test_the_memory_that_an_integrated_device_shares_is_not_its_own(
    kind: DeviceType, is_discrete: bool | None
) -> None:
    device = HardwareDevice(type=kind, is_discrete=is_discrete, memory_nbytes=_GB)

    selection = _select(
        [_variant(peak=2 * _GB)], [_offer("onnxruntime", device, ep="XExecutionProvider")]
    )

    assert _codes(selection) == [ReasonCode.SELECTED]


@pytest.mark.parametrize(
    ("ep_version", "driver_version", "code"),
    [
        ("1.0", "551.2", ReasonCode.QUARANTINED),
        ("1.0.0", "551.02.0", ReasonCode.QUARANTINED),
        ("1.0", "551.3", ReasonCode.SELECTED),
        ("1.0", "", ReasonCode.SELECTED),
        ("1.1", "551.2", ReasonCode.SELECTED),
    ],
)
def test_quarantine_is_of_one_version_of_ep_and_driver(
    ep_version: str, driver_version: str, code: ReasonCode
) -> None:
    gpu = HardwareDevice(
        type=DeviceType.GPU, metadata={"driver_version": driver_version} if driver_version else {}
    )
    offer = EpDevice(
        ep_name="XExecutionProvider", device=gpu, backend="onnxruntime", ep_version=ep_version
    )
    entry = QuarantineEntry(
        component_name="m",
        variant_name="v",
        ep_name=offer.ep_name,
        backend=offer.backend,
        device=device_key(offer),
        ep_version="1.0",
        driver_version="551.2",
        cause=QuarantineCause.CRASH,
        detail="",
        recorded_at="2026-11-20T10:00:00+00:00",
    )

    assert _codes(
        _select([_variant()], [offer], records=SelectionRecords(quarantined=(entry,)))
    ) == [code]


def test_a_quarantine_tells_its_cause_up_to_the_command_that_helps() -> None:
    offer = EpDevice(
        ep_name="XExecutionProvider",
        device=HardwareDevice(type=DeviceType.GPU),
        backend="onnxruntime",
        ep_version="1.0",
    )
    detail = f"y is off by up to 2.88{' and more' * 40}; ortpkg samples add states another"
    entry = QuarantineEntry(
        component_name="m",
        variant_name="v",
        ep_name=offer.ep_name,
        backend=offer.backend,
        device=device_key(offer),
        ep_version="1.0",
        driver_version="",
        cause=QuarantineCause.WRONG_OUTPUT,
        detail=detail,
        recorded_at="2026-11-20T10:00:00+00:00",
    )

    selection = _select([_variant()], [offer], records=SelectionRecords(quarantined=(entry,)))

    assert [detail in verdict.reason for verdict in selection.verdicts] == [True]


@pytest.mark.parametrize(
    ("word", "precision"),
    [
        ("int16", Precision.FP16),
        ("uint16", Precision.FP16),
        ("int8", Precision.INT8),
        ("float", Precision.FP32),
    ],
)
def test_sixteen_bits_are_as_precise_as_half_floats(word: str, precision: Precision) -> None:
    assert precision_of({"data_types": [word]}) is precision
    assert precision_of({"quantization": f"qdq-{word}"}) is precision


@pytest.mark.parametrize("kind", [DeviceType.GPU, DeviceType.NPU])
def test_the_architecture_of_an_accelerator_must_be_the_same(kind: DeviceType) -> None:
    """No order is known among them: what is not the same does not run."""
    variants = [_variant("other", architecture="gen12"), _variant("own", architecture="xe2")]
    offers = [
        _offer(
            "onnxruntime", HardwareDevice(type=kind, architecture="xe2"), ep="XExecutionProvider"
        )
    ]

    selection = _select(variants, offers, check_architecture=True)

    assert [(each.variant.name, each.code) for each in selection.verdicts] == [
        ("own", ReasonCode.SELECTED),
        ("other", ReasonCode.ARCHITECTURE_MISMATCH),
    ]


@pytest.mark.parametrize(
    ("ep", "device", "code"),
    [
        ("CUDAExecutionProvider", "gpu", ReasonCode.SELECTED),
        ("CUDAExecutionProvider", "npu", ReasonCode.DEVICE_NOT_REQUESTED),
        ("AzureExecutionProvider", "cpu", ReasonCode.DEVICE_NOT_REQUESTED),
    ],
)
def test_the_device_that_is_asked_for_counts_for_eps_without_devices_too(
    ep: str, device: str, code: ReasonCode
) -> None:
    assert _codes(
        _select([_variant(ep=ep)], [_offer("onnxruntime", None, ep=ep)], device=device)
    ) == [code]


# --- names in other words -------------------------------------------------------------------------


@pytest.mark.requirement("K09")
@pytest.mark.parametrize("ep", ["openvino", "OpenVINO", "ov", "openvinoexecutionprovider"])
def test_an_alias_of_an_ep_has_the_options_of_that_ep(ep: str) -> None:
    npu = HardwareDevice(type=DeviceType.NPU)
    variant = _variant(ep=ep, device="npu", options={"device_type": "GPU"})

    assert device_option_of(variant) == ("device_type", "GPU")
    assert _codes(
        _select([variant], [_offer("openvino", npu, ep="OpenVINOExecutionProvider")])
    ) == [ReasonCode.PROVIDER_OPTION_DEVICE_CONFLICT]
