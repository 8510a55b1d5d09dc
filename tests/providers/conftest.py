"""Machines for the tests of EP factories; constructed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.foundations.isolation import backend_probe
from ortpkg.machine.hardware import DeviceType, HardwareDevice


@pytest.fixture(scope="session")
def laptop() -> tuple[HardwareDevice, ...]:
    """An Intel laptop: CPU, integrated GPU, NPU; the GPU's kind is not known to the system."""
    return (
        HardwareDevice(type=DeviceType.CPU, name="Core Ultra", vendor_id=0x8086, source="procfs"),
        HardwareDevice(
            type=DeviceType.GPU,
            name="Arc",
            vendor_id=0x8086,
            device_id=0x7D55,
            metadata={"pci_address": "0000:00:02.0"},
            source="sysfs",
        ),
        HardwareDevice(
            type=DeviceType.NPU, name="AI Boost", vendor_id=0x8086, device_id=0x7D1D, source="sysfs"
        ),
    )


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty fact cache, and a process that has asked no backend yet."""
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"
