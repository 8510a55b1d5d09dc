"""Devices that are not here and that a library compiles for: listed, named, rated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ortpkg.foundations.documents.json_documents import dump_document
from ortpkg.foundations.errors import ExecutionProviderError, NoSuitableVariantError, UsageError
from ortpkg.foundations.isolation import backend_probe
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer, doubting_refusals
from ortpkg.foundations.isolation.child import ChildOutcome, ChildResult
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.profiles import make_profile, profile_to_json
from ortpkg.runtime.providers import absent_devices, onnxruntime_probe
from ortpkg.runtime.providers.absent_devices import absent_device_text, find_absent_device
from ortpkg.runtime.providers.ep_discovery.ep_libraries import EpLibrary
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.ep_library_factory import EpLibraryFactory
from ortpkg.runtime.providers.ep_library_target import ep_library_target

_ACME = "AcmeExecutionProvider"
_NEW, _OLD = 0x0B02, 0x0B01


def _entry(device_id: int, platform: str, **facts: Any) -> dict[str, Any]:
    return {
        "ep_name": _ACME,
        "type": "npu",
        "vendor": "Acme",
        "vendor_id": 0x1234,
        "device_id": device_id,
        "metadata": {"is_virtual": "1"},
        "ep_metadata": {"platform": platform, "version": "1.2"},
        "ep_options": {"target": platform},
        **facts,
    }


_HERE = _entry(0x0B00, "0", metadata={})


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EpLibrary:
    path = tmp_path / "libonnxruntime_providers_acme.so"
    path.touch()
    acme = EpLibrary(
        ep_name=_ACME, distribution="onnxruntime-ep-acme", version="1.2", path=str(path)
    )
    monkeypatch.setattr(
        absent_devices, "ep_library_of", lambda name: acme if name == _ACME else None
    )
    return acme


def _answer(monkeypatch: pytest.MonkeyPatch, value: Any, rating: str = "") -> list[Any]:
    asked: list[Any] = []

    def ask(
        function: str, arguments: Mapping[str, Any], *, fingerprint: Mapping[str, object], **_: Any
    ) -> ProbeAnswer:
        asked.append((function.partition(":")[2], arguments, fingerprint))
        return ProbeAnswer(value=rating if "rate" in function else value)

    monkeypatch.setattr(absent_devices, "ask_backend", ask)
    return asked


@pytest.fixture
def offers(library: EpLibrary, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return _answer(monkeypatch, [_HERE, _entry(_OLD, "3"), _entry(_NEW, "4")])


@pytest.mark.usefixtures("offers")
@pytest.mark.parametrize("wanted", ["npu,platform=4", "platform=4", "NPU, device_id=1234:0b02"])
def test_a_device_is_named_by_its_kind_and_facts(wanted: str) -> None:
    ep_device = find_absent_device(_ACME, wanted)

    assert ep_device.device is not None
    assert (ep_device.device.device_id, ep_device.device.is_absent) == (_NEW, True)
    assert (ep_device.ep_version, ep_device.ep_options) == ("1.2", {"target": "4"})
    assert absent_device_text(ep_device) == "npu,platform=4,device_id=1234:0b02"


@pytest.mark.usefixtures("offers")
def test_it_may_be_the_device_of_a_profile(tmp_path: Path) -> None:
    real = HardwareDevice(type=DeviceType.NPU, vendor_id=0x1234, device_id=_OLD)
    profile = make_profile(
        "target",
        Machine(os="linux", hardware=(real,)),
        (EpDevice(ep_name=_ACME, device=real, backend="onnxruntime"),),
        software={},
    )
    path = tmp_path / "target.json"
    path.write_bytes(dump_document(profile_to_json(profile)))

    ep_device = find_absent_device(_ACME, str(path))

    assert ep_device.device is not None
    assert ep_device.device.device_id == _OLD


@pytest.mark.usefixtures("offers")
@pytest.mark.parametrize(
    ("ep", "wanted", "error", "message"),
    [
        (
            _ACME,
            "npu",
            UsageError,
            (
                f"'npu' may be several devices of {_ACME}; name one of:"
                " npu,platform=3,device_id=1234:0b01; npu,platform=4,device_id=1234:0b02"
            ),
        ),
        (
            _ACME,
            "gpu",
            NoSuitableVariantError,
            (
                f"{_ACME} (onnxruntime-ep-acme 1.2) compiles for no 'gpu'; it does for:"
                " npu,platform=3,device_id=1234:0b01; npu,platform=4,device_id=1234:0b02"
            ),
        ),
        (
            _ACME,
            "tpu",
            UsageError,
            "'tpu' is no kind of device (cpu, gpu, npu), no KEY=VALUE and no machine profile",
        ),
        (
            "cpu",
            "npu",
            NoSuitableVariantError,
            (
                "CPUExecutionProvider compiles for no device that is not here: no library of it for"
                " onnxruntime is installed"
            ),
        ),
    ],
)
def test_what_cannot_be_compiled_for_is_said_with_what_can(
    ep: str, wanted: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        find_absent_device(ep, wanted)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [[], None, [1, {"type": "tpu"}], [_HERE], "x"])
def test_a_library_that_lists_none_compiles_for_this_machine_alone(
    value: Any, library: EpLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answer(monkeypatch, value)

    with pytest.raises(NoSuitableVariantError, match="compiles for devices of this machine alone"):
        find_absent_device(_ACME, "npu")


def test_a_string_is_rated_for_another_machines_device_by_the_library(
    library: EpLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _answer(monkeypatch, [_entry(_OLD, "3"), _entry(_NEW, "4")], "EP_SUPPORTED_OPTIMAL")
    factory = EpLibraryFactory(library)
    there = HardwareDevice(type=DeviceType.NPU, vendor_id=0x1234, device_id=_NEW)

    rating = factory.validate_compiled_model_compatibility_info([there], "for 4")

    assert rating is CompiledModelCompatibility.OPTIMAL
    name, arguments, _ = asked[-1]
    assert (name, arguments["index"], arguments["info"]) == ("rate_for_absent_device", 1, "for 4")
    unknown = HardwareDevice(type=DeviceType.NPU, vendor_id=0x1234, device_id=0x0B99)
    assert (
        factory.validate_compiled_model_compatibility_info([unknown], "for 4")
        is CompiledModelCompatibility.UNKNOWN
    )


class _Runtime:
    """An onnxruntime that lists devices that are not here under a name that allows it."""

    __version__ = "1.32.0"

    def __init__(self, path: str) -> None:
        self._path = path
        self.registered: list[str] = []

    def register_execution_provider_library(self, name: str, _path: str) -> None:
        self.registered.append(name)

    def get_ep_devices(self) -> list[Any]:
        if not self.registered:
            return []
        entries = [_HERE]
        if self.registered[-1].endswith(".virtual"):
            entries += [_entry(_OLD, "3"), _entry(_NEW, "4")]
        return [self._listed(entry) for entry in entries]

    def _listed(self, entry: Mapping[str, Any]) -> Any:
        device = SimpleNamespace(
            type=SimpleNamespace(name="NPU"),
            vendor="Acme",
            vendor_id=0x1234,
            device_id=entry["device_id"],
            metadata=entry["metadata"],
        )
        metadata = {**entry["ep_metadata"], "library_path": self._path}
        return SimpleNamespace(
            ep_name=_ACME, ep_vendor="Acme", device=device, ep_metadata=metadata, ep_options={}
        )


def test_the_probe_registers_it_under_a_name_that_allows_such_devices(
    library: EpLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = _Runtime(library.path)
    monkeypatch.setattr(onnxruntime_probe, "load_onnxruntime", lambda: runtime)

    listed = onnxruntime_probe.list_absent_devices(_ACME, library.path)
    assert isinstance(listed, list)

    assert runtime.registered == [f"{_ACME}.virtual"]
    assert [entry["device_id"] for entry in listed] == [_OLD, _NEW]


@pytest.mark.usefixtures("offers")
def test_a_compiler_gets_exactly_the_device_that_was_named(library: EpLibrary) -> None:
    runtime = _Runtime(library.path)
    ep_device = find_absent_device(_ACME, "platform=4")

    target = ep_library_target(runtime, library, [ep_device])

    assert [offered.device.device_id for offered in target.ep_devices] == [_NEW]
    assert target.options == {"target": "4"}
    assert runtime.registered == [f"{_ACME}.virtual"]
    own = _Runtime(library.path)
    ep_library_target(own, library, [])
    assert own.registered == [_ACME]


def test_a_refusal_is_remembered_until_devices_are_looked_at(
    library: EpLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    refused = ChildResult(outcome=ChildOutcome.DONE, value={"refused": "libx.so: No such file"})
    calls: list[str] = []

    def ask(function: str, *_: Any, **__: Any) -> ChildResult:
        calls.append(function)
        return refused

    monkeypatch.setattr("ortpkg.foundations.isolation.child.call_in_child", ask)

    def calls_of_a_process() -> int:
        calls.clear()
        monkeypatch.setattr(backend_probe, "_ANSWERS", {})
        with pytest.raises(ExecutionProviderError, match=r"libx\.so"):
            absent_devices.absent_devices(library)
        return len(calls)

    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    with doubting_refusals():  # whoever looks asks another question, or nothing of this library
        pass
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]


@pytest.mark.usefixtures("library")
def test_a_library_that_is_refused_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "onnxruntime 1 refuses it: libcuda.so.1: No such file or directory"
    _answer(monkeypatch, {"refused": said})
    with pytest.raises(ExecutionProviderError) as raised:
        find_absent_device(_ACME, "npu")
    assert str(raised.value) == (
        f"{_ACME} (onnxruntime-ep-acme 1.2) cannot be used here: {said}; install what is missing;"
        " ortpkg devices asks it again"
    )
