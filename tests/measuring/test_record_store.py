"""Records: kept per package and machine, stale after changes, never a reason to fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import timeit
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.selection.matching.measurements import (
    CanaryPass,
    Measurement,
    QuarantineCause,
    QuarantineEntry,
    device_key,
    versioned_variant,
)
from ortpkg.selection.measuring import fingerprint
from ortpkg.selection.measuring.package_digest import package_digest
from ortpkg.selection.measuring.record_format import MOST_BYTES
from ortpkg.selection.measuring.record_store import (
    clear_records,
    clearing_of_quarantine,
    has_passed_canary,
    load_records,
    write_canary_pass,
    write_quarantine,
    write_records,
)
from ortpkg.selection.measuring.stored_record import stored_records

_CPU = HardwareDevice(type=DeviceType.CPU, name="CPU X", vendor_id=0x8086, architecture="icelake")
_GPU = HardwareDevice(
    type=DeviceType.GPU,
    name="Arc",
    vendor_id=0x8086,
    device_id=1,
    metadata={"driver": "xe", "driver_version": "1.0"},
)
_OPENVINO = EpDevice(
    ep_name="OpenVINOExecutionProvider", device=_GPU, backend="openvino", ep_version="2026.4"
)
_EMBEDDED = EpDevice(
    ep_name="CPUExecutionProvider", device=_CPU, backend="embedded", ep_version="0.1"
)


def _offer(*ep_devices: EpDevice, gpu: HardwareDevice = _GPU) -> MachineOffer:
    machine = Machine(os="linux", os_version="6.8.0-1", hardware=(_CPU, gpu))
    return MachineOffer(machine=machine, ep_devices=ep_devices or (_OPENVINO, _EMBEDDED))


def _measurement(variant: str, ep_device: EpDevice = _OPENVINO, **facts: Any) -> Measurement:
    default = {
        "p50_s": 0.01,
        "p95_s": 0.02,
        "throughput_per_s": 90.0,
        "cold_start_s": 1.0,
        "first_run_s": 0.1,
    }
    return Measurement(
        component_name="model",
        variant_name=variant,
        ep_name=ep_device.ep_name,
        backend=ep_device.backend,
        device=device_key(ep_device),
        **{**default, **facts},
    )


def _entry(variant: str, ep_device: EpDevice = _OPENVINO) -> QuarantineEntry:
    place = versioned_variant("model", variant, ep_device, [ep_device])
    return QuarantineEntry(
        component_name="model",
        variant_name=variant,
        ep_name=place.ep_name,
        backend=place.backend,
        device=place.device,
        ep_version=place.ep_version,
        driver_version=place.driver_version,
        cause=QuarantineCause.CRASH,
        detail="it was ended by SIGSEGV",
        recorded_at="2026-01-02T03:04:05+00:00",
    )


@pytest.fixture
def package(scale_package: Path) -> PackageInfo:
    return ortpkg.ModelPackage(scale_package).info


def test_nothing_is_recorded_at_first(package: PackageInfo) -> None:
    assert load_records(package, _offer()) is None


def test_that_nothing_is_recorded_is_found_out_in_microseconds(package: PackageInfo) -> None:
    offer = _offer()
    best_s = min(timeit.repeat(lambda: load_records(package, offer), number=200, repeat=5)) / 200
    assert best_s < 50e-6


def test_what_was_written_is_read(package: PackageInfo) -> None:
    measured = (
        _measurement("a", max_abs_error=0.5, is_accurate=True, peak_memory_nbytes=7),
        _measurement("b"),
    )
    assert write_records(package, _offer(), measured) == ""
    found = load_records(package, _offer())
    assert found is not None
    assert found.measurements == measured
    assert found.stale_reason == ""
    assert found.package_digest == package_digest(package.root)


def test_a_copy_of_the_package_has_the_same_records(package: PackageInfo, tmp_path: Path) -> None:
    write_records(package, _offer(), [_measurement("a")])
    shutil.copytree(package.root, tmp_path / "copy.ortpackage")
    assert (
        load_records(ortpkg.ModelPackage(tmp_path / "copy.ortpackage").info, _offer()) is not None
    )


def test_a_changed_package_has_none(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("a")])
    model = package.components[0].variants[0].model_path
    assert model is not None
    ortpkg.add_variant(package.root, model, variant="c", ep="cpu")
    assert load_records(ortpkg.ModelPackage(package.root).info, _offer()) is None


def test_without_digests_the_documents_and_the_times_of_files_count(package: PackageInfo) -> None:
    (package.root / "digests.json").unlink()
    before = package_digest(package.root)
    assert before.startswith("stat:")
    assert package_digest(package.root) == before
    model = package.components[0].variants[0].model_path
    assert model is not None
    os.utime(model, ns=(1, 1))
    assert package_digest(package.root) != before


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            _offer(replace(_OPENVINO, ep_version="2027.0"), _EMBEDDED),
            "EP OpenVINOExecutionProvider (openvino) was 2026.4, is 2027.0",
        ),
        (
            _offer(gpu=replace(_GPU, metadata={"driver": "xe", "driver_version": "1.1"})),
            "driver of device 1 (gpu) was xe 1.0, is xe 1.1",
        ),
        (
            _offer(gpu=replace(_GPU, name="Arc 2", device_id=2)),
            "device 1 (gpu) was Arc [8086:0001], is Arc 2 [8086:0002]",
        ),
    ],
)
def test_a_change_makes_measurements_stale_and_is_named(
    package: PackageInfo, now: MachineOffer, said: str
) -> None:
    write_records(package, _offer(), [_measurement("a")])
    found = load_records(package, now)
    assert found is not None
    assert said in found.stale_reason
    assert found.stale_reason.startswith("measured on 20")


def test_a_version_written_differently_is_no_change(package: PackageInfo) -> None:
    ep = replace(_OPENVINO, ep_version="2026.4.0")
    same = replace(ep, device=replace(_GPU, metadata={"driver": "xe", "driver_version": "1.0.0"}))
    machine = replace(_offer().machine, os_version="6.08.1")
    now = MachineOffer(machine=machine, ep_devices=(same, _EMBEDDED))
    write_records(package, _offer(), [_measurement("a")])
    write_quarantine(package, [_entry("b")])
    passed = versioned_variant("model", "c", _OPENVINO, [_OPENVINO])
    facts = {name: getattr(passed, name) for name in passed.__dataclass_fields__}
    write_canary_pass(package, CanaryPass(**facts, recorded_at="2026-01-02T03:04:05+00:00"))

    found = load_records(package, now)

    assert found is not None
    assert found.stale_reason == ""
    assert [each.variant_name for each in found.quarantined] == ["b"]
    assert has_passed_canary(package, versioned_variant("model", "c", same, [same]))


def test_a_variable_that_is_no_version_is_compared_as_a_text(
    package: PackageInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    write_records(package, _offer(), [_measurement("a")])
    monkeypatch.setenv("OMP_NUM_THREADS", "4.0")
    found = load_records(package, _offer())
    assert found is not None
    assert "variable OMP_NUM_THREADS was 4, is 4.0" in found.stale_reason


def test_a_variable_that_steers_the_kernels_makes_them_stale(
    package: PackageInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    write_records(package, _offer(), [_measurement("a")])
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    found = load_records(package, _offer())
    assert found is not None
    assert "variable OPENBLAS_CORETYPE was unset, is Haswell" in found.stale_reason


def test_another_number_of_threads_makes_them_stale(
    package: PackageInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_records(package, _offer(), [_measurement("a")])
    monkeypatch.setattr(fingerprint, "default_threads", lambda: 99)
    found = load_records(package, _offer())
    assert found is not None
    assert "threads was" in found.stale_reason


def test_an_ep_that_was_not_measured_does_not_make_them_stale(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("a")])
    acme = EpDevice(ep_name="AcmeExecutionProvider", device=_CPU, backend="acme", ep_version="1")
    found = load_records(package, _offer(_OPENVINO, replace(_EMBEDDED, ep_version="9"), acme))
    assert found is not None
    assert found.stale_reason == ""


def test_new_measurements_replace_their_own_kind_and_keep_the_others(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("a"), _measurement("b")])
    write_records(package, _offer(), [_measurement("b", p50_s=5.0), _measurement("b", _EMBEDDED)])
    found = load_records(package, _offer())
    assert found is not None
    assert [(each.variant_name, each.backend, each.p50_s) for each in found.measurements] == [
        ("a", "openvino", 0.01),
        ("b", "openvino", 5.0),
        ("b", "embedded", 0.01),
    ]


def test_measurements_of_an_older_state_of_the_machine_go(package: PackageInfo) -> None:
    newer = _offer(replace(_OPENVINO, ep_version="2027.0"), _EMBEDDED)
    write_records(package, _offer(), [_measurement("a")])
    write_records(package, newer, [_measurement("b")])
    found = load_records(package, newer)
    assert found is not None
    assert [each.variant_name for each in found.measurements] == ["b"]
    assert found.stale_reason == ""


def test_machines_that_share_a_home_keep_their_own(package: PackageInfo) -> None:
    other = _offer(gpu=replace(_GPU, name="Arc 2", device_id=2))
    write_records(package, _offer(), [_measurement("a")])
    write_records(package, other, [_measurement("b")])
    for offer, variant in ((_offer(), "a"), (other, "b")):
        found = load_records(package, offer)
        assert found is not None
        assert ([each.variant_name for each in found.measurements], found.stale_reason) == (
            [variant],
            "",
        )


# --- quarantine -----------------------------------------------------------------------------------


def test_quarantine_holds_for_one_version_of_ep_and_driver(package: PackageInfo) -> None:
    write_quarantine(package, [_entry("a")])
    found = load_records(package, _offer())
    assert found is not None
    assert found.quarantined == (_entry("a"),)
    for now in (
        _offer(replace(_OPENVINO, ep_version="2027.0")),
        _offer(replace(_OPENVINO, device=replace(_GPU, metadata={"driver_version": "1.1"}))),
    ):
        expired = load_records(package, now)
        assert expired is not None
        assert expired.quarantined == ()


def test_quarantine_takes_the_measurements_of_the_same_place_along(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("a"), _measurement("b")])
    write_quarantine(package, [_entry("a")])
    found = load_records(package, _offer())
    assert found is not None
    assert [each.variant_name for each in found.measurements] == ["b"]


def test_clearing_counts_and_keeps_what_was_not_asked_for(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("b"), _measurement("c")])
    write_quarantine(package, [_entry("a"), _entry("b")])
    for variant, changes, removes in (("none", 0, 0), ("a", 2, 0), ("", 1, 1)):
        planned = clearing_of_quarantine(package, variant=variant)
        assert (len(planned.changes), len(planned.removes)) == (changes, removes)
        before = {
            path: path.read_bytes() for path in planned.root.iterdir() if path.suffix != ".lock"
        }
        assert clear_records(package, quarantine_only=True, variant=variant) == (
            1 if changes else 0
        )
        after = {
            path: path.read_bytes() for path in planned.root.iterdir() if path.suffix != ".lock"
        }
        assert {path.name for path in before if before[path] != after.get(path)} == {
            *planned.changes,
            *planned.removes,
        }
        assert {path.name for path in before.keys() - after.keys()} == set(planned.removes)
    assert clear_records(package) == 1
    assert load_records(package, _offer()) is None


def test_a_canary_counts_for_its_versions(package: PackageInfo) -> None:
    place = versioned_variant("model", "a", _OPENVINO, [_OPENVINO])
    facts = {name: getattr(place, name) for name in place.__dataclass_fields__}
    assert not has_passed_canary(package, place)
    write_canary_pass(package, CanaryPass(**facts, recorded_at="2026-01-02T03:04:05+00:00"))
    assert has_passed_canary(package, place)
    assert not has_passed_canary(package, replace(place, ep_version="2027.0"))
    write_quarantine(package, [_entry("a")])
    assert not has_passed_canary(package, place)


# --- files that are not what they should be -------------------------------------------------------


def _damage_text(text: str) -> str:
    return text[: len(text) // 2]


def _with(pointer: str, value: Any) -> Callable[[str], str]:
    """The record with something else in one place."""

    def change(text: str) -> str:
        document = json.loads(text)
        *way, last = pointer.split("/")
        target: Any = document
        for token in way:
            target = target[int(token) if isinstance(target, list) else token]
        target[int(last) if isinstance(target, list) else last] = value
        return json.dumps(document)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_damage_text, "it is not JSON"),
        (lambda _: "", "it is not JSON"),
        (lambda _: "[" * 100_000, "it is not JSON"),
        (lambda _: "[]", "it is not an object"),
        (lambda _: '{"schema_version": "2.0"}', "its schema_version is not 1.x"),
        (_with("schema_version", 1), "its schema_version is not 1.x"),
        (_with("machines", {}), "/machines is not a list of at most 20 entries"),
        (
            _with("machines/0/measurements/0/p50_s", "fast"),
            "/machines/0/measurements/0/p50_s is not a number",
        ),
        (
            _with("machines/0/measurements/0/p50_s", -1),
            "/machines/0/measurements/0/p50_s is less than 0",
        ),
        (
            _with("machines/0/measurements/0/p50_s", float("nan")),
            "/machines/0/measurements/0/p50_s is not a number",
        ),
        (
            _with("machines/0/measurements/0/p50_s", True),
            "/machines/0/measurements/0/p50_s is not a number",
        ),
        (
            _with("machines/0/measurements/0/is_accurate", "yes"),
            "is_accurate is neither true, false nor null",
        ),
        (
            _with("machines/0/fingerprint/threads", 2),
            "/machines/0/fingerprint/threads is not a text",
        ),
        (_with("quarantined/0/cause", "BORED"), "/quarantined/0/cause is none of CRASH"),
        (
            _with("quarantined/0/detail", "x" * 3000),
            "/quarantined/0/detail is not a text of at most 2000 characters",
        ),
        (_with("package/digest", "sha256:0"), "it is about another package"),
        (lambda text: text + " " * MOST_BYTES, f"it has more than {MOST_BYTES} bytes"),
    ],
)
def test_of_a_file_that_is_no_record_only_the_quarantine_counts_and_a_warning_says_so(
    package: PackageInfo, change: Callable[[str], str], said: str
) -> None:
    write_records(package, _offer(), [_measurement("b")])
    write_quarantine(package, [_entry("a")])
    (stored,) = stored_records()
    stored.path.write_text(change(stored.path.read_text()))
    found = load_records(package, _offer())
    assert found is not None
    assert (found.measurements, found.quarantined) == ((), (_entry("a"),))
    assert said in found.stale_reason
    assert found.problem == f"{found.stale_reason}; what is in quarantine was recovered (1)"


def test_without_its_copy_each_entry_of_the_quarantine_that_can_be_read_counts(
    package: PackageInfo,
) -> None:
    write_records(package, _offer(), [_measurement("c")])
    write_quarantine(package, [_entry("a"), _entry("b")])
    (stored,) = stored_records()
    stored.path.with_suffix(".quarantine").unlink()
    stored.path.write_text(_with("quarantined/0/cause", "BORED")(stored.path.read_text()))
    found = load_records(package, _offer())
    assert found is not None
    assert found.quarantined == (_entry("b"),)


def test_where_nothing_can_be_read_that_is_said(package: PackageInfo) -> None:
    write_quarantine(package, [_entry("a")])
    (stored,) = stored_records()
    for path in (stored.path, stored.path.with_suffix(".quarantine")):
        path.write_text("{")
    found = load_records(package, _offer())
    assert found is not None
    assert found.quarantined == ()
    assert found.problem.endswith("what failed here before is forgotten, and may be selected again")


def test_what_is_written_over_a_damaged_file_keeps_the_quarantine(package: PackageInfo) -> None:
    write_quarantine(package, [_entry("a")])
    (stored,) = stored_records()
    stored.path.write_text("{")
    assert write_records(package, _offer(), [_measurement("c")]) == ""
    found = load_records(package, _offer())
    assert found is not None
    assert (found.quarantined, found.problem) == ((_entry("a"),), "")


def test_what_was_lifted_does_not_come_back_with_damage(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("c")])
    write_quarantine(package, [_entry("a")])
    assert clear_records(package, quarantine_only=True) == 1
    (stored,) = stored_records()
    stored.path.write_text("{")
    found = load_records(package, _offer())
    assert found is not None
    assert found.quarantined == ()


def test_a_damaged_file_of_which_the_quarantine_is_known_can_be_cleared(
    package: PackageInfo,
) -> None:
    write_quarantine(package, [_entry("a")])
    (stored,) = stored_records()
    stored.path.write_text("{")
    assert clear_records(package, quarantine_only=True) == 1
    assert load_records(package, _offer()) is None


@pytest.mark.parametrize("policy", ["default", "measured", "prefer-cpu"])
def test_damage_is_warned_of_under_every_policy(package: PackageInfo, policy: str) -> None:
    write_quarantine(package, [_entry("a")])
    (stored,) = stored_records()
    stored.path.write_text("{")
    warnings = ortpkg.ModelPackage(package.root).select(policy=policy).warnings
    assert [
        each
        for each in warnings
        if "is ignored: it is not JSON" in each and "was recovered (1)" in each
    ]


def test_a_damaged_file_is_replaced_by_the_next_benchmark(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("b")])
    (stored,) = stored_records()
    stored.path.write_text("{")
    assert write_records(package, _offer(), [_measurement("c")]) == ""
    found = load_records(package, _offer())
    assert found is not None
    assert [each.variant_name for each in found.measurements] == ["c"]


def test_keys_of_a_newer_minor_version_are_left_out(package: PackageInfo) -> None:
    write_records(package, _offer(), [_measurement("b")])
    (stored,) = stored_records()
    stored.path.write_text(_with("machines/0/measurements/0/energy_j", 3)(stored.path.read_text()))
    found = load_records(package, _offer())
    assert found is not None
    assert found.measurements == (_measurement("b"),)


def test_a_home_that_cannot_be_written_gives_a_reason(
    package: PackageInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "file"))
    assert "cannot be written: Not a directory" in write_records(
        package, _offer(), [_measurement("a")]
    )
    assert load_records(package, _offer()) is None
    assert clear_records() == 0


_WRITER = """
import sys
import ortpkg
from tests.measuring.test_record_store import _measurement, _offer
from ortpkg.selection.measuring.record_store import write_records
info = ortpkg.ModelPackage(sys.argv[1]).info
for number in range(10):
    assert write_records(info, _offer(), [_measurement(f"{sys.argv[2]}{number}")]) == ""
"""


def test_writers_at_the_same_time_lose_nothing(package: PackageInfo) -> None:
    root = str(Path(ortpkg.__file__).parents[1])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(package.root), name],
            env={**os.environ, "PYTHONPATH": root},
        )
        for name in "abcd"
    ]
    assert [writer.wait(120) for writer in writers] == [0] * 4
    found = load_records(package, _offer())
    assert found is not None
    assert {each.variant_name for each in found.measurements} == {
        f"{a}{n}" for a in "abcd" for n in range(10)
    }
