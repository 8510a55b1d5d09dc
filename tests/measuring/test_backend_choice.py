"""``backend="auto"`` goes by records of this package on this machine alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import ortpkg
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.providers.machine_offer import MachineOffer, this_machine
from ortpkg.selection.matching.measurements import Measurement, device_key
from ortpkg.selection.measuring.record_store import write_records
from tests.measuring.conftest import DIGITS, LineMaker

pytest.importorskip("onnxruntime")

Change = Callable[[MachineOffer], MachineOffer]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))


def _record(package: PackageInfo, change: Change = lambda offer: offer) -> None:
    """Records the embedded engine as fastest for cpu-fp32, with ``change`` to this machine."""
    offer = change(this_machine(named={CPU_EP}))
    times_s = {"embedded": 0.001, "onnxruntime": 0.003}
    measurements = [
        Measurement(
            component_name="classifier",
            variant_name="cpu-fp32",
            ep_name=each.ep_name,
            backend=each.backend,
            device=device_key(each, offer.ep_devices),
            p50_s=times_s[each.backend],
            p95_s=0.01,
            throughput_per_s=1.0,
            cold_start_s=1.0,
            first_run_s=1.0,
            is_accurate=True,
            lowest_s=times_s[each.backend],
            highest_s=times_s[each.backend] * 1.5,
        )
        for each in offer.ep_devices
        if each.ep_name == CPU_EP and each.backend in times_s
    ]
    assert len(measurements) == len(times_s)
    assert write_records(package, offer, measurements) == ""


def _chosen(root: Path) -> str:
    verdict = ortpkg.ModelPackage(root).best_variant().verdict()
    assert verdict.ep_device is not None
    return verdict.ep_device.backend


def _older(ep_device: EpDevice) -> EpDevice:
    return (
        replace(ep_device, ep_version="0.0.1") if ep_device.backend == "onnxruntime" else ep_device
    )


def test_without_a_record_the_usual_order_decides(digits: Path) -> None:
    assert _chosen(digits) == "onnxruntime"


def test_auto_takes_what_was_recorded_as_fastest(digits: Path) -> None:
    _record(ortpkg.ModelPackage(digits).info)

    assert _chosen(digits) == "embedded"
    with ortpkg.ModelPackage(digits).best_variant().create_session() as session:
        assert [entry.backend for entry in session.get_placement().entries] == ["embedded"]


def test_a_named_backend_is_taken_whatever_was_recorded(digits: Path) -> None:
    _record(ortpkg.ModelPackage(digits).info)

    verdict = ortpkg.ModelPackage(digits).best_variant().verdict(backend="onnxruntime")

    assert verdict.ep_device is not None
    assert verdict.ep_device.backend == "onnxruntime"


def test_a_record_of_another_model_is_ignored(digits: Path) -> None:
    _record(ortpkg.ModelPackage(digits).info)
    (digits / "digests.json").unlink()  # another package, as far as digests tell

    assert _chosen(digits) == "onnxruntime"


def _with_older_onnxruntime(offer: MachineOffer) -> MachineOffer:
    return offer._replace(ep_devices=tuple(map(_older, offer.ep_devices)))


def _with_another_cpu(offer: MachineOffer) -> MachineOffer:
    machine = offer.machine
    hardware = tuple(replace(each, name=f"another {each.name}") for each in machine.hardware)
    return offer._replace(machine=replace(machine, hardware=hardware))


@pytest.mark.parametrize("change", [_with_older_onnxruntime, _with_another_cpu])
def test_a_record_of_another_version_or_machine_is_ignored(digits: Path, change: Change) -> None:
    _record(ortpkg.ModelPackage(digits).info, change)

    assert _chosen(digits) == "onnxruntime"


def test_the_command_line_says_why(digits: Path, tmp_path: Path, command_line: LineMaker) -> None:
    line = command_line(tmp_path / "line")
    assert line("bench", digits, "--rounds", "1", "--repeat", "3").code == 0

    told = line("select", digits, "--explain")

    assert "was measured as accurate, and as fast as any" in " ".join(told.out.split())
