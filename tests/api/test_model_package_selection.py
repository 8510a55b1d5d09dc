"""ModelPackage.select: machine profiles, limits, records and logs; what a session makes of them."""

from __future__ import annotations

import builtins
import io
import json
import logging
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from ortpkg.api.model_variant import ModelVariant
from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    NoSuitableVariantError,
    PackageFormatError,
    ProfileError,
    UsageError,
)
from ortpkg.foundations.host.directories import records_directory
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.profiles import read_profile
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.selection.choosing import package_selection
from ortpkg.selection.matching.measurements import (
    Measurement,
    QuarantineCause,
    QuarantineEntry,
    SelectionRecords,
    device_key,
    driver_version_of,
)
from ortpkg.selection.matching.verdict import ReasonCode
from ortpkg.selection.measuring import record_store

DIGITS = Path(__file__).parents[2] / "sample_packages" / "digits.ortpackage"


@pytest.fixture
def digits() -> ortpkg.ModelPackage:
    return ortpkg.ModelPackage(DIGITS)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Any:
    """record(make): what is recorded of this machine is what ``make(offer)`` gives."""

    def call(make: Any) -> None:
        monkeypatch.setattr(package_selection, "has_records", lambda: True)
        monkeypatch.setattr(record_store, "load_records", lambda _package, offer: make(offer))

    return call


@pytest.mark.parametrize(
    ("profile", "variant"),
    [
        ("snapdragon-x-laptop", "cpu-fp32"),
        ("intel-core-ultra-laptop", "openvino-npu"),
        ("rtx-workstation", "cuda"),
        ("plain-server", "cpu-fp32"),
    ],
)
def test_what_another_machine_would_select_is_told_by_its_profile(
    digits: ortpkg.ModelPackage, profile: str, variant: str
) -> None:
    selection = digits.select(profile=profile)

    assert selection.best is not None
    assert (selection.best.variant.name, selection.machine) == (variant, profile)
    assert any("constructed" in warning for warning in selection.warnings)
    assert digits.select(profile=read_profile(profile)) == selection


@pytest.mark.parametrize(
    ("change", "pointer"),
    [({"model_name": 7}, "/model_name"), ({"component_models": 7}, "/component_models")],
)
def test_a_package_against_the_schema_is_not_opened(
    tmp_path: Path, change: dict[str, Any], pointer: str
) -> None:
    root = tmp_path / "p.ortpackage"
    shutil.copytree(DIGITS, root)
    manifest = root / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))

    with pytest.raises(PackageFormatError) as caught:
        ortpkg.ModelPackage(root)
    assert pointer in {finding.pointer for finding in caught.value.findings}


@pytest.mark.requirement("K13")
def test_a_package_is_read_whole_when_it_is_constructed_and_never_again(tmp_path: Path) -> None:
    """What its objects say is one value, which the disk does not change any more."""
    root = tmp_path / "p.ortpackage"
    shutil.copytree(DIGITS, root)
    package = ortpkg.ModelPackage(root)
    for document in root.rglob("*.json"):
        document.write_text("not JSON")

    (component,) = package.component_models
    assert component.name == "classifier"
    assert [variant.name for variant in component.variants] == [
        variant.name for variant in package.info.components[0].variants
    ]
    assert package.component("classifier") is component.info is package.info.components[0]
    with pytest.raises(PackageFormatError):
        ortpkg.ModelPackage(root)


def test_a_profile_that_does_not_exist_is_an_error_with_the_nearest_name(
    digits: ortpkg.ModelPackage,
) -> None:
    with pytest.raises(ProfileError, match="did you mean 'plain-server'"):
        digits.select(profile="plain-servr")


def test_a_profile_changes_nothing_for_the_machine_that_it_is_not(
    digits: ortpkg.ModelPackage,
) -> None:
    assert digits.select().machine == ""
    assert digits.select(profile=package_selection.THIS_MACHINE).machine == ""


def test_a_variant_selected_for_another_machine_gets_a_session_where_it_can_run_here(
    digits: ortpkg.ModelPackage,
) -> None:
    variant = digits.best_variant(profile="plain-server")

    session = variant.create_session()

    assert variant.selection.machine == "plain-server"
    assert session.get_inputs()[0].name == "image"


def test_a_variant_that_only_the_other_machine_can_run_is_a_typed_error_with_every_reason(
    digits: ortpkg.ModelPackage,
) -> None:
    variant = digits.best_variant(profile="rtx-workstation")

    with pytest.raises(
        NoSuitableVariantError,
        match=(
            r"variant 'cuda' was selected for machine 'rtx-workstation', and cannot run on this"
            r" one:\n"
            r"(.*\n)*  'cuda': EP_NOT_AVAILABLE"
        ),
    ) as caught:
        variant.create_session()

    assert caught.value.selection is not None
    assert caught.value.selection.machine == ""


