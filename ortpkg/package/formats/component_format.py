"""Read the component generation: manifest.json with ``components``, inline or in files.

Structure and checks: ``model_package/`` of onnxruntime 1.28 to 1.32 (schema_version 1.0). Unlike
that reader, this one reports everything that is wrong, not just the first problem;
:class:`ortpkg.package.reading_rules.ReadingRules` lists the other differences.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.finding_collector import FindingCollector, json_pointer
from ortpkg.foundations.documents.frozen import EMPTY, freeze
from ortpkg.foundations.ep_names import CPU_EP, is_known_ep
from ortpkg.foundations.errors import quoted
from ortpkg.package.counted_documents import CountedDocuments
from ortpkg.package.document_names import COMPONENT, MANIFEST
from ortpkg.package.formats.component_variant import CheckedComponentVariant
from ortpkg.package.formats.constraints import DEVICES, warn_of_device, warn_of_ep
from ortpkg.package.formats.executor_info import (
    NO_EXECUTOR_INFO,
    ORT,
    ExecutorInfo,
    read_executor_info,
)
from ortpkg.package.formats.model_search import GENAI_CONFIG, only_model_in
from ortpkg.package.formats.reference_reader import UNREADABLE, ReferenceReader
from ortpkg.package.formats.shared_assets import find_shared_assets, shared_assets
from ortpkg.package.formats.variants import LazyVariants
from ortpkg.package.package_info import (
    ComponentInfo,
    Constraints,
    Layout,
    SharedAsset,
    Source,
)
from ortpkg.package.paths.disk_places import PathKind, kind_at
from ortpkg.package.paths.path_resolver import PathResolver, PathTarget
from ortpkg.package.reading_rules import ReadingRules
from ortpkg.package.rules import (
    COMPONENT_NAME_DIFFERS,
    COMPONENT_WITHOUT_VARIANTS,
    FILE_MISSING,
    MODEL_NOT_NAMED,
    PACKAGE_WITHOUT_COMPONENTS,
    PATH_NOT_PORTABLE,
    UNKNOWN_KEY,
    VARIANT_DIRECTORY_MISSING,
)
from ortpkg.package.schema_version import knows_all_keys

#: Key in ``additional_metadata`` for the facts that the generation has no keys for.
FACTS = "ortpkg"

MANIFEST_KEYS = frozenset(
    {
        "schema_version",
        "package_name",
        "package_version",
        "description",
        "layout",
        "components",
        "shared_assets",
        "additional_metadata",
    }
)
COMPONENT_KEYS = frozenset({"component_name", "variants", "additional_metadata"})
VARIANT_KEYS = frozenset(
    {
        "variant_directory",
        "ep",
        "device",
        "compatibility_string",
        "executor_info",
        "additional_metadata",
    }
)


class ComponentGeneration(NamedTuple):
    """Content of the component generation's keys of a package.

    Attributes:
        components: in declaration order.
        shared_assets: in the order in which onnxruntime lists them.
        layout: as the manifest states it.
        facts: ``additional_metadata.ortpkg`` of the manifest.
    """

    components: tuple[ComponentInfo, ...]
    shared_assets: tuple[SharedAsset, ...]
    layout: Layout
    facts: Mapping[str, Any]


def read_component_format(
    manifest: Mapping[str, Any],
    schema_version: tuple[int, int],
    resolver: PathResolver,
    *,
    rules: ReadingRules,
    documents: CountedDocuments,
    collector: FindingCollector,
    allow_external_paths: bool,
    is_olives: bool = False,
) -> ComponentGeneration | None:
    """Read the components of a package of a supported version, in declaration order.

    Args:
        manifest: the document.
        schema_version: the version that it states.
        resolver: of the package; confines paths to it.
        rules: of reading.
        documents: of the package.
        collector: receives the findings.
        allow_external_paths: a package of the layout "installed" may name paths outside of it.
        is_olives: the package has the form of Olive 0.13: components have other keys, too, and a
            variant's model is the one in its folder.

    Returns:
        The content, which is complete only if ``collector`` has no errors; None, with findings, if
        the manifest has no readable components.

    Raises:
        PackageTooLargeError: the documents exceed a limit together.
    """
    findings = check_schema(manifest, "component_manifest", document=MANIFEST)
    collector.extend(findings)
    knows_keys = knows_all_keys(schema_version) and not is_olives
    if knows_keys:
        check_keys(manifest, MANIFEST_KEYS, Source(document=MANIFEST), collector)
    if any(
        finding.pointer == "" or finding.pointer.startswith(("/components", "/shared_assets"))
        for finding in findings
    ):
        return None
    layout = Layout.INSTALLED if manifest.get("layout") == Layout.INSTALLED else Layout.PORTABLE
    may_leave = layout is Layout.INSTALLED and (
        allow_external_paths or rules.follows_installed_layout
    )
    if may_leave:
        resolver = PathResolver(
            resolver.root, portable_names=rules.portable_names, is_confined=False
        )
    references = ReferenceReader(resolver, rules, documents, collector)
    documents.count_components(len(manifest["components"]))
    declared_assets = manifest.get("shared_assets", EMPTY)
    find_shared_assets(declared_assets, references, layout)
    if not manifest["components"]:
        collector.add(
            PACKAGE_WITHOUT_COMPONENTS, MANIFEST, "lists no components", pointer="/components"
        )
    described: _Descriptions = {}
    components = [
        _ComponentReader(
            name, references, described, knows_keys=knows_keys, finds_models=is_olives
        ).read(declared)
        for name, declared in manifest["components"].items()
    ]
    return ComponentGeneration(
        components=tuple(component for component in components if component is not None),
        shared_assets=shared_assets(declared_assets, references),
        layout=layout,
        facts=facts_of(manifest, Source(document=MANIFEST), references),
    )


def check_keys(
    body: Mapping[str, Any], known_keys: frozenset[str], source: Source, collector: FindingCollector
) -> None:
    """Report the keys of ``body`` that are not among ``known_keys``."""
    if body.keys() <= known_keys:
        return
    for key in body:
        if key not in known_keys:
            pointer = source.pointer + json_pointer(key)
            collector.add(
                UNKNOWN_KEY, source.document, f"key {quoted(key)} is not known", pointer=pointer
            )


def facts_of(
    body: Mapping[str, Any], source: Source, references: ReferenceReader
) -> Mapping[str, Any]:
    """Return ``additional_metadata.ortpkg`` of a manifest, component or variant; empty if none."""
    additional = body.get("additional_metadata")
    if (
        not references.rules.extensions
        or not isinstance(additional, Mapping)
        or FACTS not in additional
    ):
        return EMPTY
    pointer = source.pointer + json_pointer("additional_metadata", FACTS)
    findings = check_schema(
        additional[FACTS], "package_facts", document=source.document, pointer=pointer
    )
    references.collector.extend(findings)
    facts: Mapping[str, Any] = EMPTY if findings else additional[FACTS]
    return facts


class _Description(NamedTuple):
    """Content of a component's description, for every component that names it."""

    variants: tuple[CheckedComponentVariant, ...]
    directory: Path
    metadata: Mapping[str, Any]
    additional_metadata: Any


