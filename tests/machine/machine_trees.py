"""Trees of machines, constructed from public documentation; none was copied from a real machine.

Numbers and names are those of the PCI ID Repository, the kernel's documentation and its device
trees, and the vendors' product pages.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.machine.conftest import Tree

_PCI_IDS = """# constructed, in the form of the PCI ID Repository
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]
8086  Intel Corporation
\t7d1d  Meteor Lake NPU
\t7d55  Meteor Lake-P [Intel Arc Graphics]
\t\t1028 0c5e  a subsystem
10de  NVIDIA Corporation
\t2684  AD102 [GeForce RTX 4090]
"""
_ARM_CPUINFO = """processor\t: 0
BogoMIPS\t: 62.50
Features\t: fp asimd aes sha1 sha2 crc32 atomics fphp asimdhp i8mm bf16
CPU implementer\t: {implementer}
CPU architecture: 8
CPU part\t: {part}

"""


def core_ultra(tree: Tree) -> None:
    """Intel Core Ultra 7 155H: Arc graphics under xe, NPU under intel_vpu."""
    tree.write("usr/share/hwdata/pci.ids", _PCI_IDS)
    tree.write(
        "proc/meminfo", "MemTotal:       32768000 kB\nMemFree:  1 kB\nMemAvailable:   16384000 kB\n"
    )
    tree.write("sys/class/dmi/id/product_name", "Constructed Laptop 14\n")
    for cpu, siblings in enumerate(["0-1", "0-1", "2-3", "2-3", "4", "5"]):
        tree.write(
            f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{siblings}\n"
        )
    tree.pci("0000:00:02.0", 0x030000, "8086:7d55", driver="xe")
    tree.pci("0000:00:0b.0", 0x120000, "8086:7d1d", driver="intel_vpu")
    tree.link("sys/class/accel/accel0/device", "../../../devices/pci0000:00/0000:00:0b.0")
    tree.link("sys/class/drm/card0/device", "../../../0000:00:02.0")


def ryzen_ai(tree: Tree) -> None:
    """AMD Ryzen AI 9 HX 370: Radeon 890M in the processor, XDNA 2 NPU under amdxdna."""
    tree.write(
        "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen AI 9 HX 370 w/ Radeon 890M\nflags\t:"
        " avx512f\n",
    )
    tree.pci(
        "0000:c1:00.0",
        0x038000,
        "1002:150e",
        driver="amdgpu",
        files={"mem_info_vram_total": "536870912", "mem_info_vram_used": "134217728"},
    )
    tree.pci(
        "0000:c2:00.1",
        0x118000,
        "1022:17f0",
        driver="amdxdna",
        files={"fw_version": "1.0.0.63", "vbnv": "RyzenAI-npu4"},
    )
    tree.link("sys/class/accel/accel0/device", "../../../devices/pci0000:c2/0000:c2:00.1")
    tree.write("sys/module/amdxdna/version", "0.1\n")
    tree.write(
        "sys/class/kfd/kfd/topology/nodes/0/properties",
        "cpu_cores_count 24\ngfx_target_version 0\n",
    )
    tree.write(
        "sys/class/kfd/kfd/topology/nodes/1/properties",
        "simd_count 32\ngfx_target_version 110500\nlocation_id 49408\ndomain 0\n",
    )


def rtx_workstation(tree: Tree) -> None:
    """A GeForce RTX 4090 under NVIDIA's driver, beside a Radeon RX 7900 XTX under amdgpu."""
    tree.write("usr/share/misc/pci.ids", _PCI_IDS)
    tree.pci("0000:01:00.0", 0x030000, "10de:2684", driver="nvidia")
    tree.write(
        "proc/driver/nvidia/gpus/0000:01:00.0/information",
        "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 130\nBus Type: \t PCIe\nGPU Firmware: \t"
        " 580.82.07\n",
    )
    tree.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build "
        " (builder@host)\nGCC version:  gcc version 13.3.0\n",
    )
    vram = {
        "mem_info_vram_total": "25753026560",
        "mem_info_vram_used": "1073741824",
        "mem_info_vram_vendor": "hynix",
    }
    tree.pci("0000:03:00.0", 0x030000, "1002:744c", driver="amdgpu", files=vram)


def jetson(tree: Tree) -> None:
    """NVIDIA Jetson AGX Orin: no PCI GPU, a platform GPU, a display controller beside it."""
    tree.write("proc/cpuinfo", _ARM_CPUINFO.format(implementer="0x41", part="0xd42"))
    tree.write("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    tree.write(
        "etc/nv_tegra_release", "# R36 (release), REVISION: 3.0, GCID: 36923193, BOARD: generic\n"
    )
    tree.link("sys/bus/platform/devices/17000000.gpu/driver", "../../drivers/gk20a")
    tree.link("sys/class/drm/card0/device", "../../../13e00000.host1x")
    tree.link("sys/13e00000.host1x/driver", "../bus/platform/drivers/tegra-host1x")


