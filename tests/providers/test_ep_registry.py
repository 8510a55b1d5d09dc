"""The registry: built-in factories, plug-ins by entry point, names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.devices.machine import Machine
from ortpkg.errors import ExecutionProviderError, UnknownExecutionProviderError
from ortpkg.providers import ep_registry
from ortpkg.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.providers.ep_registry import available_factories, find_factory
from ortpkg.providers.execution_provider import ExecutionProvider
from ortpkg.selection.machine import discover_ep_devices

_CPU = HardwareDevice(type=DeviceType.CPU, name="CPU")


class AcmeFactory(EpFactory):
    """An example plug-in: everything that a factory of one's own needs.

    A distribution declares it as an entry point of the group ``ortpkg.execution_providers``::

        [project.entry-points."ortpkg.execution_providers"]
        AcmeExecutionProvider = "acme_ep:AcmeFactory"
    """

    ep_name = "AcmeExecutionProvider"
    vendor = "Acme"
    backend = "acme"

    @property
    def version(self) -> str:
        return "1.0"

    def is_available(self) -> bool:
        return True

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        return [EpDevice(ep_name=self.ep_name, device=device, backend=self.backend) for device in hardware]

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        return CompiledModelCompatibility.OPTIMAL if info == "acme-1" else CompiledModelCompatibility.UNSUPPORTED

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        raise NotImplementedError


class _EntryPoint:
    """What importlib.metadata gives, as far as the registry looks."""

    def __init__(self, loaded: Any) -> None:
        self.loaded = loaded
        self.value = "acme_ep:AcmeFactory"
        self.loads = 0

    def load(self) -> Any:
        self.loads += 1
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> dict[str, _EntryPoint]:
    """The installed plug-ins; nothing else is installed."""
    found: dict[str, _EntryPoint] = {}
    monkeypatch.setattr(ep_registry, "_plugins", lambda: found)
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
        match=r"there is no execution provider 'OpenVNO' here; did you mean 'OpenVINOExecutionProvider'\?",
    ):
        find_factory("OpenVNO")


@pytest.mark.usefixtures("plugins")
def test_a_backend_that_does_not_have_the_provider_is_named() -> None:
    with pytest.raises(
        UnknownExecutionProviderError, match="there is no execution provider 'cpu' on backend 'openvino'"
    ):
        find_factory("cpu", backend="openvino")


def test_the_bridge_is_found_by_its_backend() -> None:
    pytest.importorskip("onnxruntime")

    assert find_factory("cpu", backend="onnxruntime").backend == "onnxruntime"


def test_a_plugin_is_imported_only_when_it_is_named(plugins: dict[str, _EntryPoint]) -> None:
    plugins["AcmeExecutionProvider"] = _EntryPoint(AcmeFactory)

    without = available_factories([_CPU])
    loads = plugins["AcmeExecutionProvider"].loads
    named = available_factories([_CPU], named=["AcmeExecutionProvider", "CPUExecutionProvider"])

    assert "AcmeExecutionProvider" not in _names(without)
    assert loads == 0
    assert "AcmeExecutionProvider" in _names(named)
    assert _names(named)[-1] == "CPUExecutionProvider"


def test_a_named_plugin_offers_its_devices_and_rates_compatibility(plugins: dict[str, _EntryPoint]) -> None:
    plugins["AcmeExecutionProvider"] = _EntryPoint(AcmeFactory)

    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)), named=["AcmeExecutionProvider"])
    (acme,) = [found for found in offer.ep_devices if found.backend == "acme"]

    assert offer.compatibility(acme, "acme-1") is CompiledModelCompatibility.OPTIMAL
    assert offer.compatibility(acme, "other") is CompiledModelCompatibility.UNSUPPORTED
    assert offer.compatibility(EpDevice(ep_name="X", device=None), "x") is CompiledModelCompatibility.UNKNOWN


def test_a_built_in_name_wins_over_a_plugin_with_a_warning(plugins: dict[str, _EntryPoint]) -> None:
    plugins["CPUExecutionProvider"] = _EntryPoint(AcmeFactory)
    message = r"plug-in 'CPUExecutionProvider' \('acme_ep:AcmeFactory'\) is not used: the name is a built-in one"

    with pytest.warns(UserWarning, match=message):
        factory = find_factory("CPUExecutionProvider")
    found = available_factories([_CPU], named=["CPUExecutionProvider"])

    assert factory.backend == "embedded"
    assert plugins["CPUExecutionProvider"].loads == 0
    assert [note for note in found.notes if "is not used" in note]


@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        (ImportError("libacme.so: not found"), "cannot be loaded: 'libacme.so: not found'"),
        (object, "must return an EpFactory"),
        (lambda: find_factory("cpu"), "must return an EpFactory whose ep_name is its entry point's name"),
    ],
)
def test_a_plugin_that_is_not_what_it_should_be_is_refused_and_noted(
    plugins: dict[str, _EntryPoint], loaded: Any, message: str
) -> None:
    plugins["AcmeExecutionProvider"] = _EntryPoint(loaded)

    with pytest.raises(ExecutionProviderError, match=message):
        find_factory("AcmeExecutionProvider")
    notes = available_factories([_CPU], named=["AcmeExecutionProvider"]).notes

    assert any(message in note for note in notes)


def test_a_plugin_that_raises_while_it_reports_is_left_out_and_noted(plugins: dict[str, _EntryPoint]) -> None:
    class Raising(AcmeFactory):
        def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
            raise OSError("driver gone")

    plugins["AcmeExecutionProvider"] = _EntryPoint(Raising)

    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)), ep="AcmeExecutionProvider")

    assert offer.notes == ("AcmeExecutionProvider (acme) failed to report its devices: OSError: 'driver gone'",)
    assert "embedded" in {found.backend for found in offer.ep_devices}


def test_importing_every_factory_imports_nothing_heavy() -> None:
    code = (
        "import sys, ortpkg.providers.ep_registry as registry\n"
        "[build() for build in registry.BUILT_IN_FACTORIES.values()]\n"
        "loaded = {'numpy', 'onnx', 'openvino', 'onnxruntime'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {sorted(loaded)}' if loaded else 0)"
    )

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr


def test_several_distributions_of_onnxruntime_are_noted(
    plugins: dict[str, _EntryPoint], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ortpkg.providers.installed_distribution import InstalledDistribution

    both = tuple(InstalledDistribution(name=name, version="1") for name in ("onnxruntime", "onnxruntime-gpu"))
    monkeypatch.setattr(ep_registry, "installed_distributions", lambda: both)

    assert available_factories([_CPU]).notes == (
        "several distributions of onnxruntime overwrite each other here: onnxruntime, onnxruntime-gpu",
    )
