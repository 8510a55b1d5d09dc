"""``ortpkg ep``: what plug-in EPs are here, and libraries that the user names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ortpkg.cli import ep as ep_command
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.runtime.providers import user_ep_libraries
from ortpkg.runtime.providers.ep_discovery.ep_libraries import EpLibrary, forget_ep_libraries
from ortpkg.runtime.providers.ep_discovery.named_ep_libraries import added_file
from ortpkg.runtime.providers.machine_offer import MachineOffer, NothingOffered
from ortpkg.runtime.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from tests.cli.conftest import RunCommand

_CPU = HardwareDevice(type=DeviceType.CPU, name="Host", vendor="Intel")
_GPU = HardwareDevice(type=DeviceType.GPU, name="RTX 5090", vendor="NVIDIA", vendor_id=0x10DE)
_LIBRARIES = (
    EpLibrary("ggml", "onnxruntime-ggml", "0.2.0", "/site/libonnxruntime_ggml.so"),
    EpLibrary("AcmeExecutionProvider", "", "", "/opt/my EPs/libacme.so"),
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MachineOffer:
    """A machine with a GPU that nobody uses; ggml offers the CPU, and Acme nothing."""
    offer = MachineOffer(
        machine=Machine(os="linux", hardware=(_CPU, _GPU)),
        ep_devices=(EpDevice(ep_name="ggml", device=_CPU, backend="onnxruntime"),),
        notes=("AcmeExecutionProvider (libacme.so) offers no device on this machine",),
    )
    monkeypatch.setattr(ep_command, "discover_ep_devices", lambda _machine: offer)
    monkeypatch.setattr(user_ep_libraries, "installed_distributions", lambda: ("onnxruntime",))
    monkeypatch.setattr(user_ep_libraries, "installed_ep_libraries", lambda: _LIBRARIES)
    monkeypatch.setattr(user_ep_libraries, "ep_library_notes", lambda: ("x 1 is not used: y",))
    return offer


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No libraries have been added."""
    monkeypatch.setenv("ORTPKG_CONFIG_DIR", str(tmp_path / "config"))
    forget_ep_libraries()
    yield
    forget_ep_libraries()


@pytest.mark.usefixtures("machine")
def test_list_shows_libraries_devices_reasons_and_what_to_install(ortpkg: RunCommand) -> None:
    done = ortpkg("ep")
    assert done.code == 0
    assert "ggml" in done.out
    assert "CPU (Host)" in done.out
    assert "named by you" in done.out
    assert "AcmeExecutionProvider (libacme.so) offers no device on this machine" in done.out
    words = " ".join(done.out.split())
    assert (
        "an NVIDIA GPU is here and no EP that can use it: pip install onnxruntime-ep-nv-tensorrt"
        in words
    )
    assert "note: x 1 is not used: y" in done.err


def test_a_reason_is_that_of_the_ep_itself_and_not_of_one_whose_name_has_it(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch, machine: MachineOffer
) -> None:
    notes = (
        "MyAcmeExecutionProvider (libmy.so 1) failed: crash",
        "onnxruntime-ggml 0.1 is not used: onnxruntime-ep-AcmeExecutionProvider.x brings it",
    )
    offer = machine._replace(ep_devices=(), notes=notes)
    monkeypatch.setattr(ep_command, "discover_ep_devices", lambda _machine: offer)
    ggml, acme = ortpkg("ep", "list", "--json").json["libraries"]
    assert acme["reason"] == "AcmeExecutionProvider (libacme.so) offers no device on this machine"
    assert ggml["reason"] == "ggml (onnxruntime-ggml 0.2.0) offers no device on this machine"

    reasons = (
        NothingOffered("ggml", "embedded", "another"),
        NothingOffered("ggml", "onnxruntime", "why"),
    )
    offer = machine._replace(ep_devices=(), notes=("ggml is odd",), reasons=reasons)
    monkeypatch.setattr(ep_command, "discover_ep_devices", lambda _machine: offer)
    assert ortpkg("ep", "list", "--json").json["libraries"][0]["reason"] == "why"


def test_devices_of_onnxruntimes_own_provider_are_not_those_of_a_wheel_with_its_name(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch, machine: MachineOffer
) -> None:
    offer = machine._replace(factories=(OnnxRuntimeEpFactory("ggml"),))
    monkeypatch.setattr(ep_command, "discover_ep_devices", lambda _machine: offer)
    ggml = ortpkg("ep", "list", "--json").json["libraries"][0]
    assert ggml["devices"] == []
    assert ggml["reason"] == (
        "onnxruntime-ggml 0.2.0 is not used: this onnxruntime has its own ggml"
    )


@pytest.mark.usefixtures("machine")
def test_list_in_json(ortpkg: RunCommand) -> None:
    listed: Any = ortpkg("ep", "list", "--json").json
    ggml, acme = listed["libraries"]
    assert (ggml["ep"], ggml["distribution"], ggml["version"], ggml["origin"]) == (
        "ggml",
        "onnxruntime-ggml",
        "0.2.0",
        "wheel",
    )
    assert [device["name"] for device in ggml["devices"]] == ["Host"]
    assert (acme["devices"], acme["distribution"]) == ([], None)
    assert "offers no device" in acme["reason"]
    (missing,) = listed["missing"]
    assert missing["device"]["name"] == "RTX 5090"
    assert listed["notes"] == ["x 1 is not used: y"]


def test_without_onnxruntime_list_says_so(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_ep_libraries, "installed_distributions", lambda: ())
    done = ortpkg("ep")
    assert "no library of a plug-in EP is here" in done.out
    assert "pip install onnxruntime" in done.err
    assert ortpkg("ep", "add", "/opt/x.so").code == 2


def _accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_ep_libraries, "installed_distributions", lambda: ("onnxruntime",))
    monkeypatch.setattr(
        ep_command,
        "libraries_to_add",
        lambda path, names: (user_ep_libraries.AddedLibrary(path, "3", names or ("acme",)),),
    )


def test_a_library_is_added_and_removed(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _accepts(monkeypatch)
    path = str(tmp_path / "my lib ü.so")
    planned = ortpkg("ep", "add", path, "--dry-run")
    assert f"would add {added_file().name}" in planned.out
    assert not added_file().exists()
    done = ortpkg("ep", "add", path, "--name", "qnn")
    assert done.out == f"added QNNExecutionProvider of {path}\n"
    assert path in added_file().read_text("utf-8")
    again = ortpkg("ep", "add", path, "--json").json
    assert again["added"] == [{"library": path, "version": "3", "eps": ["acme"]}]
    assert f"would change {added_file().name}" in ortpkg("ep", "remove", path, "--dry-run").out
    assert ortpkg("ep", "remove", path).code == 0
    refused = ortpkg("ep", "remove", path)
    assert refused.code == 2
    assert "was not added by ortpkg ep add (none is)" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add",), "ep add takes the PATH of a library or a folder"),
        (("remove", " "), "ep remove takes the PATH"),
        (("remove", "x", "--name", "y"), "ep remove takes no --name"),
        (("list", "x"), "ep list takes no PATH"),
        (("ad",), "did you mean"),
    ],
)
def test_wrong_words_are_told(ortpkg: RunCommand, words: tuple[str, ...], message: str) -> None:
    done = ortpkg("ep", *words)
    assert done.code == 2
    assert message in done.err


def test_a_library_that_cannot_be_used_is_not_added(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(user_ep_libraries, "installed_distributions", lambda: ("onnxruntime",))
    done = ortpkg("ep", "add", tmp_path / "none.so")
    assert done.code == 6
    assert "none.so' is not added: " in done.err
    assert not added_file().exists()
