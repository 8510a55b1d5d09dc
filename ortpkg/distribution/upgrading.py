"""Upgrade of installed packages, and the check whether one is outdated.

An installed package is outdated if its tag names another version, or if another variant of the same
version would be selected because the machine changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.installation import InstallPlan, install_planned, planned
from ortpkg.distribution.package_sources import opened_source
from ortpkg.distribution.registry.package_index import resolve_package
from ortpkg.distribution.registry.referrers import version_tags
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.foundations.versions import parse_version
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    parse_reference,
)
from ortpkg.package.references.url_references import UrlReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """An installed package, and what would be installed now.

    Attributes:
        installed: The installation in use before.
        plan: Plan of the new installation.
        generation: The installation in use now, the same as ``installed`` if nothing was to be
            done; None for a rehearsal.
        moved_nbytes: Size of the layers that were fetched.
    """

    installed: Generation
    plan: InstallPlan
    generation: Generation | None
    moved_nbytes: int = 0

    @property
    def is_newer(self) -> bool:
        """True if the reference names another version than the one in use."""
        return self.plan.fetched.source.digest != self.installed.digest

    @property
    def is_signed_anew(self) -> bool:
        """True if only the signatures differ."""
        signatures = self.plan.vouching.signatures
        return self._is_same_choice and bool(signatures) and not self._is_same_tree

    @property
    def is_current(self) -> bool:
        """True if nothing is to be done."""
        return self._is_same_choice and not self.is_signed_anew

    @property
    def _is_same_choice(self) -> bool:
        chosen = {choice.name for choice in self.plan.choices}
        return not self.is_newer and chosen == set(self.installed.variants)

    @property
    def _is_same_tree(self) -> bool:
        return self.plan.content.key == self.installed.tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """News of a registry about an installed package.

    Attributes:
        installed: The installation in use.
        digest: Digest of the manifest that its reference names now.
        newer_tags: Tags of versions newer than its own tag, newest first.
    """

    installed: Generation
    digest: str
    newer_tags: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        """True if there is nothing new."""
        return self.digest == self.installed.digest and not self.newer_tags


def upgrade(
    installed: Generation,
    *,
    store: PackageStore,
    trust_policy: Path | None = None,
    is_rehearsal: bool = False,
    on_plan: Callable[[InstallPlan], object] | None = None,
    progress: Progress | None = None,
) -> Upgrade:
    """Install what the reference of an installed package names now, selected by the same wishes.

    Args:
        installed: The installation in use.
        store: Its store.
        trust_policy: File of the trust policy; default: the one that applies here.
        is_rehearsal: True to fetch only documents and change nothing.
        on_plan: Called with the plan before anything is fetched, if something is to be done.
        progress: Called with (source, bytes done, bytes in all).

    Raises:
        OrtpkgError: See :func:`~ortpkg.distribution.installation.install`; the old installation
            stays in use.
    """
    wishes = InstallWishes.of_words(installed.asked)
    reference = parse_reference(installed.reference)
    with planned(reference, installed.name, wishes, store, progress, trust_policy) as plan:
        planned_upgrade = Upgrade(installed=installed, plan=plan, generation=None)
        if planned_upgrade.is_current:
            return Upgrade(installed=installed, plan=plan, generation=installed)
        if on_plan is not None:
            on_plan(plan)
        if is_rehearsal:
            return planned_upgrade
        report = install_planned(plan, store, progress)
    return Upgrade(
        installed=installed,
        plan=plan,
        generation=report.generation,
        moved_nbytes=report.moved_nbytes,
    )


def find_outdated(installed: Generation, store: PackageStore | None = None) -> Outdated | None:
    """Return the news about an installed package; None if it came from this machine's disk.

    Raises:
        RegistryError: The registry does not answer.
    """
    reference = parse_reference(installed.reference)
    if isinstance(reference, UrlReference):
        with opened_source(reference, store or PackageStore()) as source:
            return Outdated(installed=installed, digest=source.digest, newer_tags=())
    if not isinstance(reference, OciReference | LayoutReference):
        return None
    repository = repository_of(reference)
    tags = version_tags(repository.tags())
    digest = installed.digest
    if reference.digest is None:
        digest = resolve_package(repository, reference.version).digest
    return Outdated(installed=installed, digest=digest, newer_tags=_newer(tags, installed.tag))


def _newer(tags: tuple[str, ...], tag: str) -> tuple[str, ...]:
    """Return the tags that are newer versions than ``tag``, newest first."""
    current = parse_version(tag)
    if current is None:
        return ()
    versions = {text: parse_version(text) for text in tags}
    newer = {
        text: version
        for text, version in versions.items()
        if version is not None
        and version > current
        and (current.is_prerelease or not version.is_prerelease)
    }
    return tuple(sorted(newer, key=lambda text: newer[text], reverse=True))
