"""The registry: built-in factories, plug-ins by entry point, names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import ExecutionProviderError, UnknownExecutionProviderError, quoted
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.runtime.providers import ep_registry, plugin_probe
from ortpkg.runtime.providers import plugins as plugins_module
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.runtime.providers.ep_registry import available_factories, find_factory
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.machine_offer import discover_ep_devices
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.runtime.providers.plugins import Plugin

_CPU = HardwareDevice(type=DeviceType.CPU, name="CPU")


class AcmeFactory(EpFactory):
    """A plug-in's factory; tests/data/example_plugin is a whole plug-in."""

    ep_name = "AcmeExecutionProvider"
    vendor = "Acme"
    backend = "acme"

    @property
    def version(self) -> str:
        return "1.0"

    def is_available(self) -> bool:
        return True

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        return [
            EpDevice(ep_name=self.ep_name, device=device, backend=self.backend)
            for device in hardware
        ]

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        return (
            CompiledModelCompatibility.OPTIMAL
            if info == "acme-1"
            else CompiledModelCompatibility.UNSUPPORTED
        )

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        raise NotImplementedError


class _Installed:
    """The installed plug-ins: name → what its entry point gives, or raises.

    Nothing else is installed.
    """

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = {}
        self.loads: list[str] = []

    def __setitem__(self, name: str, loaded: Any) -> None:
        self.loaded[name] = loaded

    def plugins(self) -> dict[str, Plugin]:
        return {name: Plugin(name=name, value="acme_ep:AcmeFactory") for name in self.loaded}

    def load(self, _group: str, name: str, _value: str) -> Any:
        self.loads.append(name)
        loaded = self.loaded[name]
        if isinstance(loaded, BaseException):
            raise loaded
        return loaded()

    def ask(self, function: str, plugin: Plugin, arguments: Mapping[str, Any]) -> ProbeAnswer:
        """As a child process would answer."""
        try:
            answer = getattr(plugin_probe, function)(
                "group", plugin.name, plugin.value, **arguments
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as the child does
            return ProbeAnswer(failure=f"it raised {quoted(f'{type(error).__name__}: {error}')}")
        return ProbeAnswer(value=json.loads(json.dumps(answer)))


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> _Installed:
    found = _Installed()
    monkeypatch.setattr(ep_registry, "installed_plugins", found.plugins)
    monkeypatch.setattr(plugins_module, "ask_plugin", found.ask)
    monkeypatch.setattr(plugin_probe, "load", found.load)
    monkeypatch.setattr(OpenVinoEpFactory, "is_available", lambda _self: False)
    monkeypatch.setattr(ep_registry, "installed_distributions", lambda: ())
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: ())
    ep_registry._warn_of_name_clash.cache_clear()
    return found


def _names(found: ep_registry.AvailableFactories) -> list[str]:
    return [factory.ep_name for factory in found.factories]


@pytest.mark.usefixtures("plugins")
def test_finds_a_built_in_factory_by_alias() -> None:
    assert find_factory("cpu").backend == "embedded"
    assert find_factory("openvino").backend == "openvino"


@pytest.mark.usefixtures("plugins")
def test_an_unknown_name_is_told_the_nearest_one() -> None:
    with pytest.raises(
        UnknownExecutionProviderError,
        match=(
            r"there is no execution provider 'OpenVNO' here; did you mean"
            r" 'OpenVINOExecutionProvider'\?"
        ),
    ):
        find_factory("OpenVNO")


@pytest.mark.usefixtures("plugins")
def test_a_backend_that_does_not_have_the_provider_is_named() -> None:
    with pytest.raises(
        UnknownExecutionProviderError,
        match="there is no execution provider 'cpu' on backend 'openvino'",
    ):
        find_factory("cpu", backend="openvino")


def test_the_bridge_is_found_by_its_backend() -> None:
    pytest.importorskip("onnxruntime")

    assert find_factory("cpu", backend="onnxruntime").backend == "onnxruntime"


