"""Read the metadata generation: manifest.json and models/<component>/metadata.json.

Structure: pull request 27786 of onnxruntime, both as proposed (component_models as an object,
variants inline in the manifest, key ``file``) and as released (component_models as a list, key
``model_file``). Unlike the released reader, this one confines every path to the package and reports
everything that is wrong, not just the first problem.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.document_rules import DOCUMENT_TOO_LARGE, DOCUMENT_UNREADABLE
from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.finding_collector import FindingCollector, json_pointer
from ortpkg.foundations.documents.frozen import EMPTY, FrozenMapping, freeze
from ortpkg.foundations.ep_names import is_known_ep
from ortpkg.foundations.errors import PackageError, PackageFormatError, quoted
from ortpkg.package.counted_documents import CountedDocuments
from ortpkg.package.document_names import MANIFEST, METADATA
from ortpkg.package.formats.constraints import DEVICES, warn_of_device, warn_of_ep
from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.formats.model_search import Siblings, resolve_model
from ortpkg.package.formats.variant_declarations import (
    OWN_FOLDER,
    Declaration,
    declared_at,
    merge_bodies,
    sanitize_model_id,
    says_something,
    siblings_of,
)
from ortpkg.package.formats.variants import LazyVariants
from ortpkg.package.package_info import ComponentInfo, Constraints, Source, VariantInfo
from ortpkg.package.paths.disk_places import PathKind, list_names
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver
from ortpkg.package.paths.path_text import why_not_a_name, why_not_a_path
from ortpkg.package.rules import (
    COMPONENT_NAME_DIFFERS,
    COMPONENT_NOT_FOUND,
    COMPONENT_WITHOUT_VARIANTS,
    DUPLICATE_COMPONENT,
    PACKAGE_WITHOUT_COMPONENTS,
    PATH_NOT_PORTABLE,
)

MODELS = "models"
_MOST_COMPONENTS = 1000  # the same limit as for listed components in schemas/manifest.schema.json


class _CheckedVariant(NamedTuple):
    """Checked content of a variant: everything that making its VariantInfo needs.

    ``body`` has the merged fields of its declarations.
    """

    name: str
    component: str
    body: Mapping[str, Any]
    directory: str
    model_path: str | None
    constraints: Constraints
    declaration: Declaration

    @property
    def session_options(self) -> Mapping[str, str]:
        return self.body.get("session_options") or EMPTY

    @property
    def provider_options(self) -> Mapping[str, str]:
        return self.body.get("provider_options") or EMPTY

    def make(self) -> VariantInfo:
        """Return the variant as a value; all of it was checked when the package was read."""
        additional_metadata = self.body.get("additional_metadata")
        return VariantInfo(
            name=self.name,
            component_name=self.component,
            directory=Path(self.directory),
            model_path=None if self.model_path is None else Path(self.model_path),
            constraints=self.constraints,
            session_options=FrozenMapping(self.session_options),
            provider_options=FrozenMapping(self.provider_options),
            metadata=_freeze_object(self.body.get("metadata")),
            additional_metadata=(
                freeze(additional_metadata) if says_something(additional_metadata) else None
            ),
            source=self.declaration.source,
        )


def read_metadata_format(
    manifest: Mapping[str, Any],
    resolver: PathResolver,
    collector: FindingCollector,
    documents: CountedDocuments,
) -> tuple[ComponentInfo, ...]:
    """Read the component models of a package, in declaration order.

    Args:
        manifest: the document, checked against its schema.
        resolver: of the package.
        collector: receives the findings; the result is complete only if it has no errors.
        documents: of the package.

    Raises:
        PackageTooLargeError: the documents exceed a limit together.
    """
    declared = manifest.get("component_models")
    names = (
        _discover(resolver, collector) if declared is None else _check_names(declared, collector)
    )
    if not names and not collector.has_errors:
        collector.add(
            PACKAGE_WITHOUT_COMPONENTS,
            MANIFEST,
            "lists no component models, and none is found under models/",
        )
    inline = declared if isinstance(declared, Mapping) else {}
    return tuple(
        _ComponentReader(name, f"{MODELS}/{name}", resolver, collector, documents).read(
            inline.get(name) or {}
        )
        for name in names
    )


def read_component_root(
    resolver: PathResolver, collector: FindingCollector, documents: CountedDocuments
) -> ComponentInfo:
    """Read the component model in the package root, which has metadata.json, but no manifest.json.

    Its name is ``component_model_name``, or else the folder's.
    """
    return _ComponentReader(resolver.root.name, "", resolver, collector, documents).read({})


def _discover(resolver: PathResolver, collector: FindingCollector) -> list[str]:
    """Return the names of the folders under models/ that have a metadata.json."""
    try:
        models = resolver.resolve(MODELS)
        names = (
            list_names(models.path, PathKind.DIRECTORY) if models.kind is PathKind.DIRECTORY else []
        )
    except PathRefusedError as error:
        collector.extend([error.finding(MANIFEST)])
        return []
    except PackageError as error:
        collector.add(DOCUMENT_UNREADABLE, MANIFEST, str(error))
        return []
    names = [name for name in names if os.path.lexists(models.path / name / METADATA)]
    if len(names) > _MOST_COMPONENTS:
        collector.add(
            DOCUMENT_TOO_LARGE,
            MANIFEST,
            f"models/ holds more than {_MOST_COMPONENTS} component models",
        )
        return []
    return [name for name in names if _is_name(name, collector, pointer="")]


def _check_names(declared: Iterable[str], collector: FindingCollector) -> list[str]:
    names: dict[str, None] = {}
    for index, name in enumerate(declared):
        pointer = json_pointer("component_models", name if isinstance(declared, Mapping) else index)
        if name in names:
            collector.add(
                DUPLICATE_COMPONENT,
                MANIFEST,
                f"component model {quoted(name)} is listed twice",
                pointer=pointer,
            )
        elif _is_name(name, collector, pointer=pointer):
            names[name] = None
    return list(names)


def _is_name(name: str, collector: FindingCollector, *, pointer: str) -> bool:
    if reason := why_not_a_name(name):
        message = f"component model {quoted(name)} {reason}"
        remedy = "use the name of a folder under models/ that every operating system allows"
        collector.add(PATH_NOT_PORTABLE, MANIFEST, message, pointer=pointer, remedy=remedy)
    return reason is None


class _ComponentReader:
    """Reader of one component model: its two documents, then each variant merged from both."""

    def __init__(
        self,
        name: str,
        base: str,
        resolver: PathResolver,
        collector: FindingCollector,
        documents: CountedDocuments,
    ) -> None:
        self._name = name
        self._resolver = resolver
        self._collector = collector
        self._documents = documents
        self._base = base
        self._constraints: dict[tuple[str | None, ...], Constraints] = {}
        self._siblings = Siblings()
        self._document = f"{base}/{METADATA}" if base else METADATA

    def read(self, inline: Mapping[str, Any]) -> ComponentInfo:
        """Read the component; ``inline`` is its object in the manifest, or an empty one."""
        metadata = self._read_metadata(is_required=not inline.get("model_variants"))
        self._check_component_name(metadata)
        merged = self._merge(inline, metadata or {})
        self._documents.count_variants(len(merged), self._document)
        variants = LazyVariants(self._read_variants(merged))
        if (
            metadata is not None
            and not metadata.get("model_variants")
            and not inline.get("model_variants")
        ):
            message = f"component model {quoted(self._name)} has no variants"
            self._collector.add(
                COMPONENT_WITHOUT_VARIANTS, self._document, message, pointer="/model_variants"
            )
        body = metadata or inline
        return ComponentInfo(
            name=self._name,
            directory=self._directory(),
            variants=variants,
            metadata=_freeze_object(body.get("metadata")),
            additional_metadata=freeze(body.get("additional_metadata")),
            source=(
                Source(document=self._document) if metadata is not None else self._manifest_source()
            ),
        )

    def _directory(self) -> Path:
        try:
            return self._resolver.resolve(self._base).path if self._base else self._resolver.root
        except PathRefusedError:
            # reported when metadata.json was looked up: this value is not used
            return self._resolver.root

    def _manifest_source(self, *tokens: str) -> Source:
        return Source(
            document=MANIFEST, pointer=json_pointer("component_models", self._name, *tokens)
        )

    def _read_metadata(self, *, is_required: bool) -> dict[str, Any] | None:
        """Return metadata.json if it exists and is valid; None otherwise, with findings."""
        try:
            resolved = self._resolver.resolve(self._document)
            if resolved.kind is PathKind.MISSING:
                if is_required:
                    source = self._manifest_source()
                    message = (
                        f"component model {quoted(self._name)} has no {self._document} and no"
                        " variants here"
                    )
                    self._collector.add(
                        COMPONENT_NOT_FOUND, source.document, message, pointer=source.pointer
                    )
                return None
            metadata = self._documents.read_object(str(resolved.path), document=self._document)
        except PathRefusedError as error:
            self._collector.extend([error.finding(self._document)])
            return None
        except PackageFormatError as error:
            self._collector.extend(error.findings)
            return None
        findings = check_schema(metadata, "metadata", document=self._document)
        self._collector.extend(findings)
        return None if findings else metadata

    def _check_component_name(self, metadata: Mapping[str, Any] | None) -> None:
        name = (metadata or {}).get("component_model_name", self._name)
        if not self._base:
            self._name = name or self._name
        elif name != self._name:
            message = f"component_model_name is {quoted(name)}, the folder is {quoted(self._name)}"
            self._collector.add(
                COMPONENT_NAME_DIFFERS, self._document, message, pointer="/component_model_name"
            )

    def _merge(
        self, inline: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> dict[str, list[Declaration]]:
        """Map each variant to its declarations, metadata.json's first.

        Names are in the manifest's order, then others.
        """
        merged: dict[str, list[Declaration]] = {
            name: [] for name in inline.get("model_variants", {})
        }
        for name, body in metadata.get("model_variants", {}).items():
            merged.setdefault(name, []).append(
                Declaration(body, self._document, ("model_variants", name))
            )
        for name, body in inline.get("model_variants", {}).items():
            tokens = ("component_models", self._name, "model_variants", name)
            merged[name].append(Declaration(body, MANIFEST, tokens))
        return merged

    def _read_variants(self, merged: Mapping[str, list[Declaration]]) -> Iterator[_CheckedVariant]:
        """Yield each variant that can be used."""
        self._siblings = siblings_of(merged)
        for name, declarations in merged.items():
            checked = self._read_variant(name, declarations)
            if checked is not None:
                yield checked

    def _read_variant(self, name: str, declarations: list[Declaration]) -> _CheckedVariant | None:
        source = declarations[0].source
        body = merge_bodies([declaration.body for declaration in declarations])
        model_id = body.get("model_id")
        folder = sanitize_model_id(model_id) if model_id else name
        if folder != OWN_FOLDER and (reason := why_not_a_name(folder)):
            named_by = "model_id" if model_id else "variant"
            message = f"{named_by} {quoted(model_id or name)} {reason}"
            otherwise = "" if model_id else ", or name the folder in model_id"
            remedy = f"use a name that every operating system allows{otherwise}"
            self._collector.add(
                PATH_NOT_PORTABLE, source.document, message, pointer=source.pointer, remedy=remedy
            )
            return None
        paths = resolve_model(
            reference=body.get("model_file") or None,
            component_base=self._base,
            folder=folder,
            siblings=self._siblings,
            source=declared_at(declarations, "model_file", "file"),
            resolver=self._resolver,
            collector=self._collector,
        )
        constraints = self._read_constraints(body["constraints"], declarations)
        self._check_path_options(declarations)
        if paths is None:
            return None
        return _CheckedVariant(
            name=name,
            component=self._name,
            body=body,
            directory=paths.directory,
            model_path=paths.model_path,
            constraints=constraints,
            declaration=declarations[0],
        )

    def _check_path_options(self, declarations: list[Declaration]) -> None:
        """Check that session options that are paths could be paths at all.

        Trust decides elsewhere whether they may be followed.
        """
        for declaration in declarations:
            options = declaration.body.get("session_options") or EMPTY
            for key in (key for key in PATH_SESSION_OPTIONS if key in options):
                if reason := why_not_a_path(options[key]):
                    pointer = declaration.source.below("session_options", key).pointer
                    message = f"path {quoted(options[key])} {reason}"
                    self._collector.add(
                        PATH_NOT_PORTABLE, declaration.document, message, pointer=pointer
                    )

    def _read_constraints(
        self, body: Mapping[str, Any], declarations: list[Declaration]
    ) -> Constraints:
        """Read the constraints; variants with the same ones share an object."""
        ep, device = body.get("ep"), body.get("device")
        device = None if device is None else device.lower()
        if ep is not None and not is_known_ep(ep):
            warn_of_ep(ep, declared_at(declarations, "constraints", inner="ep"), self._collector)
        if device is not None and device not in DEVICES:
            warn_of_device(
                device, declared_at(declarations, "constraints", inner="device"), self._collector
            )
        key = ep, device, body.get("architecture"), body.get("ep_compatibility_info")
        constraints = self._constraints.get(key)
        if constraints is None:
            constraints = self._constraints[key] = Constraints(
                ep=ep, device=device, architecture=key[2], ep_compatibility_info=key[3]
            )
        return constraints


def _freeze_object(value: Mapping[str, Any] | None) -> FrozenMapping[Any]:
    frozen: FrozenMapping[Any] = freeze(value) if value else EMPTY
    return frozen