_Descriptions = dict[tuple[Source, str], _Description | None]
"""Place of a description and its folder → its content; None if it has not a component's shape.

Many components may name one document, which is checked once.
"""


class _ComponentReader:
    """Reader of one component: inline in the manifest, or in the document that it names."""

    def __init__(
        self,
        name: str,
        references: ReferenceReader,
        described: _Descriptions,
        *,
        knows_keys: bool,
        finds_models: bool,
    ) -> None:
        self._name = name
        self._finds_models = finds_models
        self._described = described
        self._references = references
        self._rules = references.rules
        self._collector = references.collector
        self._knows_keys = knows_keys
        self._constraints: dict[tuple[str | None, ...], tuple[Constraints, Constraints]] = {}

    def read(self, declared: str | Mapping[str, Any]) -> ComponentInfo | None:
        source = Source(document=MANIFEST, pointer=json_pointer("components", self._name))
        self._check_name(source)
        if not isinstance(declared, str):
            return self._read_body(declared, self._references.root, source)
        folder = self._references.resolve_path(
            declared, self._references.root, source, must_exist=True
        )
        if folder is None:
            return None
        document, directory = folder, os.path.dirname(folder.path)  # noqa: PTH120  # strings: many of them
        if folder.kind is PathKind.DIRECTORY:
            inner, directory = self._find_document(folder.path, source), folder.path
            if inner is None:
                return None
            document = inner
        body = self._references.read_json(document, source)
        if body is UNREADABLE:
            return None
        return self._read_body(
            body, directory, Source(document=self._references.shown(document.path))
        )

    def _check_name(self, source: Source) -> None:
        judge = self._references.resolver.why_not_a_name
        if self._rules.portable_names and (reason := judge(self._name)):
            message = f"component model {quoted(self._name)} {reason}"
            remedy = "use a name that every operating system allows for a folder"
            self._collector.add(
                PATH_NOT_PORTABLE, source.document, message, pointer=source.pointer, remedy=remedy
            )

    def _find_document(self, folder: str, source: Source) -> PathTarget | None:
        """Find component.json in the component's folder."""
        if self._rules.confined_documents:
            return self._references.resolve_path(COMPONENT, folder, source, must_exist=True)
        path = os.path.join(folder, COMPONENT)  # noqa: PTH118
        if (kind := kind_at(path)) is PathKind.MISSING:
            message = f"{quoted(self._references.shown(folder))} has no {COMPONENT}"
            self._collector.add(FILE_MISSING, source.document, message, pointer=source.pointer)
            return None
        return PathTarget(path, kind)

    def _read_body(self, body: Any, directory: str, source: Source) -> ComponentInfo | None:
        key = source, directory
        if key not in self._described:
            description = self._described[key] = self._describe(body, directory, source)
        elif (description := self._described[key]) is not None:
            self._check_component(body, source)
        if description is None:
            return None
        return ComponentInfo(
            name=self._name,
            directory=description.directory,
            variants=LazyVariants(
                [variant._replace(component=self._name) for variant in description.variants]
            ),
            metadata=description.metadata,
            additional_metadata=description.additional_metadata,
            source=source,
        )

    def _describe(self, body: Any, directory: str, source: Source) -> _Description | None:
        """Read ``body``; return None, with findings, if it has not the shape of a component."""
        findings = check_schema(body, "component", document=source.document, pointer=source.pointer)
        if findings:
            self._collector.extend(findings)
            return None
        if self._knows_keys:
            check_keys(body, COMPONENT_KEYS, source, self._collector)
        self._check_component(body, source)
        return _Description(
            variants=tuple(self._read_variants(body["variants"], directory, source)),
            directory=Path(directory),
            metadata=freeze(facts_of(body, source, self._references).get("metadata", EMPTY)),
            additional_metadata=freeze(body.get("additional_metadata")),
        )

    def _check_component(self, body: Mapping[str, Any], source: Source) -> None:
        """Check and count what every component with the same description needs checked again."""
        if (declared_name := body.get("component_name", self._name)) != self._name:
            message = (
                f"component_name is {quoted(declared_name)}, the manifest says {quoted(self._name)}"
            )
            pointer = source.pointer + json_pointer("component_name")
            self._collector.add(COMPONENT_NAME_DIFFERS, source.document, message, pointer=pointer)
        if not body["variants"]:
            message = f"component model {quoted(self._name)} has no variants"
            pointer = source.pointer + json_pointer("variants")
            self._collector.add(
                COMPONENT_WITHOUT_VARIANTS, source.document, message, pointer=pointer
            )
        self._references.documents.count_variants(len(body["variants"]), source.document)

    def _read_variants(
        self, bodies: Mapping[str, Mapping[str, Any]], directory: str, source: Source
    ) -> Iterator[CheckedComponentVariant]:
        """Yield each variant that can be used."""
        for name, body in bodies.items():
            checked = self._read_variant(name, body, directory, source)
            if checked is not None:
                yield checked

    def _read_variant(
        self, name: str, body: Mapping[str, Any], directory: str, component: Source
    ) -> CheckedComponentVariant | None:
        if self._knows_keys and not body.keys() <= VARIANT_KEYS:
            check_keys(body, VARIANT_KEYS, component.below("variants", name), self._collector)
        folder = self._resolve_directory(name, body.get("variant_directory"), directory, component)
        if folder is None:
            return None
        exists = folder.kind is not PathKind.MISSING
        executor_info = NO_EXECUTOR_INFO
        if declared := body.get("executor_info"):
            variant_folder = folder.path if exists else None
            executor_info = read_executor_info(
                declared, variant_folder, component, ("variants", name), self._references
            )
        if executor_info.model_path is None and self._finds_models and exists:
            executor_info = executor_info._replace(model_path=only_model_in(folder.path))
        elif executor_info.model_path is None:
            self._check_model(name, executor_info, folder, component)
        as_written, constraints = self._read_constraints(name, body, component)
        facts: Mapping[str, Any] = EMPTY
        if body.get("additional_metadata") is not None:
            facts = facts_of(body, component.below("variants", name), self._references)
            if "constraints" in facts:
                constraints = _completed(constraints, facts["constraints"])
        return CheckedComponentVariant(
            name=name,
            component=self._name,
            component_source=component,
            body=body,
            directory=folder.path,
            has_directory=exists,
            model_path=executor_info.model_path,
            executor_info=executor_info,
            as_written=as_written,
            constraints=constraints,
            facts=facts,
        )

    def _resolve_directory(
        self, name: str, declared: str | None, base: str, source: Source
    ) -> PathTarget | None:
        """Resolve the variant's folder; None, with a finding, if the rules refuse it.

        ``source`` is the component's: a variant's own is put together only for a finding.
        """
        tokens = ("variants", name)
        judge = self._references.resolver.why_not_a_name
        if self._rules.portable_names and (reason := judge(name)):
            message = f"variant {quoted(name)} {reason}"
            folder = "may name another folder" if declared is None else "may stay as it is"
            remedy = f"use a name that every operating system allows; variant_directory {folder}"
            pointer = source.pointer + json_pointer(*tokens)
            self._collector.add(
                PATH_NOT_PORTABLE, source.document, message, pointer=pointer, remedy=remedy
            )
            return None
        if declared is not None:
            key = "variant_directory"
            resolved = self._references.resolve_path(
                declared, base, source, *tokens, key, must_exist=True
            )
            if (
                resolved is not None
                and resolved.kind is not PathKind.DIRECTORY
                and self._rules.complete
            ):
                message = f"variant_directory {quoted(declared)} is not a folder"
                self._references.report(FILE_MISSING, message, source, *tokens, key)
            return resolved
        resolved = self._references.resolve_path(name, base, source, *tokens)
        if resolved is not None and not self._rules.complete:
            # the normalized path counts: "nowhere/../v" is "v"
            return PathTarget(resolved.path, kind_at(resolved.path))
        if (
            resolved is not None
            and resolved.kind is not PathKind.DIRECTORY
            and self._rules.complete
        ):
            message = f"there is no folder {quoted(self._references.shown(resolved.path))}"
            self._references.report(VARIANT_DIRECTORY_MISSING, message, source, *tokens)
            return None
        return resolved

    def _check_model(
        self, name: str, executor_info: ExecutorInfo, folder: PathTarget, source: Source
    ) -> None:
        """Warn if a variant names no model: only GenAI knows the files of such a folder."""
        ort = executor_info.payloads.get(ORT)
        if not self._rules.complete or (isinstance(ort, Mapping) and "model_file" in ort):
            return
        config = self._references.resolve_path(GENAI_CONFIG, folder.path, source, "variants", name)
        if config is not None and config.kind is not PathKind.FILE:
            self._references.report(
                MODEL_NOT_NAMED, f"variant {quoted(name)} names no model", source, "variants", name
            )

    def _read_constraints(
        self, name: str, body: Mapping[str, Any], source: Source
    ) -> tuple[Constraints, Constraints]:
        """Return the constraints as written, and as selection uses them.

        The latter are not empty, and the device is in lower case. Most variants share their
        constraints with others and get the same objects.
        """
        key = body.get("ep"), body.get("device"), body.get("compatibility_string")
        constraints = self._constraints.get(key)
        if constraints is None:
            device = key[1].lower() if key[1] else None
            as_written = Constraints(ep=key[0], device=key[1], ep_compatibility_info=key[2])
            effective = Constraints(
                ep=key[0] or None, device=device, ep_compatibility_info=key[2] or None
            )
            constraints = self._constraints[key] = (as_written, effective)
        self._warn_of(constraints[1], name, source)
        return constraints

    def _warn_of(self, constraints: Constraints, name: str, source: Source) -> None:
        if constraints.ep is not None and not is_known_ep(constraints.ep):
            warn_of_ep(constraints.ep, source.below("variants", name, "ep"), self._collector)
        if constraints.device is not None and constraints.device not in DEVICES:
            device_source = source.below("variants", name, "device")
            warn_of_device(constraints.device, device_source, self._collector)


def _completed(constraints: Constraints, facts: Mapping[str, str]) -> Constraints:
    """Add the facts that only ``additional_metadata.ortpkg`` has: architecture, a CPU's device."""
    device = constraints.device or (facts.get("device") if constraints.ep == CPU_EP else None)
    return constraints._replace(device=device, architecture=facts.get("architecture"))
