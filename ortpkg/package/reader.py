"""Opens a package: a directory → :class:`PackageInfo`, or everything that is wrong with it at once.

The one place that decides which generation of the format a directory has; each generation has a module of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortpkg.errors import (
    Finding,
    PackageFormatError,
    PackageNotFoundError,
    PathEscapesPackageError,
    UnsupportedSchemaVersionError,
    quoted,
)
from ortpkg.package.documents import DEFAULT_LIMITS, DocumentLimits, read_document
from ortpkg.package.findings import FindingCollector
from ortpkg.package.frozen import freeze
from ortpkg.package.metadata_format import MANIFEST, METADATA, read_metadata_format
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo
from ortpkg.package.path_resolver import PathKind, PathResolver, escape_finding
from ortpkg.package.rules import (
    COMPONENT_UNUSED,
    FORMAT_GENERATION,
    OVERALL_VALUES_DIFFER,
    SCHEMA_VERSION,
)
from ortpkg.package.schemas import check_schema
from ortpkg.package.sidecar import PIPELINE, SAMPLES
from ortpkg.package.values import read_value_infos

if TYPE_CHECKING:
    from ortpkg.package.pipeline import Pipeline

_SUPPORTED_MAJOR = 1
_SCHEMA_VERSION = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?", re.ASCII)


class _Generation(StrEnum):
    """Generations of the format, by what the manifest's keys show."""

    METADATA = "metadata"
    COMPONENT = "component"


def open_package(root: Path | str) -> PackageInfo:
    """Opens the package in ``root`` and checks all that can be checked without opening a model.

    Raises:
        PackageNotFoundError: there is no directory at ``root``, or no manifest.json in it.
        UnsupportedSchemaVersionError: the package is of a version or generation that this ortpkg does not read.
        PackageFormatError: anything else that is wrong; ``findings`` has all of it.
    """
    package, findings = _read(root)
    if package is not None:
        return package
    is_unsupported = any(finding.rule in (SCHEMA_VERSION.id, FORMAT_GENERATION.id) for finding in findings)
    raise (UnsupportedSchemaVersionError if is_unsupported else PackageFormatError).from_findings(findings, path=root)


def check_package(root: Path | str) -> tuple[PackageInfo | None, tuple[Finding, ...]]:
    """The package, and everything wrong or doubtful in it; None only where :func:`open_package` would raise.

    Looks at samples/samples.json and the shape of digests.json too, which opening leaves to those who use them.

    Raises:
        PackageNotFoundError: there is no directory at ``root``, or no manifest.json in it.
    """
    # Imported here: opening a package, which is on the way to every session, needs no samples.
    from ortpkg.package.samples import check_samples

    package, findings = _read(root)
    if package is None:
        return None, findings
    return package, (*findings, *check_samples(package), *_check_digests(package))


def _read(root: Path | str) -> tuple[PackageInfo | None, tuple[Finding, ...]]:
    if not os.path.isdir(root):  # noqa: PTH112  # accepts text and paths alike
        what = "is not a directory" if os.path.lexists(root) else "does not exist"
        raise PackageNotFoundError(
            f"{quoted(root)} {what}: a model package is a directory with a {MANIFEST}", path=root
        )
    found = FindingCollector()
    package = _PackageReader(PathResolver(root), found, DEFAULT_LIMITS).read()
    return package, found.findings


