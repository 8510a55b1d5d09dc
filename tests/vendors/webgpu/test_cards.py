"""Machines with several cards, with none, and with one that goes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vendors.conftest import Loads
from tests.vendors.software_gpu import AMD, INTEL, NVIDIA, Card
from tests.vendors.webgpu.conftest import WEBGPU, OnCards

_NO_DRIVER = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
#: Selects a variant, takes the card away, and makes the session.
_LOSES_CARD = """
import shutil, sys
import ortpkg
variant = ortpkg.ModelPackage(sys.argv[1]).best_variant("classifier", device="gpu")
shutil.rmtree("/sys/class/drm/card0")
shutil.rmtree("/sys/bus/pci/devices/0000:01:00.0")
try:
    variant.create_session()
except ortpkg.errors.ExecutionProviderError as error:
    print(type(error).__name__, error)
"""
#: The same where the driver goes.
_LOSES_DRIVER = """
import os, sys
import ortpkg
variant = ortpkg.ModelPackage(sys.argv[1]).best_variant("classifier", device="gpu")
os.environ["VK_ICD_FILENAMES"] = os.environ["VK_DRIVER_FILES"] = "/nowhere.json"
try:
    variant.create_session()
except ortpkg.errors.ExecutionProviderError as error:
    print(type(error).__name__, error)
"""


def _cards(ortpkg: OnCards, *cards: Card) -> list[str]:
    """Vendors of the GPUs that the execution provider is offered on."""
    entries = ortpkg("devices", "--json", cards=cards).json["ep_devices"]
    return [entry["device"]["vendor"] for entry in entries if entry["ep"] == WEBGPU]


@pytest.mark.parametrize("cards", [(AMD,), (INTEL,), (NVIDIA, AMD, INTEL), (AMD, AMD, NVIDIA)])
def test_every_card_is_offered_as_a_device_of_its_own(
    ortpkg: OnCards, cards: tuple[Card, ...]
) -> None:
    vendors = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel"}
    assert sorted(_cards(ortpkg, *cards)) == sorted(vendors[card] for card in cards)


@pytest.mark.parametrize("cards", [(AMD,), (INTEL, AMD), (AMD, AMD)])
def test_a_variant_runs_on_the_card_that_is_selected(
    gpu_package: Path, ortpkg: OnCards, cards: tuple[Card, ...], loads: Loads
) -> None:
    chosen = ortpkg("select", gpu_package, "--device", "gpu", cards=cards)
    done = ortpkg("run", gpu_package, "--device", "gpu", cards=cards)
    assert "outputs match what the package expects" in done.out, done.err
    assert f"gpu on {WEBGPU} (onnxruntime) on GPU (" in chosen.out
    loads("digits", f"WebGPU, cards {', '.join(map(str, cards))}", "selected and run; as expected")


def test_without_a_card_a_note_says_that_the_provider_has_no_device(
    gpu_package: Path, ortpkg: OnCards
) -> None:
    assert _cards(ortpkg) == []
    note = f"{WEBGPU} (onnxruntime-ep-webgpu 0.4.0) offers no device on this machine"
    assert note in ortpkg("devices", "--json", cards=()).json["notes"]
    refused = ortpkg("select", gpu_package, "--variant", "gpu", cards=())
    assert refused.code == 3
    assert "'gpu': EP_NOT_AVAILABLE" in refused.err


def test_a_card_that_is_gone_between_selection_and_session_is_an_error(
    gpu_package: Path, program: OnCards
) -> None:
    done = program("-c", _LOSES_CARD, gpu_package, cards=(NVIDIA,))
    assert done.code == 0, done.err
    assert done.out.startswith("ExecutionProviderError device gone: GPU (NVIDIA GPU")
    assert "is not there any more; select again" in done.out


def test_a_card_without_a_driver_is_said_with_the_words_of_the_provider(
    gpu_package: Path, ortpkg: OnCards
) -> None:
    done = ortpkg("run", gpu_package, "--variant", "gpu", variables=_NO_DRIVER)
    assert done.code == 6
    assert f"error: {WEBGPU} (onnxruntime) was asked for and takes no node" in done.err
    assert "Failed to get a WebGPU adapter: No supported adapters" in done.err


def test_a_driver_that_is_gone_between_selection_and_session_is_an_error(
    gpu_package: Path, program: OnCards
) -> None:
    done = program("-c", _LOSES_DRIVER, gpu_package)
    assert done.code == 0, done.err
    assert done.out.startswith(f"NoNodeTakenError {WEBGPU} (onnxruntime) was asked for")
    assert "No supported adapters" in done.out
