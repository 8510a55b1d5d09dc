"""Wheels with an EP's library for onnxruntime: found as files, tried in a child.

The wheels here are made by the tests; tests/vendors has the real ones.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ortpkg.devices.architecture import host_architecture
from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.devices.machine import Machine
from ortpkg.ep_names import QNN_EP
from ortpkg.errors import ExecutionProviderError
from ortpkg.isolation.backend_probe import ProbeAnswer
from ortpkg.providers import (
    ep_libraries,
    ep_library_factory,
    ep_library_target,
    ep_registry,
    onnxruntime_factory,
)
from ortpkg.providers.ep_libraries import (
    EMULATED_DEVICES_VARIABLE,
    EpLibrary,
    ep_library_of,
    installed_ep_libraries,
)
from ortpkg.providers.ep_library_factory import EpLibraryFactory
from ortpkg.providers.ep_library_target import precision_options
from ortpkg.providers.ep_registry import available_factories, find_factory
from ortpkg.providers.machine_offer import discover_ep_devices
from ortpkg.session import default_providers

pytestmark = [
    pytest.mark.usefixtures("warm_processes"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the wheels that the tests make are Linux wheels"
    ),
]

_CPU = HardwareDevice(type=DeviceType.CPU, name="Host", vendor="Intel", vendor_id=0x8086)
_REPORTED = {
    "type": "cpu",
    "vendor": "Intel",
    "vendor_id": 0x8086,
    "ep_vendor": "Acme",
    "ep_metadata": {"build": "3"},
}
#: Asked before the tests hide what is installed.
_has_onnxruntime = importlib.util.find_spec("onnxruntime") is not None

Install = Callable[..., Path]


@pytest.fixture(autouse=True)
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Install]:
    """Installs a wheel ``(name, version, source of its package, libraries)``.

    Nobody else's is there.
    """
    site = tmp_path / "site"
    site.mkdir()

    def write(name: str, version: str, source: str, *libraries: str) -> Path:
        module = name.replace("-", "_")
        (site / f"{module}-{version}.dist-info").mkdir()
        (site / f"{module}-{version}.dist-info/METADATA").write_text(
            f"Name: {name}\nVersion: {version}\n"
        )
        (site / module).mkdir()
        (site / module / "__init__.py").write_text(source + "\nraise SystemExit('imported')\n")
        for library in libraries:
            (site / module / library).write_bytes(b"no library")
        return site / module

    others = [
        folder
        for folder in sys.path
        if not any(Path(folder or ".").glob("onnxruntime_*-*.dist-info"))
    ]
    monkeypatch.setattr(sys, "path", [str(site), *others])
    _forget()
    yield write
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    installed_ep_libraries.cache_clear()
    onnxruntime_factory.installed_distributions.cache_clear()


def _library(folder: Path, ep_name: str = "AcmeExecutionProvider") -> EpLibrary:
    path = folder / "libonnxruntime_providers_acme.so"
    return EpLibrary(
        ep_name=ep_name, distribution="onnxruntime-ep-acme", version="1.2", path=str(path)
    )


def _answers(monkeypatch: pytest.MonkeyPatch, *answers: ProbeAnswer) -> list[Mapping[str, Any]]:
    """What the child says, one after the other; returns what it was asked."""
    asked: list[Mapping[str, Any]] = []

    def ask(
        function: str, arguments: Mapping[str, Any], *, fingerprint: Mapping[str, object]
    ) -> ProbeAnswer:
        asked.append(
            {"function": function.rpartition(":")[2], **arguments, "fingerprint": fingerprint}
        )
        return answers[min(len(asked), len(answers)) - 1]

    monkeypatch.setattr(ep_library_factory, "ask_backend", ask)
    return asked


def _offers(ep_name: str) -> ProbeAnswer:
    return ProbeAnswer(
        value={"providers": [ep_name], "ep_devices": [{"ep_name": ep_name, **_REPORTED}]}
    )


# --- finding --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "constant", ["EP_NAME = 'AcmeExecutionProvider'", '_EP_NAME: str = "AcmeExecutionProvider"']
)
def test_a_wheel_with_a_library_is_found_without_importing_it(
    install: Install, constant: str
) -> None:
    folder = install(
        "onnxruntime-ep-acme", "1.2", constant, "libonnxruntime_providers_acme.so", "libacme.so"
    )
    assert installed_ep_libraries() == (_library(folder),)
    assert "onnxruntime_ep_acme" not in sys.modules


@pytest.mark.parametrize(
    ("source", "library"),
    [
        ("EP_NAME = 'AcmeExecutionProvider'", "libacme.so"),
        ("EP_NAME = 'AcmeExecutionProvider'", "libonnxruntime_providers_shared.so"),
        ("NAME = compute()", "libonnxruntime_providers_acme.so"),
    ],
)
def test_a_wheel_without_a_providers_library_or_its_name_is_none(
    install: Install, source: str, library: str
) -> None:
    install("onnxruntime-ep-acme", "1.2", source, library)
    assert installed_ep_libraries() == ()


def test_nothing_is_found_where_no_wheel_is_installed() -> None:
    assert installed_ep_libraries() == ()
    assert ep_library_of(QNN_EP) is None


def test_a_wheel_that_only_brings_a_library_is_no_onnxruntime(
    install: Install, tmp_path: Path
) -> None:
    install("onnxruntime-qnn", "2.7.0", f"EP_NAME = '{QNN_EP}'", "libonnxruntime_providers_qnn.so")
    (tmp_path / "site/onnxruntime.py").write_text("")
    assert [found.name for found in onnxruntime_factory.installed_distributions()] == [
        "onnxruntime"
    ]


# --- devices --------------------------------------------------------------------------------------


def test_its_devices_carry_the_wheels_version_and_what_the_library_says(
    install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = _answers(monkeypatch, _offers("AcmeExecutionProvider"))
    offered = EpLibraryFactory(_library(tmp_path)).get_supported_devices([_CPU])
    assert [(each.ep_version, each.backend, each.ep_vendor, each.device) for each in offered] == [
        ("1.2", "onnxruntime", "Acme", _CPU)
    ]
    assert offered[0].ep_metadata == {"build": "3"}
    assert asked[0]["path"] == _library(tmp_path).path


def test_the_answer_is_forgotten_when_the_library_is_replaced_in_place(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install("onnxruntime-ep-acme", "1.2", "", "libonnxruntime_providers_acme.so")
    asked = _answers(monkeypatch, _offers("AcmeExecutionProvider"))
    EpLibraryFactory(_library(folder)).get_supported_devices([_CPU])
    Path(_library(folder).path).write_bytes(b"another library")
    EpLibraryFactory(_library(folder)).get_supported_devices([_CPU])
    assert asked[0]["fingerprint"] != asked[1]["fingerprint"]


def test_its_own_function_rates_a_string_on_its_devices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = _answers(
        monkeypatch, _offers("AcmeExecutionProvider"), ProbeAnswer(value="EP_SUPPORTED_OPTIMAL")
    )
    factory = EpLibraryFactory(_library(tmp_path))
    factory.get_supported_devices([_CPU])
    assert (
        factory.validate_compiled_model_compatibility_info([_CPU], "acme-7")
        == "EP_SUPPORTED_OPTIMAL"
    )
    assert {key: asked[1][key] for key in ("function", "places", "info", "path")} == {
        "function": "rate_compatibility",
        "places": [0],
        "info": "acme-7",
        "path": _library(tmp_path).path,
    }


@pytest.mark.skipif(not _has_onnxruntime, reason="only onnxruntime loads such libraries")
def test_a_file_that_is_no_library_is_refused_in_a_child_and_noted(install: Install) -> None:
    folder = install("onnxruntime-ep-acme", "1.2", "", "libonnxruntime_providers_acme.so")
    with pytest.raises(
        ExecutionProviderError,
        match=r"refuses the library of AcmeExecutionProvider: 'file too short'",
    ):
        EpLibraryFactory(_library(folder)).get_supported_devices([_CPU])


@pytest.mark.parametrize(
    ("named", "is_told"), [((), True), (("acme",), False), (("AcmeExecutionProvider",), True)]
)
def test_a_library_that_offers_nothing_here_says_so_to_whom_it_concerns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: tuple[str, ...], is_told: bool
) -> None:
    _with_onnxruntime(monkeypatch, _library(tmp_path))
    _answers(monkeypatch, ProbeAnswer(value={"providers": [], "ep_devices": []}))
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)), named=named)
    note = "AcmeExecutionProvider (onnxruntime-ep-acme 1.2) offers no device on this machine"
    assert offer.notes == ((note,) if is_told else ())


def test_a_library_that_fails_leaves_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with_onnxruntime(monkeypatch, _library(tmp_path))
    _answers(monkeypatch, ProbeAnswer(failure="it ended by signal 11 (SIGSEGV)"))
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)))
    assert "AcmeExecutionProvider" not in {each.ep_name for each in offer.ep_devices}
    assert "CPUExecutionProvider" in {each.ep_name for each in offer.ep_devices}
    assert (
        "the library behind AcmeExecutionProvider failed: it ended by signal 11 (SIGSEGV)"
        in offer.notes
    )


def test_an_onnxruntime_that_has_the_provider_itself_is_preferred(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with_onnxruntime(monkeypatch, _library(tmp_path), own=("AcmeExecutionProvider",))
    found = available_factories([_CPU])
    assert [type(each) for each in found.factories if each.ep_name == "AcmeExecutionProvider"] == [
        onnxruntime_factory.OnnxRuntimeEpFactory
    ]
    note = (
        "onnxruntime-ep-acme 1.2 is not used: this onnxruntime has an AcmeExecutionProvider of"
        " its own"
    )
    assert note in found.notes
    assert not isinstance(find_factory("AcmeExecutionProvider"), EpLibraryFactory)


def test_a_session_that_names_no_provider_has_none_of_a_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(EMULATED_DEVICES_VARIABLE, "qnn")
    _with_onnxruntime(monkeypatch, _library(tmp_path, QNN_EP))
    monkeypatch.setattr(default_providers, "installed_distributions", lambda: ("onnxruntime",))
    asked = _answers(monkeypatch, _offers(QNN_EP))
    default_providers.supported_ep_names.cache_clear()
    assert QNN_EP not in default_providers.supported_ep_names()
    assert asked == []
    default_providers.supported_ep_names.cache_clear()


def _listed(kind: DeviceType, **metadata: str) -> Any:
    """An EP device of onnxruntime's."""
    device = SimpleNamespace(type=SimpleNamespace(name=kind.upper()), metadata=metadata)
    return SimpleNamespace(ep_metadata={"build": "3"}, device=device)