def test_a_plugin_is_imported_only_when_it_is_named(plugins: _Installed) -> None:
    plugins["AcmeExecutionProvider"] = AcmeFactory

    without = available_factories([_CPU])
    loads = list(plugins.loads)
    named = available_factories([_CPU], named=["AcmeExecutionProvider", "CPUExecutionProvider"])

    assert "AcmeExecutionProvider" not in _names(without)
    assert loads == []
    assert "AcmeExecutionProvider" in _names(named)
    assert _names(named)[-1] == "CPUExecutionProvider"


def test_a_named_plugin_offers_its_devices_and_rates_compatibility(plugins: _Installed) -> None:
    plugins["AcmeExecutionProvider"] = AcmeFactory

    offer = discover_ep_devices(
        Machine(os="linux", hardware=(_CPU,)), named=["AcmeExecutionProvider"]
    )
    (acme,) = [found for found in offer.ep_devices if found.backend == "acme"]

    assert offer.compatibility(acme, "acme-1") is CompiledModelCompatibility.OPTIMAL
    assert offer.compatibility(acme, "other") is CompiledModelCompatibility.UNSUPPORTED
    assert (
        offer.compatibility(EpDevice(ep_name="X", device=None), "x")
        is CompiledModelCompatibility.UNKNOWN
    )


def test_a_built_in_name_wins_over_a_plugin_with_a_warning(plugins: _Installed) -> None:
    plugins["CPUExecutionProvider"] = AcmeFactory
    message = (
        r"plug-in 'CPUExecutionProvider' \('acme_ep:AcmeFactory'\) is not used: the name is a"
        r" built-in one"
    )

    with pytest.warns(UserWarning, match=message):
        factory = find_factory("CPUExecutionProvider")
    found = available_factories([_CPU], named=["CPUExecutionProvider"])

    assert factory.backend == "embedded"
    assert plugins.loads == []
    assert [note for note in found.notes if "is not used" in note]


@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        (
            ImportError("libacme.so: not found"),
            "cannot be loaded: it raised 'ImportError: libacme.so: not found'",
        ),
        (SystemExit(3), "cannot be loaded: it raised 'SystemExit: 3'"),
        (object, "must return an EpFactory, not 'object'"),
        (
            lambda: find_factory("cpu"),
            "must return an EpFactory whose ep_name is its entry point's name",
        ),
    ],
)
def test_a_plugin_that_is_not_what_it_should_be_is_refused_and_noted(
    plugins: _Installed, loaded: Any, message: str
) -> None:
    plugins["AcmeExecutionProvider"] = loaded

    with pytest.raises(ExecutionProviderError, match=message):
        find_factory("AcmeExecutionProvider")
    notes = available_factories([_CPU], named=["AcmeExecutionProvider"]).notes

    assert any(message in note for note in notes)


class _Odd(AcmeFactory):
    """Does what a test tells it to, where a factory should answer."""

    reported: Any = ()
    available: Any = True
    rated: Any = "fine"

    def is_available(self) -> bool:
        return bool(_told(self.available))

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        reported: list[EpDevice] = _told(self.reported)
        return reported

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        rated: CompiledModelCompatibility = _told(self.rated)
        return rated


def _told(what: Any) -> Any:
    if isinstance(what, Exception):
        raise what
    return what


