"""Machine profiles: what is written is read back; for others it is said what would be right."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import ExitCode, ProfileError
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.profile_document import parse_profile_document
from ortpkg.machine.profiles import (
    BUILT_IN_PROFILES,
    MachineProfile,
    make_profile,
    profile_from_json,
    profile_to_json,
    read_profile,
)

_CPU = HardwareDevice(
    type=DeviceType.CPU, name="CPU", source="procfs", memory_nbytes=64, free_memory_nbytes=32
)
_GPU = HardwareDevice(type=DeviceType.GPU, name="Arc", vendor_id=0x8086, source="sysfs")


def _document(**changes: Any) -> dict[str, Any]:
    machine = {"os": "linux", "hardware": [{"type": "cpu"}]}
    return {
        "schema_version": "1.0",
        "kind": "machine_profile",
        "name": "mine",
        "machine": machine,
        **changes,
    }


def _parsed(data: bytes) -> MachineProfile:
    return profile_from_json(parse_profile_document(data, "m.json"), "m.json")


def _refused(document: Any) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        _parsed(json.dumps(document).encode())
    return caught.value


@pytest.mark.parametrize("name", BUILT_IN_PROFILES)
def test_a_built_in_profile_says_that_it_is_constructed_and_is_read_back_as_it_is_written(
    name: str,
) -> None:
    profile = read_profile(name)

    again = _parsed(json.dumps(profile_to_json(profile)).encode())

    assert again == profile
    assert (profile.name, profile.constructed) == (name, True)
    assert profile.description.startswith("Constructed from public documentation")
    assert {device.source for device in profile.machine.hardware} == {"public documentation"}
    assert profile.ep_devices
    assert profile.ep_devices[-1].ep_name == "CPUExecutionProvider"


def test_every_built_in_profile_has_its_file_and_every_file_its_name() -> None:
    import ortpkg.machine

    folder = Path(ortpkg.devices.__path__[0]) / "built_in_profiles"

    assert sorted(path.stem for path in folder.iterdir()) == sorted(BUILT_IN_PROFILES)


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("snapdragon-x-laptop", {("QNNExecutionProvider", "npu"), ("QNNExecutionProvider", "gpu")}),
        (
            "intel-core-ultra-laptop",
            {("OpenVINOExecutionProvider", kind) for kind in ("cpu", "gpu", "npu")},
        ),
        ("rtx-workstation", {("CUDAExecutionProvider", None), ("TensorrtExecutionProvider", None)}),
        ("plain-server", {("OpenVINOExecutionProvider", "cpu")}),
    ],
)
def test_the_built_in_profiles_have_the_eps_that_such_machines_have(
    name: str, devices: set[tuple[str, str | None]]
) -> None:
    offered = {
        (each.ep_name, each.device and each.device.type.value)
        for each in read_profile(name).ep_devices
    }

    assert devices <= offered


def test_a_profile_of_a_probed_machine_is_read_back_with_what_backends_told(tmp_path: Path) -> None:
    told = HardwareDevice(
        type=DeviceType.GPU, name="Arc", vendor_id=0x8086, is_discrete=True, source="openvino"
    )
    foreign = HardwareDevice(type=DeviceType.NPU, name="NPU", source="openvino")
    offered = [
        EpDevice(ep_name="OpenVINOExecutionProvider", device=each, backend="openvino")
        for each in (_CPU, told, foreign)
    ]

    profile = make_profile(
        "here", Machine(os="linux", hardware=(_CPU, _GPU)), offered, software={"openvino": "1"}
    )
    file = tmp_path / "m.json"
    file.write_text(json.dumps(profile_to_json(profile)), encoding="utf-8")
    again = read_profile(file)

    cpu, gpu, npu = again.machine.hardware
    assert again == profile
    assert again.constructed is False
    assert (cpu.free_memory_nbytes, npu.name) == (32, "NPU")
    assert (gpu.is_discrete, gpu.source, gpu.source_of("is_discrete")) == (
        True,
        "sysfs",
        "openvino",
    )
    assert [each.device for each in again.ep_devices] == [cpu, gpu, npu]


def test_an_alias_of_an_ep_is_understood_and_a_typo_is_noted() -> None:
    entries = [{"ep": "qnn", "device": None}, {"ep": "QNNExecutionProvder", "device": 0}]

    profile = _parsed(json.dumps(_document(ep_devices=entries)).encode())

    assert [each.ep_name for each in profile.ep_devices] == [
        "QNNExecutionProvider",
        "QNNExecutionProvder",
    ]
    assert profile.machine.notes == (
        "/ep_devices/1/ep: 'QNNExecutionProvder' (did you mean 'QNNExecutionProvider'?)",
    )


def test_a_name_that_is_neither_a_profile_nor_a_file_suggests_one() -> None:
    with pytest.raises(
        ProfileError, match=r"no machine profile 'plain-sever' \(did you mean 'plain-server'\?\)"
    ) as it:
        read_profile("plain-sever")

    assert it.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("document", "pointer", "message"),
    [
        ([], "", "is not a JSON object"),
        (
            {"kind": "devices"},
            "/kind",
            "is the output of `ortpkg devices --json`; `ortpkg devices --export FILE`",
        ),
        ({"schema_version": "2.0"}, "/schema_version", "made by a newer ortpkg"),
        (_document(kind="machine"), "/kind", 'must be "machine_profile"'),
        (
            _document(machine={"os": "linux", "hardware": []}),
            "/machine/hardware",
            "a list of devices, at least one",
        ),
        (
            _document(machine={"os": "linux", "hardware": [{"type": "tpu"}]}),
            "/machine/hardware/0/type",
            'must be "cpu", "gpu" or "npu"',
        ),
        (
            _document(machine={"os": "linux", "hardware": [{"type": "cpu", "memory_nbytes": -1}]}),
            "/machine/hardware/0/memory_nbytes",
            "must be a number of bytes, or null where unknown",
        ),
        (
            _document(machine={"os": "linux", "hardware": [{"type": "cpu", "memory": 3}]}),
            "/machine/hardware/0/memory",
            "key 'memory' is not known",
        ),
        (
            _document(machines=1),
            "/machines",
            "key 'machines' is not known (did you mean 'machine'?)",
        ),
        (_document(software={"openvino": 1}), "/software/openvino", "must be a version"),
        (
            _document(ep_devices=[{"ep": "cpu", "device": 1}]),
            "/ep_devices/0/device",
            "0 to 0, or null",
        ),
        ({"model_name": "m"}, "", "schema_version"),
    ],
)
def test_what_is_no_profile_is_told_its_place_and_what_would_be_right(
    document: Any, pointer: str, message: str
) -> None:
    error = _refused(document)

    assert message in str(error)
    assert "m.json" in str(error)
    assert (error.file, error.pointer) == ("m.json", pointer)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "is not UTF-8 text: byte 0 is not valid"),
        (b"[" * 100_000, "is nested deeper than 32 levels"),
        (b'{"a": 1, "a": 2}', "key 'a' occurs more than once"),
        (b'{"a": NaN}', "number 'NaN' is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "has more than 64 characters"),
        (b" " * (1 << 20) + b"{}", "is larger than 1048576 bytes"),
        (b'{"\x1b[31m": 1}', "is not valid JSON"),
    ],
)
def test_a_file_that_is_no_document_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        _parsed(data)

    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)


_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, 10**40, "", "x", "\x1b", [], {}, [{}], {"a": 1}]
).map(copy.deepcopy)  # what is put in one place must not grow in another


def _places(value: Any) -> list[tuple[Any, Any]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [place for key, inner in items for place in ((value, key), *_places(inner))]


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_profile_is_read_or_refused_and_never_anything_else(data: st.DataObject) -> None:
    document = profile_to_json(read_profile(data.draw(st.sampled_from(BUILT_IN_PROFILES))))
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(_places(document)))
        if isinstance(container, dict) and data.draw(st.booleans()):
            container.pop(key, None)
        elif isinstance(container, dict) or key < len(container):
            container[key] = data.draw(_ODD)
        if not _places(document):
            break
    try:
        profile = _parsed(json.dumps(document).encode())
    except ProfileError as error:
        message = str(error)
    else:
        message = "m.json"
        assert _parsed(json.dumps(profile_to_json(profile)).encode()) == profile
    assert "m.json" in message
    assert "\x1b" not in message


def test_a_directory_and_a_pipe_are_no_profiles(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="is not a regular file"):
        read_profile(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ProfileError, match="is not a regular file"):
            read_profile(tmp_path / "pipe")


def test_a_built_in_name_is_a_file_where_it_is_written_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain-server").write_text(json.dumps(_document()), encoding="utf-8")

    assert read_profile("./plain-server") == MachineProfile(
        name="mine",
        machine=Machine(os="linux", hardware=(HardwareDevice(type=DeviceType.CPU),)),
    )
    assert read_profile("plain-server").name == "plain-server"
