"""Reduce a package to the needed variants, and their files (``slim``)."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.document_edits import removing_variants
from ortpkg.authoring.new_variant import Notify
from ortpkg.authoring.package_on_disk import check_is_written_here, locked_intact_package
from ortpkg.authoring.package_plan import (
    PackagePlan,
    change_of,
    check_intact,
    edited_plan,
    new_package,
)
from ortpkg.authoring.removal import files_of_variants, samples_without
from ortpkg.authoring.sharing.unused_assets import unused_assets, without_assets
from ortpkg.authoring.stale_variants import verify_no_source_leaves_a_stale_variant
from ortpkg.authoring.variant_sizes import variant_sizes
from ortpkg.authoring.written_package import reading_result
from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.ep_names import OWN_EPS, ep_named, stated_ep
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.machine.hardware import DeviceType
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES
from ortpkg.package.changes.broken_signatures import report_lost_signatures
from ortpkg.package.changes.transaction import commit_change, create_package
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.named_parts import verify_variants_known
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.package.reader import open_package
from ortpkg.selection.matching.provider_option_devices import device_option_of, named_device_types

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Variants to keep: the named ones, and those that one of the devices could run.

    A variant without requirements could run anywhere; an EP for one kind of device (CUDA) is a
    requirement. Empty ``devices`` or ``eps`` mean any; all three empty are refused.
    """

    devices: tuple[str, ...] = ()
    eps: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSize:
    """Size of a variant's own files (``nbytes``), and of those that others use too."""

    component: str
    variant: str
    nbytes: int
    is_kept: bool
    shared_nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlimReport:
    """Result of slimming: the package, all former variants, bytes before and after."""

    package: PackageInfo
    variants: tuple[VariantSize, ...]
    before_nbytes: int
    after_nbytes: int


