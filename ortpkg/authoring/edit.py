"""Edit the facts of a package and of its variants in place (``edit``).

Changes are planned first and then carried out through ``package.changes.transaction``: if anything
fails, the package is either the old or the new one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ortpkg.authoring.describe_package import PackageDescription
from ortpkg.authoring.document_edits import (
    inline_variants,
    put_variant,
    variant_folder,
)
from ortpkg.authoring.edited_documents import EditedDocuments, metadata_path
from ortpkg.authoring.model_replacement import ModelReplacement
from ortpkg.authoring.new_variant import (
    Notify,
    checked_provider_options,
    checked_session_options,
)
from ortpkg.authoring.package_on_disk import open_locked_package
from ortpkg.authoring.removal import files_of_variant
from ortpkg.authoring.stale_variants import report_stale_after
from ortpkg.authoring.variant_entry import VariantEntry
from ortpkg.authoring.written_package import open_written
from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.documents.frozen import EMPTY, freeze
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.changes.transaction import PackageChange, commit_change
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.executor_info import ORT, PATH_SESSION_OPTIONS
from ortpkg.package.named_parts import component_named, variant_named
from ortpkg.package.package_info import (
    VERSION_FACT,
    ComponentInfo,
    PackageFormat,
    PackageInfo,
    VariantInfo,
    has_packages_version,
)
from ortpkg.package.reader import open_package

LICENSE = "license"
"""Key of ``additional_metadata`` in the manifest.

Every generation keeps it, and no reader uses it.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageEdits:
    """Requested edits; None leaves a text as it is, "" removes it.

    Attributes:
        name, version, description: of the package; the name cannot be removed.
        license: an SPDX expression, or a text for people.
        component: the component of ``order`` and ``variant``; None for the only one.
        order: variants that come first, in this order; the others follow in theirs.
        variant: the variant that the following attributes edit.
        session_options, provider_options: added, or replaced.
        removed_options: session or provider options to remove.
        model: a model file or folder that replaces the variant's.
        variant_version: the variant's own version; "" gives it the package's.
    """

    name: str | None = None
    version: str | None = None
    description: str | None = None
    license: str | None = None
    component: str | None = None
    order: Sequence[str] = ()
    variant: str | None = None
    session_options: Mapping[str, str] = EMPTY
    provider_options: Mapping[str, str] = EMPTY
    removed_options: Sequence[str] = ()
    model: Path | None = None
    variant_version: str | None = None

    @property
    def is_about_variant(self) -> bool:
        """True if an edit needs ``variant``."""
        has_options = bool(self.session_options or self.provider_options or self.removed_options)
        return has_options or self.model is not None or self.variant_version is not None