class _PackageReader:
    """Reads one package; gathers findings instead of stopping at the first."""

    def __init__(self, resolver: PathResolver, found: FindingCollector, limits: DocumentLimits) -> None:
        self._resolver = resolver
        self._found = found
        self._limits = limits

    def read(self) -> PackageInfo | None:
        manifest = self._read_manifest()
        if manifest is None:
            return None
        generation = _generation(manifest)
        if generation is not _Generation.METADATA:
            message = "belongs to the component generation (components, component.json), which is not supported yet"
            self._found.add(FORMAT_GENERATION, MANIFEST, message)
            return None
        schema_version = self._check_schema_version(manifest)
        if schema_version is not None and schema_version[0] > _SUPPORTED_MAJOR:
            return None  # what the keys of a newer version mean is not ours to judge
        findings = check_schema(manifest, "manifest", document=MANIFEST)
        self._found.extend(findings)
        if any(finding.pointer.startswith("/component_models") for finding in findings):
            return None
        components = read_metadata_format(manifest, self._resolver, self._found, self._limits)
        pipeline = self._read_pipeline(components)
        if self._found.has_errors:
            return None
        package = self._assemble(manifest, schema_version, components)
        return package if pipeline is None else self._follow_pipeline(package, pipeline)

    def _assemble(
        self, manifest: Mapping[str, Any], schema_version: tuple[int, int] | None, components: tuple[ComponentInfo, ...]
    ) -> PackageInfo:
        is_universal = isinstance(manifest.get("components"), Mapping) and "schema_version" in manifest
        return PackageInfo(
            root=self._resolver.root,
            name=manifest["model_name"],
            version=manifest.get("model_version"),
            format=PackageFormat.UNIVERSAL if is_universal else PackageFormat.METADATA,
            components=components,
            schema_version=schema_version,
            description=manifest.get("description"),
            inputs=read_value_infos(manifest.get("inputs")),
            outputs=read_value_infos(manifest.get("outputs")),
            additional_metadata=freeze(manifest.get("additional_metadata")),
            has_samples=os.path.lexists(self._resolver.root / SAMPLES),
        )

    def _read_manifest(self) -> dict[str, Any] | None:
        try:
            place = self._resolver.resolve(MANIFEST)
            if place.kind is PathKind.MISSING:
                raise PackageNotFoundError(self._no_manifest(), path=self._resolver.root)
            return read_document(place.path, document=MANIFEST, limits=self._limits)
        except PathEscapesPackageError as error:
            self._found.extend([escape_finding(error, MANIFEST)])
        except PackageFormatError as error:
            self._found.extend(error.findings)
        return None

    def _no_manifest(self) -> str:
        root = self._resolver.root
        message = (
            f"{quoted(root)} is not a model package: there is no {MANIFEST}. "
            f"A package is a directory with {MANIFEST} and models/<component>/{METADATA}"
        )
        if os.path.lexists(root / METADATA):
            message += f"; {METADATA} there says that this is a component of one: open the package above it"
        return message

    def _check_schema_version(self, manifest: Mapping[str, Any]) -> tuple[int, int] | None:
        """The version that the manifest states, if it does so in a form that onnxruntime 1.28 understands.

        This generation has no version of its own, so anything else that stands there is not ours to judge.
        """
        declared = manifest.get("schema_version")
        if isinstance(declared, bool) or not isinstance(declared, int | str):
            return None
        match = _SCHEMA_VERSION.fullmatch(str(declared))
        if match is None:
            return None
        version = int(match.group(1)), int(match.group(2) or 0)
        if version[0] > _SUPPORTED_MAJOR:
            message = f"has schema_version {version[0]}.{version[1]}, this ortpkg knows {_SUPPORTED_MAJOR}.x"
            self._found.add(SCHEMA_VERSION, MANIFEST, message, pointer="/schema_version")
        return version

    def _read_pipeline(self, components: tuple[ComponentInfo, ...]) -> Pipeline | None:
        root = self._resolver.root
        if not os.path.lexists(root / PIPELINE):
            return None
        # Imported here: most packages have one component and no pipeline.
        from ortpkg.package.pipeline import check_pipeline

        pipeline, findings = check_pipeline(root, [component.name for component in components])
        self._found.extend(findings)
        return pipeline

    def _follow_pipeline(self, package: PackageInfo, pipeline: Pipeline) -> PackageInfo:
        """The package with its components in the order in which the pipeline runs them, and its inputs and outputs."""
        from ortpkg.package.pipeline import pipeline_components  # imported here: as above

        order = pipeline_components(pipeline)
        positions = {name: position for position, name in enumerate(order)}
        for component in package.components:
            if component.name not in positions:
                message = f"no step runs component model {quoted(component.name)}"
                self._found.add(COMPONENT_UNUSED, PIPELINE, message, pointer="/steps")
        for what, declared, actual in (
            ("inputs", package.inputs, pipeline.inputs),
            ("outputs", package.outputs, pipeline.outputs),
        ):
            if declared and declared != actual:
                message = f"{what} differ from those of {PIPELINE}"
                self._found.add(OVERALL_VALUES_DIFFER, MANIFEST, message, pointer=f"/{what}")
        ordered = sorted(package.components, key=lambda component: positions.get(component.name, len(order)))
        return replace(
            package, components=tuple(ordered), inputs=pipeline.inputs, outputs=pipeline.outputs, has_pipeline=True
        )


def _generation(manifest: Mapping[str, Any]) -> _Generation:
    """A universal package has the keys of both generations and is read by the older."""
    if "components" in manifest and "model_name" not in manifest and "component_models" not in manifest:
        return _Generation.COMPONENT
    return _Generation.METADATA


def _check_digests(package: PackageInfo) -> tuple[Finding, ...]:
    """What is wrong with the form of digests.json; whether files still match it is the business of ``verify``."""
    from ortpkg.package.digests import read_digests  # imported here: hashlib takes 8 ms, and opening needs none of it

    try:
        read_digests(package.root)
    except PackageFormatError as error:
        return error.findings
    return ()
