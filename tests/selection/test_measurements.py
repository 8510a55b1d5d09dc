"""device_key: how records name a device."""

from __future__ import annotations

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.selection.matching.measurements import device_key, driver_version_of


def _gpu(address: str = "", **facts: object) -> EpDevice:
    metadata = {"pci_address": address} if address else {}
    device = HardwareDevice(
        type=DeviceType.GPU, name="Arc", vendor_id=0x8086, device_id=0x7D55, metadata=metadata
    )
    return EpDevice(ep_name="OpenVINOExecutionProvider", backend="openvino", device=device, **facts)  # type: ignore[arg-type]


def test_a_device_with_numbers_is_named_by_them() -> None:
    assert device_key(_gpu()) == "gpu:8086:7d55"


def test_a_device_without_a_number_is_named_by_its_name_too() -> None:
    device = HardwareDevice(type=DeviceType.CPU, name="Xeon", vendor_id=0x8086)

    assert (
        device_key(EpDevice(ep_name="CPUExecutionProvider", device=device)) == "cpu:8086:0000:Xeon"
    )


def test_an_ep_without_devices_has_a_key_too() -> None:
    assert device_key(EpDevice(ep_name="AzureExecutionProvider", device=None)) == "none"


def test_equal_devices_are_told_apart_by_address_in_every_order_of_discovery() -> None:
    first, second = _gpu("0000:01:00.0"), _gpu("0000:02:00.0")

    for offers in ([first, second], [second, first]):
        assert [device_key(each, offers) for each in (first, second)] == [
            "gpu:8086:7d55",
            "gpu:8086:7d55#1",
        ]


def test_equal_devices_without_an_address_are_told_apart_by_the_options_of_their_ep() -> None:
    first, second = (
        _gpu(ep_options={"device_type": "GPU.0"}),
        _gpu(ep_options={"device_type": "GPU.1"}),
    )

    assert device_key(second, [second, first]) == "gpu:8086:7d55#1"


def test_the_same_device_of_another_ep_does_not_count() -> None:
    other = EpDevice(
        ep_name="DmlExecutionProvider", backend="onnxruntime", device=_gpu("0000:00:02.0").device
    )

    assert device_key(_gpu("0000:01:00.0"), [other, _gpu("0000:01:00.0")]) == "gpu:8086:7d55"


def test_the_drivers_version_is_unknown_unless_the_system_tells_it() -> None:
    device = HardwareDevice(type=DeviceType.GPU, metadata={"driver_version": "32.0.1"})

    assert driver_version_of(EpDevice(ep_name="e", device=device)) == "32.0.1"
    assert driver_version_of(_gpu()) == ""
