"""Describe a package's documents as a ``PackageEntry``, independent of their format.

This is the inverse of :mod:`ortpkg.authoring.package_documents`. Unknown keys are kept, since
another program may know them; :mod:`ortpkg.authoring.variant_layout` decides where files move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from ortpkg.authoring.package_documents import ComponentEntry, PackageEntry
from ortpkg.authoring.variant_entry import CONSTRAINTS, VariantEntry
from ortpkg.authoring.variant_layout import VariantLayout, lay_out_variants
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.package.document_names import COMPONENT, MANIFEST
from ortpkg.package.formats.component_format import COMPONENT_KEYS, FACTS, VARIANT_KEYS
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER, ORT, SOURCE_MODEL
from ortpkg.package.formats.olive_format import OWN_MANIFEST_KEYS
from ortpkg.package.formats.variant_declarations import sanitize_model_id
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo

_KNOWN_IN_MANIFEST = frozenset(
    {
        "schema_version",
        "model_name",
        "package_name",
        "model_version",
        "package_version",
        "description",
        "component_models",
        "components",
        "additional_metadata",
    }
)
_KNOWN_IN_METADATA = frozenset(
    {
        "component_model_name",
        "component_name",
        "model_variants",
        "variants",
        "metadata",
        "additional_metadata",
    }
)
_KNOWN_IN_METADATA_VARIANT = frozenset(
    {
        "model_file",
        "file",
        "model_id",
        "constraints",
        "session_options",
        "provider_options",
        "executor_info",
        "metadata",
        "additional_metadata",
    }
)
_KNOWN_IN_ORT = frozenset({"model_file", "session_options", "provider_options"})


class PackageDescription:
    """Entry of a package, with the layout in which ortpkg writes each variant.

    Attributes:
        entry: content of the documents; directories and model files are those of ``layouts``.
        layouts: (component, variant) → new layout of its files.
        documents: the current documents, relative to the root.
    """

    def __init__(self, package: PackageInfo, form: PackageFormat) -> None:
        """Describe ``package`` for a target of the format ``form``.

        Raises:
            AuthoringError: as :func:`lay_out_variants`.
        """
        self._package = package
        self._raw: dict[str, dict[str, Any]] = {}
        self._has_manifest = (package.root / MANIFEST).is_file()
        self.documents: list[str] = [MANIFEST] if self._has_manifest else []
        self.layouts = lay_out_variants(package, form)
        self.entry = self._describe()

    def _describe(self) -> PackageEntry:
        package = self._package
        manifest = self._document(MANIFEST) if self._has_manifest else {}
        facts = _facts(manifest) if package.format is PackageFormat.COMPONENT else EMPTY
        values = facts if package.format is PackageFormat.COMPONENT else manifest
        known_keys = _KNOWN_IN_MANIFEST | (
            {"inputs", "outputs"} if package.format is not PackageFormat.COMPONENT else set()
        )
        return PackageEntry(
            name=package.name,
            version=package.version,
            description=package.description,
            components={
                component.name: self._component(component)
                for component in self._in_manifest_order(manifest)
            },
            inputs=tuple(values.get("inputs", ())),
            outputs=tuple(values.get("outputs", ())),
            additional_metadata=package.additional_metadata
            if package.is_olives
            else _opaque(manifest, facts),
            other_keys=_others(manifest, known_keys.union(OWN_MANIFEST_KEYS), facts)
            if package.is_olives
            else _others(manifest, known_keys, facts),
        )

    def _in_manifest_order(self, manifest: Mapping[str, Any]) -> list[ComponentInfo]:
        """Return the components as declared; pipeline.json keeps the order of the pipeline."""
        declared = manifest.get(
            "components" if self._package.format is PackageFormat.COMPONENT else "component_models"
        )
        order = list(declared or sorted(component.name for component in self._package.components))
        return sorted(
            self._package.components,
            key=lambda component: order.index(component.name) if component.name in order else 0,
        )

    def _component(self, component: ComponentInfo) -> ComponentEntry:
        bodies = list(self._component_bodies(component))
        first = bodies[0]
        is_component = self._package.format is PackageFormat.COMPONENT
        facts = _facts(first) if is_component else EMPTY
        list_key = "variants" if is_component else "model_variants"
        other_keys: dict[str, Any] = {}
        for body in bodies if is_component else bodies[:1]:
            other_keys = _others(body, self._component_keys(), facts) | other_keys
        newer: Mapping[str, Any] = next(
            (body["variants"] for body in bodies if isinstance(body.get("variants"), dict)), {}
        )
        variants = {
            variant.name: self._variant(
                variant,
                [
                    declared[variant.name]
                    for body in bodies
                    if variant.name in (declared := body.get(list_key, {}))
                ],
                newer.get(variant.name, {})
                if self._package.format is not PackageFormat.METADATA
                else {},
            )
            for variant in component.variants
        }
        return ComponentEntry(
            variants=variants,
            metadata=component.metadata,
            additional_metadata=_opaque(first, facts),
            other_keys=other_keys,
        )

    def _component_keys(self) -> frozenset[str]:
        """Return the keys of a component's document that need not be carried over."""
        if self._package.format is not PackageFormat.COMPONENT:
            return _KNOWN_IN_METADATA
        return COMPONENT_KEYS | {"schema_version"} if self._package.is_olives else COMPONENT_KEYS

    def _component_bodies(self, component: ComponentInfo) -> Iterable[dict[str, Any]]:
        """Yield the objects that declare the component: its own document's, then the manifest's."""
        if component.source.document != MANIFEST:
            yield self._document(component.source.document)
        manifest = self._document(MANIFEST) if self._has_manifest else {}
        for key in ("component_models", "components"):
            declared = manifest.get(key)
            body = declared.get(component.name) if isinstance(declared, dict) else None
            if isinstance(body, dict):
                yield body
            elif isinstance(body, str) and self._package.format is PackageFormat.UNIVERSAL:
                yield from self._newer_document(body, component)

    def _newer_document(self, reference: str, component: ComponentInfo) -> Iterable[dict[str, Any]]:
        path = (self._package.root / reference).resolve()
        path = path / COMPONENT if path.is_dir() else path
        relative = path.relative_to(self._package.root).as_posix()
        if relative != component.source.document:
            yield self._document(relative)

    def _variant(
        self, variant: VariantInfo, bodies: list[Mapping[str, Any]], newer: Mapping[str, Any]
    ) -> VariantEntry:
        is_component = self._package.format is PackageFormat.COMPONENT
        variant_place = self.layouts[variant.component_name, variant.name]
        facts = _facts(newer) if is_component else EMPTY
        known_keys = VARIANT_KEYS if is_component else _KNOWN_IN_METADATA_VARIANT
        other_keys: dict[str, Any] = {}
        for body in bodies:
            other_keys = _others(body, known_keys, facts) | other_keys
        ort = variant.executor_info.get(ORT, EMPTY)
        session_options, provider_options = variant.session_options, variant.provider_options
        if ort:  # as written: the reader has resolved the paths among them
            session_options = ort.get("session_options", EMPTY) or session_options
            provider_options = ort.get("provider_options", EMPTY) or provider_options
        if variant_place.brings:  # the weights will lie beside the model
            session_options = _with_weights_beside(session_options, variant_place.model_file)
        return VariantEntry(
            model_file=variant_place.model_file
            if variant_place.brings
            else ort.get("model_file", variant_place.model_file),
            constraints=variant.constraints,
            other_constraints=_other_constraints(
                [*(body.get("constraints") for body in bodies), facts.get("constraints")]
            ),
            session_options=session_options,
            provider_options=provider_options,
            metadata=variant.metadata,
            model_id=_model_id(bodies, variant_place),
            additional_metadata=_opaque(newer, facts)
            if is_component
            else variant.additional_metadata,
            executor_info=_executor_info(newer or (bodies[0] if bodies else {})),
            ort_payload={key: value for key, value in ort.items() if key not in _KNOWN_IN_ORT},
            other_keys=other_keys,
        )

    def _document(self, path: str) -> dict[str, Any]:
        if path not in self._raw:
            self._raw[path] = parse_document(
                (self._package.root / path).read_bytes(), document=path
            )
            if path not in self.documents:
                self.documents.append(path)
        return self._raw[path]


