"""Whether what is installed is what would be installed now, and the way there.

An installed package is out of date where its tag names another version by now, or where the
machine, or what can run on it, has changed so that another variant of the same version would be
chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.installation import InstallPlan, install_planned, planned
from ortpkg.distribution.package_sources import opened_source
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.registry.package_index import resolve_package
from ortpkg.registry.references import LayoutReference, OciReference, parse_reference
from ortpkg.registry.referrers import version_tags
from ortpkg.registry.repositories import repository_of
from ortpkg.registry.url_references import UrlReference
from ortpkg.storage.hashing import Progress
from ortpkg.store.generations import Generation
from ortpkg.store.package_store import PackageStore
from ortpkg.versions import parse_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """One installed package, and what would be installed in its place now.

    Attributes:
        installed: what is in use.
        plan: what would be.
        generation: what is in use now; that of ``installed`` where nothing was to be done, None
            for a rehearsal.
        moved_nbytes: bytes of layers that came.
    """

    installed: Generation
    plan: InstallPlan
    generation: Generation | None
    moved_nbytes: int = 0

    @property
    def is_newer(self) -> bool:
        """Whether the reference names another version than is in use."""
        return self.plan.fetched.source.digest != self.installed.digest

    @property
    def is_signed_anew(self) -> bool:
        """Whether nothing is different but who vouches for it."""
        signatures = self.plan.vouching.signatures
        return self._is_same_choice and bool(signatures) and not self._is_same_tree

    @property
    def is_current(self) -> bool:
        """Whether nothing is to be done."""
        return self._is_same_choice and not self.is_signed_anew

    @property
    def _is_same_choice(self) -> bool:
        chosen = {each.name for each in self.plan.choices}
        return not self.is_newer and chosen == set(self.installed.variants)

    @property
    def _is_same_tree(self) -> bool:
        return self.plan.content.key == self.installed.tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """What a registry has besides what is installed.

    Attributes:
        installed: what is in use.
        digest: of the manifest that its reference names now.
        newer_tags: tags that are newer versions than its tag, which is one; the newest first.
    """

    installed: Generation
    digest: str
    newer_tags: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        """Whether there is nothing new."""
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
    """Installs what the reference of an installed package names now, chosen by the same wishes.

    Args:
        installed: what is in use.
        store: where.
        trust_policy: the file that says who may publish what; left out, the one that holds here.
        is_rehearsal: fetches documents alone, and changes nothing.
        on_plan: told what is going to be fetched, before it is, where something is to be done.
        progress: called with (where from, bytes done, bytes in all).

    Raises as :func:`~ortpkg.distribution.installation.install`; what was installed is in use still.
    """
    wishes = InstallWishes.of_words(installed.asked)
    reference = parse_reference(installed.reference)
    with planned(reference, installed.name, wishes, store, progress, trust_policy) as plan:
        found = Upgrade(installed=installed, plan=plan, generation=None)
        if found.is_current:
            return Upgrade(installed=installed, plan=plan, generation=installed)
        if on_plan is not None:
            on_plan(plan)
        if is_rehearsal:
            return found
        report = install_planned(plan, store, progress)
    return Upgrade(
        installed=installed,
        plan=plan,
        generation=report.generation,
        moved_nbytes=report.moved_nbytes,
    )


def find_outdated(installed: Generation, store: PackageStore | None = None) -> Outdated | None:
    """What there is besides an installed package; None where it came from this machine's disk.

    Raises RegistryError where the registry does not say.
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
    """Those of ``tags`` that are newer versions than ``tag``, which is one, the newest first."""
    own = parse_version(tag)
    if own is None:
        return ()
    versions = {text: parse_version(text) for text in tags}
    newer = {
        text: version
        for text, version in versions.items()
        if version is not None
        and version > own
        and (own.is_prerelease or not version.is_prerelease)
    }
    return tuple(sorted(newer, key=lambda text: newer[text], reverse=True))
