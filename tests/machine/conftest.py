"""Trees of /sys and /proc, constructed from public documentation.

None was copied from a real machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

_CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Core(TM) Ultra 7 155H
flags\t\t: fpu sse4_2 avx2 avx_vnni

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: should not be read
"""


class Tree:
    """A root directory to probe; methods add what the kernel would show."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/cpuinfo", _CPUINFO)
        self.write("proc/meminfo", "MemTotal:       32768000 kB\nMemFree:  1 kB\n")
        self.write("proc/sys/kernel/osrelease", "6.8.0-31-generic\n")
        self.write("sys/devices/system/cpu/online", "0-15,18\n")
        self.write("sys/devices/system/cpu/possible", "0-23\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def link(self, path: str, target: str) -> None:
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def pci(
        self,
        address: str,
        pci_class: int,
        numbers: str,
        *,
        driver: str = "",
        files: Mapping[str, str] | None = None,
    ) -> None:
        """A PCI function; ``numbers`` is "vendor:device" in hexadecimal."""
        vendor, device = numbers.split(":")
        base = f"sys/bus/pci/devices/{address}"
        facts = {
            "class": f"0x{pci_class:06x}",
            "vendor": f"0x{vendor}",
            "device": f"0x{device}",
            **(files or {}),
        }
        for name, text in facts.items():
            self.write(f"{base}/{name}", f"{text}\n")
        if driver:
            self.link(f"{base}/driver", f"../../../bus/pci/drivers/{driver}")


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[[], Tree]:
    return lambda: Tree(tmp_path / "root")