def test_the_release_policies_answer_for_a_profile_too(digits: ortpkg.ModelPackage) -> None:
    selection = digits.select(
        profile="intel-core-ultra-laptop", policy="onnxruntime-1.31", ep="openvino"
    )
    without_devices = digits.select(profile="rtx-workstation", policy="onnxruntime-1.31", ep="cuda")

    assert selection.best is not None
    assert (selection.best.variant.name, selection.machine) == (
        "openvino-npu",
        "intel-core-ultra-laptop",
    )
    # the CUDA EP of that profile reports no devices, and the variant asks for one
    assert without_devices.best is None


def test_the_release_policies_take_no_limits(digits: ortpkg.ModelPackage) -> None:
    with pytest.raises(UsageError, match="it takes no device, architecture, options of"):
        digits.select(policy="onnxruntime-1.27", ep="cuda", max_size=1)


def test_limits_are_arguments_in_the_callers_words(digits: ortpkg.ModelPackage) -> None:
    best = digits.best_variant(
        max_size="50kB", where={"quantization": "int8"}, min_precision="int8"
    )

    assert best.name == "cpu-int8"


def test_sizes_that_are_not_recorded_are_counted_where_a_limit_needs_them(tmp_path: Path) -> None:
    folder = tmp_path / "p.ortpackage" / "models" / "m"
    (folder / "v").mkdir(parents=True)
    (folder / "v" / "model.onnx").write_bytes(bytes(2000))
    (folder / "metadata.json").write_text(
        json.dumps({"model_variants": {"v": {}}}), encoding="utf-8"
    )
    (tmp_path / "p.ortpackage" / "manifest.json").write_text(
        '{"model_name": "p"}', encoding="utf-8"
    )

    selection = ortpkg.ModelPackage(tmp_path / "p.ortpackage").select(max_size="1kB")

    assert {verdict.code for verdict in selection.verdicts} == {ReasonCode.SIZE_TOO_LARGE}
    assert selection.verdicts[0].reason == "its files have 2.0 kB; at most 1.0 kB was asked for"


def test_what_was_measured_here_is_used(digits: ortpkg.ModelPackage, record: Any) -> None:
    def make(offer: MachineOffer) -> SelectionRecords:
        place = next(each for each in offer.ep_devices if each.backend == "embedded")
        measured = Measurement(
            component_name="classifier", variant_name="cpu-int8", ep_name=place.ep_name, backend=place.backend,
            device=device_key(place, offer.ep_devices), p50_s=1e-3, p95_s=2e-3, throughput_per_s=1e3, cold_start_s=0.1,
            first_run_s=0.1,
        )  # fmt: skip
        return SelectionRecords(measurements=(measured,))

    record(make)
    best = digits.select(policy="measured", max_latency="5ms").best

    assert best is not None
    assert best.ep_device is not None
    assert (best.variant.name, best.ep_device.backend) == ("cpu-int8", "embedded")
    assert (
        digits.select(policy="measured", profile="plain-server")
        .warnings[-1]
        .startswith("nothing was measured")
    )


def test_what_failed_here_is_passed_over_and_said(digits: ortpkg.ModelPackage, record: Any) -> None:
    def make(offer: MachineOffer) -> SelectionRecords:
        return SelectionRecords(
            quarantined=tuple(
                QuarantineEntry(
                    component_name="classifier", variant_name="cpu-fp32", ep_name=place.ep_name, backend=place.backend,
                    device=device_key(place, offer.ep_devices), ep_version=place.ep_version,
                    driver_version=driver_version_of(place), cause=QuarantineCause.CRASH, detail="signal 11",
                    recorded_at="2026-11-20",
                )
                for place in offer.ep_devices
            )
        )  # fmt: skip

    record(make)
    selection = digits.select()

    assert selection.best is not None
    assert selection.best.variant.name == "cpu-int8"
    assert any(
        "'cpu-fp32' is passed over" in warning and "it crashed" in warning
        for warning in selection.warnings
    )


def test_a_decision_is_logged_once_with_its_package(digits: ortpkg.ModelPackage) -> None:
    records: list[dict[str, Any]] = []
    digits.select(log=records.append)
    digits.select(policy="onnxruntime-1.31", log=records.append)

    assert [record["package"]["name"] for record in records] == ["digits", "digits"]
    for record in records:
        assert record["duration_s"] > 0
        assert (
            check_schema(
                json.loads(json.dumps(record["selection"])), "selection", document="selection"
            )
            == ()
        )


