"""Libraries of EPs for onnxruntime: their devices, asked for in a child.

How they are found is in ep_discovery/; tests/vendors has the real ones.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ortpkg
from ortpkg.foundations.ep_names import QNN_EP
from ortpkg.foundations.errors import ExecutionProviderError, NoSuitableVariantError, UsageError
from ortpkg.foundations.isolation import backend_probe
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer, RefusalRules, doubting_refusals
from ortpkg.foundations.isolation.child import ChildOutcome, ChildResult, call_in_child
from ortpkg.machine.architecture import host_architecture
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.runtime.providers import (
    ep_library_factory,
    ep_library_target,
    ep_registry,
    onnxruntime_factory,
    onnxruntime_probe,
)
from ortpkg.runtime.providers.ep_discovery import ep_libraries, library_refusals
from ortpkg.runtime.providers.ep_discovery.ep_candidate import EpPackage
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    EMULATED_DEVICES_VARIABLE,
    EpLibrary,
)
from ortpkg.runtime.providers.ep_discovery.registered_ep_library import (
    register_ep_library,
    registered_devices,
)
from ortpkg.runtime.providers.ep_library_factory import EpLibraryFactory
from ortpkg.runtime.providers.ep_library_target import precision_options
from ortpkg.runtime.providers.ep_registry import available_factories, find_factory
from ortpkg.runtime.providers.installed_metadata import InstalledRecord
from ortpkg.runtime.providers.machine_offer import discover_ep_devices
from ortpkg.runtime.session import default_providers
from ortpkg.runtime.session.compile_models import find_ep_device
from tests.providers.fake_wheels import forget_installed

pytestmark = [
    pytest.mark.usefixtures("warm_processes"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the wheels that the tests make are Linux wheels"
    ),
]

_DIGITS = Path(__file__).parents[2] / "sample_packages/digits.ortpackage"
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


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Nobody has looked for libraries before."""
    forget_installed()
    yield
    forget_installed()


def _library(folder: Path, ep_name: str = "AcmeExecutionProvider") -> EpLibrary:
    path = folder / "libonnxruntime_providers_acme.so"
    return EpLibrary(
        ep_name=ep_name, distribution="onnxruntime-ep-acme", version="1.2", path=str(path)
    )


def _answers(monkeypatch: pytest.MonkeyPatch, *answers: ProbeAnswer) -> list[Mapping[str, Any]]:
    """What the child says, one after the other; returns what it was asked."""
    asked: list[Mapping[str, Any]] = []

    def ask(
        function: str,
        arguments: Mapping[str, Any],
        *,
        fingerprint: Mapping[str, object],
        refusals: RefusalRules | None = None,
    ) -> ProbeAnswer:
        assert (refusals is None) is (not function.endswith("list_library_offers"))
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


# --- devices --------------------------------------------------------------------------------------


def test_its_devices_carry_the_wheels_version_and_what_the_library_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = _answers(monkeypatch, _offers("AcmeExecutionProvider"))
    offered = EpLibraryFactory(_library(tmp_path)).get_supported_devices([_CPU])
    assert [(each.ep_version, each.backend, each.ep_vendor, each.device) for each in offered] == [
        ("1.2", "onnxruntime", "Acme", _CPU)
    ]
    assert offered[0].ep_metadata == {"build": "3"}
    assert asked[0]["path"] == _library(tmp_path).path


def test_the_answer_is_forgotten_when_the_library_is_replaced_in_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = _library(tmp_path)
    Path(library.path).write_bytes(b"a library")
    asked = _answers(monkeypatch, _offers("AcmeExecutionProvider"))
    EpLibraryFactory(library).get_supported_devices([_CPU])
    Path(library.path).write_bytes(b"another library")
    EpLibraryFactory(library).get_supported_devices([_CPU])
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
    assert {key: asked[1][key] for key in ("function", "positions", "info", "path")} == {
        "function": "rate_compatibility",
        "positions": [0],
        "info": "acme-7",
        "path": _library(tmp_path).path,
    }