@pytest.mark.parametrize("wanted", [[0], [1], [1, 0]])
def test_two_devices_of_which_the_library_says_the_same_are_told_apart_by_their_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: list[int]
) -> None:
    library, places = _library(tmp_path), ("0000:01:00.0", "0000:02:00.0")
    listed = [_listed(DeviceType.GPU, pci_bus_id=place) for place in places]
    monkeypatch.setattr(ep_library_target, "register_ep_library", lambda *_: tuple(listed))
    here = [
        HardwareDevice(type=DeviceType.GPU, metadata={"pci_address": place}) for place in places
    ]
    devices = [
        EpDevice(ep_name=library.ep_name, device=here[each], ep_metadata={"build": "3"})
        for each in wanted
    ]

    target = ep_library_target.ep_library_target(None, library, devices)

    assert [listed.index(each) for each in target.ep_devices] == sorted(wanted)


def test_two_devices_that_nothing_tells_apart_are_taken_one_for_each_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library, listed = _library(tmp_path), (_listed(DeviceType.NPU), _listed(DeviceType.NPU))
    monkeypatch.setattr(ep_library_target, "register_ep_library", lambda *_: listed)
    device = EpDevice(
        ep_name=library.ep_name,
        device=HardwareDevice(type=DeviceType.NPU),
        ep_metadata={"build": "3"},
    )

    one = ep_library_target.ep_library_target(None, library, [device])
    both = ep_library_target.ep_library_target(None, library, [device, device])

    assert (len(one.ep_devices), len(both.ep_devices)) == (1, 2)


