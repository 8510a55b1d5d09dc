"""``ortpkg lock`` and ``ortpkg sync``: what a project wants, settled on bytes, and installed.

A lock is made by asking each repository which versions it has, and each package, by its documents
alone, which variants each of the project's machines would run. Nothing else of it is fetched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ortpkg.choosing.package_selection import THIS_MACHINE
from ortpkg.distribution.fetched_documents import FetchedDocuments, fetched_documents
from ortpkg.distribution.installation import (
    InstallPlan,
    InstallReport,
    install_planned,
    planned,
)
from ortpkg.distribution.package_sources import PackageSource, opened_source
from ortpkg.distribution.publisher_check import check_documents
from ortpkg.distribution.variant_choice import InstallWishes, choose_variants
from ortpkg.errors import (
    LockError,
    PackageNotInstalledError,
    RegistryUnreachableError,
    StoreError,
    quoted,
)
from ortpkg.names import did_you_mean
from ortpkg.package.package_info import PackageInfo
from ortpkg.project.configuration_files import PROJECT_FILE
from ortpkg.project.lock_file import (
    LOCK_FILE,
    NO_PROFILE,
    Lock,
    LockedFile,
    LockedPackage,
    read_lock,
    write_lock,
)
from ortpkg.project.project_file import Project, WantedPackage, find_project
from ortpkg.registry.references import (
    DEFAULT_TAG,
    LayoutReference,
    OciReference,
    Reference,
    StoreReference,
)
from ortpkg.registry.referrers import version_tags
from ortpkg.registry.repositories import repository_of
from ortpkg.storage.hashing import Progress
from ortpkg.store.package_store import PackageStore
from ortpkg.trust.publisher_trust import PublisherTrust, publisher_trust_of
from ortpkg.versions import parse_version

_Entered = TypeVar("_Entered")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReport:
    """What became of a lock.

    Attributes:
        lock: as it is now.
        before: as it was; None where there was none.
        is_changed: whether the file is another one.
    """

    lock: Lock
    before: Lock | None

    @property
    def is_changed(self) -> bool:
        """Whether anything in it is different."""
        return self.lock != self.before


def project_here(folder: Path | None = None) -> Project:
    """The project that ``folder`` (the current one, if left out) lies in.

    LockError where it lies in none that wants packages.
    """
    project = find_project(folder)
    if project is None:
        raise LockError(
            f"no {PROJECT_FILE} here or above has a table [packages], nor a pyproject.toml"
            " [tool.ortpkg.packages]"
        )
    return project


def lock_project(
    project: Project,
    *,
    upgrade: bool | Collection[str] = False,
    is_rehearsal: bool = False,
    store: PackageStore | None = None,
    trust_policy: Path | None = None,
    progress: Progress | None = None,
) -> LockReport:
    """Settles every package of the project, and writes ``ortpkg.lock`` where that changes it.

    A package that is locked, and of which the project asks for the same as then, keeps its version.

    Args:
        project: what is wanted.
        upgrade: the packages that get the newest version that will do; True: all.
        is_rehearsal: nothing is written.
        store: where documents are kept; left out, the user's.
        trust_policy: the file that says who may publish what; left out, the one that holds here.
        progress: called with (file, bytes done, bytes in all).

    Raises:
        LockError: no version will do; SignatureError: the trust policy refuses a package;
            UsageError: the lock that is there is none, or a name is not
            the project's; RegistryError: a registry failed; NoSuitableVariantError: a package has
            nothing for one of the machines.
    """
    store = store or PackageStore()
    before = read_lock(project.folder)
    upgraded = set(project.packages) if upgrade is True else set(upgrade or ())
    for name in upgraded - set(project.packages):
        raise LockError(
            f"the project wants no package {quoted(name)}{did_you_mean(name, project.packages)}"
        )
    packages, asked = {}, {}
    for name, wanted in project.packages.items():
        asked[name] = _asked(wanted)
        kept = None if before is None or name in upgraded else before.packages.get(name)
        if kept is not None and (before is None or before.wanted.get(name) != asked[name]):
            kept = None
        packages[name] = _locked(wanted, kept, project.profiles, store, trust_policy, progress)
    report = LockReport(lock=Lock(packages=packages, wanted=asked), before=before)
    if report.is_changed and not is_rehearsal:
        write_lock(project.folder, report.lock)
    return report


def sync_project(
    project: Project,
    *,
    is_frozen: bool = False,
    profile: str | None = None,
    is_rehearsal: bool = False,
    store: PackageStore | None = None,
    trust_policy: Path | None = None,
    progress: Progress | None = None,
) -> tuple[InstallReport, ...]:
    """Installs what the lock says, and nothing else; makes the lock first where it is out of date.

    Args:
        project: what is wanted.
        is_frozen: a lock that is not there, or out of date, is an error.
        profile: which of the project's machines this is. Left out: what this machine runs best of
            what any of them has.
        is_rehearsal: says what would be fetched.
        store: where to; left out, the user's.
        trust_policy: as for :func:`lock_project`.
        progress: called with (where from, bytes done, bytes in all).

    Raises:
        LockError: the lock is out of date, the profile is none of the project's, a package is no
            longer what was locked, or this machine runs nothing of it.
        The rest: as :func:`lock_project`.
    """
    store = store or PackageStore()
    lock = read_lock(project.folder)
    stale = _why_stale(project, lock)
    if stale is not None and is_frozen:
        raise LockError(f"{stale}: run ortpkg lock, and look at what changes in {LOCK_FILE}")
    if lock is None or stale is not None:
        lock = lock_project(
            project,
            is_rehearsal=is_rehearsal,
            store=store,
            trust_policy=trust_policy,
            progress=progress,
        ).lock
    if profile is not None and profile not in project.profiles:
        raise LockError(
            f"the project has no profile {quoted(profile)}"
            f"{did_you_mean(profile, project.profiles)}; it has"
            f" {', '.join(map(quoted, project.profiles)) or 'none'}"
        )
    if not is_rehearsal:
        _keep_locked(project, lock, store)
    return tuple(
        _synced(
            lock.packages[name],
            wanted.source,
            profile,
            store,
            trust_policy,
            progress,
            is_rehearsal=is_rehearsal,
        )
        for name, wanted in project.packages.items()
    )


def _keep_locked(project: Project, lock: Lock, store: PackageStore) -> None:
    digests = [each.digest for each in lock.packages.values()]
    with contextlib.suppress(StoreError):  # it is read-only; who writes it, keeps what is in use
        store.keep_for_project((project.folder / LOCK_FILE).absolute(), digests)


def _asked(wanted: WantedPackage) -> str:
    """What a project asks for, in one line: where it is another one, the lock is out of date."""
    version = f":{wanted.tag}" if wanted.tag else wanted.specifier or "*"
    return " ".join([wanted.stated, version, *wanted.variants])


def _locked(
    wanted: WantedPackage,
    kept: LockedPackage | None,
    profiles: Mapping[str, str],
    store: PackageStore,
    trust_policy: Path | None,
    progress: Progress | None,
) -> LockedPackage:
    version = kept.version if kept is not None else _version_of(wanted)
    digest = kept.digest if kept is not None else None
    reference = replace(wanted.source, tag=version or None, digest=digest)
    with contextlib.ExitStack() as stack:

        def entered(reference: Reference) -> PackageSource:
            return stack.enter_context(opened_source(reference, store, progress=progress))

        source = _here_or_there(entered, reference, wanted.name)
        fetched = stack.enter_context(fetched_documents(source, store))
        check_documents(fetched, wanted.name, trust_policy)
        with fetched.opened() as package:
            publisher = partial(publisher_trust_of, fetched.signed, trust_policy)
            variants = _choices(package, wanted, profiles, publisher)
    return LockedPackage(
        name=wanted.name,
        source=wanted.stated,
        version=version,
        digest=source.digest,
        package_digest=fetched.digests.package_digest,
        files=_files_of(fetched),
        variants=variants,
    )


def _version_of(wanted: WantedPackage) -> str:
    """The tag that is locked: the one that is followed, or the newest version that will do."""
    if wanted.tag is not None:
        return wanted.tag
    repository = repository_of(wanted.source)
    tags = version_tags(repository.tags())
    from packaging.specifiers import SpecifierSet  # only where versions are compared

    specifier = SpecifierSet(wanted.specifier)
    found = {tag: version for tag in tags if (version := parse_version(tag)) is not None}
    fitting = list(specifier.filter(found.values()))
    if fitting:
        newest = max(fitting)
        return next(tag for tag, version in found.items() if version == newest)
    if not wanted.specifier and DEFAULT_TAG in tags:
        return DEFAULT_TAG
    known = ", ".join(tags[:20]) or "none"
    raise LockError(
        f"no version of {wanted.name} in {repository.name} is {wanted.specifier or 'a version'};"
        f" it has the tags {known}"
    )


def _choices(
    package: PackageInfo,
    wanted: WantedPackage,
    profiles: Mapping[str, str],
    publisher: Callable[[], PublisherTrust],
) -> dict[str, tuple[str, ...]]:
    machines = profiles or {NO_PROFILE: THIS_MACHINE}
    return {
        name: tuple(
            variant.name
            for variant in choose_variants(
                package, InstallWishes(profiles=(machine,), variants=wanted.variants), publisher
            )
        )
        for name, machine in machines.items()
    }


def _files_of(fetched: FetchedDocuments) -> dict[str, LockedFile]:
    return {
        path: LockedFile(sha256=recorded.digests[-1], nbytes=recorded.nbytes)
        for path, recorded in fetched.digests.files.items()
    }


def _why_stale(project: Project, lock: Lock | None) -> str | None:
    if lock is None:
        return f"the project has no {LOCK_FILE}"
    for name, wanted in project.packages.items():
        if lock.wanted.get(name) != _asked(wanted):
            return f"{LOCK_FILE} does not have {quoted(name)} as the project asks for it"
        if set(lock.packages[name].variants) != (set(project.profiles) or {NO_PROFILE}):
            return f"{LOCK_FILE} was made for other machines than the project's profiles"
    if extra := set(lock.packages) - set(project.packages):
        return f"{LOCK_FILE} has {quoted(min(extra))}, which the project does not ask for"
    return None


def _synced(
    locked: LockedPackage,
    source: OciReference | LayoutReference,
    profile: str | None,
    store: PackageStore,
    trust_policy: Path | None,
    progress: Progress | None,
    *,
    is_rehearsal: bool,
) -> InstallReport:
    variants = locked.variants.get(NO_PROFILE if profile is None else profile)
    offered = {name for names in locked.variants.values() for name in names}

    def check(plan: InstallPlan) -> None:
        if _files_of(plan.fetched) != dict(locked.files):
            raise LockError(
                f"{locked.source} has other files of {locked.name} under {locked.digest} than"
                f" {LOCK_FILE}: nothing was installed"
            )
        if strange := [each.name for each in plan.choices if each.name not in offered]:
            raise LockError(
                f"this machine runs {', '.join(strange)} of {locked.name} best, which"
                f" {LOCK_FILE} has for none of the project's machines: name one with --profile, or"
                " add a profile and lock again"
            )

    with contextlib.ExitStack() as stack:

        def entered(reference: Reference) -> InstallPlan:
            wishes = InstallWishes(variants=variants or ())
            return stack.enter_context(
                planned(reference, locked.name, wishes, store, progress, trust_policy)
            )

        plan = _here_or_there(
            entered, replace(source, tag=locked.version or None, digest=locked.digest), locked.name
        )
        check(plan)
        if is_rehearsal:
            return InstallReport(plan=plan, generation=None, moved_nbytes=0)
        return install_planned(plan, store, progress)


def _here_or_there(
    enter: Callable[[Reference], _Entered],
    reference: OciReference | LayoutReference,
    name: str,
) -> _Entered:
    """Enters what the reference names; where its registry is out of reach, the same in the store.

    RegistryUnreachableError where nothing installed as ``name`` has its digest.
    """
    try:
        return enter(reference)
    except RegistryUnreachableError:
        if reference.digest is None:
            raise
        with contextlib.suppress(PackageNotInstalledError):
            return enter(StoreReference(name=name, digest=reference.digest))
        raise
