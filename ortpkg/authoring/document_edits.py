"""Edits of a package's documents: the raw JSON is changed, so that order and unknown keys survive.

The form that a package has is kept: its generation, ``component_models`` as a list, as an object or
left out, ``file`` or ``model_file`` for a variant's model, components inline or in documents of
their own. Nothing is written here; each function returns the documents that change, in the order in
which ``transaction.commit_change`` may replace them, so that the package is valid after each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ortpkg.authoring.edited_documents import EditedDocuments, checked_document, metadata_path
from ortpkg.authoring.overall_values import OverallValues, is_same, overall_values
from ortpkg.authoring.package_documents import (
    ComponentEntry,
    PackageEntry,
    component_content,
    component_document,
    component_reference,
    package_documents,
)
from ortpkg.authoring.variant_entry import VariantEntry, component_body, metadata_body
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.graph.model_signature import ModelSignature
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.component_format import FACTS
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo


def new_documents(
    *,
    name: str,
    form: PackageFormat,
    version: str | None = None,
    description: str | None = None,
    component: str | None = None,
    variants: Mapping[str, VariantEntry] | None = None,
    signature: ModelSignature | None = None,
) -> tuple[DocumentChange, ...]:
    """Return the documents of a new package: its manifest, and its component's if it has one."""
    values = overall_values([signature])
    package = PackageEntry(
        name=name,
        version=version,
        description=description,
        components=(
            {component: ComponentEntry(variants=variants or {})} if component is not None else {}
        ),
        inputs=tuple(values.get("inputs", ())),
        outputs=tuple(values.get("outputs", ())),
    )
    return tuple(
        DocumentChange(path=path, after=checked_document(value, path, form))
        for path, value in package_documents(package, form).items()
    )


def variant_folder(package: PackageInfo, component: str, folder: str) -> str:
    """Return the path of a new folder of ``component``, relative to the root: beside its others.

    Raises AuthoringError where the component lies outside of the package.
    """
    info = package.component(component)
    if info is None or info.directory == package.root:
        return f"{MODELS}/{component}/{folder}"
    if not info.directory.is_relative_to(package.root):
        raise AuthoringError(
            f"component model {quoted(component)} lies outside of the package, in an installed one"
        )
    return f"{info.directory.relative_to(package.root).as_posix()}/{folder}"


def adding_variant(
    package: PackageInfo,
    component: str,
    variant: str,
    entry: VariantEntry,
    overall: OverallValues | None = None,
) -> tuple[DocumentChange, ...]:
    """Return the documents that change when ``variant`` joins ``component``.

    A component that is new joins the manifest.

    ``overall``: how the package's overall inputs and outputs change by that; None: not at all.
    """
    joining = {component: ComponentEntry(variants={variant: entry})}
    return adding_variants(package, joining, overall)


def adding_variants(
    package: PackageInfo,
    joining: Mapping[str, ComponentEntry],
    overall: OverallValues | None = None,
) -> tuple[DocumentChange, ...]:
    """Return the documents that change when several variants join, by component.

    Of a component that is not there yet, all that its entry states is written; of one that is
    there, the variants alone are added.
    """
    documents = EditedDocuments(package)
    is_listed = True
    for component, joined in joining.items():
        existing = package.component(component)
        if existing is None:
            is_listed = _add_component(documents, component, joined)
            continue
        for variant, entry in joined.variants.items():
            put_variant(documents, existing, variant, entry)
    if overall is not None:
        _restate(documents, overall)
    # The last one makes a component appear: the manifest, or metadata.json itself where components
    # are discovered.
    return documents.changes(last=MANIFEST if is_listed else metadata_path(next(iter(joining))))


def put_variant(
    documents: EditedDocuments, component: ComponentInfo, variant: str, entry: VariantEntry
) -> None:
    """State ``variant`` of an existing component: at the end, or in place of its namesake."""
    package = documents.package
    if package.format is not PackageFormat.METADATA:
        documents.component_body(component)["variants"][variant] = component_body(
            _placed(package, component, variant, entry),
            with_facts=package.format is PackageFormat.COMPONENT,
        )
    if package.format is not PackageFormat.COMPONENT:
        inline_variants(documents.value(MANIFEST), component.name).pop(variant, None)
        older = documents.value(metadata_path(component.name))
        if not older:  # so far, its variants stand in the manifest alone
            older["component_model_name"] = component.name
        variants = older.setdefault("model_variants", {})
        variants[variant] = metadata_body(entry, form=package.format, file_key=_file_key(variants))


def removing_variant(
    package: PackageInfo, component: ComponentInfo, variant: str
) -> tuple[DocumentChange, ...]:
    """Return the documents that change when ``variant`` leaves ``component``."""
    return removing_variants(package, {component.name: [variant]})


