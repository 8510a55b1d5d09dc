"""Devices as Ray counts them."""

from __future__ import annotations

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.scale.ray.device_resources import device_resources, ray_start_options


def offers(ep: str, *kinds: str) -> list[EpDevice]:
    return [
        EpDevice(ep_name=ep, device=HardwareDevice(type=DeviceType(kind), name=f"{ep} {place}"))
        for place, kind in enumerate(kinds)
    ]


def test_devices_that_several_providers_offer_count_once() -> None:
    ep_devices = [
        *offers("CUDAExecutionProvider", "gpu", "gpu"),
        *offers("OpenVINOExecutionProvider", "cpu", "gpu", "npu"),
        EpDevice(ep_name="XnnpackExecutionProvider", device=None),
    ]
    resources = device_resources(ep_devices)
    assert resources == {"GPU": 2, "NPU": 1}
    assert ray_start_options(resources) == """--num-gpus=2 --resources='{"NPU": 1}'"""


def test_a_machine_without_devices_has_none() -> None:
    assert device_resources(offers("CPUExecutionProvider", "cpu")) == {}
    assert ray_start_options({}) == "--num-gpus=0 --resources='{}'"