@pytest.mark.requirement("K22")
def test_the_policy_pipeline_orders_selects_logs_creates_and_registers(
    digits: ortpkg.ModelPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def watch(module: Any, name: str) -> None:
        original = getattr(module, name)

        def call(*arguments: Any, **options: Any) -> Any:
            steps.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    from ortpkg.runtime.session import session_parts, session_providers
    from ortpkg.selection.matching import request

    watch(request, "order_devices")
    for name in ("select_ep_devices", "log_decision"):
        watch(package_selection, name)
    watch(session_providers, "create_execution_providers")
    watch(session_parts, "register_execution_providers")
    digits.create_session()

    assert steps == [
        "order_devices",
        "select_ep_devices",
        "log_decision",
        "create_execution_providers",
        "register_execution_providers",
    ]


def test_selection_without_records_costs_no_look_at_a_file_of_them(
    digits: ortpkg.ModelPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer, machine = package_selection.offer_for(digits.component())
    looked_at: list[tuple[str, str]] = []

    def watch(module: Any, name: str) -> None:
        def call(path: Any, *_: Any, **__: Any) -> Any:
            looked_at.append((name, str(path)))
            raise FileNotFoundError(path)

        monkeypatch.setattr(module, name, call)

    for name in ("stat", "lstat", "listdir", "scandir", "open"):
        watch(os, name)
    watch(io, "open")
    watch(builtins, "open")
    monkeypatch.setattr(os.path, "isdir", lambda path: looked_at.append(("isdir", path)))
    records = package_selection.machine_records(digits.info, offer, machine)
    monkeypatch.undo()

    assert records is None
    assert looked_at == [("isdir", records_directory())]


def test_a_compatibility_string_of_an_ep_of_another_machine_is_unknown_and_said_to_be(
    tmp_path: Path,
) -> None:
    root = tmp_path / "p.ortpackage"
    folder = root / "models" / "m"
    (folder / "v").mkdir(parents=True)
    (folder / "v" / "model.onnx").write_bytes(b"")
    constraints = {"ep": "QNNExecutionProvider", "device": "npu", "ep_compatibility_info": "soc=60"}
    (folder / "metadata.json").write_text(
        json.dumps({"model_variants": {"v": {"constraints": constraints}}}), encoding="utf-8"
    )
    (root / "manifest.json").write_text('{"model_name": "p"}', encoding="utf-8")
    package = ortpkg.ModelPackage(root)

    there, here = package.select(profile="snapdragon-x-laptop"), package.select()

    assert there.best is not None
    assert there.best.compatibility is CompiledModelCompatibility.UNKNOWN
    assert any(
        "cannot be told here (COMPATIBILITY_UNKNOWN)" in warning for warning in there.warnings
    )
    assert [(verdict.code, verdict.compatibility) for verdict in here.verdicts] == [
        (ReasonCode.EP_NOT_AVAILABLE, CompiledModelCompatibility.UNKNOWN)
    ]


def test_a_device_that_vanished_since_it_was_selected_is_told_and_not_silently_replaced(
    digits: ortpkg.ModelPackage, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("openvino")
    # as if it had been this machine
    chosen = replace(digits.select(profile="intel-core-ultra-laptop"), machine="")
    assert chosen.best is not None
    variant = ModelVariant(chosen.best.variant, chosen, package=digits.info)

    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(ExecutionProviderError, match="device gone: NPU"),
    ):
        variant.create_session()

    assert "OpenVINOExecutionProvider (openvino) takes no node" in caplog.text


@pytest.mark.parametrize(("total_nbytes", "is_asked"), [(200_000, True), (1 << 33, False)])
def test_what_is_free_on_a_gpu_is_asked_only_where_a_variant_needs_much_of_it(
    digits: ortpkg.ModelPackage, monkeypatch: pytest.MonkeyPatch, total_nbytes: int, is_asked: bool
) -> None:
    gpu = HardwareDevice(
        type=DeviceType.GPU, name="GPU", is_discrete=True, memory_nbytes=total_nbytes
    )
    asked: list[Machine] = []

    def with_free_memory(machine: Machine) -> Machine:
        asked.append(machine)
        return replace(machine, hardware=(replace(gpu, free_memory_nbytes=1000),))

    def discover(machine: Machine, *, named: set[str]) -> MachineOffer:
        place = EpDevice(
            ep_name="CUDAExecutionProvider", device=machine.hardware[0], backend="onnxruntime"
        )
        return MachineOffer(machine=machine, ep_devices=(place,))

    machine = Machine(os="linux", hardware=(gpu,))
    monkeypatch.setattr(
        package_selection, "this_machine", lambda *, named: discover(machine, named=named)
    )
    monkeypatch.setattr(package_selection, "discover_ep_devices", discover)
    monkeypatch.setattr(package_selection, "with_free_memory", with_free_memory)

    selection = digits.select()

    assert bool(asked) is is_asked
    code = next(verdict for verdict in selection.verdicts if verdict.variant.name == "cuda").code
    assert code is (ReasonCode.MEMORY_TOO_SMALL if is_asked else ReasonCode.SELECTED)


@pytest.mark.requirement("K12")
def test_a_session_has_the_callers_provider_options(digits: ortpkg.ModelPackage) -> None:
    found = digits.select(
        variant="cpu-fp32", backend="onnxruntime", provider_options={"cpu": {"use_arena": "1"}}
    )
    assert found.provider_options == {"CPUExecutionProvider": {"use_arena": "1"}}
    chosen = digits.best_variant(
        variant="cpu-fp32", backend="onnxruntime", provider_options={"cpu": {"use_arena": "1"}}
    )
    session = chosen.create_session(backend="onnxruntime")
    assert session.get_provider_options()["CPUExecutionProvider"]["use_arena"] == "1"


@pytest.mark.requirement("K09")
def test_options_that_no_device_here_keeps_leave_nothing(digits: ortpkg.ModelPackage) -> None:
    selection = digits.select(
        profile="intel-core-ultra-laptop", provider_options={"device_type": "GPU"}
    )
    assert selection.best is not None
    assert selection.best.variant.name == "openvino-gpu"
    with pytest.raises(UsageError, match="goes by execution providers alone"):
        digits.select(policy="onnxruntime-1.31", provider_options={"device_type": "GPU"})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda package: package.select(frobnicate=1), "ModelPackage.select() got {} 'frobnicate'"),
        (
            lambda package: package.best_variant(trust=True),
            "ModelPackage.best_variant() got {} 'trust'",
        ),
        (
            lambda package: package.best_variants(polcy="x"),
            "ModelPackage.best_variants() got {} 'polcy' (did you mean",
        ),
        (
            lambda package: package.create_session(trust=True),
            "ModelPackage.create_session() got {} 'trust'",
        ),
        (
            lambda package: package.component_models[0].select(x=1),
            "ComponentModel.select() got {} 'x'",
        ),
        (
            lambda package: package.component_models[0].best_variant(x=1),
            "ComponentModel.best_variant() got {} 'x'",
        ),
    ],
)
def test_an_argument_that_there_is_not_is_told_with_the_method_that_was_called(
    digits: ortpkg.ModelPackage, call: Any, said: str
) -> None:
    with pytest.raises(TypeError) as caught:
        call(digits)
    assert str(caught.value).startswith(said.format("an unexpected keyword argument"))