def removing_variants(
    package: PackageInfo, leaving: Mapping[str, Iterable[str]]
) -> tuple[DocumentChange, ...]:
    """Return the documents that change when several variants leave: component → variants."""
    documents = EditedDocuments(package)
    last = MANIFEST
    for component in package.components:
        for variant in leaving.get(component.name, ()):
            if package.format is not PackageFormat.METADATA:
                del documents.component_body(component)["variants"][variant]
            if package.format is not PackageFormat.COMPONENT:
                older = documents.value(metadata_path(component.name)).get("model_variants", {})
                in_metadata = older.pop(variant, None)
                inline_variants(documents.value(MANIFEST), component.name).pop(variant, None)
                # What one document has alone must be a whole variant: the manifest goes last where
                # it alone names the file.
                if in_metadata is not None and (
                    in_metadata.get("model_file") or in_metadata.get("file")
                ):
                    last = metadata_path(component.name)
    return documents.changes(last=last)


def removing_component(
    package: PackageInfo, component: str, overall: OverallValues | None = None
) -> tuple[DocumentChange, ...]:
    """Return the manifest without ``component``.

    Where components were discovered, it lists the others from now on.
    """
    documents = EditedDocuments(package)
    manifest = documents.value(MANIFEST)
    if package.format is not PackageFormat.METADATA:
        del manifest["components"][component]
    declared = manifest.get("component_models")
    if isinstance(declared, dict):
        del declared[component]
    elif package.format is not PackageFormat.COMPONENT:
        names = declared if declared is not None else [info.name for info in package.components]
        manifest["component_models"] = [name for name in names if name != component]
    if len(package.components) == 1:
        _drop_overall_values(manifest, package.format)
    elif overall is not None:
        _restate(documents, overall)
    return documents.changes()


def _add_component(documents: EditedDocuments, component: str, entry: ComponentEntry) -> bool:
    """Add a component; return True if the manifest lists its components."""
    package = documents.package
    path = component_document(component, package.format)
    documents.value(path).update(component_content(component, entry, package.format))
    manifest = documents.value(MANIFEST)
    declared = manifest.get("component_models")
    if isinstance(declared, dict):
        declared[component] = {}
    elif isinstance(declared, list):
        declared.append(component)
    if package.format is not PackageFormat.METADATA:
        manifest["components"][component] = component_reference(component, package.format)
    return package.format is not PackageFormat.METADATA or declared is not None


def _placed(
    package: PackageInfo, component: ComponentInfo, variant: str, entry: VariantEntry
) -> VariantEntry:
    """Return the entry with its folder stated if the component is declared in the root."""
    if component.directory != package.root or entry.directory is not None:
        return entry
    return replace(
        entry, directory=variant_folder(package, component.name, entry.model_id or variant)
    )


def _restate(documents: EditedDocuments, overall: OverallValues) -> None:
    """Bring the manifest's inputs and outputs up to date.

    What somebody wrote there by hand stays.
    """
    manifest, is_component = (
        documents.value(MANIFEST),
        documents.package.format is PackageFormat.COMPONENT,
    )
    additional = manifest.get("additional_metadata", {})
    if is_component and not isinstance(additional, dict):
        return
    holder = dict(additional.get(FACTS, {})) if is_component else manifest
    for key in ("inputs", "outputs"):
        if key in holder and not is_same(holder[key], overall.before.get(key)):
            continue
        if key not in overall.after:
            holder.pop(key, None)
        elif not is_same(holder.get(key), overall.after[key]):
            holder[key] = overall.after[key]
    if is_component and holder:
        manifest.setdefault("additional_metadata", {})[FACTS] = holder
    elif is_component and FACTS in additional:
        _drop_overall_values(manifest, PackageFormat.COMPONENT)


def _drop_overall_values(manifest: dict[str, Any], form: PackageFormat) -> None:
    additional = manifest.get("additional_metadata")
    holder = additional.get(FACTS, {}) if isinstance(additional, dict) else {}
    for key in ("inputs", "outputs"):
        (holder if form is PackageFormat.COMPONENT else manifest).pop(key, None)
    if (
        form is PackageFormat.COMPONENT
        and isinstance(additional, dict)
        and additional.get(FACTS) == {}
    ):
        del additional[FACTS]
        if not additional:
            del manifest["additional_metadata"]


def inline_variants(manifest: dict[str, Any], component: str) -> dict[str, Any]:
    """Return the variants that the manifest itself states of a component, to be edited."""
    declared = manifest.get("component_models")
    body = declared.get(component) if isinstance(declared, dict) else None
    variants: dict[str, Any] = (body or {}).get("model_variants", {})
    return variants


def _file_key(variants: Mapping[str, Any]) -> str:
    """Return ``file`` in a package of the pull request's drafts, ``model_file`` in all others."""
    bodies = [body for body in variants.values() if isinstance(body, dict)]
    return (
        "file"
        if bodies and all("file" in body and "model_file" not in body for body in bodies)
        else "model_file"
    )
