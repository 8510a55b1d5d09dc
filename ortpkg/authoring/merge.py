"""Merge variants of one model that were delivered separately into one package.

For example, a publisher distributes the CPU package, and a hardware vendor the same model,
compiled. Common files are stored once; if the two contradict each other, nothing is merged, and all
conflicts are reported at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.agreement import comparable_constraints, differences
from ortpkg.authoring.describe_package import PackageDescription
from ortpkg.authoring.document_edits import adding_variants, variant_folder
from ortpkg.authoring.merge_sidecars import MergedSidecars, merge_sidecars
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.new_variant import Notify, check_free_name, check_names, folded_names
from ortpkg.authoring.overall_values import (
    OverallValues,
    overall_values_after,
    signature_of_component,
)
from ortpkg.authoring.package_documents import ComponentEntry
from ortpkg.authoring.package_on_disk import (
    check_is_written_here,
    locked_intact_package,
    write_planned,
)
from ortpkg.authoring.package_plan import (
    PackagePlan,
    change_of,
    check_intact,
    edited_plan,
)
from ortpkg.authoring.package_totals import check_merged
from ortpkg.authoring.sharing.contents import have_same_bytes, have_same_files
from ortpkg.authoring.siblings import warn_of_fixed_dimensions
from ortpkg.authoring.stale_variants import report_stale_in_component
from ortpkg.authoring.variant_entry import VariantEntry
from ortpkg.authoring.variant_files import files_of_model
from ortpkg.authoring.variant_layout import VariantLayout, files_of_layout
from ortpkg.authoring.written_package import open_written
from ortpkg.foundations.documents.frozen import freeze
from ortpkg.foundations.errors import AuthoringError, ModelError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.foundations.versions import is_same_version
from ortpkg.package.changes.transaction import (
    DocumentChange,
    PackageChange,
    commit_change,
)
from ortpkg.package.derived_variants import current_digests
from ortpkg.package.formats.variant_declarations import OWN_FOLDER
from ortpkg.package.integrity.digest_check import is_within, list_files
from ortpkg.package.package_info import (
    VERSION_FACT,
    ComponentInfo,
    PackageFormat,
    PackageInfo,
    VariantInfo,
    version_of,
)
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import PIPELINE, SAMPLES

logger = logging.getLogger(__name__)

_SHARED_FOLDER = "shared"


def merge(
    first: str | PathLike[str],
    second: str | PathLike[str],
    *,
    output: str | PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Merge the variants of ``second`` into ``first``, or into a new package at ``output``.

    Components of the same name become one. The result has the format, the name, the version and the
    description of ``first``; variants from a ``second`` of another version, or of none, keep that
    as a fact of theirs. Every file of both is hashed first. If several components change in place,
    a concurrent reader may see one of them new and another one old; both are valid.

    Raises:
        AuthoringError: the two contradict each other (every conflict is named), ``first`` has all
            of it already (in place), ``output`` exists, or the disk is full.
        DigestMismatchError: a file is damaged.
        PackageError: one of them is not a valid package.
        PackageBusyError: another command does not finish changing it.
    """
    notify = notify or logger.warning
    base, other = (Path(os.path.abspath(root)) for root in (first, second))  # noqa: PTH100  # keeps symbolic links
    open_package(base)  # "not a package" is reported before damage
    open_package(other)
    check_intact(other, notify=notify, progress=progress)
    joining = open_package(other)
    if output is not None:
        return write_planned(
            base,
            output,
            lambda package: plan_merge(package, joining, notify=notify),
            others=(other,),
            overwrite=overwrite,
            notify=notify,
            operations=operations,
            progress=progress,
        )
    with locked_intact_package(
        base, notify=notify, operations=operations, progress=progress
    ) as package:
        change = change_of(package.root, plan_merge(package, joining, notify=notify))
        if change is None:
            raise AuthoringError(
                f"{quoted(first)} has all of {quoted(second)} already; nothing was changed"
            )
        commit_change(base, change, operations=operations, progress=progress)
        return open_written(base)


