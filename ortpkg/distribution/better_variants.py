"""Installed packages of which this machine would now choose a variant that is not here.

So it is where hardware, drivers or libraries changed since they were installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.choosing.package_selection import select_component
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.errors import OrtpkgError
from ortpkg.package.reader import open_package
from ortpkg.providers.machine_offer import asked_once
from ortpkg.selection.wishes import SelectionWishes
from ortpkg.store.generations import Generation
from ortpkg.store.installed_packages import InstalledPackages


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterVariant:
    """A variant that would be chosen now.

    Attributes:
        name: of the installed package.
        component, variant: its names.
    """

    name: str
    component: str
    variant: str

    @property
    def how_to_fetch(self) -> str:
        """The command that does."""
        return f"ortpkg upgrade {self.name}"


def better_variants(store: InstalledPackages | None = None) -> tuple[BetterVariant, ...]:
    """Of each installed package, by the wishes that it was installed with.

    One that was installed for other machines, or of which variants were named, is left out; one
    that cannot be read as well: other commands say so.
    """
    store = store or InstalledPackages()
    found: list[BetterVariant] = []
    with asked_once():
        try:
            for installed in store.packages(on_damage=lambda _: None):
                found += _of_package(installed, store)
        except OrtpkgError:  # there is no store that can be read
            return ()
    return tuple(found)


def _of_package(installed: Generation, store: InstalledPackages) -> Iterator[BetterVariant]:
    wishes = InstallWishes.of_words(installed.asked)
    if wishes.profiles or wishes.variants or wishes.all_variants:
        return
    try:
        with store.open(installed.name) as opened:
            package = open_package(opened.root)
            for component in package.components:
                if not any(each.is_absent for each in component.variants):
                    continue
                wished = SelectionWishes(ep=wishes.ep, device=wishes.device, include_absent=True)
                best = select_component(package, component, wished).best
                if best is not None and best.variant.is_absent:
                    yield BetterVariant(
                        name=installed.name, component=component.name, variant=best.variant.name
                    )
    except OrtpkgError:
        return
