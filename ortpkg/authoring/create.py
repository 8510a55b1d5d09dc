"""Makes packages and changes them: create, init_package, add_variant, remove_variant.

Each function plans first (reads, compares, refuses) and writes afterwards, through
``package.changes.transaction``: whatever goes wrong, there is the old package or the new one. All
of them wait for another command that changes the same package.

Parameters that all share: ``progress`` is called with (file, bytes done, bytes in total) while
files are copied; ``notify`` is told warnings and what is waited for, a sentence each (left out,
they are logged); ``operations`` is how the disk is changed, which tests replace to fail.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

from ortpkg.authoring.asset_sharing import check_can_have_assets
from ortpkg.authoring.component_choice import (
    DEFAULT_COMPONENT,
    component_to_extend,
    say_what_is_new,
)
from ortpkg.authoring.dedup import carry_out_assets
from ortpkg.authoring.document_edits import (
    adding_variant,
    new_documents,
    removing_component,
    removing_variant,
    variant_folder,
)
from ortpkg.authoring.joining import join_variant
from ortpkg.authoring.new_variant import (
    NewVariant,
    Notify,
    PreparedVariant,
    check_new_name,
    prepare_variants,
)
from ortpkg.authoring.overall_values import overall_values_after
from ortpkg.authoring.package_on_disk import locked_package, write_package
from ortpkg.authoring.removal import (
    check_component_is_free,
    files_of_component,
    files_of_variant,
    samples_without,
)
from ortpkg.authoring.sharing_group import SharedLayout
from ortpkg.authoring.siblings import check_agreement, signatures_of, warn_of_missing_ep
from ortpkg.authoring.stale_variants import (
    tell_of_stale_after,
    verify_no_source_leaves_a_stale_variant,
)
from ortpkg.authoring.unused_assets import unused_assets, without_assets
from ortpkg.authoring.variant_files import option_places
from ortpkg.authoring.written_package import open_written
from ortpkg.documents.frozen import EMPTY
from ortpkg.errors import AuthoringError, UsageError, quoted
from ortpkg.names import did_you_mean
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
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import Progress

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
    """Makes a package without component models at ``root``; :func:`add_variant` fills it.

    ``name`` defaults to the directory's name without ``.ortpackage``; ``form`` is as for
    :func:`create`. AuthoringError where something is at ``root`` already (an empty directory is
    fine; so is a package, with ``overwrite``).
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
    """Makes a package with one component model, which has a variant for each of ``models``.

    ``form`` is the generation of the format: "universal" (the default) is opened by onnxruntime
    1.26 to 1.32, "metadata" by 1.26 and 1.27, "component" by 1.28 on. All are the same to ortpkg.
    ``overwrite`` replaces a package that is at ``root`` already, in one step.

    Raises:
        AuthoringError: something is at ``root`` already, a name is taken or not portable, the
            models differ in inputs or outputs (unless ``force``), or the disk is full.
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
        signature=next((each.files.facts.signature for each in prepared if each.files.facts), None),
    )
    directories = {f"{MODELS}/{component}/{each.name}": each.files.sources for each in prepared}
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
    """Copies a model file with its data, or a folder, into the package as a variant.

    ``component`` may be left out where there is but one, or none yet: then "model" is made. A
    further one is made only where it is named, which ``notify`` is told.

    Only the component's metadata.json changes, and digests.json; manifest.json does when the
    component is new. What the flags leave open comes from the model's own metadata; see
    :class:`NewVariant`.

    With ``share_weights``, external data that a variant of the component has already is not copied:
    the model joins that one's folder (``joining.py``). ``on_note`` (left out: ``notify``) is told
    how many bytes that saved, ``notify`` why none. "shared-assets" instead of True makes a shared
    asset of it (:func:`~ortpkg.authoring.dedup.dedup`), once the variant is there.

    Raises:
        AuthoringError: the variant's name is taken or not portable, its inputs or outputs differ
            from its siblings' (unless ``force``), a file is no plain file, or the disk is full.
        ModelError: the model file, or a file that it names, is missing or wrong.
        UnknownComponentError: no component was named where there are several.
        UsageError: an unknown device.
        PackageError: ``root`` is no valid package.
        PackageBusyError: another command does not finish changing it.
    """
    notify = notify or logger.warning
    on_note = on_note or notify
    target = _absolute(root)
    wanted = NewVariant(
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
    _check_is_outside(target, wanted.model)
    (prepared,) = prepare_variants([wanted], notify)
    with locked_package(target, notify=notify, operations=operations) as package:
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
    """Takes a variant and its files out of the package; files that another variant uses stay.

    The last variant of a component takes the component along, since one without variants cannot be
    run; a package that loses its only component is as :func:`init_package` leaves it. ``component``
    may be left out where there is but one.

    Raises:
        UnknownComponentError: no such component or variant, or none was named where there are
            several.
        StalePackageError: a stale variant was made of this one, and would stay.
        AuthoringError: the component would go, but pipeline.json or samples.json uses it; or the
            disk is full.
        PackageError: ``root`` is no valid package.
        PackageBusyError: another command does not finish changing it.
    """
    target = _absolute(root)
    open_package(target)
    with locked_package(target, notify=notify or logger.warning, operations=operations) as package:
        change = _removing(package, component_named(package, component), variant)
        commit_change(target, change, operations=operations)
        return open_written(target)


def _check_can_share(package: PackageInfo, share_weights: bool | str) -> None:
    """UsageError where ``share`` has no such value, or the package can have no shared assets."""
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
    """Puts what a new variant shares with others into shared assets, and says what came of it."""
    report = carry_out_assets(
        open_package(root), only=[added], operations=operations, progress=progress
    )
    reasons = [each.reason for each in report.left_out]
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
        check_new_name("component", component, [each.name for each in package.components])
    else:
        names = {name for each in existing.variants for name in (each.name, each.directory.name)}
        check_new_name("variant", prepared.name, sorted(names))
        check_agreement([prepared], force, notify, siblings=signatures_of(existing, notify))
        tell_of_stale_after(existing, prepared.name, prepared, notify)
    siblings = () if existing is None else existing.variants
    warn_of_missing_ep([prepared], package.format, notify, siblings=siblings)
    signature = prepared.files.facts.signature if prepared.files.facts else None
    overall = (
        overall_values_after(package, joining={component: signature}) if existing is None else None
    )
    if existing is None and package.components:
        say_what_is_new(package, component, notify)
    return PackageChange(
        documents=adding_variant(package, component, prepared.name, prepared.entry, overall),
        new_directories={variant_folder(package, component, prepared.name): prepared.files.sources},
    )


def _removing(package: PackageInfo, component: ComponentInfo, variant: str) -> PackageChange:
    found = variant_named(component, variant)
    if len(component.variants) > 1:
        verify_no_source_leaves_a_stale_variant(package, [found])
        documents: Sequence[DocumentChange] = (
            *samples_without(package, {component.name: [variant]}),
            *removing_variant(package, component, variant),
        )
        removes = files_of_variant(package, found)
        used = option_places(found)
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
    """A folder that holds the package would be copied into itself."""
    if model.is_dir() and root.resolve().is_relative_to(model.resolve()):
        raise AuthoringError(
            f"{quoted(model)} holds the package itself: pass the folder of one variant"
        )


def parse_format(form: str) -> PackageFormat:
    """The format of that name. UsageError for another one."""
    known = [each.value for each in PackageFormat]
    if form not in known:
        raise UsageError(
            f"format {quoted(form)} is none of {', '.join(known)}{did_you_mean(form, known)}"
        )
    return PackageFormat(form)


def _package_name(root: Path, name: str | None) -> str:
    return name or root.name.removesuffix(_PACKAGE_SUFFIX) or root.name


def _absolute(root: str | PathLike[str]) -> Path:
    return Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
