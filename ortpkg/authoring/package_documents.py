"""Write the documents of a whole package, in each generation of the format, from one description.

The layout is always ``models/<component>/<variant>/``, whatever the format, so that a package can
change its format without moving a file. Universal packages state a minor version that no release
knows: this turns off onnxruntime's errors for unknown keys, so that both generations' keys can
stand side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ortpkg.authoring.variant_entry import (
    VariantEntry,
    component_body,
    metadata_body,
    with_ortpkg_facts,
)
from ortpkg.foundations.documents.frozen import EMPTY, thaw
from ortpkg.package.document_names import COMPONENT, MANIFEST, METADATA
from ortpkg.package.formats.component_format import MANIFEST_KEYS
from ortpkg.package.formats.executor_info import FORBIDDEN_SESSION_OPTIONS
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.package_info import PackageFormat

UNIVERSAL_VERSION = "1.1000"
COMPONENT_VERSION = "1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentEntry:
    """One component model as documents state it; ``other_keys`` belong to no generation."""

    variants: Mapping[str, VariantEntry]
    metadata: Mapping[str, Any] = EMPTY
    additional_metadata: Any = None
    other_keys: Mapping[str, Any] = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageEntry:
    """A whole package as documents state it, whatever their format.

    Attributes:
        name, version, description: of the package.
        components: in the order of the manifest.
        inputs, outputs: as a document states them; empty for none.
        additional_metadata: opaque, without ortpkg's own facts.
        other_keys: keys that not every generation has, among them ``layout`` and ``shared_assets``.
    """

    name: str
    version: str | None = None
    description: str | None = None
    components: Mapping[str, ComponentEntry] = EMPTY
    inputs: tuple[Mapping[str, Any], ...] = ()
    outputs: tuple[Mapping[str, Any], ...] = ()
    additional_metadata: Any = None
    other_keys: Mapping[str, Any] = EMPTY


def component_document(component: str, form: PackageFormat) -> str:
    """Return the path to the document that lists the variants of ``component``."""
    return f"{MODELS}/{component}/{COMPONENT if form is PackageFormat.COMPONENT else METADATA}"


def component_reference(component: str, form: PackageFormat) -> str:
    """Return the path in ``components``: component.json's folder, or the common document."""
    return (
        f"{MODELS}/{component}"
        if form is PackageFormat.COMPONENT
        else component_document(component, form)
    )


def package_documents(package: PackageEntry, form: PackageFormat) -> dict[str, dict[str, Any]]:
    """Map path → document; equal descriptions give equal documents, key by key."""
    documents = {
        component_document(name, form): component_content(name, component, form)
        for name, component in package.components.items()
    }
    return documents | {MANIFEST: _manifest(package, form)}


def component_content(name: str, component: ComponentEntry, form: PackageFormat) -> dict[str, Any]:
    """Return the document that lists a component's variants."""
    if form is PackageFormat.COMPONENT:
        facts = {"metadata": component.metadata, "other_keys": component.other_keys}
        content: dict[str, Any] = {
            "component_name": name,
            "variants": _newer(component, with_facts=True),
        }
        return content | with_ortpkg_facts(component.additional_metadata, facts)
    older = {
        variant: metadata_body(entry, form=form) for variant, entry in component.variants.items()
    }
    content = {"component_model_name": name, "model_variants": older}
    content |= (
        {"variants": _newer(component, with_facts=False)} if form is PackageFormat.UNIVERSAL else {}
    )
    content |= {"metadata": thaw(component.metadata)} if component.metadata else {}
    return content | _other_keys(component.additional_metadata, component.other_keys)


def _newer(component: ComponentEntry, *, with_facts: bool) -> dict[str, Any]:
    return {
        variant: component_body(entry, with_facts=with_facts)
        for variant, entry in component.variants.items()
    }


def without_forbidden_options(package: PackageEntry) -> PackageEntry:
    """Leave out session options with which onnxruntime refuses the component generation."""
    components = {
        name: replace(
            component, variants={key: _allowed(entry) for key, entry in component.variants.items()}
        )
        for name, component in package.components.items()
    }
    return replace(package, components=components)


def _allowed(entry: VariantEntry) -> VariantEntry:
    options = {
        key: value
        for key, value in entry.session_options.items()
        if key not in FORBIDDEN_SESSION_OPTIONS
    }
    return replace(entry, session_options=options)


def _manifest(package: PackageEntry, form: PackageFormat) -> dict[str, Any]:
    references = {name: component_reference(name, form) for name in package.components}
    values = {
        values_key: thaw(declared)
        for values_key, declared in (("inputs", package.inputs), ("outputs", package.outputs))
        if declared
    }
    if form is PackageFormat.COMPONENT:
        manifest_keys = {
            key: thaw(value) for key, value in package.other_keys.items() if key in MANIFEST_KEYS
        }
        facts = {
            **values,
            "other_keys": {
                key: package.other_keys[key]
                for key in package.other_keys
                if key not in manifest_keys
            },
        }
        manifest = {"schema_version": COMPONENT_VERSION, "package_name": package.name}
        manifest |= _without_empty(
            {"package_version": package.version, "description": package.description}
        )
        return {
            **manifest,
            "components": references,
            **manifest_keys,
            **with_ortpkg_facts(package.additional_metadata, facts),
        }
    manifest = {"schema_version": UNIVERSAL_VERSION} if form is PackageFormat.UNIVERSAL else {}
    manifest |= {"model_name": package.name}
    manifest |= _without_empty(
        {"model_version": package.version, "description": package.description}
    )
    lists: dict[str, Any] = {"component_models": list(package.components)}
    lists |= {"components": references} if form is PackageFormat.UNIVERSAL else {}
    return {
        **manifest,
        **lists,
        **values,
        **_other_keys(package.additional_metadata, package.other_keys),
    }


def _without_empty(values: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


def _other_keys(additional_metadata: Any, other_keys: Mapping[str, Any]) -> dict[str, Any]:
    rest = {} if additional_metadata is None else {"additional_metadata": thaw(additional_metadata)}
    return rest | {key: thaw(value) for key, value in other_keys.items()}