def plan_merge(base: PackageInfo, other: PackageInfo, *, notify: Notify) -> PackagePlan:
    """Plan ``base`` with everything that only ``other`` has.

    Raises:
        AuthoringError: they contradict each other (every conflict is named), or ``base`` has a form
            that ortpkg only reads.
    """
    check_is_written_here(base)
    plan = _Merger(base, other, notify).plan()
    check_merged(plan, base, other)
    return plan


class _Merger:
    def __init__(self, base: PackageInfo, other: PackageInfo, notify: Notify) -> None:
        self._base = base
        self._other = other
        self._notify = notify
        self._description = PackageDescription(other, base.format)
        self._conflicts: list[str] = []
        self._version_notes: list[str] = []
        self._entries: dict[str, dict[str, VariantEntry]] = {}
        self._files: dict[str, Path] = {}
        self._component_names = folded_names(self._names())
        self._components: dict[str, ComponentInfo] = {}

    def plan(self) -> PackagePlan:
        """Return the content of the merged package; AuthoringError lists all conflicts at once."""
        self._compare_packages()
        for component in self._other.components:
            self._join_component(component)
        sidecars = merge_sidecars(self._base, self._other)
        self._conflicts += sidecars.conflicts
        self._join_other_files(sidecars)
        if self._conflicts:
            listed = "\n".join(f"  {conflict}" for conflict in self._conflicts)
            raise AuthoringError(
                f"the packages contradict each other, and nothing was merged:\n{listed}"
            )
        self._report_versions()
        self._report_stale()
        documents: list[DocumentChange] = []
        commit = None
        if self._entries:
            documents += adding_variants(self._base, self._joined(), self._overall_values())
            # Documents about the new variants and components follow them.
            change = PackageChange(documents=tuple(documents), new_directories={})
            commit = change.commit_document.path
        documents += sidecars.documents
        if (
            self._base.format is not PackageFormat.COMPONENT
            and len({*self._names(), *self._entries}) > 1
        ):
            self._notify("onnxruntime 1.26 and 1.27 open packages with one component model only")
        return edited_plan(
            self._base, documents, adds=self._files | dict(sidecars.files), commit=commit
        )

    def _joined(self) -> dict[str, ComponentEntry]:
        """Return joining variants by component, with the other package's facts of the component."""
        components = self._description.entry.components
        return {
            name: replace(components[name], variants=variants)
            for name, variants in self._entries.items()
        }

    def _names(self) -> list[str]:
        return [component.name for component in self._base.components]

    def _overall_values(self) -> OverallValues | None:
        """Return the package's new inputs and outputs if components join; None for no change.

        A package with a pipeline states them itself.
        """
        names = self._names()
        joining = {
            component.name: signature_of_component(component)
            for component in self._other.components
            if component.name not in names
        }
        if not joining or self._other.has_pipeline:
            return None
        return overall_values_after(self._base, joining=joining)

    def _compare_packages(self) -> None:
        base, other = self._base, self._other
        for kind, ours, theirs in (
            ("inputs", base.inputs, other.inputs),
            ("outputs", base.outputs, other.outputs),
        ):
            shapes = [
                [(value.name, value.type, value.shape and len(value.shape)) for value in values]
                for values in (ours, theirs)
            ]
            # Packages of different components, such as an encoder and a decoder, take and give
            # different values.
            is_one_model = {component.name for component in base.components} == {
                component.name for component in other.components
            }
            if is_one_model and ours and theirs and shapes[0] != shapes[1]:
                names = [
                    ", ".join(quoted(value.name) for value in values) for values in (ours, theirs)
                ]
                self._conflicts.append(f"the package's {kind} differ: {names[0]} and {names[1]}")
        for kind, current, dropped in (
            ("name", base.name, other.name),
            ("description", base.description, other.description),
        ):
            if current != dropped and dropped:
                self._notify(
                    f"the {kind} stays {quoted(current)}; the other package's is {quoted(dropped)}"
                )

    @property
    def _has_other_version(self) -> bool:
        """True if joining variants must state their version themselves."""
        return not is_same_version(self._other.version or "", self._base.version or "")

    def _report_versions(self) -> None:
        for note in self._version_notes:
            self._notify(note)
        if self._entries and self._has_other_version:
            ours, theirs = self._base.version, self._other.version
            stays = f"stays {quoted(ours)}" if ours else "stays unstated"
            keep = f"keep {quoted(theirs)} as theirs" if theirs else "have none"
            self._notify(f"the version {stays}; variants of the other package {keep}")

    def _report_stale(self) -> None:
        """Report compiled variants of the result whose source has another model than before."""
        digests_of_base, digests_of_other = (
            current_digests(self._base),
            current_digests(self._other),
        )
        untouched = {component.name: component for component in self._base.components}
        for component in {**untouched, **self._components}.values():
            report_stale_in_component(
                component,
                lambda path: digests_of_base(path) or digests_of_other(path),
                self._notify,
            )

    def _join_component(self, component: ComponentInfo) -> None:
        existing = self._base.component(component.name)
        joining = component.variants
        try:
            if self._base.format is not PackageFormat.METADATA:
                check_names([component])
            if existing is None:
                check_free_name("component", component.name, self._component_names)
            else:
                present = {variant.name: variant for variant in existing.variants}
                names = folded_names(present)
                joining = tuple(
                    variant
                    for variant in component.variants
                    if self._is_new(existing, variant, present.get(variant.name), names)
                )
        except AuthoringError as error:
            self._conflicts.append(str(error))
            return
        variants = (*(existing.variants if existing is not None else ()), *joining)
        self._components[component.name] = replace(existing or component, variants=variants)
        folders: dict[str, str] = {}
        folder_names = self._folder_names(existing, component.name)
        for variant in joining:
            location = self._description.layouts[component.name, variant.name]
            if location.folder not in folders:
                name = _free_name(location, folder_names)
                folder_names.add(name.casefold())
                folders[location.folder] = variant_folder(self._base, component.name, name)
            self._join_variant(component.name, variant, location, folders[location.folder])

    def _is_new(
        self,
        existing: ComponentInfo,
        variant: VariantInfo,
        same: VariantInfo | None,
        names: Mapping[str, str],
    ) -> bool:
        """Return True if ``variant`` is to join; add conflicts to the list.

        ``same`` is its namesake, ``names`` are the folded names of existing variants.
        """
        label = f"variant {quoted(variant.name)} of component model {quoted(existing.name)}"
        if same is not None:
            ours, theirs = version_of(same, self._base), version_of(variant, self._other)
            if difference := self._difference(same, variant):
                versions = (
                    f" (versions {quoted(ours)} and {quoted(theirs)})" if ours != theirs else ""
                )
                self._conflicts.append(
                    f"{label} is in both packages, and {difference} differ{versions}"
                )
            elif not is_same_version(ours or "", theirs or ""):
                ours, theirs = (
                    quoted(version) if version else "none" for version in (ours, theirs)
                )
                self._version_notes.append(
                    f"{label} is the same in both; its version stays {ours}, not {theirs}"
                )
            return False
        check_free_name("variant", variant.name, names)
        self._compare_models(existing, variant, label)
        return True

    def _compare_models(self, existing: ComponentInfo, variant: VariantInfo, label: str) -> None:
        """Add a conflict if the variant's inputs and outputs differ from its new siblings'."""
        sibling = next(
            (variant for variant in existing.variants if variant.model_path is not None), None
        )
        if sibling is None or sibling.model_path is None or variant.model_path is None:
            return
        try:
            ours, theirs = (
                read_model_facts(path).signature
                for path in (variant.model_path, sibling.model_path)
            )
        except ModelError as error:
            self._conflicts.append(f"{label} cannot stand for the others: {error}")
            return
        if reasons := differences(ours, theirs):
            self._conflicts.append(f"{label} cannot stand for the others: {'; '.join(reasons)}")
        warn_of_fixed_dimensions(label, ours, [(quoted(sibling.name), theirs)], self._notify)

    def _difference(self, ours: VariantInfo, theirs: VariantInfo) -> str | None:
        """Return what differs between two variants of one name; None for nothing."""
        if comparable_constraints(ours.constraints) != comparable_constraints(theirs.constraints):
            return "its constraints"
        for key in ("session_options", "provider_options"):
            if _options_of(self._base, ours, key) != _options_of(self._other, theirs, key):
                return f"its {key.replace('_', ' ')}"
        our_files, their_files = (_files_below(variant) for variant in (ours, theirs))
        models = (ours.model_path, theirs.model_path)
        if (
            models[0] is not None
            and models[1] is not None
            and not have_same_bytes(models[0], models[1])
        ):
            return "the models"
        return None if have_same_files(our_files, their_files) else "the files"

    def _folder_names(self, existing: ComponentInfo | None, component: str) -> set[str]:
        """Return the folded names of folders beside which variants of ``component`` join."""
        folder = (self._base.root / variant_folder(self._base, component, "x")).parent
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        names += (
            [variant.directory.name for variant in existing.variants]
            if existing is not None
            else []
        )
        return {name.casefold() for name in names}

    def _join_variant(
        self, component: str, variant: VariantInfo, location: VariantLayout, folder: str
    ) -> None:
        entry = self._description.entry.components[component].variants[variant.name]
        if self._has_other_version and VERSION_FACT not in entry.metadata:
            entry = replace(
                entry,
                metadata=freeze({**entry.metadata, VERSION_FACT: self._other.version or None}),
            )
        name = folder.rpartition("/")[2]
        if name != location.folder_name:
            entry = replace(entry, model_id=None if name == variant.name else name)
        self._entries.setdefault(component, {})[variant.name] = entry
        self._files |= {
            f"{folder}/{path}": source
            for path, source in files_of_layout(self._other, location).items()
        }

    def _join_other_files(self, sidecars: MergedSidecars) -> None:
        """Merge the files that belong to no variant: shared assets, a README, samples' arrays."""
        handled = {*self._description.documents, PIPELINE, SAMPLES, *sidecars.sources}
        locations = self._description.layouts.values()
        brought = (
            source
            for location in locations
            if location.takes_files
            for source in location.brings.values()
        )
        handled |= {_relative(self._other, source) for source in brought}
        folders = {
            location.folder if location.moves is None else _relative(self._other, location.moves)
            for location in locations
            if not location.takes_files
        }
        for path in list_files(self._other.root):
            if path in handled or is_within(path, folders):
                continue
            ours, theirs = self._base.root / path, self._other.root / path
            if not os.path.lexists(ours):
                self._files[path] = theirs
            elif not have_same_bytes(ours, theirs):
                if path.startswith("shared_assets/"):
                    self._conflicts.append(f"the shared asset's file {quoted(path)} differs")
                else:
                    self._notify(f"{quoted(path)} stays as it is; the other package's is left out")


def _free_name(location: VariantLayout, folder_names: Collection[str]) -> str:
    """Return an unused name for a joining variant's folder."""
    # Models in the component's own folder, with weights that they share, stay together in one.
    preferred = _SHARED_FOLDER if location.folder_name == OWN_FOLDER else location.folder_name
    name = preferred
    attempt = 1
    while name.casefold() in folder_names:
        attempt += 1
        name = f"{preferred}-{attempt}"
    return name


def _options_of(package: PackageInfo, variant: VariantInfo, kind: str) -> dict[str, str]:
    """Return options of a variant, without the path of the package in them."""
    options: Mapping[str, str] = getattr(variant, kind)
    return {key: text.replace(str(package.root), "") for key, text in options.items()}


def _files_below(variant: VariantInfo) -> dict[str, Path]:
    """Return the files that a model needs, by location; all files in the folder of a set."""
    if variant.model_path is None:
        return {path: variant.directory / path for path in list_files(variant.directory)}
    return files_of_model(variant, variant.model_path)


def _relative(package: PackageInfo, path: Path) -> str:
    return path.relative_to(package.root).as_posix()
