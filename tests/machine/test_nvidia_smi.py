"""What nvidia-smi tells; its answers are constructed from its documented CSV format."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.nvidia_smi import parse_rows, with_free_nvidia_memory, with_nvidia_facts

_ANSWER = (
    "00000000:01:00.0, 24564, 23028, 8.9, 580.82.07\n00000000:C1:00.0, 81559, [N/A], 9.0,"
    " 580.82.07\n"
)


def _gpu(address: str, *, driver: str = "nvidia") -> HardwareDevice:
    return HardwareDevice(
        type=DeviceType.GPU,
        name="RTX",
        vendor="NVIDIA",
        vendor_id=0x10DE,
        metadata={"pci_address": address, "driver": driver, "driver_version": "580.82.07"},
        source="sysfs",
    )


class _Tool:
    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.calls = 0

    def __call__(self) -> str | None:
        self.calls += 1
        return self.answer


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path))


def test_memory_and_architecture_are_filled_in_with_their_source_and_kept() -> None:
    tool = _Tool(_ANSWER)

    first, second = with_nvidia_facts([_gpu("0000:01:00.0"), _gpu("0000:c1:00.0")], tool)
    again, _ = with_nvidia_facts([_gpu("0000:01:00.0"), _gpu("0000:c1:00.0")], tool)

    assert (first.memory_nbytes, first.free_memory_nbytes, first.architecture) == (
        24564 << 20,
        23028 << 20,
        "sm_89",
    )
    assert first.source_of("memory_nbytes") == "nvidia-smi"
    assert (second.memory_nbytes, second.free_memory_nbytes, second.architecture) == (
        81559 << 20,
        None,
        "sm_90",
    )
    assert again == first
    assert again.free_memory_nbytes is None  # it may have changed
    assert tool.calls == 1


def test_what_is_free_is_asked_each_time() -> None:
    tool = _Tool(_ANSWER)

    for _ in range(2):
        (gpu,) = with_free_nvidia_memory([_gpu("0000:01:00.0")], tool)

    assert gpu.free_memory_nbytes == 23028 << 20
    assert tool.calls == 2


def test_windows_driver_has_another_name() -> None:
    (gpu,) = with_free_nvidia_memory([_gpu("0000:01:00.0", driver="nvlddmkm")], _Tool(_ANSWER))

    assert gpu.free_memory_nbytes == 23028 << 20


@pytest.mark.parametrize(
    "device", [_gpu("0000:01:00.0", driver="nouveau"), HardwareDevice(type=DeviceType.CPU)]
)
def test_the_tool_is_not_asked_where_no_gpu_has_its_driver(device: HardwareDevice) -> None:
    tool = _Tool(_ANSWER)

    assert with_nvidia_facts([device], tool) == (device,)
    assert with_free_nvidia_memory([device], tool) == (device,)
    assert tool.calls == 0


@pytest.mark.parametrize(
    "answer", [None, "", "NVIDIA-SMI has failed", "x, y, z, u, v", "00000000:01:00.0, 1"]
)
def test_an_answer_of_another_form_is_no_knowledge(answer: str | None) -> None:
    assert with_nvidia_facts([_gpu("0000:01:00.0")], _Tool(answer)) == (_gpu("0000:01:00.0"),)


def test_rows_without_numbers_are_unknown() -> None:
    assert parse_rows("00000000:01:00.0, [N/A], [N/A], [N/A], [N/A]") == [
        ["0000:01:00.0", None, None, None, None]
    ]