_FAILED = "plug-in 'AcmeExecutionProvider' ('acme_ep:AcmeFactory') failed to say what it offers:"
_OF_ANOTHER = EpDevice(ep_name="CPUExecutionProvider", device=_CPU, backend="acme")


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        (
            {"reported": OSError("driver gone")},
            f"{_FAILED} it raised 'OSError: driver gone'",
        ),
        (
            {"reported": None},
            f"{_FAILED} it raised \"TypeError: reported 'None' where an EpDevice of its own name",
        ),
        (
            {"reported": ["CPU"]},
            f"{_FAILED} it raised \"TypeError: reported 'CPU' where an EpDevice of its own name",
        ),
        ({"reported": [_OF_ANOTHER]}, f"{_FAILED} it raised "),
        (
            {"available": OSError("no driver")},
            f"{_FAILED} it raised 'OSError: no driver'",
        ),
    ],
)
def test_a_plugin_that_fails_to_say_what_it_offers_is_left_out_and_noted(
    plugins: _Installed, facts: dict[str, Any], note: str
) -> None:
    plugins["AcmeExecutionProvider"] = type("Odd", (_Odd,), facts)

    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)), ep="AcmeExecutionProvider")

    assert len(offer.notes) == 1
    assert offer.notes[0].startswith(note)
    assert "acme" not in {found.backend for found in offer.ep_devices}
    assert "embedded" in {found.backend for found in offer.ep_devices}


def test_a_plugin_that_rates_with_another_word_is_told_so(plugins: _Installed) -> None:
    device = EpDevice(ep_name="AcmeExecutionProvider", device=_CPU, backend="acme")
    plugins["AcmeExecutionProvider"] = type("Odd", (_Odd,), {"reported": [device]})
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)), ep="AcmeExecutionProvider")

    with pytest.raises(
        ExecutionProviderError, match="rated a compatibility string 'fine', which is no Compiled"
    ):
        offer.compatibility(device, "x")


@pytest.mark.requirement("K08")
def test_a_plugin_may_report_that_it_reports_no_devices(plugins: _Installed) -> None:
    device = EpDevice(ep_name="AcmeExecutionProvider", device=None, backend="acme")
    plugins["AcmeExecutionProvider"] = type("Odd", (_Odd,), {"reported": [device]})

    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)), ep="AcmeExecutionProvider")

    assert device in offer.ep_devices
    assert offer.notes == ()


def test_two_backends_of_one_ep_are_both_offered(
    plugins: _Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: ("AcmeExecutionProvider",))
    plugins["AcmeExecutionProvider"] = AcmeFactory

    found = available_factories([_CPU], named=["AcmeExecutionProvider"]).factories

    assert [each.backend for each in found if each.ep_name == "AcmeExecutionProvider"] == [
        "acme",
        "onnxruntime",
    ]


def test_importing_every_factory_imports_nothing_heavy() -> None:
    code = (
        "import sys, ortpkg.runtime.providers.ep_registry as registry\n"
        "[build() for build in registry.BUILT_IN_FACTORIES.values()]\n"
        "loaded = {'numpy', 'onnx', 'openvino', 'onnxruntime'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {sorted(loaded)}' if loaded else 0)"
    )

    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert finished.returncode == 0, finished.stderr


def test_several_distributions_of_onnxruntime_are_noted(
    plugins: _Installed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ortpkg.runtime.providers.installed_distribution import InstalledDistribution

    both = tuple(
        InstalledDistribution(name=name, version="1") for name in ("onnxruntime", "onnxruntime-gpu")
    )
    monkeypatch.setattr(ep_registry, "installed_distributions", lambda: both)

    assert available_factories([_CPU]).notes == (
        (
            "several distributions of onnxruntime overwrite each other here: onnxruntime,"
            " onnxruntime-gpu"
        ),
    )


@pytest.mark.parametrize("has_init", [True, False])
def test_the_fingerprint_of_a_plugin_tells_that_a_file_beside_its_module_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_init: bool
) -> None:
    name = f"edited_plugin_{int(has_init)}"
    inner = tmp_path / name / "inner"
    inner.mkdir(parents=True)
    if has_init:
        (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    plugin = Plugin(name="EditedExecutionProvider", value=f"{name}.inner.factory:Factory")
    found = []
    for file in (None, tmp_path / name / "beside.py", inner / "factory.py"):
        if file is not None:
            file.touch()
        found.append(json.dumps(plugins_module.plugin_fingerprint(plugin)))
    assert len(set(found)) == 3
