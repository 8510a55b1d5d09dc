"""Probing whole machines: constructed trees of files, and trees that somebody made to hurt."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ortpkg.machine import probe
from ortpkg.machine.hardware import DeviceType
from ortpkg.machine.machine import Machine
from tests.machine.conftest import Tree
from tests.machine.machine_trees import MACHINES

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the trees need symbolic links")


@pytest.mark.parametrize("name", MACHINES)
def test_finds_the_devices_of_a_machine_and_says_what_does_not_count(
    make_tree: Any, name: str
) -> None:
    build, devices, notes = MACHINES[name]
    tree = make_tree()
    if name != "container":
        tree.write("sys/bus/pci/rescan", "")
    build(tree)

    machine = probe(tree.root)

    assert tuple(f"{each.type.value} {each.name}" for each in machine.hardware) == devices
    assert machine.notes == notes


def _machine(make_tree: Any, name: str) -> Machine:
    tree = make_tree()
    MACHINES[name][0](tree)
    return probe(tree.root)


def test_every_fact_says_its_source(make_tree: Any) -> None:
    cpu, gpu, _ = _machine(make_tree, "core-ultra").hardware

    assert (cpu.source_of("name"), cpu.source_of("memory_nbytes")) == ("procfs", "procfs")
    assert (cpu.metadata["physical_cores"], cpu.source_of("metadata.physical_cores")) == (
        "4",
        "sysfs",
    )
    assert (cpu.metadata["product"], cpu.source_of("metadata.product")) == (
        "Constructed Laptop 14",
        "dmi",
    )
    assert (gpu.source_of("name"), gpu.source_of("device_id"), gpu.is_discrete) == (
        "pci.ids",
        "sysfs",
        False,
    )
    assert cpu.free_memory_nbytes == 16384000 * 1024


def test_an_integrated_radeon_and_its_npu_tell_architecture_memory_and_firmware(
    make_tree: Any,
) -> None:
    _, gpu, npu = _machine(make_tree, "ryzen-ai").hardware

    assert (gpu.is_discrete, gpu.architecture, gpu.source_of("architecture")) == (
        False,
        "gfx1150",
        "kfd",
    )
    assert (gpu.memory_nbytes, gpu.free_memory_nbytes) == (512 << 20, 384 << 20)
    assert (npu.metadata["driver"], npu.metadata["driver_version"]) == ("amdxdna", "0.1")
    assert npu.metadata["firmware_version"] == "1.0.0.63"


def test_the_nvidia_driver_is_known_by_its_own_files(make_tree: Any) -> None:
    _, nvidia, amd = _machine(make_tree, "rtx-workstation").hardware

    assert (nvidia.metadata["driver_version"], nvidia.source_of("name")) == (
        "580.82.07",
        "nvidia driver",
    )
    assert (amd.is_discrete, amd.free_memory_nbytes) == (True, 25753026560 - 1073741824)


def test_a_board_is_named_by_its_device_tree(make_tree: Any) -> None:
    cpu, gpu = _machine(make_tree, "jetson").hardware

    assert (cpu.vendor, cpu.metadata["board"]) == ("Arm", "NVIDIA Jetson AGX Orin Developer Kit")
    assert (gpu.vendor, gpu.is_discrete, gpu.metadata["l4t_release"]) == ("NVIDIA", False, "36.3.0")


def test_a_containers_limit_is_the_memory_that_it_has(make_tree: Any) -> None:
    cpu, gpu = _machine(make_tree, "container").hardware

    assert (cpu.memory_nbytes, cpu.free_memory_nbytes) == (2 << 30, 1 << 30)
    assert cpu.source_of("memory_nbytes") == "cgroup"
    assert (gpu.source, gpu.metadata["driver_version"]) == ("nvidia driver", "535.129.03")


def test_a_limit_of_the_first_version_of_control_groups_counts_too(make_tree: Any) -> None:
    tree = make_tree()
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")
    tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n")

    cpu = probe(tree.root).hardware[0]

    assert (cpu.memory_nbytes, cpu.free_memory_nbytes) == (1 << 30, 1 << 29)


# --- trees that somebody made to hurt -------------------------------------------------------------


def _gpu_directory(tree: Tree) -> Path:
    tree.pci("0000:01:00.0", 0x030000, "10de:2684", driver="nvidia")
    return tree.root / "sys/bus/pci/devices/0000:01:00.0"


def test_links_that_loop_end(make_tree: Any) -> None:
    tree = make_tree()
    tree.link("sys/bus/pci/devices", "devices")
    tree.link("proc/driver/nvidia/gpus", "../nvidia/gpus")
    tree.link("sys/class/drm/card0/device", "device")
    tree.link("sys/class/accel", "../class/accel")

    assert [each.type for each in probe(tree.root).hardware] == [DeviceType.CPU]


def test_a_pipe_is_not_waited_for(make_tree: Any) -> None:
    tree = make_tree()
    directory = _gpu_directory(tree)
    (directory / "device").unlink()
    os.mkfifo(directory / "device")
    (tree.root / "proc/meminfo").unlink()
    os.mkfifo(tree.root / "proc/meminfo")

    machine = probe(tree.root)

    assert machine.devices_of(DeviceType.GPU) == ()
    assert machine.hardware[0].memory_nbytes is None


def test_files_without_end_and_binary_garbage_are_read_in_bounds(make_tree: Any) -> None:
    tree = make_tree()
    _gpu_directory(tree)
    for path in (
        "proc/cpuinfo",
        "proc/meminfo",
        "proc/driver/nvidia/version",
        "usr/share/hwdata/pci.ids",
    ):
        tree.write(path, "")
        (tree.root / path).write_bytes(os.urandom(1 << 16))
        os.truncate(tree.root / path, 1 << 33)
    information = "proc/driver/nvidia/gpus/0000:01:00.0/information"
    tree.write(information, "Model: " + "x" * 100_000)
    (tree.root / "sys/class").mkdir(parents=True, exist_ok=True)
    (tree.root / "sys/class/kfd").symlink_to("/dev/zero")
    started = time.perf_counter()

    (gpu,) = probe(tree.root).devices_of(DeviceType.GPU)

    assert len(gpu.name) <= 256
    assert time.perf_counter() - started < 5


def test_a_device_file_is_not_read(make_tree: Any) -> None:
    tree = make_tree()
    (tree.root / "proc/meminfo").unlink()
    tree.link("proc/meminfo", "/dev/zero")

    assert probe(tree.root).hardware[0].memory_nbytes is None


def test_what_may_not_be_read_is_unknown(make_tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree()
    secret = {_gpu_directory(tree) / "vendor", tree.root / "proc/meminfo"}
    open_file = os.open

    def refuse(path: Any, *arguments: Any) -> int:
        if Path(path) in secret:
            raise PermissionError(13, "Permission denied")
        return open_file(path, *arguments)

    monkeypatch.setattr(os, "open", refuse)

    machine = probe(tree.root)

    assert machine.devices_of(DeviceType.GPU) == ()
    assert machine.hardware[0].memory_nbytes is None


@pytest.mark.parametrize("name", ["class", "vendor", "device"])
@pytest.mark.parametrize("text", ["0x" + "f" * 20, "0x03_00", "-1", "\x00\x01", "0x"])
def test_a_number_that_no_device_has_is_no_device(make_tree: Any, name: str, text: str) -> None:
    tree = make_tree()
    (_gpu_directory(tree) / name).write_text(text)

    assert probe(tree.root).devices_of(DeviceType.GPU) == ()


def test_a_bus_with_very_many_entries_is_cut(make_tree: Any) -> None:
    tree = make_tree()
    folder = tree.root / "sys/bus/pci/devices"
    folder.mkdir(parents=True)
    for number in range(5000):
        (folder / f"x{number}").touch()

    assert probe(tree.root).devices_of(DeviceType.GPU) == ()
