"""Installed packages with a better variant for this machine that is not installed.

This happens when hardware, drivers or libraries change after the installation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.installed_packages import InstalledPackages
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import OrtpkgError
from ortpkg.package.reader import open_package
from ortpkg.runtime.providers.machine_offer import asked_once
from ortpkg.selection.choosing.package_selection import select_component
from ortpkg.selection.matching.wishes import SelectionWishes


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterVariant:
    """Variant that would be selected now.

    Attributes:
        name: Name of the installed package.
        component, variant: Names of the component and the variant.
    """

    name: str
    component: str
    variant: str

    @property
    def how_to_fetch(self) -> str:
        """Command that fetches the variant."""
        return f"ortpkg upgrade {self.name}"


def better_variants(store: InstalledPackages | None = None) -> tuple[BetterVariant, ...]:
    """Return the better variants of all installed packages, by the options of their installation.

    Packages that were installed for other machines, or with variants by name, are left out. So are
    unreadable ones, which other commands report.
    """
    store = store or InstalledPackages()
    variants: list[BetterVariant] = []
    with asked_once():
        try:
            for installed in store.packages(on_damage=lambda _: None):
                variants += _better_in_package(installed, store)
        except OrtpkgError:  # the store cannot be read
            return ()
    return tuple(variants)


def _better_in_package(installed: Generation, store: InstalledPackages) -> Iterator[BetterVariant]:
    wishes = InstallWishes.of_words(installed.asked)
    if wishes.profiles or wishes.variants or wishes.all_variants:
        return
    try:
        with store.open(installed.name) as opened:
            package = open_package(opened.root)
            for component in package.components:
                if not any(variant.is_absent for variant in component.variants):
                    continue
                wishes_here = SelectionWishes(
                    ep=wishes.ep, device=wishes.device, include_absent=True
                )
                best = select_component(package, component, wishes_here).best
                if best is not None and best.variant.is_absent:
                    yield BetterVariant(
                        name=installed.name, component=component.name, variant=best.variant.name
                    )
    except OrtpkgError:
        return