def _other_constraints(declared: Iterable[Any]) -> dict[str, Any]:
    """Return unknown constraints, which only the metadata generation can have."""
    return {
        key: value
        for constraints in declared
        if isinstance(constraints, Mapping)
        for key, value in constraints.items()
        if key not in CONSTRAINTS
    }


def _executor_info(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payloads of executors other than onnxruntime, as written."""
    declared = body.get("executor_info")
    return (
        {key: value for key, value in declared.items() if key != ORT}
        if isinstance(declared, dict)
        else {}
    )


def _model_id(bodies: list[Mapping[str, Any]], variant_place: VariantLayout) -> str | None:
    """Return the ``model_id`` of a folder not named like its variant, as written if valid."""
    if variant_place.folder_name == variant_place.variant:
        return None
    written = next((body["model_id"] for body in bodies if body.get("model_id")), None)
    is_right = isinstance(written, str) and sanitize_model_id(written) == variant_place.folder_name
    return written if is_right else variant_place.folder_name


def _with_weights_beside(options: Mapping[str, str], model_file: str | None) -> dict[str, str]:
    """Return session options of a variant whose weights, and their source, lie beside its model."""
    new_options = {
        key: text for key, text in options.items() if key != EXTERNAL_INITIALIZERS_FOLDER
    }
    if source := new_options.get(SOURCE_MODEL):
        model_folder = PurePosixPath(model_file or "").parent
        new_options[SOURCE_MODEL] = (model_folder / PurePosixPath(source).name).as_posix()
    return new_options


def _facts(body: Mapping[str, Any]) -> Mapping[str, Any]:
    additional = body.get("additional_metadata")
    facts = additional.get(FACTS, EMPTY) if isinstance(additional, Mapping) else EMPTY
    return facts if isinstance(facts, Mapping) else EMPTY


def _opaque(body: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
    """Return ``additional_metadata`` without ortpkg's own facts."""
    additional = body.get("additional_metadata")
    if "additional_metadata" in facts:
        return facts["additional_metadata"]
    if not facts or not isinstance(additional, Mapping):
        return additional
    return {key: value for key, value in additional.items() if key != FACTS} or None


def _others(
    body: Mapping[str, Any], known_keys: Iterable[str], facts: Mapping[str, Any]
) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in known_keys} | dict(
        facts.get("other_keys", EMPTY)
    )