def snapdragon_x(tree: Tree) -> None:
    """A Snapdragon X laptop with Linux: Adreno under msm, Hexagon behind FastRPC."""
    tree.write("proc/cpuinfo", _ARM_CPUINFO.format(implementer="0x51", part="0x001"))
    tree.write("proc/device-tree/model", "Lenovo ThinkPad T14s Gen 6\0")
    tree.link("sys/bus/platform/devices/3d00000.gpu/driver", "../../drivers/adreno")
    tree.link("sys/class/drm/card0/device", "../../../ae00000.display-subsystem")
    tree.link("sys/ae00000.display-subsystem/driver", "../bus/platform/drivers/msm-mdss")
    tree.write("dev/fastrpc-cdsp", "")


def server(tree: Tree) -> None:
    """A server whose only display adapter is its management controller."""
    tree.pci("0000:03:00.0", 0x030000, "1a03:2000", driver="ast")
    tree.link("sys/class/drm/card0/device", "../../../0000:03:00.0")


def container(tree: Tree) -> None:
    """A container with a memory limit and a GPU; /sys shows the control group only."""
    tree.write("sys/fs/cgroup/memory.max", "2147483648\n")
    tree.write("sys/fs/cgroup/memory.current", "1073741824\n")
    tree.write(
        "proc/driver/nvidia/gpus/0000:62:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\n"
    )
    tree.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\n",
    )


def virtual_machine(tree: Tree) -> None:
    """A virtual machine whose GPU is virtio's, once on PCI and once on the virtio bus."""
    tree.pci("0000:00:01.0", 0x030000, "1af4:1050", driver="virtio-pci")
    tree.link("sys/class/drm/card0/device", "../../../virtio0")
    tree.link("sys/virtio0/driver", "../bus/virtio/drivers/virtio_gpu")


def handed_away(tree: Tree) -> None:
    """A host with idle GPUs: one under nouveau, one with a virtual machine, one driverless."""
    tree.pci("0000:01:00.0", 0x030000, "10de:2684", driver="nouveau")
    tree.pci("0000:02:00.0", 0x030000, "10de:2684", driver="vfio-pci")
    tree.pci("0000:03:00.0", 0x030000, "8086:56a0")


#: name → what builds it, the devices that count ("type name"), and the notes.
MACHINES: dict[str, tuple[Callable[[Tree], None], tuple[str, ...], tuple[str, ...]]] = {
    "core-ultra": (
        core_ultra,
        (
            "cpu Intel(R) Core(TM) Ultra 7 155H",
            "gpu Intel Meteor Lake-P [Intel Arc Graphics]",
            "npu Intel Meteor Lake NPU",
        ),
        (),
    ),
    "ryzen-ai": (
        ryzen_ai,
        (
            "cpu AMD Ryzen AI 9 HX 370 w/ Radeon 890M",
            "gpu AMD Radeon 880M / 890M (Strix)",
            "npu AMD XDNA 2 NPU (Strix)",
        ),
        (),
    ),
    "rtx-workstation": (
        rtx_workstation,
        (
            "cpu Intel(R) Core(TM) Ultra 7 155H",
            "gpu NVIDIA GeForce RTX 4090",
            "gpu AMD Navi 31 [Radeon RX 7900 XT/7900 XTX]",
        ),
        (),
    ),
    "jetson": (jetson, ("cpu Cortex-A78AE", "gpu Tegra GPU (17000000.gpu)"), ()),
    "snapdragon-x": (
        snapdragon_x,
        ("cpu Oryon", "gpu Adreno GPU (3d00000.gpu)", "npu Qualcomm Hexagon NPU"),
        (),
    ),
    "server": (
        server,
        ("cpu Intel(R) Core(TM) Ultra 7 155H",),
        ("0000:03:00.0: ASPEED display adapter, not for computing",),
    ),
    "container": (
        container,
        ("cpu Intel(R) Core(TM) Ultra 7 155H", "gpu NVIDIA H100 80GB HBM3"),
        ("/sys shows no bus, as in some containers: GPUs and NPUs may be there and not be seen",),
    ),
    "virtual-machine": (
        virtual_machine,
        ("cpu Intel(R) Core(TM) Ultra 7 155H",),
        (
            "0000:00:01.0: virtio display adapter, not for computing",
            "virtio0: virtio_gpu display adapter, not for computing",
        ),
    ),
    "handed-away": (
        handed_away,
        (
            "cpu Intel(R) Core(TM) Ultra 7 155H",
            "gpu NVIDIA GPU [10de:2684]",
            "gpu NVIDIA GPU [10de:2684]",
            "gpu Intel GPU [8086:56a0]",
        ),
        (
            (
                "0000:01:00.0: NVIDIA GPU [10de:2684]: the driver nouveau draws only; no execution"
                " provider computes on it"
            ),
            "0000:02:00.0: NVIDIA GPU [10de:2684]: it is handed to a virtual machine (vfio-pci)",
            "0000:03:00.0: Intel GPU [8086:56a0]: no driver is bound to it",
        ),
    ),
}