@pytest.mark.skipif(not _has_onnxruntime, reason="only onnxruntime loads such libraries")
def test_a_file_that_is_no_library_is_refused_in_a_child_and_noted(tmp_path: Path) -> None:
    library = _library(tmp_path)
    Path(library.path).write_bytes(b"no library")
    with pytest.raises(
        ExecutionProviderError,
        match=r"^AcmeExecutionProvider \(onnxruntime-ep-acme 1.2\) cannot be used here: onnxruntime"
        r" \S+ refuses it: file too short; the file is damaged, or for another system: install its"
        r" wheel again; ortpkg devices asks it again$",
    ):
        EpLibraryFactory(library).get_supported_devices([_CPU])


@pytest.mark.skipif(not _has_onnxruntime, reason="only onnxruntime loads such libraries")
def test_a_refusal_is_remembered_until_something_changes_that_it_depends_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    searched, ld_cache = tmp_path / "searched", tmp_path / "ld.so.cache"
    searched.mkdir()
    monkeypatch.setattr(library_refusals, "_CACHE", str(ld_cache))
    library = _library(tmp_path)
    Path(library.path).write_bytes(b"no library")
    calls: list[str] = []

    def count(function: str, arguments: Any, *, timeout_s: float) -> ChildResult:
        calls.append(function)
        return call_in_child(function, arguments, timeout_s=timeout_s)

    monkeypatch.setattr("ortpkg.foundations.isolation.child.call_in_child", count)

    def calls_of_a_process() -> int:
        calls.clear()
        monkeypatch.setattr(backend_probe, "_ANSWERS", {})
        with pytest.raises(ExecutionProviderError, match="cannot be used here: onnxruntime"):
            EpLibraryFactory(library).get_supported_devices([_CPU])
        return len(calls)

    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    ld_cache.write_bytes(b"a driver's library")
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(searched))
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    (searched / "libdriver.so.1").touch()
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    records = (InstalledRecord("driver", "1", "/site", "driver-1.dist-info", 1),)
    monkeypatch.setattr(library_refusals, "recorded_distributions", lambda: records)
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    Path(library.path).write_bytes(b"another file")
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    monkeypatch.setattr(library_refusals, "probe", lambda: Machine(os="linux", hardware=(_CPU,)))
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    with doubting_refusals():
        assert calls_of_a_process() == 1
    monkeypatch.setenv("ORTPKG_PROBE_AGAIN", "1")
    assert calls_of_a_process() == 1


@pytest.mark.parametrize(
    ("said", "is_remembered"),
    [
        ("libcuda.so.1: cannot open shared object file", True),
        ("failed to map segment: Cannot allocate memory", False),
    ],
)
def test_a_refusal_for_want_of_memory_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, is_remembered: bool
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    answers = [
        ChildResult(outcome=ChildOutcome.DONE, value={"version": "1", "refused": said}),
        ChildResult(outcome=ChildOutcome.DONE, value=_offers("AcmeExecutionProvider").value),
    ]
    monkeypatch.setattr(
        "ortpkg.foundations.isolation.child.call_in_child", lambda *_, **__: answers.pop(0)
    )
    factory = EpLibraryFactory(_library(tmp_path))
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})
    with pytest.raises(ExecutionProviderError, match="cannot be used here"):
        factory.get_supported_devices([_CPU])
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})
    if is_remembered:
        with pytest.raises(ExecutionProviderError, match=r"libcuda\.so\.1"):
            factory.get_supported_devices([_CPU])
        with doubting_refusals():
            assert factory.get_supported_devices([_CPU])
    else:
        assert factory.get_supported_devices([_CPU])
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})
    assert factory.get_supported_devices([_CPU])


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


