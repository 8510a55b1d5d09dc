"""Provider options that name device types."""

from __future__ import annotations

from typing import Any

import pytest

from ortpkg.machine.hardware import DeviceType
from ortpkg.selection.matching.provider_option_devices import device_option_of, named_device_types

_CPU, _GPU, _NPU = DeviceType.CPU, DeviceType.GPU, DeviceType.NPU


@pytest.mark.requirement("K09")
@pytest.mark.parametrize(
    ("key", "value", "types"),
    [
        ("device_type", "CPU", {_CPU}),
        ("device_type", "npu", {_NPU}),
        ("device_type", "GPU.1", {_GPU}),
        ("device_type", "CPU_FP32", {_CPU}),
        ("device_type", "AUTO:GPU,CPU", {_GPU, _CPU}),
        ("device_type", "HETERO:NPU.0, CPU", {_NPU, _CPU}),
        ("device_type", "MULTI:GPU.0,GPU.1", {_GPU}),
        ("device_type", "BATCH:GPU(4)", {_GPU}),
        ("device_type", "AUTO", None),
        ("device_type", "AUTO:-CPU", {_GPU, _NPU}),
        ("device_type", "multi:-gpu, -CPU", {_NPU}),
        ("device_type", "AUTO:GPU,-NPU", {_GPU}),
        ("device_type", "AUTO:GPU,CPU,-CPU", {_GPU}),
        ("device_type", "AUTO:-CPU,-GPU,-NPU", set()),
        ("device_type", "AUTO:-GPU.1", {_CPU, _GPU, _NPU}),
        ("device_type", "AUTO:-XPU", None),
        ("device_type", "-CPU", None),
        ("device_type", "TPU", None),
        ("device_type", "", None),
        ("device_type", "OTHER:GPU", None),
        ("backend_type", "htp", {_NPU}),
        ("backend_type", "GPU", {_GPU}),
        ("backend_type", "saver", None),
    ],
)
def test_reads_the_device_types_of_an_option(
    key: str, value: str, types: set[DeviceType] | None
) -> None:
    assert named_device_types(key, value) == types


def test_an_option_of_another_provider_does_not_count(make_variant: Any) -> None:
    options = {"device_type": "GPU"}

    assert device_option_of(make_variant("v", ep="CPUExecutionProvider", options=options)) is None
    assert device_option_of(make_variant("v", ep="OpenVINOExecutionProvider", options=options)) == (
        "device_type",
        "GPU",
    )
    assert device_option_of(make_variant("v", options=options)) == ("device_type", "GPU")


@pytest.mark.parametrize(
    "ep", [None, "CPUExecutionProvider", "OpenVINOExecutionProvider", "QNNExecutionProvider", "Z"]
)
def test_each_option_is_one_providers_alone(make_variant: Any, ep: str | None) -> None:
    owners = {"device_type": "OpenVINOExecutionProvider", "backend_type": "QNNExecutionProvider"}

    for key, owner in owners.items():
        found = device_option_of(make_variant("v", ep=ep, options={key: "gpu"}))
        assert found == ((key, "gpu") if ep in {None, owner} else None)
