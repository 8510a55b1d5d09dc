"""Edits of manifest.json and metadata.json: the raw JSON is changed, so that order and unknown keys survive.

The form that a package has is kept: ``component_models`` as a list, as an object or left out, and ``file`` or
``model_file`` for a variant's model. Nothing is written here; each function returns the documents that change, in the
order in which ``transaction.commit_change`` may replace them, so that the package is valid after each.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.errors import AuthoringError, PackageFormatError, quoted
from ortpkg.graph.model_signature import ModelSignature, ValueSignature
from ortpkg.package.documents import dump_document, parse_document
from ortpkg.package.metadata_format import MANIFEST, METADATA, MODELS
from ortpkg.package.package_info import Constraints, PackageFormat, PackageInfo
from ortpkg.package.schemas import check_schema
from ortpkg.package.transaction import DocumentChange


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantEntry:
    """What the documents say of a variant that is to be added."""

    model_file: str | None
    constraints: Constraints
    session_options: Mapping[str, str]
    provider_options: Mapping[str, str]
    metadata: Mapping[str, Any]

    def body(self, *, file_key: str) -> dict[str, Any]:
        constraints = {
            key: value
            for key in ("ep", "device", "architecture", "ep_compatibility_info")
            if (value := getattr(self.constraints, key)) is not None
        }
        parts: dict[str, Any] = {
            file_key: self.model_file,
            "constraints": constraints,
            "session_options": dict(self.session_options),
            "provider_options": dict(self.provider_options),
            "metadata": dict(self.metadata),
        }
        return {key: value for key, value in parts.items() if value}


def new_documents(
    *,
    name: str,
    version: str | None = None,
    description: str | None = None,
    component: str | None = None,
    variants: Mapping[str, VariantEntry] | None = None,
    signature: ModelSignature | None = None,
) -> tuple[DocumentChange, ...]:
    """The documents of a new package: its manifest and, where there is a component, that one's metadata.json."""
    manifest: dict[str, Any] = {"model_name": name}
    manifest |= {"model_version": version} if version else {}
    manifest |= {"description": description} if description else {}
    manifest["component_models"] = [component] if component else []
    if signature is not None:
        manifest |= overall_values(signature)
    documents = [DocumentChange(path=MANIFEST, after=_dump(manifest, MANIFEST))]
    if component is not None:
        metadata = {
            "component_model_name": component,
            "model_variants": {
                variant: entry.body(file_key="model_file") for variant, entry in (variants or {}).items()
            },
        }
        path = _metadata_path(component)
        documents.insert(0, DocumentChange(path=path, after=_dump(metadata, path)))
    return tuple(documents)


def adding_variant(
    package: PackageInfo, component: str, variant: str, entry: VariantEntry, signature: ModelSignature | None
) -> tuple[DocumentChange, ...]:
    """The documents that change when ``variant`` joins ``component``; a component that is new joins the manifest.

    ``signature`` becomes the package's overall inputs and outputs (K20) where this is the package's first component.
    """
    _refuse_universal(package)
    metadata = _RawDocument.read(package.root, _metadata_path(component))
    edited = copy.deepcopy(metadata.value) or {"component_model_name": component}
    variants = edited.setdefault("model_variants", {})
    variants[variant] = entry.body(file_key=_file_key(variants))
    change = metadata.change(edited)
    if package.component(component) is not None:
        return (change,)
    manifest = _RawDocument.read(package.root, MANIFEST)
    changed = _with_component(manifest.value, component)
    if not package.components and signature is not None:
        changed |= {key: value for key, value in overall_values(signature).items() if key not in changed}
    if changed == manifest.value:
        return (change,)
    # The last one makes the component appear: the list, or metadata.json itself where components are discovered.
    is_listed = "component_models" in manifest.value
    return (change, manifest.change(changed)) if is_listed else (manifest.change(changed), change)


def removing_variant(package: PackageInfo, component: str, variant: str) -> tuple[DocumentChange, ...]:
    """The documents that change when ``variant`` leaves ``component``, which keeps others."""
    _refuse_universal(package)
    metadata = _RawDocument.read(package.root, _metadata_path(component))
    manifest = _RawDocument.read(package.root, MANIFEST)
    in_metadata = (metadata.value or {}).get("model_variants", {}).get(variant)
    changes: list[DocumentChange] = []
    if in_metadata is not None:
        edited = copy.deepcopy(metadata.value)
        del edited["model_variants"][variant]
        changes.append(metadata.change(edited))
    inline = _inline_variants(manifest.value, component)
    if variant in inline:
        edited = copy.deepcopy(manifest.value)
        del edited["component_models"][component]["model_variants"][variant]
        # What one document has alone must be a whole variant: the manifest goes last where it alone names the file.
        names_file = in_metadata is not None and bool(in_metadata.get("model_file") or in_metadata.get("file"))
        changes.insert(0 if names_file else len(changes), manifest.change(edited))
    return tuple(changes)