def test_a_refused_library_with_several_eps_is_one_note(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = _library(tmp_path)._replace(siblings=("acme-2",))
    second = first._replace(ep_name="acme-2", siblings=(first.ep_name,))
    _with_onnxruntime(monkeypatch, first)
    monkeypatch.setattr(ep_registry, "installed_ep_libraries", lambda: (first, second))
    _answers(monkeypatch, ProbeAnswer(value={"refused": "libx.so: No such file"}))
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)))
    (note,) = [note for note in offer.notes if "onnxruntime-ep-acme" in note]
    assert note == (
        "AcmeExecutionProvider, acme-2 (onnxruntime-ep-acme 1.2) cannot be used here: libx.so: No"
        " such file; install what is missing; ortpkg devices asks it again"
    )


def test_compiling_for_a_library_that_offers_nothing_here_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with_onnxruntime(monkeypatch, _library(tmp_path))
    _answers(monkeypatch, ProbeAnswer(value={"providers": [], "ep_devices": []}))
    note = r"^AcmeExecutionProvider \(onnxruntime-ep-acme 1.2\) offers no device on this machine$"
    with pytest.raises(NoSuitableVariantError, match=note):
        find_ep_device("AcmeExecutionProvider", None)


def test_compiling_for_an_emulated_device_says_how_to_ask_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libQnnHtp.so").touch()
    _with_onnxruntime(monkeypatch, _library(tmp_path, QNN_EP))
    _answers(monkeypatch, _offers(QNN_EP))
    monkeypatch.setattr(ep_libraries, "_can_emulate", lambda: True)
    with pytest.raises(NoSuitableVariantError, match=EMULATED_DEVICES_VARIABLE):
        find_ep_device("qnn", "npu")


def test_a_library_that_fails_leaves_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with_onnxruntime(monkeypatch, _library(tmp_path))
    _answers(monkeypatch, ProbeAnswer(failure="it ended by signal 11 (SIGSEGV)"))
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)))
    assert "AcmeExecutionProvider" not in {each.ep_name for each in offer.ep_devices}
    assert "CPUExecutionProvider" in {each.ep_name for each in offer.ep_devices}
    assert (
        "the library behind AcmeExecutionProvider (onnxruntime-ep-acme 1.2) failed: it ended by"
        " signal 11 (SIGSEGV)" in offer.notes
    )


def test_an_onnxruntime_that_has_the_provider_itself_is_preferred(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with_onnxruntime(monkeypatch, _library(tmp_path), own=("AcmeExecutionProvider",))
    found = available_factories([_CPU])
    assert [type(each) for each in found.factories if each.ep_name == "AcmeExecutionProvider"] == [
        onnxruntime_factory.OnnxRuntimeEpFactory
    ]
    note = "onnxruntime-ep-acme 1.2 is not used: this onnxruntime has its own AcmeExecutionProvider"
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
    monkeypatch.setattr(ep_library_target, "register_ep_library", lambda *_, **__: tuple(listed))
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
    monkeypatch.setattr(ep_library_target, "register_ep_library", lambda *_, **__: listed)
    device = EpDevice(
        ep_name=library.ep_name,
        device=HardwareDevice(type=DeviceType.NPU),
        ep_metadata={"build": "3"},
    )

    one = ep_library_target.ep_library_target(None, library, [device])
    both = ep_library_target.ep_library_target(None, library, [device, device])

    assert (len(one.ep_devices), len(both.ep_devices)) == (1, 2)


@pytest.mark.parametrize(
    ("listed", "offer"), [((), "no device"), ((_listed(DeviceType.CPU),), "no such device")]
)
def test_a_device_that_is_not_offered_is_told_apart_from_none_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listed: tuple[Any, ...], offer: str
) -> None:
    monkeypatch.setattr(ep_library_target, "register_ep_library", lambda *_, **__: listed)
    library = _library(tmp_path)
    wanted = EpDevice(ep_name=library.ep_name, device=HardwareDevice(type=DeviceType.GPU))
    with pytest.raises(ExecutionProviderError, match=f"1.2\\) offers {offer} on this machine$"):
        ep_library_target.ep_library_target(None, library, [wanted])


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
    monkeypatch.setattr(ep_library_target, "register_ep_library", lambda *_, **__: (there, there))
    wanted = EpDevice(
        ep_name=library.ep_name, device=device, backend="onnxruntime", ep_options={"a": "1"}
    )

    target = ep_library_target.ep_library_target(None, library, [wanted])

    assert (target.device, target.architecture) == text
    assert (target.ep_devices, target.options) == ((there,), {"a": "1"})
    alone = ep_library_target.ep_library_target(None, library, [])
    assert (alone.ep_devices, alone.options, alone.device) == ((there,), {}, kind.upper())


