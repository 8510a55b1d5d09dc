"""Create and change packages: create, init_package, add_variant, remove_variant.

Each function plans first (reads, compares, refuses) and then writes through
``package.changes.transaction``: if anything fails, the package is either the old or the new one.
All of them wait for another command that changes the same package.

Common parameters: ``progress`` is called with (file, bytes done, bytes in total) while files are
copied; ``notify`` is called with each warning and each reason to wait (by default they are logged);
``operations`` changes the disk, and tests replace it to make it fail.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

from ortpkg.authoring.component_choice import (
    DEFAULT_COMPONENT,
    component_to_extend,
    warn_of_new_component,
)
from ortpkg.authoring.document_edits import (
    adding_variant,
    new_documents,
    removing_component,
    removing_variant,
    variant_folder,
)
from ortpkg.authoring.new_variant import (
    NewVariant,
    Notify,
    PreparedVariant,
    check_new_name,
    prepare_variants,
)
from ortpkg.authoring.overall_values import overall_values_after
from ortpkg.authoring.package_on_disk import open_locked_package, write_package
from ortpkg.authoring.removal import (
    check_component_is_free,
    files_of_component,
    files_of_variant,
    samples_without,
)
from ortpkg.authoring.sharing.asset_plan import check_can_have_assets
from ortpkg.authoring.sharing.dedup import deduplicate
from ortpkg.authoring.sharing.joining import join_variant
from ortpkg.authoring.sharing.layouts import SharedLayout, SharingOptions
from ortpkg.authoring.sharing.unused_assets import unused_assets, without_assets
from ortpkg.authoring.siblings import check_agreement, signatures_of, warn_of_missing_ep
from ortpkg.authoring.stale_variants import (
    report_stale_after,
    verify_no_source_leaves_a_stale_variant,
)
from ortpkg.authoring.variant_files import option_places
from ortpkg.authoring.written_package import open_written
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.changes.transaction import (
    DocumentChange,
    PackageChange,
    commit_change,
)
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.named_parts import component_named, variant_named
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo
from ortpkg.package.reader import open_package

_PACKAGE_SUFFIX = ".ortpackage"

logger = logging.getLogger(__name__)


def init_package(
    root: str | PathLike[str],
    *,
    name: str | None = None,
    version: str | None = None,
    form: PackageFormat | str = PackageFormat.UNIVERSAL,
    overwrite: bool = False,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Create a package without component models at ``root``; :func:`add_variant` fills it.

    Args:
        root: the new package.
        name: of the package; by default the directory's name without ``.ortpackage``.
        version: of the package.
        form: generation of the format, as for :func:`create`.
        overwrite: replace an existing package.
        notify: called with messages for the user.
        operations: change the disk.

    Raises:
        AuthoringError: something is at ``root`` already (an empty directory is fine).
    """
    target = _absolute(root)
    change = PackageChange(
        documents=new_documents(
            name=_package_name(target, name), version=version, form=parse_format(form)
        ),
        new_directories={},
    )
    return write_package(target, change, overwrite=overwrite, notify=notify, operations=operations)


