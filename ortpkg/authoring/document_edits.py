"""Edits of a package's documents: the raw JSON is changed, so that order and unknown keys survive.

The form that a package has is kept: its generation, ``component_models`` as a list, as an object or
left out, ``file`` or ``model_file`` for a variant's model, components inline or in documents of
their own. Nothing is written here; each function returns the documents that change, in the order in
which ``transaction.commit_change`` may replace them, so that the package is valid after each.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

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
from ortpkg.documents.document_schemas import check_schema
from ortpkg.documents.frozen import thaw
from ortpkg.documents.json_documents import dump_document, parse_document
from ortpkg.errors import AuthoringError, PackageFormatError, quoted
from ortpkg.graph.model_signature import ModelSignature
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.document_names import COMPONENT, MANIFEST, METADATA
from ortpkg.package.formats.component_format import FACTS
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo

_SCHEMAS: dict[
    PackageFormat, tuple[tuple[str, ...], tuple[str, ...]]
] = {  # of the manifest, of the others
    PackageFormat.METADATA: (("manifest",), ("metadata",)),
    PackageFormat.COMPONENT: (("component_manifest",), ("component",)),
    PackageFormat.UNIVERSAL: (("manifest", "component_manifest"), ("metadata", "component")),
}


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
    """The documents of a new package: its manifest and, where there is a component, that one's."""
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
    """Where a new folder of ``component`` goes, relative to the root: beside its others.

    AuthoringError where the component lies outside of the package.
    """
    found = package.component(component)
    if found is None or found.directory == package.root:
        return f"{MODELS}/{component}/{folder}"
    if not found.directory.is_relative_to(package.root):
        raise AuthoringError(
            f"component model {quoted(component)} lies outside of the package, in an installed one"
        )
    return f"{found.directory.relative_to(package.root).as_posix()}/{folder}"


def adding_variant(
    package: PackageInfo,
    component: str,
    variant: str,
    entry: VariantEntry,
    overall: OverallValues | None = None,
) -> tuple[DocumentChange, ...]:
    """The documents that change when ``variant`` joins ``component``.

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
    """As :func:`adding_variant`, for several, by component.

    Of a component that is not there yet, all that its entry states is written; of one that is
    there, the variants alone are added.
    """
    editor = DocumentEditor(package)
    is_listed = True
    for component, joined in joining.items():
        existing = package.component(component)
        if existing is None:
            is_listed = _add_component(editor, component, joined)
            continue
        for variant, entry in joined.variants.items():
            put_variant(editor, existing, variant, entry)
    if overall is not None:
        _restate(editor, overall)
    # The last one makes a component appear: the manifest, or metadata.json itself where components
    # are discovered.
    return editor.changes(last=MANIFEST if is_listed else metadata_path(next(iter(joining))))


def put_variant(
    editor: DocumentEditor, component: ComponentInfo, variant: str, entry: VariantEntry
) -> None:
    """States ``variant`` of a component that is there: at the end, or in place of its namesake."""
    package = editor.package
    if package.format is not PackageFormat.METADATA:
        editor.component_body(component)["variants"][variant] = component_body(
            _placed(package, component, variant, entry),
            with_facts=package.format is PackageFormat.COMPONENT,
        )
    if package.format is not PackageFormat.COMPONENT:
        inline_variants(editor.value(MANIFEST), component.name).pop(variant, None)
        older = editor.value(metadata_path(component.name))
        if not older:  # so far, its variants stand in the manifest alone
            older["component_model_name"] = component.name
        variants = older.setdefault("model_variants", {})
        variants[variant] = metadata_body(entry, form=package.format, file_key=_file_key(variants))


def removing_variant(
    package: PackageInfo, component: ComponentInfo, variant: str
) -> tuple[DocumentChange, ...]:
    """The documents that change when ``variant`` leaves ``component``, which keeps others."""
    return removing_variants(package, {component.name: [variant]})


def removing_variants(
    package: PackageInfo, leaving: Mapping[str, Iterable[str]]
) -> tuple[DocumentChange, ...]:
    """As :func:`removing_variant`, for several: component → variants."""
    editor = DocumentEditor(package)
    last = MANIFEST
    for component in package.components:
        for variant in leaving.get(component.name, ()):
            if package.format is not PackageFormat.METADATA:
                del editor.component_body(component)["variants"][variant]
            if package.format is not PackageFormat.COMPONENT:
                older = editor.value(metadata_path(component.name)).get("model_variants", {})
                in_metadata = older.pop(variant, None)
                inline_variants(editor.value(MANIFEST), component.name).pop(variant, None)
                # What one document has alone must be a whole variant: the manifest goes last where
                # it alone names the file.
                if in_metadata is not None and (
                    in_metadata.get("model_file") or in_metadata.get("file")
                ):
                    last = metadata_path(component.name)
    return editor.changes(last=last)


def removing_component(
    package: PackageInfo, component: str, overall: OverallValues | None = None
) -> tuple[DocumentChange, ...]:
    """The manifest without ``component``.

    Where components were discovered, it lists the others from now on.
    """
    editor = DocumentEditor(package)
    manifest = editor.value(MANIFEST)
    if package.format is not PackageFormat.METADATA:
        del manifest["components"][component]
    declared = manifest.get("component_models")
    if isinstance(declared, dict):
        del declared[component]
    elif package.format is not PackageFormat.COMPONENT:
        names = declared if declared is not None else [each.name for each in package.components]
        manifest["component_models"] = [name for name in names if name != component]
    if len(package.components) == 1:
        _drop_overall_values(manifest, package.format)
    elif overall is not None:
        _restate(editor, overall)
    return editor.changes()


def checked_document(value: Any, path: str, form: PackageFormat) -> bytes:
    """The bytes of a document of a package of that format.

    AuthoringError as :func:`checked_content`.
    """
    manifest, others = _SCHEMAS[form]
    content = b""
    for schema in manifest if path == MANIFEST else others:
        content = checked_content(value, path, schema=schema)
    return content


def checked_content(value: Any, path: str, *, schema: str | None = None) -> bytes:
    """The document's bytes, once they have been read back as a reader would read them.

    A model's metadata or a flag may bring what breaks a reader's limits.

    ``schema`` is what it has to keep; None: that of the metadata generation. AuthoringError where
    the package would not open any more.
    """
    try:
        content = dump_document(value)
        parse_document(content, document=path)
    except (ValueError, PackageFormatError) as error:
        raise AuthoringError(
            f"the change was refused, since {quoted(path)} would be wrong: {error}"
        ) from error
    schema = schema or ("manifest" if path == MANIFEST else "metadata")
    if findings := check_schema(value, schema, document=path):
        problems = "; ".join(map(str, findings))
        raise AuthoringError(
            f"the change was refused, since {quoted(path)} would be wrong: {problems}"
        )
    return content


class DocumentEditor:
    """The documents of a package while they are edited."""

    def __init__(self, package: PackageInfo) -> None:
        self.package = package
        self._before: dict[str, bytes | None] = {}
        self._read: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        if not (package.root / MANIFEST).is_file():
            raise AuthoringError(
                f"{quoted(package.root)} is a component model on its own, without {MANIFEST}: make"
                " a package of it first, with ortpkg convert"
            )

    def value(self, path: str) -> dict[str, Any]:
        """The document at ``path``, to be changed in place.

        An empty one where there is none yet.
        """
        if path not in self._values:
            file = self.package.root / path
            self._before[path] = file.read_bytes() if file.is_file() else None
            before = self._before[path]
            self._read[path] = {} if before is None else parse_document(before, document=path)
            self._values[path] = copy.deepcopy(self._read[path])
        found: dict[str, Any] = self._values[path]
        return found

    def component_body(self, component: ComponentInfo) -> dict[str, Any]:
        """The object with a component's ``variants``, in the manifest or in its own document."""
        declared = self.value(MANIFEST)["components"][component.name]
        path = MANIFEST
        if isinstance(declared, str):
            path = PurePosixPath(declared).as_posix()
            path = f"{path}/{COMPONENT}" if (self.package.root / path).is_dir() else path
        is_universal = self.package.format is PackageFormat.UNIVERSAL
        if is_universal and path != metadata_path(component.name):
            raise AuthoringError(
                f"the variants of component model {quoted(component.name)} are listed in two"
                " documents, which no change can replace at once: bring them together with ortpkg"
                " convert"
            )
        if PurePosixPath(path).is_absolute():
            raise AuthoringError(
                f"component model {quoted(component.name)} lies outside of the package"
            )
        body: dict[str, Any] = declared if path == MANIFEST else self.value(path)
        return body

    def changes(self, *, last: str = MANIFEST) -> tuple[DocumentChange, ...]:
        """The changed documents in the order they were first asked for, ``last`` at the end."""
        paths = [
            path
            for path, value in self._values.items()
            if not _is_same_text(value, self._read[path])
        ]
        ordered = [path for path in paths if path != last] + [
            path for path in paths if path == last
        ]
        return tuple(
            DocumentChange(
                path=path,
                before=self._before[path],
                after=checked_document(self._values[path], path, self.package.format),
            )
            for path in ordered
        )