def removing_component(package: PackageInfo, component: str) -> tuple[DocumentChange, ...]:
    """The manifest without ``component``; where components were discovered, it lists the others from now on."""
    _refuse_universal(package)
    manifest = _RawDocument.read(package.root, MANIFEST)
    edited = copy.deepcopy(manifest.value)
    declared = edited.get("component_models")
    if isinstance(declared, dict):
        del declared[component]
    else:
        names = declared if declared is not None else [each.name for each in package.components]
        edited["component_models"] = [name for name in names if name != component]
    if len(package.components) == 1:
        edited.pop("inputs", None)
        edited.pop("outputs", None)
    return (manifest.change(edited),)


def overall_values(signature: ModelSignature) -> dict[str, Any]:
    """``inputs`` and ``outputs`` for the manifest (K20); empty where the model leaves a name or type open."""
    if not all(value.name and value.type for value in (*signature.inputs, *signature.outputs)):
        return {}
    return {"inputs": _values(signature.inputs), "outputs": _values(signature.outputs)}


def _values(values: Sequence[ValueSignature]) -> list[dict[str, Any]]:
    return [
        {
            "name": value.name,
            "type": value.type,
            "shape": None if value.shape is None else list(map(_size, value.shape)),
        }
        for value in values
    ]


def _size(dimension: int | str | None) -> int | str | None:
    """A symbol without a name, or a negative size, says no more than "unknown"."""
    return None if dimension == "" or (isinstance(dimension, int) and dimension < 0) else dimension


@dataclass(frozen=True, slots=True, kw_only=True)
class _RawDocument:
    """A document's bytes and what they say; both None-like where there is none yet."""

    path: str
    before: bytes | None
    value: Any

    @classmethod
    def read(cls, root: Path, path: str) -> _RawDocument:
        if not (root / path).is_file():
            return cls(path=path, before=None, value=None)
        before = (root / path).read_bytes()
        return cls(path=path, before=before, value=parse_document(before, document=path))

    def change(self, value: Any) -> DocumentChange:
        return DocumentChange(path=self.path, before=self.before, after=_dump(value, self.path))


def _dump(value: Any, path: str) -> bytes:
    """The document's bytes, read back as a reader would: what a model's metadata or a flag brings may break its limits.

    AuthoringError where the package would not open any more.
    """
    try:
        content = dump_document(value)
        parse_document(content, document=path)
    except (ValueError, PackageFormatError) as error:
        raise AuthoringError(f"the change was refused, since {quoted(path)} would be wrong: {error}") from error
    schema = "manifest" if path == MANIFEST else "metadata"
    if findings := check_schema(value, schema, document=path):
        problems = "; ".join(map(str, findings))
        raise AuthoringError(f"the change was refused, since {quoted(path)} would be wrong: {problems}")
    return content


def _metadata_path(component: str) -> str:
    return f"{MODELS}/{component}/{METADATA}"


def _with_component(manifest: Mapping[str, Any], component: str) -> dict[str, Any]:
    edited = copy.deepcopy(dict(manifest))
    declared = edited.get("component_models")
    if isinstance(declared, dict):
        declared[component] = {}
    elif isinstance(declared, list):
        declared.append(component)
    return edited


def _inline_variants(manifest: Mapping[str, Any], component: str) -> Mapping[str, Any]:
    declared = manifest.get("component_models")
    body = declared.get(component) if isinstance(declared, dict) else None
    variants: Mapping[str, Any] = (body or {}).get("model_variants", {})
    return variants


def _file_key(variants: Mapping[str, Any]) -> str:
    """``file`` in a package of the pull request's drafts, ``model_file`` in all others."""
    bodies = [body for body in variants.values() if isinstance(body, dict)]
    return "file" if bodies and all("file" in body and "model_file" not in body for body in bodies) else "model_file"


def _refuse_universal(package: PackageInfo) -> None:
    if package.format is not PackageFormat.METADATA:
        raise AuthoringError(
            f"{quoted(package.root)} also lists its variants for onnxruntime 1.28 and later; changing both lists is "
            "not supported yet: make a new package with ortpkg create"
        )
