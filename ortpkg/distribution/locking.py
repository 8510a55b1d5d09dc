"""``ortpkg lock`` and ``ortpkg sync``: resolve a project's packages to digests, and install them.

To make a lock, each repository is asked for its versions, and each package's documents decide which
variants the project's machines would run. Nothing else is fetched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ortpkg.distribution.fetched_documents import FetchedDocuments, fetched_documents
from ortpkg.distribution.installation import (
    InstallPlan,
    InstallReport,
    install_planned,
    planned,
)
from ortpkg.distribution.package_sources import PackageSource, opened_source
from ortpkg.distribution.project.configuration_files import PROJECT_FILE
from ortpkg.distribution.project.lock_file import (
    LOCK_FILE,
    NO_PROFILE,
    Lock,
    LockedFile,
    LockedPackage,
    read_lock,
    write_lock,
)
from ortpkg.distribution.project.project_file import Project, WantedPackage, find_project
from ortpkg.distribution.publisher_check import check_documents
from ortpkg.distribution.registry.referrers import version_tags
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes, choose_variants
from ortpkg.foundations.errors import (
    LockError,
    PackageNotInstalledError,
    RegistryUnreachableError,
    StoreError,
    quoted,
)
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.foundations.versions import parse_version
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.references.package_references import (
    DEFAULT_TAG,
    LayoutReference,
    OciReference,
    Reference,
    StoreReference,
)
from ortpkg.package.trust.publisher_trust import PublisherTrust, remote_publisher_trust
from ortpkg.selection.choosing.package_selection import THIS_MACHINE

_Entered = TypeVar("_Entered")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReport:
    """Result of locking a project.

    Attributes:
        lock: The new lock.
        before: The old lock, or None.
        is_changed: True if they differ.
    """

    lock: Lock
    before: Lock | None

    @property
    def is_changed(self) -> bool:
        """True if the new lock differs from the old one."""
        return self.lock != self.before


def project_here(folder: Path | None = None) -> Project:
    """Return the project that ``folder`` (default: the current one) belongs to.

    Raises:
        LockError: There is no project with packages.
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
    """Resolve every package of the project, and write ``ortpkg.lock`` if it changes.

    A locked package for which the project still asks the same keeps its version.

    Args:
        project: The project.
        upgrade: Packages that get the newest suitable version; True for all.
        is_rehearsal: True to write nothing.
        store: Store for documents; default: the user's.
        trust_policy: File of the trust policy; default: the one that applies here.
        progress: Called with (file, bytes done, bytes in all).

    Raises:
        LockError: No version is suitable.
        SignatureError: The trust policy refuses a package.
        UsageError: The existing lock is invalid, or a name is not one of the project's.
        RegistryError: A registry failed.
        NoSuitableVariantError: A package has no variant for one of the machines.
    """
    store = store or PackageStore()
    before = read_lock(project.folder)
    upgraded = set(project.packages) if upgrade is True else set(upgrade or ())
    for name in upgraded - set(project.packages):
        raise LockError(
            f"the project wants no package {quoted(name)}{did_you_mean(name, project.packages)}"
        )
    packages, requests = {}, {}
    for name, wanted in project.packages.items():
        requests[name] = _request_line(wanted)
        locked = None if before is None or name in upgraded else before.packages.get(name)
        if locked is not None and (before is None or before.requests.get(name) != requests[name]):
            locked = None
        packages[name] = _locked(wanted, locked, project.profiles, store, trust_policy, progress)
    report = LockReport(lock=Lock(packages=packages, requests=requests), before=before)
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
    """Install exactly what the lock says; an outdated lock is renewed first.

    Args:
        project: The project.
        is_frozen: True to raise an error if the lock is missing or outdated.
        profile: The project's machine that this is. Default: any of them, whichever this machine
            runs best.
        is_rehearsal: True to only report what would be fetched.
        store: Target; default: the user's store.
        trust_policy: See :func:`lock_project`.
        progress: Called with (source, bytes done, bytes in all).

    Raises:
        LockError: The lock is outdated, the profile is not one of the project's, a package is not
            what was locked, or this machine cannot run it.
        OrtpkgError: See :func:`lock_project`.
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
    digests = [package.digest for package in lock.packages.values()]
    # a read-only store: whoever writes to it protects what is in use
    with contextlib.suppress(StoreError):
        store.keep_for_project((project.folder / LOCK_FILE).absolute(), digests)


def _request_line(wanted: WantedPackage) -> str:
    """Return what a project asks for in one line; if it changes, the lock is outdated."""
    version = f":{wanted.tag}" if wanted.tag else wanted.specifier or "*"
    return " ".join([wanted.source_text, version, *wanted.variants])


def _locked(
    wanted: WantedPackage,
    locked: LockedPackage | None,
    profiles: Mapping[str, str],
    store: PackageStore,
    trust_policy: Path | None,
    progress: Progress | None,
) -> LockedPackage:
    version = locked.version if locked is not None else _version_of(wanted)
    digest = locked.digest if locked is not None else None
    reference = replace(wanted.source, tag=version or None, digest=digest)
    with contextlib.ExitStack() as stack:

        def enter_source(reference: Reference) -> PackageSource:
            return stack.enter_context(opened_source(reference, store, progress=progress))

        source = _enter_or_use_store(enter_source, reference, wanted.name)
        fetched = stack.enter_context(fetched_documents(source, store))
        check_documents(fetched, wanted.name, trust_policy)
        with fetched.opened() as package:
            publisher = partial(remote_publisher_trust, fetched.signed, trust_policy)
            variants = _choices(package, wanted, profiles, publisher)
    return LockedPackage(
        name=wanted.name,
        source=wanted.source_text,
        version=version,
        digest=source.digest,
        package_digest=fetched.digests.package_digest,
        files=_files_of(fetched),
        variants=variants,
    )


def _version_of(wanted: WantedPackage) -> str:
    """Return the tag to lock: the one the project follows, or the newest suitable version."""
    if wanted.tag is not None:
        return wanted.tag
    repository = repository_of(wanted.source)
    tags = version_tags(repository.tags())
    from packaging.specifiers import SpecifierSet  # only where versions are compared

    specifier = SpecifierSet(wanted.specifier)
    versions = {tag: version for tag in tags if (version := parse_version(tag)) is not None}
    fitting = list(specifier.filter(versions.values()))
    if fitting:
        newest = max(fitting)
        return next(tag for tag, version in versions.items() if version == newest)
    if not wanted.specifier and DEFAULT_TAG in tags:
        return DEFAULT_TAG
    known_tags = ", ".join(tags[:20]) or "none"
    raise LockError(
        f"no version of {wanted.name} in {repository.name} is {wanted.specifier or 'a version'};"
        f" it has the tags {known_tags}"
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
        if lock.requests.get(name) != _request_line(wanted):
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
        if strange := [choice.name for choice in plan.choices if choice.name not in offered]:
            raise LockError(
                f"this machine runs {', '.join(strange)} of {locked.name} best, which"
                f" {LOCK_FILE} has for none of the project's machines: name one with --profile, or"
                " add a profile and lock again"
            )

    with contextlib.ExitStack() as stack:

        def enter_source(reference: Reference) -> InstallPlan:
            wishes = InstallWishes(variants=variants or ())
            return stack.enter_context(
                planned(reference, locked.name, wishes, store, progress, trust_policy)
            )

        plan = _enter_or_use_store(
            enter_source,
            replace(source, tag=locked.version or None, digest=locked.digest),
            locked.name,
        )
        check(plan)
        if is_rehearsal:
            return InstallReport(plan=plan, generation=None, moved_nbytes=0)
        return install_planned(plan, store, progress)


def _enter_or_use_store(
    enter: Callable[[Reference], _Entered],
    reference: OciReference | LayoutReference,
    name: str,
) -> _Entered:
    """Enter what the reference names.

    If its registry is unreachable, enter the same from the store.

    Raises:
        RegistryUnreachableError: No installation of ``name`` has its digest.
    """
    try:
        return enter(reference)
    except RegistryUnreachableError:
        if reference.digest is None:
            raise
        with contextlib.suppress(PackageNotInstalledError):
            return enter(StoreReference(name=name, digest=reference.digest))
        raise
