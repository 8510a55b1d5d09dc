"""``ortpkg.install``, ``ortpkg.pull`` and ``ortpkg.push``: move packages between machines."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from ortpkg.distribution import installation, publishing, pulling
from ortpkg.distribution.installation import InstallReport
from ortpkg.distribution.publishing import PublishReport
from ortpkg.distribution.pulling import PullReport
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import PackageReferenceError, quoted
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    parse_reference,
)


def install(
    reference: str | PathLike[str],
    *,
    name: str | None = None,
    profiles: Sequence[str] = (),
    variants: Sequence[str] = (),
    ep: str | None = None,
    device: str | None = None,
    all_variants: bool = False,
    samples: bool = False,
    trust: bool = False,
    trust_policy: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> InstallReport:
    """Install a package in the store: its documents, and the files that this machine needs.

    Afterwards ``ModelPackage(name)`` opens it.

    Args:
        reference: ``oci://host/repository:tag``, ``oci-layout:FOLDER``, a folder, or a packed file.
        name: name in the store; None: that of its repository, or its own.
        profiles: names or files of profiles of machines to install for, instead of this one.
        variants: these variants, ``variant`` or ``component/variant``, instead of choosing.
        ep, device: only variants for this execution provider, or kind of device.
        all_variants: True to install everything.
        samples: True to install the package's samples, too.
        trust: True if native code may be chosen, whoever made it; sessions on it then need
            ``trust``.
        trust_policy: file that says who may publish what; None: the one that applies here
            (docs/trust.md), if any.
        progress: called with (source, bytes done, bytes in all), by several threads.

    Raises:
        SignatureError: the trust policy refuses it.
        NoSuitableVariantError: nothing fits the machine.
        TrustRequiredError: only native code fits that sessions here would refuse.
        ArtifactFormatError: the registry's content is not a package, or contradicts itself.
        LayerMismatchError: the registry sent something else than was requested.
        RegistryError: the registry failed.
        StoreError: the store cannot be used.
    """
    wishes = InstallWishes(
        profiles=tuple(profiles),
        variants=tuple(variants),
        ep=ep,
        device=device,
        all_variants=all_variants,
        samples=samples,
        trust=trust,
    )
    return installation.install(
        reference,
        name=name,
        wishes=wishes,
        trust_policy=None if trust_policy is None else Path(trust_policy),
        progress=progress,
    )


def pull(
    reference: str | PathLike[str],
    root: str | PathLike[str],
    *,
    profiles: Sequence[str] = (),
    variants: Sequence[str] = (),
    ep: str | None = None,
    device: str | None = None,
    all_variants: bool = False,
    samples: bool = False,
    trust: bool = False,
    trust_policy: str | PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PullReport:
    """Copy a package to ``root``, a new folder that may be changed.

    The arguments and errors are those of :func:`install`. ``reference`` may also be the name of an
    installed package, of which all installed files are copied unless something else is asked for.
    With ``overwrite`` a package at ``root`` is replaced when the new one is complete.
    """
    wishes = InstallWishes(
        profiles=tuple(profiles),
        variants=tuple(variants),
        ep=ep,
        device=device,
        all_variants=all_variants,
        samples=samples,
        trust=trust,
    )
    return pulling.pull(
        reference,
        root,
        wishes=None if wishes == InstallWishes() else wishes,
        trust_policy=None if trust_policy is None else Path(trust_policy),
        overwrite=overwrite,
        progress=progress,
    )


def push(
    root: str | PathLike[str],
    reference: str,
    *,
    tags: Sequence[str] = (),
    progress: Progress | None = None,
) -> PublishReport:
    """Publish the package at ``root``: first the content that the registry lacks, then its tags.

    Args:
        root: directory of the package.
        reference: ``oci://host/repository[:tag]`` or ``oci-layout:FOLDER[:tag]``.
        tags: more tags; without any, the package's version, or ``latest``.
        progress: called with (file, bytes done, bytes in all), by several threads.

    Raises:
        PackageReferenceError: ``reference`` is not a location to publish to.
        OrtpkgError: as :func:`ortpkg.distribution.publishing.publish`.
    """
    where = parse_reference(reference)
    if not isinstance(where, OciReference | LayoutReference) or where.digest is not None:
        raise PackageReferenceError(
            f"{quoted(reference)} is no place to publish to: that is oci://host/repository[:tag],"
            " or oci-layout:FOLDER[:tag]",
            reference=reference,
        )
    return publishing.publish(
        Path(root),
        repository_of(where),
        tags=[*([where.tag] if where.tag else []), *tags],
        progress=progress,
    )