@pytest.mark.requirement("D03")
@pytest.mark.parametrize("of_variant", [True, False])
def test_a_session_of_a_package_takes_graph_transformers_of_the_callers_own(
    digits: ortpkg.ModelPackage, of_variant: bool
) -> None:
    seen = []

    class Recorder:
        name = "recorder"

        def apply(self, graph: Any, _context: Any) -> int:
            seen.append(len(graph))
            return 0

    own = {ortpkg.TransformLevel.LAYOUT: [Recorder()]}
    wishes: Any = {"ep": "cpu", "backend": "embedded"}
    if of_variant:
        session: Any = digits.best_variant(**wishes).create_session(transformers=own)
    else:
        session = digits.create_session(**wishes, transformers=own)
    session.close()
    assert seen


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"backend": 3}, "backend is a text, not '3'"),
        ({"policy": None}, "policy is a text, not 'None'"),
        ({"device": 5}, "device is a text, not '5'"),
        ({"ep": 5}, "ep is a text, or several in a list, not '5'"),
        ({"ep": ["openvino", 5]}, "ep is a text, not '5'"),
        ({"profile": 3}, "a profile is a name, a file or a MachineProfile, not '3'"),
        (
            {"provider_options": {"openvino": 3}},
            "options of 'openvino' are {option: value}, not '3'",
        ),
    ],
)
def test_a_wish_of_another_type_is_told_by_its_name(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        ortpkg.ModelPackage(DIGITS).select(**wish)
