"""Checks names in options before work begins: loading libraries and models takes seconds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ortpkg.package.document_names import MANIFEST
from ortpkg.selection.choosing.package_selection import THIS_MACHINE


def verify_eps(eps: Iterable[str | None]) -> None:
    """Raise UsageError for an execution provider that neither a release nor this machine has.

    It is for commands that need the provider itself. Others use :func:`verify_package_eps`, because
    a package may name a plug-in that is not installed here.
    """
    names = [ep for ep in eps if ep]
    if names:
        from ortpkg.runtime.providers.ep_registry import ep_known_here  # only where one is named

        for ep in names:
            ep_known_here(ep)


def verify_package_eps(eps: Iterable[str | None], package: Path) -> None:
    """Raise UsageError for an execution provider that neither this machine nor the package has.

    Nothing is checked if ``package`` is not a folder with a manifest.
    """
    names = [ep for ep in eps if ep]
    if not names or not (package / MANIFEST).is_file():
        return
    from ortpkg.foundations.ep_names import ep_named  # only where one is named
    from ortpkg.package.reader import open_package
    from ortpkg.runtime.providers.ep_registry import all_known_names

    info = open_package(package)
    package_eps = {
        variant.constraints.ep
        for component in info.components
        for variant in component.variants
        if variant.constraints.ep
    }
    for ep in names:
        ep_named(ep, {*all_known_names(), *package_eps})


def verify_profiles(profiles: Iterable[str]) -> None:
    """Raise ProfileError for a machine profile that does not exist or is invalid."""
    from ortpkg.machine.profiles import read_profile  # with the reader of documents

    for profile in profiles:
        if profile != THIS_MACHINE:
            read_profile(profile)