def create(
    root: str | PathLike[str],
    models: Sequence[NewVariant],
    *,
    name: str | None = None,
    component: str = DEFAULT_COMPONENT,
    version: str | None = None,
    description: str | None = None,
    form: PackageFormat | str = PackageFormat.UNIVERSAL,
    force: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Create a package with one component model, which has a variant for each of ``models``.

    Args:
        root: the new package.
        models: its variants.
        name: of the package; by default the directory's name without ``.ortpackage``.
        component: name of the component model.
        version, description: of the package.
        form: generation of the format: "universal" (the default) is opened by onnxruntime 1.26 to
            1.32, "metadata" by 1.26 and 1.27, "component" by 1.28 on. ortpkg reads all of them
            alike.
        force: accept models whose inputs or outputs differ.
        overwrite: replace an existing package, in one step.
        progress, notify, operations: see the module.

    Raises:
        AuthoringError: something is at ``root`` already, a name exists twice or is not portable,
            the models differ in inputs or outputs, or the disk is full.
        ModelError: a model file is missing or wrong.
        UsageError: no model was given, or an unknown device or format.
    """
    notify = notify or logger.warning
    target = _absolute(root)
    form = parse_format(form)
    if not models:
        raise UsageError(
            "no model was given: name at least one, or make an empty package with init"
        )
    check_new_name("component", component, ())
    prepared = prepare_variants(models, notify)
    check_agreement(prepared, force, notify)
    warn_of_missing_ep(prepared, form, notify)
    documents = new_documents(
        name=_package_name(target, name),
        version=version,
        description=description,
        form=form,
        component=component,
        variants={variant.name: variant.entry for variant in prepared},
        signature=next((new.files.facts.signature for new in prepared if new.files.facts), None),
    )
    directories = {f"{MODELS}/{component}/{new.name}": new.files.sources for new in prepared}
    return write_package(
        target,
        PackageChange(documents=documents, new_directories=directories),
        overwrite=overwrite,
        notify=notify,
        operations=operations,
        progress=progress,
    )


def add_variant(
    root: str | PathLike[str],
    model: str | PathLike[str],
    *,
    component: str | None = None,
    variant: str | None = None,
    ep: str | None = None,
    device: str | None = None,
    architecture: str | None = None,
    compatibility_info: str | None = None,
    session_options: Mapping[str, str] = EMPTY,
    provider_options: Mapping[str, str] = EMPTY,
    share_weights: bool | str = False,
    force: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    on_note: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Copy a model file with its data, or a folder, into the package as a variant.

    Only the component's metadata.json and digests.json change; manifest.json changes if the
    component is new. Constraints that are not given come from the model's own metadata; see
    :class:`NewVariant`.

    Args:
        root: the package.
        model: the model file or folder.
        component: name of the component; may be left out if there is only one, or none yet: then
            "model" is created. A further component is created only if it is named, and reported to
            ``notify``.
        variant, ep, device, architecture, compatibility_info, session_options, provider_options: as
            in :class:`NewVariant`.
        share_weights: True: external data that a variant of the component has already is not
            copied; the model joins that variant's folder (``joining.py``). "shared-assets": the
            common weights become a shared asset once the variant is added
            (:func:`~ortpkg.authoring.sharing.dedup.dedup`).
        force: accept a model whose inputs or outputs differ from its siblings'.
        progress, notify, operations: see the module.
        on_note: called with the number of bytes that sharing saved; by default ``notify``, which is
            told why none were saved.

    Raises:
        AuthoringError: the variant's name exists or is not portable, its inputs or outputs differ
            from its siblings', a file is not a regular file, or the disk is full.
        ModelError: the model file, or a file that it names, is missing or wrong.
        UnknownComponentError: no component was named, and there are several.
        UsageError: an unknown device.
        PackageError: ``root`` is not a valid package.
        PackageBusyError: another command does not finish changing it.
    """
    notify = notify or logger.warning
    on_note = on_note or notify
    target = _absolute(root)
    new_variant = NewVariant(
        model=Path(model),
        name=variant,
        ep=ep,
        device=device,
        architecture=architecture,
        compatibility_info=compatibility_info,
        session_options=session_options,
        provider_options=provider_options,
    )
    check_is_not_installed(target)
    package = open_package(target)
    component_to_extend(package, component)
    _check_can_share(package, share_weights)
    _check_is_outside(target, new_variant.model)
    (prepared,) = prepare_variants([new_variant], notify)
    with open_locked_package(target, notify=notify, operations=operations) as package:
        extended = component_to_extend(package, component)
        change = _adding(package, extended, prepared, force, notify)
        commit = partial(commit_change, target, operations=operations, progress=progress)
        existing = package.component(extended) if share_weights is True else None
        join = partial(
            join_variant, commit=commit, notify=notify, on_note=on_note, progress=progress
        )
        if existing is None or not join(package, existing, prepared):
            commit(change)
        if share_weights == SharedLayout.SHARED_ASSETS:
            added = (extended, prepared.name)
            _share_as_assets(
                target, added, notify, on_note, progress=progress, operations=operations
            )
        return open_written(target)


def remove_variant(
    root: str | PathLike[str],
    variant: str,
    *,
    component: str | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Remove a variant and its files from the package; files of other variants stay.

    The last variant of a component takes the component along, since one without variants cannot be
    run; a package that loses its only component is as :func:`init_package` leaves it. ``component``
    may be left out if there is only one.

    Raises:
        UnknownComponentError: no such component or variant, or none was named and there are
            several.
        StalePackageError: a stale variant was compiled from this one, and would stay.
        AuthoringError: the component would go, but pipeline.json or samples.json uses it; or the
            disk is full.
        PackageError: ``root`` is not a valid package.
        PackageBusyError: another command does not finish changing it.
    """
    target = _absolute(root)
    open_package(target)
    with open_locked_package(
        target, notify=notify or logger.warning, operations=operations
    ) as package:
        change = _removing(package, component_named(package, component), variant)
        commit_change(target, change, operations=operations)
        return open_written(target)


def _check_can_share(package: PackageInfo, share_weights: bool | str) -> None:
    """Raise UsageError for an unknown value, or for a package that cannot have shared assets."""
    if share_weights == SharedLayout.SHARED_ASSETS:
        check_can_have_assets(package)
    elif not isinstance(share_weights, bool):
        raise UsageError(
            f"share_weights is {quoted(share_weights)}; True, False or 'shared-assets' was expected"
        )


def _share_as_assets(
    root: Path,
    added: tuple[str, str],
    notify: Notify,
    on_note: Notify,
    *,
    progress: Progress | None,
    operations: FileOperations | None,
) -> None:
    """Move weights that a new variant shares with others into shared assets, and report it."""
    report = deduplicate(
        open_package(root),
        SharingOptions(layout=SharedLayout.SHARED_ASSETS),
        only=[added],
        operations=operations,
        progress=progress,
    )
    reasons = [left_out.reason for left_out in report.left_out]
    variant = f"variant {quoted(added[1])}"
    if report.moved:
        on_note(f"{variant} shares its weights: {report.saved_nbytes} bytes saved")
    else:
        why = reasons[0] if reasons else "no other variant has the same"
        notify(f"{variant} shares no weights: {why}")


def _adding(
    package: PackageInfo, component: str, prepared: PreparedVariant, force: bool, notify: Notify
) -> PackageChange:
    existing = package.component(component)
    if existing is None:
        check_new_name("component", component, [other.name for other in package.components])
    else:
        names = {
            name for variant in existing.variants for name in (variant.name, variant.directory.name)
        }
        check_new_name("variant", prepared.name, sorted(names))
        check_agreement([prepared], force, notify, siblings=signatures_of(existing, notify))
        report_stale_after(existing, prepared.name, prepared, notify)
    siblings = () if existing is None else existing.variants
    warn_of_missing_ep([prepared], package.format, notify, siblings=siblings)
    signature = prepared.files.facts.signature if prepared.files.facts else None
    overall = (
        overall_values_after(package, joining={component: signature}) if existing is None else None
    )
    if existing is None and package.components:
        warn_of_new_component(package, component, notify)
    return PackageChange(
        documents=adding_variant(package, component, prepared.name, prepared.entry, overall),
        new_directories={variant_folder(package, component, prepared.name): prepared.files.sources},
    )


def _removing(package: PackageInfo, component: ComponentInfo, variant: str) -> PackageChange:
    removed = variant_named(component, variant)
    if len(component.variants) > 1:
        verify_no_source_leaves_a_stale_variant(package, [removed])
        documents: Sequence[DocumentChange] = (
            *samples_without(package, {component.name: [variant]}),
            *removing_variant(package, component, variant),
        )
        removes = files_of_variant(package, removed)
        used = option_places(removed)
        assets = {
            uri: path
            for uri, path in unused_assets(package, documents, removes).items()
            if path in used
        }
        documents = without_assets(package, documents, assets)
        removes += tuple(path.relative_to(package.root).as_posix() for path in assets.values())
        return PackageChange(documents=tuple(documents), new_directories={}, removes=removes)
    check_component_is_free(package, component.name)
    return PackageChange(
        documents=removing_component(
            package, component.name, overall_values_after(package, leaving=component.name)
        ),
        new_directories={},
        removes=files_of_component(package, component),
    )


def _check_is_outside(root: Path, model: Path) -> None:
    """Raise AuthoringError for a folder that holds the package: it would be copied into itself."""
    if model.is_dir() and root.resolve().is_relative_to(model.resolve()):
        raise AuthoringError(
            f"{quoted(model)} holds the package itself: pass the folder of one variant"
        )


def parse_format(form: str) -> PackageFormat:
    """Return the format of that name; UsageError for an unknown one."""
    names = [member.value for member in PackageFormat]
    if form not in names:
        raise UsageError(
            f"format {quoted(form)} is none of {', '.join(names)}{did_you_mean(form, names)}"
        )
    return PackageFormat(form)


def _package_name(root: Path, name: str | None) -> str:
    return name or root.name.removesuffix(_PACKAGE_SUFFIX) or root.name


def _absolute(root: str | PathLike[str]) -> Path:
    return Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