def _is_same_text(value: Any, other: Any) -> bool:
    """Whether two JSON values are written alike: keys in the same order, too."""
    return json.dumps(thaw(value)) == json.dumps(thaw(other))


def _add_component(editor: DocumentEditor, component: str, entry: ComponentEntry) -> bool:
    """Whether the manifest lists it; otherwise, components are discovered."""
    package = editor.package
    path = component_document(component, package.format)
    editor.value(path).update(component_content(component, entry, package.format))
    manifest = editor.value(MANIFEST)
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
    """The entry of a component declared in the root, whose ``variant_folder`` is not its own."""
    if component.directory != package.root or entry.directory is not None:
        return entry
    return replace(
        entry, directory=variant_folder(package, component.name, entry.model_id or variant)
    )


def _restate(editor: DocumentEditor, overall: OverallValues) -> None:
    """Brings the manifest's inputs and outputs up to date.

    What somebody wrote there by hand stays.
    """
    manifest, is_component = (
        editor.value(MANIFEST),
        editor.package.format is PackageFormat.COMPONENT,
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


def metadata_path(component: str) -> str:
    """Where the older generation lists the variants of ``component``."""
    return f"{MODELS}/{component}/{METADATA}"


def inline_variants(manifest: dict[str, Any], component: str) -> dict[str, Any]:
    """The variants that the manifest itself states of a component, to be changed in place."""
    declared = manifest.get("component_models")
    body = declared.get(component) if isinstance(declared, dict) else None
    variants: dict[str, Any] = (body or {}).get("model_variants", {})
    return variants


def _file_key(variants: Mapping[str, Any]) -> str:
    """``file`` in a package of the pull request's drafts, ``model_file`` in all others."""
    bodies = [body for body in variants.values() if isinstance(body, dict)]
    return (
        "file"
        if bodies and all("file" in body and "model_file" not in body for body in bodies)
        else "model_file"
    )
