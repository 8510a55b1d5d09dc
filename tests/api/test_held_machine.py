"""A selection on a machine that the caller holds asks nothing of the machine again."""

from __future__ import annotations

from pathlib import Path

import pytest

import ortpkg
from ortpkg.runtime.providers import machine_offer
from ortpkg.selection.choosing import package_selection

_DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> ortpkg.MachineOffer:
    """Offer of this machine; after it, any probe or discovery is an error."""
    offer = ortpkg.this_machine()

    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise AssertionError("the machine was asked again")

    monkeypatch.setattr(machine_offer, "discover_ep_devices", refuse)
    monkeypatch.setattr(machine_offer, "probe", refuse)
    monkeypatch.setattr(package_selection, "discover_ep_devices", refuse)
    monkeypatch.setattr(package_selection, "with_free_memory", refuse)
    return offer


def test_the_choice_is_that_of_a_selection_which_asks() -> None:
    package = ortpkg.ModelPackage(_DIGITS)
    asked, held = package.select(), package.select(machine=ortpkg.this_machine())
    assert held.best == asked.best
    assert held.verdicts == asked.verdicts


def test_nothing_is_asked_again(machine: ortpkg.MachineOffer) -> None:
    package = ortpkg.ModelPackage(_DIGITS)
    first = package.best_variant(machine=machine)
    assert package.best_variant(machine=machine, device="cpu").name == first.name
    assert package.component_models[0].best_variant(machine=machine).name == first.name


def test_the_devices_are_those_of_the_offer(machine: ortpkg.MachineOffer) -> None:
    package = ortpkg.ModelPackage(_DIGITS)
    without = machine._replace(ep_devices=())
    with pytest.raises(ortpkg.errors.NoSuitableVariantError):
        package.best_variant(machine=without)


def test_a_machine_and_a_profile_together_are_refused(machine: ortpkg.MachineOffer) -> None:
    package = ortpkg.ModelPackage(_DIGITS)
    with pytest.raises(ortpkg.errors.UsageError, match="not for both"):
        package.select(machine=machine, profile="plain-server")
