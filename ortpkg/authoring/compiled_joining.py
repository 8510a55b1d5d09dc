"""Add compiled variants to their package, or replace older ones, in a single change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.authoring.compile_targets import CompileTarget, check_is_free
from ortpkg.authoring.describe_package import PackageDescription
from ortpkg.authoring.document_edits import adding_variants, variant_folder
from ortpkg.authoring.new_variant import PreparedVariant
from ortpkg.authoring.package_documents import ComponentEntry
from ortpkg.authoring.removal import files_of_variants
from ortpkg.authoring.sample_tolerances import samples_with_copied_tolerances
from ortpkg.authoring.variant_entry import VariantEntry
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.package.changes.transaction import PackageChange
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.runtime.session.compile_models import CompiledModel

#: Targets that were compiled into one folder, each with its compiled model and prepared entry.
CompiledGroup = tuple[tuple[CompileTarget, CompiledModel, PreparedVariant], ...]

_SHARING = "ep.share_ep_contexts"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledVariant:
    """Variant that was compiled and added.

    Attributes:
        component, name: of the variant.
        source: the variant that it was compiled from.
        folder: relative to the package root.
        compiled: result of the compiler.
        entry: its entry in the documents.
        is_renewed: True if it replaced a variant of its name.
    """

    component: str
    name: str
    source: str
    folder: str
    compiled: CompiledModel
    entry: VariantEntry
    is_renewed: bool = False


def joining_change(
    package: PackageInfo, groups: Sequence[CompiledGroup]
) -> tuple[PackageChange, list[CompiledVariant]]:
    """Return one change that adds all variants to the package as it is now.

    Raises:
        AuthoringError: the package has changed meanwhile so that they cannot be added.
    """
    joining: dict[str, dict[str, VariantEntry]] = {}
    directories: dict[str, dict[str, Path]] = {}
    variants: list[CompiledVariant] = []
    replaced: list[VariantInfo] = []
    for group in groups:
        first = group[0][0]
        folder = variant_folder(
            package, first.component.name, _folder_name(package, first, len(group))
        )
        directories[folder] = {
            path: file for *_, prepared in group for path, file in prepared.files.sources.items()
        }
        for target, compiled, prepared in group:
            component = _component_now(package, target)
            check_is_free(target, component)
            entry = _placed(package, component, target, prepared.entry, folder)
            old = None if target.replaces is None else component.variant(target.name)
            if old is not None:
                replaced.append(old)
                entry = _in_place_of(package, old, entry)
            joining.setdefault(component.name, {})[target.name] = entry
            variants.append(
                CompiledVariant(
                    component=component.name,
                    name=target.name,
                    source=target.source.name,
                    folder=folder,
                    compiled=compiled,
                    entry=entry,
                    is_renewed=old is not None,
                )
            )
    copies = [(variant.component, variant.source, variant.name) for variant in variants]
    documents = (
        *adding_variants(
            package, {name: ComponentEntry(variants=entries) for name, entries in joining.items()}
        ),
        *samples_with_copied_tolerances(package, copies),
    )
    change = PackageChange(
        documents=documents,
        new_directories=directories,
        removes=files_of_variants(package, replaced),
    )
    return change, variants


def _component_now(package: PackageInfo, target: CompileTarget) -> ComponentInfo:
    component = package.component(target.component.name)
    if component is None:
        raise AuthoringError(f"component model {quoted(target.component.name)} has gone meanwhile")
    return component


def _placed(
    package: PackageInfo,
    component: ComponentInfo,
    target: CompileTarget,
    entry: VariantEntry,
    folder: str,
) -> VariantEntry:
    """Return the entry, with the folder stated if it differs from the variant's name."""
    name = folder.rpartition("/")[2]
    if name == target.name:
        return entry
    directory = (package.root / folder).relative_to(component.directory).as_posix()
    return replace(entry, model_id=name, directory=directory)


def _in_place_of(package: PackageInfo, old: VariantInfo, entry: VariantEntry) -> VariantEntry:
    """Return the entry with the old one's options; model, metadata and constraints are new."""
    description = PackageDescription(package, package.format).entry
    old_entry = description.components[old.component_name].variants[old.name]
    options = {key: text for key, text in old_entry.session_options.items() if key != _SHARING}
    return replace(
        old_entry,
        model_file=entry.model_file,
        constraints=entry.constraints,
        metadata=entry.metadata,
        model_id=entry.model_id,
        directory=entry.directory,
        session_options={**options, **entry.session_options},
        provider_options={**old_entry.provider_options, **entry.provider_options},
    )


def _folder_name(package: PackageInfo, first: CompileTarget, count: int) -> str:
    """Return the name of a new folder: the variant's name, with a number if that is taken.

    Variants that share a folder get a name with the suffix "-shared". No live file is overwritten.
    """
    existing_names = {
        path.name
        for path in (package.root / variant_folder(package, first.component.name, "x")).parent.glob(
            "*"
        )
    }
    preferred = first.name if count == 1 else f"{first.name}-shared"
    name, number = preferred, 1
    while name in existing_names and (count > 1 or first.replaces is not None):
        number += 1
        name = f"{preferred}-{number}"
    return name
