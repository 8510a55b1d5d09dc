"""Probing Linux, on trees constructed from public documentation (see conftest.py)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ortpkg.machine import probe
from ortpkg.machine.hardware import DeviceType, HardwareDevice

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the trees need symbolic links")


def _only(devices: tuple[HardwareDevice, ...]) -> HardwareDevice:
    (device,) = devices
    return device


def test_reads_the_cpu_from_procfs(make_tree: Any) -> None:
    machine = probe(make_tree().root)

    assert machine.os == "linux"
    assert machine.os_version == "6.8.0-31-generic"
    assert machine.hardware == (
        HardwareDevice(
            type=DeviceType.CPU,
            name="Intel(R) Core(TM) Ultra 7 155H",
            vendor="Intel",
            vendor_id=0x8086,
            memory_nbytes=32768000 * 1024,
            metadata={
                "instruction_sets": "fpu sse4_2 avx2 avx_vnni",
                "logical_cores": "17",
                "possible_cores": "24",
            },
            source="procfs",
        ),
    )


def test_finds_the_gpu_and_npu_of_an_intel_laptop(make_tree: Any) -> None:
    tree = make_tree()
    tree.pci("0000:00:02.0", 0x030000, "8086:7d55", driver="i915")
    tree.pci("0000:00:0b.0", 0x120000, "8086:7d1d", driver="intel_vpu")
    tree.pci("0000:00:1f.3", 0x040100, "8086:7e28", driver="snd_hda_intel")
    tree.link("sys/class/accel/accel0/device", "../../../devices/pci0000:00/0000:00:0b.0")

    machine = probe(tree.root)

    gpu = _only(machine.devices_of(DeviceType.GPU))
    npu = _only(machine.devices_of(DeviceType.NPU))
    assert (gpu.vendor, gpu.vendor_id, gpu.device_id, gpu.is_discrete) == (
        "Intel",
        0x8086,
        0x7D55,
        False,
    )
    assert gpu.name == "Intel GPU [8086:7d55]"
    assert gpu.metadata == {
        "pci_address": "0000:00:02.0",
        "driver": "i915",
        "driver_version": "kernel 6.8.0-31-generic",
    }
    assert (npu.name, npu.metadata["driver"], npu.source) == (
        "Intel NPU [8086:7d1d]",
        "intel_vpu",
        "sysfs",
    )
    assert machine.notes == ()


def test_reads_an_nvidia_card_and_its_driver(make_tree: Any) -> None:
    tree = make_tree()
    tree.pci("0000:01:00.0", 0x030000, "10de:2684", driver="nvidia")
    tree.pci("0000:01:00.1", 0x040300, "10de:22ba", driver="snd_hda_intel")
    tree.write(
        "proc/driver/nvidia/gpus/0000:01:00.0/information",
        "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 1\n",
    )
    tree.write("sys/module/nvidia/version", "550.54.14\n")

    gpu = _only(probe(tree.root).devices_of(DeviceType.GPU))

    assert (gpu.name, gpu.is_discrete, gpu.memory_nbytes) == ("NVIDIA GeForce RTX 4090", True, None)
    assert gpu.metadata["driver_version"] == "550.54.14"


@pytest.mark.parametrize(
    ("files", "is_discrete", "memory"),
    [
        (
            {"mem_info_vram_total": "17163091968", "mem_info_vram_vendor": "samsung"},
            True,
            17163091968,
        ),
        ({"mem_info_vram_total": "536870912"}, None, 536870912),
        ({}, None, None),
    ],
)
def test_an_amd_gpu_is_discrete_where_its_memory_has_a_vendor(
    make_tree: Any, files: dict[str, str], is_discrete: bool | None, memory: int | None
) -> None:
    tree = make_tree()
    tree.pci("0000:03:00.0", 0x030000, "1002:744c", driver="amdgpu", files=files)

    gpu = _only(probe(tree.root).devices_of(DeviceType.GPU))

    assert (gpu.is_discrete, gpu.memory_nbytes) == (is_discrete, memory)


def test_an_npu_with_an_unusual_class_is_known_by_its_numbers_and_a_missing_driver_is_noted(
    make_tree: Any,
) -> None:
    tree = make_tree()
    tree.pci("0000:c4:00.1", 0x118000, "1022:17f0")

    machine = probe(tree.root)

    assert _only(machine.devices_of(DeviceType.NPU)).name == "AMD XDNA 2 NPU (Strix)"
    assert machine.notes == ("0000:c4:00.1: AMD XDNA 2 NPU (Strix): no driver is bound to it",)


def test_an_npu_with_unknown_numbers_is_known_by_the_accel_class(make_tree: Any) -> None:
    tree = make_tree()
    tree.pci("0000:05:00.0", 0xFF0000, "17cb:a100", driver="qaic")
    tree.link("sys/class/accel/accel0/device", "../../../devices/pci0000:00/0000:05:00.0")

    assert _only(probe(tree.root).devices_of(DeviceType.NPU)).name == "Qualcomm NPU [17cb:a100]"


def test_the_display_adapter_of_a_server_is_no_gpu_but_a_note(make_tree: Any) -> None:
    tree = make_tree()
    tree.pci("0000:02:00.0", 0x030000, "1a03:2000", driver="ast")

    machine = probe(tree.root)

    assert machine.devices_of(DeviceType.GPU) == ()
    assert machine.notes == ("0000:02:00.0: ASPEED display adapter, not for computing",)


def test_a_gpu_that_is_not_on_pci_comes_from_drm_once(make_tree: Any) -> None:
    tree = make_tree()
    for card in ("card0", "card1"):
        tree.link(f"sys/class/drm/{card}/device", "../../../3d00000.gpu")
    tree.link("sys/class/drm/card0-HDMI-A-1/device", "../../card0")
    tree.link("sys/3d00000.gpu/driver", "../bus/platform/drivers/msm_dpu")
    tree.link("sys/class/drm/card2/device", "../../../simple-framebuffer.0")
    tree.link("sys/simple-framebuffer.0/driver", "../bus/platform/drivers/simple-framebuffer")

    gpu = _only(probe(tree.root).devices_of(DeviceType.GPU))

    assert (gpu.name, gpu.is_discrete) == ("Adreno GPU (3d00000.gpu)", False)


def test_the_gpu_of_a_windows_host_is_seen_from_wsl(make_tree: Any) -> None:
    tree = make_tree()
    tree.write("dev/dxg", "")

    assert _only(probe(tree.root).devices_of(DeviceType.GPU)).source == "dxg"


def test_pci_devices_come_in_order_of_address(make_tree: Any) -> None:
    tree = make_tree()
    for address in ("0000:41:00.0", "0000:01:00.0", "0000:21:00.0"):
        tree.pci(address, 0x030200, "10de:2330", driver="nvidia")

    found = [
        device.metadata["pci_address"] for device in probe(tree.root).devices_of(DeviceType.GPU)
    ]

    assert found == ["0000:01:00.0", "0000:21:00.0", "0000:41:00.0"]


def test_an_empty_tree_is_a_cpu_of_which_nothing_is_known(tmp_path: Any) -> None:
    assert probe(tmp_path).hardware == (HardwareDevice(type=DeviceType.CPU, source="procfs"),)


@pytest.mark.parametrize("text", ["", "x", "0x", "-1", "0" * 100000])
def test_nonsense_in_sysfs_is_passed_over(make_tree: Any, text: str) -> None:
    tree = make_tree()
    tree.pci("0000:01:00.0", 0x030000, "10de:2684", driver="nvidia")
    tree.write("sys/bus/pci/devices/0000:01:00.0/class", text)
    tree.write("sys/devices/system/cpu/online", text)

    assert probe(tree.root).devices_of(DeviceType.GPU) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="probes this machine")
def test_probing_this_machine_twice_finds_the_same_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path))
    first = probe()
    second = probe()

    assert first == second
    assert second.hardware[0].type is DeviceType.CPU