@pytest.mark.parametrize(
    ("device", "text"),
    [
        (HardwareDevice(type=DeviceType.GPU, name="Arc", architecture="xe"), ("GPU (Arc)", "xe")),
        (HardwareDevice(type=DeviceType.GPU, architecture="xe"), ("GPU", "xe")),
        (
            HardwareDevice(type=DeviceType.CPU, name="Xeon", architecture="old"),
            ("CPU", host_architecture()),
        ),
        (None, ("GPU", "unknown")),
    ],
)
def test_a_context_is_for_the_device_by_its_kind_and_name(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    device: HardwareDevice | None,
    text: tuple[str, str],
) -> None:
    library = _library(tmp_path)
    kind = DeviceType.GPU if device is None else device.type
    there = _listed(kind)
    monkeypatch.setattr(ep_library_target, "register_ep_library", lambda *_: (there, there))
    wanted = EpDevice(
        ep_name=library.ep_name, device=device, backend="onnxruntime", ep_options={"a": "1"}
    )

    target = ep_library_target.ep_library_target(None, library, [wanted])

    assert (target.device, target.architecture) == text
    assert (target.ep_devices, target.options) == ((there,), {"a": "1"})
    alone = ep_library_target.ep_library_target(None, library, [])
    assert (alone.ep_devices, alone.options, alone.device) == ((there,), {}, kind.upper())


# --- emulated devices -----------------------------------------------------------------------------


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EpLibrary:
    """QNN's library with the one that emulates beside it, on a machine where that works."""
    (tmp_path / "libQnnHtp.so").write_bytes(b"")
    monkeypatch.setattr(ep_libraries, "_can_emulate", lambda: True)
    library = _library(tmp_path, QNN_EP)
    _with_onnxruntime(monkeypatch, library)
    _answers(monkeypatch, _offers(QNN_EP))
    monkeypatch.delenv(EMULATED_DEVICES_VARIABLE, raising=False)
    return library