# --- preparing the library --------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path) -> Iterator[EpPackage]:
    """A wheel's package, which is not loaded yet."""
    folder = tmp_path / "acme_prepares"
    folder.mkdir()
    yield EpPackage("acme_prepares", str(folder))
    sys.modules.pop("acme_prepares", None)


def test_the_wheels_package_prepares_the_library_before_it_is_registered(
    package: EpPackage,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = "import acme_prepares, os\nprint('hello')\nopen(os.path.join(os.path.dirname(__file__), 'link'), 'w')"
    Path(package.folder, "__init__.py").write_text(source)
    seen: list[Any] = []

    def register(
        _onnxruntime: Any, name: str, path: str, siblings: Any, **_: object
    ) -> tuple[Any, ...]:
        seen.append((name, path, siblings, Path(package.folder, "link").exists()))
        return (_listed(DeviceType.CPU),)

    monkeypatch.setattr(ep_library_target, "register_ep_library", register)
    library = _library(tmp_path)._replace(package=package, siblings=("other",))
    ep_library_target.ep_library_target(None, library, [])
    assert seen == [(library.ep_name, library.path, ("other",), True)]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("source", ["1 / 0", "raise SystemExit(0)", "import no_such_module"])
def test_a_package_that_fails_to_prepare_is_an_error_of_its_execution_provider(
    package: EpPackage, tmp_path: Path, source: str
) -> None:
    Path(package.folder, "__init__.py").write_text(source)
    library = _library(tmp_path)._replace(package=package)
    with pytest.raises(
        ExecutionProviderError, match="AcmeExecutionProvider failed to prepare its library: "
    ):
        ep_library_target.ep_library_target(None, library, [])
    assert package.module not in sys.modules


def test_the_devices_of_a_siblings_are_not_taken_for_those_of_one_that_has_none() -> None:
    def listed(name: str) -> Any:
        return SimpleNamespace(ep_name=name, ep_metadata={"library_path": __file__})

    onnxruntime = SimpleNamespace(get_ep_devices=lambda: [listed("acme-1"), listed("acme-1.AUTO")])
    assert register_ep_library(onnxruntime, "acme-2", __file__, ("acme-1",)) == ()
    names = [
        ep_device.ep_name for ep_device in register_ep_library(onnxruntime, "acme-2", __file__)
    ]
    assert names == ["acme-1"]  # the program has registered it so


class _OldOnnxRuntime:
    """Onnxruntime 1.23: its EP devices do not say which library they are of."""

    __version__ = "1.23.2"

    def __init__(self, refusal: str = "") -> None:
        self.listed = [SimpleNamespace(ep_name="CPUExecutionProvider", ep_metadata={})]
        self._refusal = refusal

    def get_ep_devices(self) -> list[Any]:
        return self.listed

    def register_execution_provider_library(self, name: str, path: str) -> None:
        if self._refusal:
            raise RuntimeError(self._refusal)
        if any(listed.ep_name == name for listed in self.listed):
            raise RuntimeError(f"library {path} is already registered")
        names = (name, f"{name}.AUTO")
        self.listed += [SimpleNamespace(ep_name=ep_name, ep_metadata={}) for ep_name in names]


def test_an_onnxruntime_that_does_not_say_whose_a_device_is_takes_libraries(
    tmp_path: Path,
) -> None:
    onnxruntime, path = _OldOnnxRuntime(), str(tmp_path / "acme.so")
    for _ in range(2):
        devices = register_ep_library(onnxruntime, "acme", path)
        assert [device.ep_name for device in devices] == ["acme"]
    assert registered_devices(onnxruntime, str(tmp_path / "other.so")) == []


def test_a_library_that_the_program_registered_is_known_by_its_name_there(tmp_path: Path) -> None:
    onnxruntime = _OldOnnxRuntime()
    onnxruntime.register_execution_provider_library("acme", "acme.so")
    devices = register_ep_library(onnxruntime, "acme", str(tmp_path / "acme.so"))
    assert [device.ep_name for device in devices] == ["acme"]


@pytest.mark.parametrize(
    ("onnxruntime", "reason"),
    [
        (
            _OldOnnxRuntime("[ONNXRuntimeError] : 1 : FAIL : ORT 1.23.2 is below 1.24.4."),
            "onnxruntime 1.23.2 refuses it: ORT 1.23.2 is below 1.24.4",
        ),
        (
            SimpleNamespace(__version__="1.22.1"),
            "onnxruntime 1.22.1 takes no library of an execution provider; 1.23 and later do",
        ),
    ],
)
def test_an_onnxruntime_that_is_too_old_says_so_in_one_sentence(
    onnxruntime: Any, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(onnxruntime_probe, "load_onnxruntime", lambda: onnxruntime)
    answer = onnxruntime_probe.list_library_offers(**_library(tmp_path).arguments())
    assert answer["refused"] == reason


def test_more_devices_than_any_machine_has_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(onnxruntime_probe, "load_onnxruntime", lambda: None)
    many = (_listed(DeviceType.CPU),) * 10_000
    monkeypatch.setattr(onnxruntime_probe, "register_ep_library", lambda *_, **__: many)
    for ask in (onnxruntime_probe.list_library_offers, onnxruntime_probe.list_absent_devices):
        with pytest.raises(ValueError, match="it offers 10000 devices; at most 256 are believed"):
            ask(**_library(tmp_path).arguments())


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
    added_options = precision_options(ep_name, options)
    assert ("load_config" in added_options) is added
    if added:
        config = json.loads(added_options["load_config"])
        exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
        assert config == {"CPU": exact}


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


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "libcuda.so.1: cannot open shared object file: No such file or directory",
            "; install wha",
        ),
        ("undefined symbol: CreateEpFactories", "; its wheel is for another onnxruntime, or br"),
        ("invalid ELF header", "; the file is damaged, or for another system: install its wheel"),
        ("it does not like this machine", "; ortpkg devices asks it again"),
    ],
)
def test_a_refusal_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, advice: str
) -> None:
    _answers(monkeypatch, ProbeAnswer(value={"version": "1", "refused": said}))
    with pytest.raises(ExecutionProviderError) as raised:
        EpLibraryFactory(_library(tmp_path)).get_supported_devices([_CPU])
    assert f"{said}{advice}" in str(raised.value)


def test_an_installed_ep_that_fails_is_no_unknown_name_for_selection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with_onnxruntime(monkeypatch, _library(tmp_path, "Acme"))
    _answers(monkeypatch, ProbeAnswer(failure="it ended by signal 11 (SIGSEGV)"))
    package = ortpkg.ModelPackage(_DIGITS)
    selection = package.select(ep="Acme")
    assert selection.best is None
    assert any(
        "Acme (onnxruntime-ep-acme 1.2) failed: it" in warning for warning in selection.warnings
    )
    with pytest.raises(UsageError, match="no execution provider 'Acmee'"):
        package.select(ep="Acmee")
