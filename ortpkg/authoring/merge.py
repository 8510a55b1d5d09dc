"""merge: variants of one model that were delivered separately, in one package.

A publisher gives out the CPU package; a hardware vendor gives out the same model, compiled. What
both have is stored once; where the two say different things, nothing is merged, and every conflict
is named at once.
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
from ortpkg.authoring.same_content import have_same_bytes, have_same_files
from ortpkg.authoring.siblings import tell_of_fixed_dimensions
from ortpkg.authoring.stale_variants import tell_of_stale_in
from ortpkg.authoring.variant_entry import VariantEntry
from ortpkg.authoring.variant_files import files_of_model
from ortpkg.authoring.variant_layout import VariantPlace, files_of_place
from ortpkg.authoring.written_package import open_written
from ortpkg.documents.frozen import freeze
from ortpkg.errors import AuthoringError, ModelError, quoted
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
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import Progress
from ortpkg.versions import is_same_version

logger = logging.getLogger(__name__)

_TOGETHER = "shared"


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
    """Brings the variants of ``second`` into ``first``, or into a new package at ``output``.

    Components of the same name become one. The result has the format, the name, the version and the
    description of ``first``; variants of a ``second`` of another version, or of none, keep that as
    a fact of theirs. Every file of both is re-hashed first. Where several components change in
    place, a reader at that moment may see one of them new and another one old; both are whole.

    Raises:
        AuthoringError: the two contradict each other (everything is named), ``first`` has all of it
            already (in place), something is at ``output``, or the disk is full.
        DigestMismatchError: a file is damaged.
        PackageError: one of them is no valid package.
        PackageBusyError: another command does not finish changing it.
    """
    notify = notify or logger.warning
    base, other = (Path(os.path.abspath(root)) for root in (first, second))  # noqa: PTH100  # keeps symbolic links
    open_package(base)  # what is no package is said before what is damaged
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
    """Return ``base`` with what ``other`` has more.

    Raises:
        AuthoringError: they contradict each other (every conflict is named), or ``base`` has a form
            that ortpkg reads only.
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
        self._told_versions: list[str] = []
        self._entries: dict[str, dict[str, VariantEntry]] = {}
        self._files: dict[str, Path] = {}
        self._component_names = folded_names(self._names())
        self._components: dict[str, ComponentInfo] = {}

    def plan(self) -> PackagePlan:
        """What the merged package consists of; AuthoringError lists all contradictions at once."""
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
        self._tell_of_versions()
        self._tell_of_stale()
        documents: list[DocumentChange] = []
        commit = None
        if self._entries:
            documents += adding_variants(self._base, self._joined(), self._overall_values())
            # What is said of the new variants and components follows them.
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
        """What joins, by component, with what the other package states of the component itself."""
        stated = self._description.entry.components
        return {name: replace(stated[name], variants=each) for name, each in self._entries.items()}

    def _names(self) -> list[str]:
        return [component.name for component in self._base.components]

    def _overall_values(self) -> OverallValues | None:
        """How the package's inputs and outputs change where components join.

        A package with a pipeline states them by itself.
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
        for what, ours, theirs in (
            ("inputs", base.inputs, other.inputs),
            ("outputs", base.outputs, other.outputs),
        ):
            shapes = [
                [(value.name, value.type, value.shape and len(value.shape)) for value in each]
                for each in (ours, theirs)
            ]
            # Packages of different components, such as an encoder and a decoder, take and give
            # different values.
            is_one_model = {each.name for each in base.components} == {
                each.name for each in other.components
            }
            if is_one_model and ours and theirs and shapes[0] != shapes[1]:
                names = [", ".join(quoted(value.name) for value in each) for each in (ours, theirs)]
                self._conflicts.append(f"the package's {what} differ: {names[0]} and {names[1]}")
        for what, stated, dropped in (
            ("name", base.name, other.name),
            ("description", base.description, other.description),
        ):
            if stated != dropped and dropped:
                self._notify(
                    f"the {what} stays {quoted(stated)}; the other package's is {quoted(dropped)}"
                )

    @property
    def _has_other_version(self) -> bool:
        """Whether variants that join must say their version themselves."""
        return not is_same_version(self._other.version or "", self._base.version or "")

    def _tell_of_versions(self) -> None:
        for told in self._told_versions:
            self._notify(told)
        if self._entries and self._has_other_version:
            ours, theirs = self._base.version, self._other.version
            stays = f"stays {quoted(ours)}" if ours else "stays unstated"
            keep = f"keep {quoted(theirs)} as theirs" if theirs else "have none"
            self._notify(f"the version {stays}; variants of the other package {keep}")

    def _tell_of_stale(self) -> None:
        """Name compiled variants of the result that were made of another model than it has."""
        digests_of_base, digests_of_other = (
            current_digests(self._base),
            current_digests(self._other),
        )
        untouched = {component.name: component for component in self._base.components}
        for component in {**untouched, **self._components}.values():
            tell_of_stale_in(
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
        folder_names = self._taken(existing, component.name)
        for variant in joining:
            location = self._description.places[component.name, variant.name]
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
        """Whether ``variant`` is to join; conflicts are noted.

        ``same`` is its namesake, ``names`` the folded names of those that are there.
        """
        label = f"variant {quoted(variant.name)} of component model {quoted(existing.name)}"
        if same is not None:
            ours, theirs = version_of(same, self._base), version_of(variant, self._other)
            if what := self._difference(same, variant):
                versions = (
                    f" (versions {quoted(ours)} and {quoted(theirs)})" if ours != theirs else ""
                )
                self._conflicts.append(f"{label} is in both packages, and {what} differ{versions}")
            elif not is_same_version(ours or "", theirs or ""):
                ours, theirs = (quoted(each) if each else "none" for each in (ours, theirs))
                self._told_versions.append(
                    f"{label} is the same in both; its version stays {ours}, not {theirs}"
                )
            return False
        check_free_name("variant", variant.name, names)
        self._compare_models(existing, variant, label)
        return True

    def _compare_models(self, existing: ComponentInfo, variant: VariantInfo, label: str) -> None:
        """Notes how the variant's inputs and outputs differ from those of its new siblings."""
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
        tell_of_fixed_dimensions(label, ours, [(quoted(sibling.name), theirs)], self._notify)

    def _difference(self, ours: VariantInfo, theirs: VariantInfo) -> str | None:
        """What is not the same of two variants of one name; None for nothing."""
        if comparable_constraints(ours.constraints) != comparable_constraints(theirs.constraints):
            return "its constraints"
        for what in ("session_options", "provider_options"):
            if _stated(self._base, ours, what) != _stated(self._other, theirs, what):
                return f"its {what.replace('_', ' ')}"
        mine, other = (_files_below(variant) for variant in (ours, theirs))
        models = (ours.model_path, theirs.model_path)
        if (
            models[0] is not None
            and models[1] is not None
            and not have_same_bytes(models[0], models[1])
        ):
            return "the models"
        return None if have_same_files(mine, other) else "the files"

    def _taken(self, existing: ComponentInfo | None, component: str) -> set[str]:
        """Names of folders beside which variants of ``component`` join, without regard to case."""
        folder = (self._base.root / variant_folder(self._base, component, "x")).parent
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        names += [each.directory.name for each in existing.variants] if existing is not None else []
        return {name.casefold() for name in names}

    def _join_variant(
        self, component: str, variant: VariantInfo, place: VariantPlace, folder: str
    ) -> None:
        entry = self._description.entry.components[component].variants[variant.name]
        if self._has_other_version and VERSION_FACT not in entry.metadata:
            entry = replace(
                entry,
                metadata=freeze({**entry.metadata, VERSION_FACT: self._other.version or None}),
            )
        name = folder.rpartition("/")[2]
        if name != place.folder_name:
            entry = replace(entry, model_id=None if name == variant.name else name)
        self._entries.setdefault(component, {})[variant.name] = entry
        self._files |= {
            f"{folder}/{path}": source
            for path, source in files_of_place(self._other, place).items()
        }

    def _join_other_files(self, sidecars: MergedSidecars) -> None:
        """Everything that belongs to no variant: shared assets, a README, samples' arrays."""
        known = {*self._description.documents, PIPELINE, SAMPLES, *sidecars.sources}
        places = self._description.places.values()
        brought = (
            source for place in places if place.takes_files for source in place.brings.values()
        )
        known |= {_relative(self._other, source) for source in brought}
        folders = {
            place.folder if place.moves is None else _relative(self._other, place.moves)
            for place in places
            if not place.takes_files
        }
        for path in list_files(self._other.root):
            if path in known or is_within(path, folders):
                continue
            ours, theirs = self._base.root / path, self._other.root / path
            if not os.path.lexists(ours):
                self._files[path] = theirs
            elif not have_same_bytes(ours, theirs):
                if path.startswith("shared_assets/"):
                    self._conflicts.append(f"the shared asset's file {quoted(path)} differs")
                else:
                    self._notify(f"{quoted(path)} stays as it is; the other package's is left out")


def _free_name(place: VariantPlace, taken: Collection[str]) -> str:
    """The name of a joining variant's folder: one that is not there yet."""
    # Models in the component's own folder, with weights that they share, stay together in one.
    wanted = _TOGETHER if place.folder_name == OWN_FOLDER else place.folder_name
    name = wanted
    attempt = 1
    while name.casefold() in taken:
        attempt += 1
        name = f"{wanted}-{attempt}"
    return name


def _stated(package: PackageInfo, variant: VariantInfo, what: str) -> dict[str, str]:
    """Options of a variant, without what depends on where the package lies."""
    options: Mapping[str, str] = getattr(variant, what)
    return {key: text.replace(str(package.root), "") for key, text in options.items()}


def _files_below(variant: VariantInfo) -> dict[str, Path]:
    """Return the files that a model needs, by location; of a set of files all in its folder."""
    if variant.model_path is None:
        return {path: variant.directory / path for path in list_files(variant.directory)}
    return files_of_model(variant, variant.model_path)


def _relative(package: PackageInfo, path: Path) -> str:
    return path.relative_to(package.root).as_posix()
