"""Open a package: a directory → :class:`PackageInfo`, or everything that is wrong with it at once.

This is the only place that decides which generation of the format a directory has; each generation
has a module of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortpkg.foundations.documents.document_rules import DOCUMENT_SHAPE
from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.finding_collector import FindingCollector
from ortpkg.foundations.documents.frozen import freeze
from ortpkg.foundations.errors import (
    Finding,
    PackageFormatError,
    PackageNotFoundError,
    UnsupportedSchemaVersionError,
    quoted,
)
from ortpkg.foundations.names import did_you_mean_path
from ortpkg.package.counted_documents import CountedDocuments, PackageTooLargeError
from ortpkg.package.document_names import COMPONENT, MANIFEST, METADATA
from ortpkg.package.formats.component_format import ComponentGeneration, read_component_format
from ortpkg.package.formats.metadata_format import read_component_root, read_metadata_format
from ortpkg.package.formats.olive_format import as_component_manifest, is_olive_manifest
from ortpkg.package.formats.sparse_variants import with_absences
from ortpkg.package.formats.universal_format import merge_generations
from ortpkg.package.integrity.absent_files import AbsentFiles
from ortpkg.package.package_info import (
    ComponentInfo,
    Layout,
    PackageFormat,
    PackageInfo,
    read_value_infos,
)
from ortpkg.package.paths.disk_places import PathKind, kind_at
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver
from ortpkg.package.reading_rules import ReadingRules, reading_rules
from ortpkg.package.rules import (
    COMPONENT_UNUSED,
    FORM_OF_OLIVE,
    OVERALL_VALUES_DIFFER,
    PACKAGE_WITHOUT_COMPONENTS,
    ROOT_IS_ALSO_COMPONENT,
    SCHEMA_VERSION,
)
from ortpkg.package.schema_version import (
    SUPPORTED_MAJOR,
    is_supported,
    parse_schema_version,
)
from ortpkg.package.sidecar import PIPELINE, SAMPLES

if TYPE_CHECKING:
    from ortpkg.package.formats.pipeline import Pipeline

_SUFFIX = ".ortpackage"


#: How many changes of a package in a row are tolerated while it is read.
_MOST_ATTEMPTS = 5


class _Keys(StrEnum):
    """Generations whose keys a manifest has."""

    METADATA = "metadata"
    COMPONENT = "component"
    BOTH = "both"


class _Contents(NamedTuple):
    """Content of a package: the manifest, and the components of each generation's keys.

    A generation is None if the package does not have its keys.
    """

    manifest: Mapping[str, Any]
    version: tuple[int, int] | None = None
    metadata: tuple[ComponentInfo, ...] | None = None
    component: ComponentGeneration | None = None
    is_olives: bool = False

    @property
    def format(self) -> PackageFormat:
        """Generation of the keys that were read: metadata, component or both."""
        if self.component is None:
            return PackageFormat.METADATA
        return PackageFormat.COMPONENT if self.metadata is None else PackageFormat.UNIVERSAL


def open_package(
    root: Path | str, *, compat: str | None = None, allow_external_paths: bool = False
) -> PackageInfo:
    """Open the package in ``root`` and check everything that needs no model to be opened.

    Args:
        root: the package's directory.
        compat: None refuses everything unsafe or ambiguous between readers. "onnxruntime-1.32" or
            "onnxruntime-1.31" accepts and refuses the same as that release when it opens a package;
            findings then carry its status ("ORTC-SCHEMA").
        allow_external_paths: follow paths out of a package whose layout is "installed".

    Raises:
        PackageNotFoundError: there is no directory at ``root``, or no manifest.json in it.
        UnsupportedSchemaVersionError: the package is of a version that this ortpkg does not read.
        PackageFormatError: anything else that is wrong; ``findings`` has all of it.
        UsageError: ``compat`` is not known.
    """
    rules = reading_rules(compat)
    package, findings = _read(root, rules, allow_external_paths=allow_external_paths)
    if package is not None:
        return package
    unsupported = SCHEMA_VERSION.id if rules.statuses is None else rules.statuses[SCHEMA_VERSION.id]
    is_unsupported = any(finding.rule == unsupported for finding in findings)
    raise (UnsupportedSchemaVersionError if is_unsupported else PackageFormatError).from_findings(
        findings, path=root
    )


def check_package(
    root: Path | str, *, compat: str | None = None, allow_external_paths: bool = False
) -> tuple[PackageInfo | None, tuple[Finding, ...]]:
    """Read the package and return it with everything that is wrong or doubtful in it.

    The package is None only if :func:`open_package` would raise. Unless ``compat`` names a release,
    which knows neither, samples/samples.json and the form of digests.json are checked too; opening
    leaves them to their users.

    Raises:
        PackageNotFoundError: there is no directory at ``root``, or no manifest.json in it.
        UsageError: ``compat`` is not known.
    """
    # Imported here: opening a package, which every session does, needs no samples.
    from ortpkg.package.formats.samples import check_samples

    rules = reading_rules(compat)
    package, findings = _read(root, rules, allow_external_paths=allow_external_paths)
    if package is None or not rules.extensions:
        return package, findings
    return package, (*findings, *check_samples(package), *_check_digests(package))


def _read(
    root: Path | str, rules: ReadingRules, *, allow_external_paths: bool
) -> tuple[PackageInfo | None, tuple[Finding, ...]]:
    """Read the package, again if it seems wrong: a command may have changed it meanwhile.

    Then old documents met new files; real problems are found again.
    """
    last_findings: tuple[Finding, ...] = ()
    for _ in range(_MOST_ATTEMPTS):
        package, findings = _read_once(root, rules, allow_external_paths=allow_external_paths)
        if package is not None or findings == last_findings:
            break
        last_findings = findings
    return package, findings


def _read_once(
    root: Path | str, rules: ReadingRules, *, allow_external_paths: bool
) -> tuple[PackageInfo | None, tuple[Finding, ...]]:
    if not os.fspath(root) or "\0" in os.fspath(root):  # no file system has these
        raise _no_directory(root)
    collector = FindingCollector(rules.statuses)
    # The directory itself is looked at only if it has no manifest: system calls are most of the
    # cost of opening.
    absences = AbsentFiles(root) if rules.extensions else None
    reader = _PackageReader(
        PathResolver(root, portable_names=rules.portable_names, absences=absences),
        collector,
        rules,
        allow_external_paths=allow_external_paths,
        absences=absences,
    )
    try:
        package = reader.read()
    except PackageNotFoundError:
        if os.path.isdir(root):  # noqa: PTH112  # text or path
            raise
        raise _no_directory(root) from None
    except PackageTooLargeError as error:
        package = None
        collector.extend([error.finding])
    return package, collector.findings


def _no_directory(root: Path | str) -> PackageNotFoundError:
    if os.path.lexists(root):
        problem = "is not a directory"
    else:
        problem = f"does not exist{did_you_mean_path(root)}"
    files = (
        "; unpack a packed one (name.ortpkg) first, or make one of a model (name.onnx) with ortpkg"
        " create"
    )
    message = f"{quoted(root)} {problem}: a model package is a directory with a {MANIFEST}{files}"
    return PackageNotFoundError(message, path=root)


class _PackageReader:
    """Reader of one package that gathers findings instead of stopping at the first."""

    def __init__(
        self,
        resolver: PathResolver,
        collector: FindingCollector,
        rules: ReadingRules,
        *,
        allow_external_paths: bool,
        absences: AbsentFiles | None,
    ) -> None:
        self._resolver = resolver
        self._absences = absences
        self._collector = collector
        self._rules = rules
        self._allow_external_paths = allow_external_paths
        self._documents = CountedDocuments(rules.limits, rules.package_limits)

    def read(self) -> PackageInfo | None:
        """Return the package; None if findings keep it from being read further."""
        if self._rules.generations and self._is_component_root():
            root = read_component_root(self._resolver, self._collector, self._documents)
            return self._finish(_Contents(manifest={"model_name": root.name}, metadata=(root,)))
        manifest = self._read_manifest()
        if manifest is None:
            return None
        is_olives = self._rules.generations and is_olive_manifest(manifest)
        if is_olives:
            manifest = as_component_manifest(manifest)
            message = "has the form of Olive 0.13, which no release of onnxruntime opens"
            self._collector.add(FORM_OF_OLIVE, MANIFEST, message, pointer="/components")
        keys = _keys_of(manifest) if self._rules.generations else _Keys.COMPONENT
        version = parse_schema_version(manifest.get("schema_version"))
        if not self._check_version(manifest, keys, version):
            return None
        metadata = component = None
        if keys is not _Keys.COMPONENT and (metadata := self._read_metadata_keys(manifest)) is None:
            return None
        if (
            keys is not _Keys.METADATA
            and (component := self._read_component_keys(manifest, version, is_olives)) is None
        ):
            return None
        return self._finish(
            _Contents(
                manifest=manifest,
                version=version,
                metadata=metadata,
                component=component,
                is_olives=is_olives,
            )
        )

    def _is_component_root(self) -> bool:
        return not self._has(MANIFEST) and self._has(METADATA)

    def _has(self, name: str) -> bool:
        """Return True if the root holds something of that name, even a dangling link."""
        return os.path.lexists(f"{self._resolver.real_root}{os.sep}{name}")

    def _read_manifest(self) -> dict[str, Any] | None:
        path = f"{self._resolver.real_root}{os.sep}{MANIFEST}"
        try:
            if self._rules.confined_documents:
                path, kind = self._resolver.locate(MANIFEST)
            else:
                kind = kind_at(path)
            if kind is PathKind.MISSING:
                raise PackageNotFoundError(self._no_manifest(), path=self._resolver.root)
            return self._documents.read_object(path, document=MANIFEST)
        except PathRefusedError as error:
            self._collector.extend([error.finding(MANIFEST)])
        except PackageFormatError as error:
            self._collector.extend(error.findings)
        return None

    def _no_manifest(self) -> str:
        if not os.access(self._resolver.real_root, os.R_OK | os.X_OK):
            return f"{quoted(self._resolver.root)} cannot be read: Permission denied"
        return (
            f"{quoted(self._resolver.root)} is not a model package: there is no {MANIFEST}. A"
            f" package is a directory with {MANIFEST} and models/<component>/{METADATA}, or"
            f" {MANIFEST} and {COMPONENT} files that it names"
        )

    def _check_version(
        self, manifest: Mapping[str, Any], keys: _Keys, version: tuple[int, int] | None
    ) -> bool:
        """Return True if the rest of the manifest can be judged: its version is supported.

        The metadata generation has no version: with its keys alone, only a newer version is
        respected.
        """
        is_versioned = keys is not _Keys.METADATA
        if version is None:
            if is_versioned and "schema_version" in manifest:
                message = 'schema_version is not a text of the form "<major>.<minor>"'
                self._collector.add(
                    DOCUMENT_SHAPE,
                    MANIFEST,
                    message,
                    pointer="/schema_version",
                    remedy='write "1.0"',
                )
            elif is_versioned:
                self._collector.add(
                    DOCUMENT_SHAPE, MANIFEST, "lacks 'schema_version'", remedy='write "1.0"'
                )
            return not is_versioned
        if is_supported(version) or (not is_versioned and version[0] < SUPPORTED_MAJOR):
            return True
        message = (
            f"has schema_version {version[0]}.{version[1]}, this ortpkg knows {SUPPORTED_MAJOR}.x"
        )
        self._collector.add(SCHEMA_VERSION, MANIFEST, message, pointer="/schema_version")
        return False

    def _read_metadata_keys(self, manifest: Mapping[str, Any]) -> tuple[ComponentInfo, ...] | None:
        if self._has(METADATA):
            self._collector.add(ROOT_IS_ALSO_COMPONENT, METADATA, f"stands beside {MANIFEST}")
        findings = check_schema(manifest, "manifest", document=MANIFEST)
        self._collector.extend(findings)
        if any(finding.pointer.startswith("/component_models") for finding in findings):
            return None
        return read_metadata_format(manifest, self._resolver, self._collector, self._documents)

    def _read_component_keys(
        self, manifest: Mapping[str, Any], version: tuple[int, int] | None, is_olives: bool
    ) -> ComponentGeneration | None:
        assert version is not None, "checked before"
        collector = FindingCollector(self._rules.statuses)
        component = read_component_format(
            manifest,
            version,
            self._resolver,
            rules=self._rules,
            documents=self._documents,
            collector=collector,
            allow_external_paths=self._allow_external_paths,
            is_olives=is_olives,
        )
        # findings that the metadata keys gave for the same variants
        reported = {_without_place(finding) for finding in self._collector.findings}
        self._collector.extend(
            finding for finding in collector.findings if _without_place(finding) not in reported
        )
        return component

    def _finish(self, contents: _Contents) -> PackageInfo | None:
        components = self._components_of(contents)
        pipeline = self._read_pipeline(components) if self._rules.extensions else None
        if self._collector.has_errors:
            return None
        package = self._assemble(contents, components)
        if self._absences is not None and self._absences.was_queried and self._absences.files:
            package = with_absences(package, self._absences)
        return package if pipeline is None else self._follow_pipeline(package, pipeline)

    def _components_of(self, contents: _Contents) -> tuple[ComponentInfo, ...]:
        if contents.metadata is None or contents.component is None:
            return contents.metadata or (
                contents.component.components if contents.component is not None else ()
            )
        if self._collector.has_errors:  # a list that was not read completely cannot be compared
            return contents.metadata
        return merge_generations(contents.metadata, contents.component.components, self._collector)

    def _assemble(self, contents: _Contents, components: tuple[ComponentInfo, ...]) -> PackageInfo:
        root, manifest, component = self._resolver.root, contents.manifest, contents.component
        has_metadata = contents.metadata is not None
        name = manifest.get(
            "model_name" if has_metadata else "package_name"
        ) or root.name.removesuffix(_SUFFIX)
        values = manifest if has_metadata or component is None else component.facts
        return PackageInfo(
            root=root,
            name=name,
            version=manifest.get("model_version" if has_metadata else "package_version"),
            format=contents.format,
            components=components,
            schema_version=contents.version,
            description=manifest.get("description"),
            inputs=read_value_infos(values.get("inputs")),
            outputs=read_value_infos(values.get("outputs")),
            additional_metadata=freeze(manifest.get("additional_metadata")),
            has_samples=self._has(SAMPLES),
            layout=Layout.PORTABLE if component is None else component.layout,
            shared_assets=() if component is None else component.shared_assets,
            compat=self._rules.compat,
            is_olives=contents.is_olives,
        )

    def _read_pipeline(self, components: tuple[ComponentInfo, ...]) -> Pipeline | None:
        if not self._has(PIPELINE):
            return None
        # Imported here: most packages have one component and no pipeline.
        from ortpkg.package.formats.pipeline import check_pipeline

        pipeline, findings = check_pipeline(
            self._resolver.root, [component.name for component in components]
        )
        self._collector.extend(findings)
        return pipeline

    def _follow_pipeline(self, package: PackageInfo, pipeline: Pipeline) -> PackageInfo:
        """Return the package with components, inputs and outputs as the pipeline has them."""
        from ortpkg.package.formats.pipeline import pipeline_components  # imported here: as above

        order = pipeline_components(pipeline)
        positions = {name: position for position, name in enumerate(order)}
        for component in package.components:
            if component.name not in positions:
                message = f"no step runs component model {quoted(component.name)}"
                self._collector.add(COMPONENT_UNUSED, PIPELINE, message, pointer="/steps")
        for key, declared, actual in (
            ("inputs", package.inputs, pipeline.inputs),
            ("outputs", package.outputs, pipeline.outputs),
        ):
            if declared and declared != actual:
                message = f"{key} differ from those of {PIPELINE}"
                self._collector.add(OVERALL_VALUES_DIFFER, MANIFEST, message, pointer=f"/{key}")
        ordered = sorted(
            package.components, key=lambda component: positions.get(component.name, len(order))
        )
        return replace(
            package,
            components=tuple(ordered),
            inputs=pipeline.inputs,
            outputs=pipeline.outputs,
            has_pipeline=True,
        )


def _without_place(finding: Finding) -> tuple[str, str]:
    """Return a finding without its place, which differs between halves of a universal package."""
    return finding.rule, "" if finding.rule == PACKAGE_WITHOUT_COMPONENTS.id else finding.message


def _keys_of(manifest: Mapping[str, Any]) -> _Keys:
    """Return the generation of a manifest; one without keys of either counts as the older."""
    if "model_name" not in manifest and "component_models" not in manifest:
        has_component_keys = "components" in manifest or "schema_version" in manifest
        return _Keys.COMPONENT if has_component_keys else _Keys.METADATA
    is_both = isinstance(manifest.get("components"), Mapping) and "schema_version" in manifest
    return _Keys.BOTH if is_both else _Keys.METADATA


def _check_digests(package: PackageInfo) -> tuple[Finding, ...]:
    """Return findings about the form of digests.json; ``verify`` compares it with the files."""
    from ortpkg.package.integrity.digests import (
        read_entries,  # imported here: hashlib takes 8 ms, and opening needs none of it
    )

    try:
        read_entries(package.root)
    except PackageFormatError as error:
        return error.findings
    return ()