def slim(
    root: str | PathLike[str],
    *,
    devices: Sequence[str] = (),
    eps: Sequence[str] = (),
    variants: Sequence[str] = (),
    output: str | PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> SlimReport:
    """Keep the selected variants (see :class:`Wanted`), at ``output`` or (None) in place.

    Tolerances of samples for removed variants, and shared assets that nothing mentions any more,
    are removed, too. Every file is hashed first.

    Raises:
        AuthoringError: a component would lose all its variants, nothing would be removed (in
            place), ``output`` exists, or the disk is full.
        UnknownComponentError: no variant has that name.
        StalePackageError: a stale variant would stay, and its source would be removed.
        DigestMismatchError: a file is damaged.
        UsageError: nothing to keep is named, or an unknown device or execution provider.
        PackageError: ``root`` is not a valid package.
        PackageBusyError: another command does not finish changing it.
    """
    notify = notify or logger.warning
    wanted = _checked(Wanted(devices=tuple(devices), eps=tuple(eps), variants=tuple(variants)))
    source = Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    wanted = _with_full_ep_names(wanted, open_package(source))
    if output is not None:
        target = Path(os.path.abspath(output))  # noqa: PTH100  # as above
        check_intact(source, notify=notify, progress=progress)
        package = open_package(source)
        check_is_written_here(package)
        kept_variants = _variants_to_keep(package, wanted, notify)
        with lock_package(target, on_wait=notify):
            change = new_package(_plan(package, kept_variants))
            before = _report(package, kept_variants)
            create_package(
                target, change, overwrite=overwrite, operations=operations, progress=progress
            )
            report_lost_signatures((source,), target, notify)
            return _with_result(before, target)
    with locked_intact_package(
        source, notify=notify, operations=operations, progress=progress
    ) as package:
        kept_variants = _variants_to_keep(package, wanted, notify)
        change_in_place = change_of(package.root, _plan(package, kept_variants))
        if change_in_place is None:
            raise AuthoringError(f"every variant of {quoted(root)} is wanted; nothing was changed")
        before = _report(package, kept_variants)
        commit_change(source, change_in_place, operations=operations, progress=progress)
        return _with_result(before, source)


def possible_devices(variant: VariantInfo) -> frozenset[DeviceType]:
    """Return the kinds of device that a variant could run on; all if it states nothing."""
    device = variant.constraints.device
    if device is not None:
        return frozenset({DeviceType(device)}) if device in set(DeviceType) else frozenset()
    option = device_option_of(variant)
    named = named_device_types(*option) if option is not None else None
    if named is not None:
        return named
    implied = IMPLIED_DEVICE_TYPES.get(stated_ep(variant.constraints.ep) or "")
    return frozenset(DeviceType) if implied is None else frozenset({implied})


def _checked(wanted: Wanted) -> Wanted:
    if not (wanted.devices or wanted.eps or wanted.variants):
        raise UsageError(
            "say what to keep: devices (--device), execution providers (--ep) or variants"
            " (--variant)"
        )
    types = [str(member) for member in DeviceType]
    for device in wanted.devices:
        if device.lower() not in types:
            raise UsageError(
                f"device {quoted(device)} is none of"
                f" {', '.join(types)}{did_you_mean(device, types)}"
            )
    return Wanted(
        devices=tuple(device.lower() for device in wanted.devices),
        eps=wanted.eps,
        variants=wanted.variants,
    )


def _with_full_ep_names(wanted: Wanted, package: PackageInfo) -> Wanted:
    stated_eps = {stated_ep(variant.constraints.ep) for variant in _variants(package)}
    named = {*OWN_EPS, *filter(None, stated_eps)}
    return replace(wanted, eps=tuple(ep_named(ep, named) for ep in wanted.eps))


def _variants_to_keep(package: PackageInfo, wanted: Wanted, notify: Notify) -> list[VariantInfo]:
    everything = list(_variants(package))
    plain, full = zip(*map(_names, everything), strict=True) if everything else ((), ())
    verify_variants_known(package, wanted.variants, list(dict.fromkeys((*plain, *full))))
    kept_variants = [variant for variant in everything if _is_wanted(variant, wanted)]
    for kind, requested, offered in (
        (
            "device",
            wanted.devices,
            {str(device) for variant in kept_variants for device in possible_devices(variant)},
        ),
        (
            "execution provider",
            wanted.eps,
            {stated_ep(variant.constraints.ep) for variant in kept_variants},
        ),
    ):
        for value in requested:
            if value not in offered and None not in offered:
                notify(f"no variant is for the {kind} {quoted(value)}")
    empty = [
        component.name
        for component in package.components
        if not any(component.name == one.component_name for one in kept_variants)
    ]
    if empty:
        raise AuthoringError(
            f"no variant would be left of component model {listed(empty)}: nothing was changed"
        )
    return kept_variants


def _is_wanted(variant: VariantInfo, wanted: Wanted) -> bool:
    if not set(_names(variant)).isdisjoint(wanted.variants):
        return True
    if not (wanted.devices or wanted.eps):
        return False
    suits_device = not wanted.devices or not possible_devices(variant).isdisjoint(
        map(DeviceType, wanted.devices)
    )
    return suits_device and (
        not wanted.eps or stated_ep(variant.constraints.ep) in (None, *wanted.eps)
    )


def _names(variant: VariantInfo) -> tuple[str, str]:
    return variant.name, f"{variant.component_name}/{variant.name}"


def _plan(package: PackageInfo, kept_variants: Collection[VariantInfo]) -> PackagePlan:
    keys = {(variant.component_name, variant.name) for variant in kept_variants}
    leaving = [
        variant
        for variant in _variants(package)
        if (variant.component_name, variant.name) not in keys
    ]
    if not leaving:
        return edited_plan(package, ())
    verify_no_source_leaves_a_stale_variant(package, leaving)
    by_component: dict[str, list[str]] = {}
    for variant in leaving:
        by_component.setdefault(variant.component_name, []).append(variant.name)
    changes = [*samples_without(package, by_component), *removing_variants(package, by_component)]
    removes = files_of_variants(package, leaving)
    assets = unused_assets(package, changes, removes)
    changes = without_assets(package, changes, assets)
    removes += tuple(path.relative_to(package.root).as_posix() for path in assets.values())
    return edited_plan(package, changes, removes=removes)


def _report(package: PackageInfo, kept_variants: Collection[VariantInfo]) -> SlimReport:
    """Return the report before anything is written."""
    keys = {(variant.component_name, variant.name) for variant in kept_variants}
    nbytes = variant_sizes(package)
    sizes = tuple(
        VariantSize(
            component=variant.component_name,
            variant=variant.name,
            nbytes=nbytes[variant.component_name, variant.name].own_nbytes,
            shared_nbytes=nbytes[variant.component_name, variant.name].shared_nbytes,
            is_kept=(variant.component_name, variant.name) in keys,
        )
        for variant in _variants(package)
    )
    nbytes_now = _total_nbytes(package.root)
    return SlimReport(
        package=package, variants=sizes, before_nbytes=nbytes_now, after_nbytes=nbytes_now
    )


def _with_result(before: SlimReport, target: Path) -> SlimReport:
    with reading_result(target):
        return replace(before, package=open_package(target), after_nbytes=_total_nbytes(target))


def _total_nbytes(folder: Path) -> int:
    return sum((folder / path).lstat().st_size for path in list_files(folder))


def _variants(package: PackageInfo) -> Iterator[VariantInfo]:
    return (variant for component in package.components for variant in component.variants)