def edit(
    root: str | PathLike[str],
    edits: PackageEdits,
    *,
    force: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Edit a package's facts, its variants' order and options, or a variant's model.

    A variant whose model is replaced keeps its name, its place in the order, its options, its
    constraints and its own version. Its recorded facts and the EP's compatibility string are those
    of the new model. Variants that were compiled from the old model are reported to ``notify``. If
    the package's own facts and a component's variants change at once, a concurrent reader may see
    one new and the other old; both are valid.

    Args:
        root: the package.
        edits: the requested edits.
        force: accept a model whose inputs or outputs differ from those of the other variants, or,
            if there is none, from those of the model that it replaces.
        progress, notify, operations: as for :func:`~ortpkg.authoring.create.add_variant`.

    Raises:
        UsageError: no edit is requested, or an edit needs a variant and none is named.
        UnknownComponentError: no such component or variant.
        AuthoringError: nothing would change, a document cannot be edited, the model does not fit,
            or the disk is full.
        ModelError: the new model is missing or wrong.
        PackageError, PackageBusyError: as for every change.
    """
    notify = notify or logger.warning
    _check_edits(edits)
    target = Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    open_package(target)
    with open_locked_package(target, notify=notify, operations=operations) as package:
        change = _Edit(package, edits, notify, force=force).plan()
        commit_change(target, change, operations=operations, progress=progress)
        return open_written(target)


def _check_edits(edits: PackageEdits) -> None:
    if edits == replace(PackageEdits(), component=edits.component, variant=edits.variant):
        raise UsageError("nothing to change was named")
    if edits.is_about_variant and edits.variant is None:
        raise UsageError("options, a model and a variant's version belong to a variant: name it")
    if edits.variant is not None and not edits.is_about_variant:
        raise UsageError(
            f"variant {quoted(edits.variant)} is named, but nothing of it is to change: its own"
            " version is variant_version (--variant-version)"
        )
    if edits.name == "":
        raise UsageError("a package has a name: it cannot be taken out")
    paths = [
        key
        for key in (*edits.session_options, *edits.removed_options)
        if key in PATH_SESSION_OPTIONS
    ]
    if paths:
        raise UsageError(
            f"{quoted(paths[0])} names files of the variant: add the variant anew for that"
        )


class _Edit:
    """Plan of one change."""

    def __init__(
        self, package: PackageInfo, edits: PackageEdits, notify: Notify, *, force: bool
    ) -> None:
        self._package = package
        self._edits = edits
        self._notify = notify
        self._force = force
        self._documents = EditedDocuments(package)
        self._new_directories: dict[str, Mapping[str, Path]] = {}
        self._removes: tuple[str, ...] = ()

    def plan(self) -> PackageChange:
        """Return all edits as one change; AuthoringError if the package has all of them already."""
        edits = self._edits
        self._state_facts()
        if edits.order or edits.variant is not None:
            component = component_named(self._package, edits.component)
            if edits.order:
                self._order(component)
            if edits.variant is not None:
                self._change_variant(component, variant_named(component, edits.variant))
        documents = self._documents.changes(last=MANIFEST)
        if not documents:
            raise AuthoringError(
                f"{quoted(self._package.root)} says all of this already; nothing was changed"
            )
        return PackageChange(
            documents=documents, new_directories=self._new_directories, removes=self._removes
        )

    # --- the package ------------------------------------------------------------------------------

    def _state_facts(self) -> None:
        edits, manifest = self._edits, self._documents.value(MANIFEST)
        form = self._package.format
        keys = ["package"] if form is PackageFormat.COMPONENT else ["model"]
        # Both generations' readers must find the same.
        keys += (
            ["package"] if form is PackageFormat.UNIVERSAL and "package_name" in manifest else []
        )
        for key in keys:
            _state(manifest, f"{key}_name", edits.name)
            _state(manifest, f"{key}_version", edits.version)
        self._report_version()
        _state(manifest, "description", edits.description)
        if edits.license is not None:
            additional = manifest.setdefault("additional_metadata", {})
            if not isinstance(additional, dict):
                raise AuthoringError(
                    "the manifest's additional_metadata is no object, so a licence has no place"
                    " in it"
                )
            _state(additional, LICENSE, edits.license)
            if not additional:
                del manifest["additional_metadata"]

    def _report_version(self) -> None:
        """Report that the version of variants without one of their own changes, too."""
        new, old = self._edits.version, self._package.version or ""
        if new is None or new == old:
            return
        variants = [
            variant for component in self._package.components for variant in component.variants
        ]
        following = [variant.name for variant in variants if has_packages_version(variant)]
        if following and len(following) < len(variants):
            version = f"is {quoted(new)} now" if new else "is none now"
            was = quoted(old) if old else "none"
            self._notify(
                f"the version of {listed(following)} {version}, and was {was}; the others keep"
                " their own"
            )

    # --- the order --------------------------------------------------------------------------------

    def _order(self, component: ComponentInfo) -> None:
        for name in self._edits.order:
            variant_named(component, name)
        if len(set(self._edits.order)) < len(self._edits.order):
            raise UsageError("the order names a variant twice")
        for variants in self._lists(component):
            first = [name for name in self._edits.order if name in variants]
            ordered = {
                name: variants[name]
                for name in (*first, *(name for name in variants if name not in first))
            }
            variants.clear()
            variants.update(ordered)

    def _lists(self, component: ComponentInfo) -> list[dict[str, Any]]:
        """Return every object with the component's variants as keys, to be edited in place."""
        form, lists = self._package.format, []
        if form is not PackageFormat.METADATA:
            lists.append(self._documents.component_body(component)["variants"])
        if form is not PackageFormat.COMPONENT:
            lists.append(
                self._documents.value(metadata_path(component.name)).get("model_variants", {})
            )
            lists.append(inline_variants(self._documents.value(MANIFEST), component.name))
        return lists

    # --- a variant --------------------------------------------------------------------------------

    def _change_variant(self, component: ComponentInfo, variant: VariantInfo) -> None:
        edits = self._edits
        if edits.model is not None:
            self._replace_model(component, variant, edits.model)
        elif edits.variant_version is not None:
            old = self._entry_of(component, variant)
            new = replace(old, metadata=self._with_version(old.metadata, old))
            put_variant(self._documents, component, variant.name, new)
        if edits.session_options or edits.provider_options or edits.removed_options:
            self._set_options(component, variant)

    def _set_options(self, component: ComponentInfo, variant: VariantInfo) -> None:
        new_options = {
            "session_options": checked_session_options(self._edits.session_options, self._notify),
            "provider_options": checked_provider_options(self._edits.provider_options),
        }
        holder = self._options_holder(component, variant)
        present = {key for kind in new_options for key in holder.get(kind) or {}}
        for key in self._edits.removed_options:
            if key not in present:
                listed = ", ".join(map(quoted, sorted(present))) or "none"
                raise UsageError(
                    f"variant {quoted(variant.name)} sets no option"
                    f" {quoted(key)}{did_you_mean(key, present)}; it has {listed}"
                )
        for kind, options in new_options.items():
            remaining = {
                k: v
                for k, v in (holder.get(kind) or {}).items()
                if k not in self._edits.removed_options
            }
            _state(holder, kind, {**remaining, **options})

    def _options_holder(self, component: ComponentInfo, variant: VariantInfo) -> dict[str, Any]:
        """Return the object that holds the variant's options."""
        if self._package.format is PackageFormat.METADATA:
            bodies = [
                variants[variant.name]
                for variants in self._lists(component)
                if variant.name in variants
            ]
            if len(bodies) != 1:
                raise AuthoringError(
                    f"variant {quoted(variant.name)} stands in two documents: convert the package"
                    " first"
                )
            body: dict[str, Any] = bodies[0]
            return body
        body = self._documents.component_body(component)["variants"][variant.name]
        payloads = body.setdefault("executor_info", {})
        payload = payloads.setdefault(ORT, {})
        if not isinstance(payload, dict):
            raise AuthoringError(
                f"variant {quoted(variant.name)} has its options in a file of its own: edit that"
            )
        return payload

    def _replace_model(self, component: ComponentInfo, variant: VariantInfo, model: Path) -> None:
        replacement = ModelReplacement(self._package, self._notify, force=self._force)
        prepared = replacement.prepare(component, variant, model)
        if prepared is None:
            return
        report_stale_after(component, variant.name, prepared, self._notify)
        folder = self._free_folder(component, variant.name)
        name = folder.rpartition("/")[2]
        old = self._entry_of(component, variant)
        new = replace(
            old,
            model_file=prepared.entry.model_file,
            constraints=prepared.entry.constraints,
            metadata=self._with_version(prepared.entry.metadata, old),
            model_id=None if name == variant.name else name,
            directory=None,
        )
        put_variant(self._documents, component, variant.name, new)
        self._new_directories = {folder: prepared.files.sources}
        self._removes = files_of_variant(self._package, variant)

    def _entry_of(self, component: ComponentInfo, variant: VariantInfo) -> VariantEntry:
        entry = PackageDescription(self._package, self._package.format).entry
        return entry.components[component.name].variants[variant.name]

    def _with_version(self, metadata: Mapping[str, Any], old: VariantEntry) -> Mapping[str, Any]:
        """Return ``metadata`` with the requested version, or else with the variant's old one."""
        version = self._edits.variant_version
        facts = {key: value for key, value in metadata.items() if key != VERSION_FACT}
        if version is None and VERSION_FACT in old.metadata:
            facts[VERSION_FACT] = old.metadata[VERSION_FACT]
        elif version:
            facts[VERSION_FACT] = version
        frozen: Mapping[str, Any] = freeze(facts)
        return frozen

    def _free_folder(self, component: ComponentInfo, name: str) -> str:
        """Return an unused folder for the new files: no live file is overwritten."""
        number = 2
        while os.path.lexists(
            self._package.root / (folder := variant_folder(self._package, component.name, name))
        ):
            name = f"{self._edits.variant}-{number}"
            number += 1
        return folder


def _state(holder: dict[str, Any], key: str, value: Any) -> None:
    """Set ``key`` to ``value``; None leaves it as it is, an empty value removes it."""
    if value is None:
        return
    if value:
        holder[key] = value
    else:
        holder.pop(key, None)