def test_an_emulated_device_is_not_offered_unless_it_is_asked_for_by_name(
    emulator: EpLibrary,
) -> None:
    found = available_factories([_CPU])
    assert QNN_EP not in {each.ep_name for each in found.factories}
    (note,) = found.notes
    assert (
        note == "QNNExecutionProvider (onnxruntime-ep-acme 1.2) has no device of its own here: it"
        " emulates an NPU on the CPU, for development;"
        " ORTPKG_EMULATED_DEVICES=QNNExecutionProvider offers that"
    )
    assert EpLibraryFactory(emulator).get_supported_devices([_CPU]) == []


def test_what_is_said_of_an_emulated_device_is_known_again(
    emulator: EpLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ep_libraries, "installed_ep_libraries", lambda: (emulator,))
    assert ep_libraries.emulation_notes() == set(available_factories([_CPU]).notes)


def test_a_package_that_does_not_name_the_provider_is_told_nothing_of_it(
    emulator: EpLibrary,
) -> None:
    assert available_factories([_CPU], named=["CPUExecutionProvider"]).notes == ()
    assert available_factories([_CPU], named=["qnn"]).notes != ()


def test_an_emulated_device_says_what_it_is(
    emulator: EpLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EMULATED_DEVICES_VARIABLE, "openvino, qnn")
    (offered,) = EpLibraryFactory(emulator).get_supported_devices([_CPU])
    assert offered.device is not None
    assert offered.device.type is DeviceType.NPU
    assert offered.device.name == "Hexagon HTP, emulated on the CPU"
    assert offered.device.source == "emulated by onnxruntime-ep-acme 1.2"
    assert offered.ep_metadata["emulated"] == "on the CPU"
    assert offered.ep_options == {"backend_type": "htp"}


def test_a_session_that_names_the_provider_does_not_get_an_emulated_device_in_silence(
    emulator: EpLibrary,
) -> None:
    with pytest.raises(
        ExecutionProviderError, match="it emulates an NPU on the CPU, for development"
    ):
        find_factory("qnn").create([], {})


def test_on_another_machine_the_same_wheel_emulates_nothing(
    emulator: EpLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ep_libraries, "_can_emulate", lambda: False)
    assert emulator.emulation is None


def test_no_library_rates_its_own_strings_on_a_device_that_it_emulates(
    emulator: EpLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QNN's rates real NPUs only, and fails over the CPU that plays one."""
    monkeypatch.setenv(EMULATED_DEVICES_VARIABLE, "qnn")
    factory = EpLibraryFactory(emulator)
    (offered,) = factory.get_supported_devices([_CPU])
    assert offered.device is not None
    asked = _answers(
        monkeypatch, ProbeAnswer(failure="it raised 'RuntimeError: only supports NPU'")
    )
    assert (
        factory.validate_compiled_model_compatibility_info([offered.device], "v2:6")
        == "EP_NOT_APPLICABLE"
    )
    assert asked == []


# --- precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ep_name", "options", "added"),
    [
        ("OpenVINOExecutionProvider", {}, True),
        ("OpenVINOExecutionProvider", {"precision": "fp32"}, True),
        ("OpenVINOExecutionProvider", {"precision": "FP16"}, False),
        ("OpenVINOExecutionProvider", {"load_config": "{}"}, False),
        (QNN_EP, {}, False),
    ],
)
def test_openvinos_library_is_asked_for_float32_unless_the_options_say_otherwise(
    ep_name: str, options: dict[str, str], added: bool
) -> None:
    assert ("load_config" in precision_options(ep_name, options)) is added


def _with_onnxruntime(
    monkeypatch: pytest.MonkeyPatch, library: EpLibrary, own: tuple[str, ...] = ()
) -> None:
    """An installed onnxruntime with providers of its ``own``, and with that library."""
    names = ("CPUExecutionProvider", *own)
    monkeypatch.setattr(ep_registry, "installed_distributions", lambda: ("onnxruntime",))
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: names)
    monkeypatch.setattr(ep_registry, "installed_ep_libraries", lambda: (library,))
    monkeypatch.setattr(
        ep_registry, "ep_library_of", lambda name: library if name == library.ep_name else None
    )
    monkeypatch.setattr(
        onnxruntime_factory.OnnxRuntimeEpFactory,
        "get_supported_devices",
        _reported_of(onnxruntime_factory.OnnxRuntimeEpFactory.get_supported_devices),
    )


def _reported_of(original: Any) -> Any:
    """Only libraries are asked, by their children; onnxruntime itself offers nothing here."""

    def get(self: Any, hardware: Any) -> Any:
        return original(self, hardware) if isinstance(self, EpLibraryFactory) else []

    return get
