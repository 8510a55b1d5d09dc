"""Read samples/samples.json: inputs to try a package with, and their expected outputs.

Arrays stay in their npz files; the values here are paths, resolved and inside the package. All
paths in the document are relative to ``samples/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import FindingCollector, json_pointer, listed
from ortpkg.foundations.documents.frozen import EMPTY, FrozenMapping
from ortpkg.foundations.errors import Finding, PackageFormatError, Severity, quoted
from ortpkg.package.integrity.absent_files import AbsentFiles
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.paths.disk_places import PathKind
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver
from ortpkg.package.rules import (
    DUPLICATE_SAMPLE,
    FILE_MISSING,
    SAMPLE_COMPONENT,
    SAMPLE_DISPLAY,
    SAMPLE_VARIANT,
)
from ortpkg.package.sidecar import SAMPLES, SAMPLES_DIRECTORY, read_sidecar


class DisplayKind(StrEnum):
    """Display of an output: the most likely class, words of a vocabulary, or numbers."""

    CLASS = "class"
    TEXT = "text"
    TENSOR = "tensor"


class TaskKind(StrEnum):
    """Answer taken from an output: the top class, the order of neighbours, or a text."""

    CLASS = "class"
    NEIGHBOURS = "neighbours"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Largest error that an output may have.

    Each element may differ by ``absolute + relative * |expected| + of_largest * largest``.

    Attributes:
        absolute, relative: of each element.
        of_largest: factor of the largest number expected in the output.
        cosine: the least cosine between the two outputs as vectors; None for any.
    """

    absolute: float = 0.0
    relative: float = 0.0
    of_largest: float = 0.0
    cosine: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTolerance:
    """Tolerance on the task: the answers that an output leads to, and how many may differ.

    ``error_rate`` is the share of all samples, from 0 to 1.
    """

    output: str
    kind: TaskKind
    error_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Right answers: the array ``name`` of an npz file, one per sample."""

    file: Path
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """Display of ``output``: ``classes`` (a list) or ``vocabulary`` (JSON) name its numbers."""

    output: str
    kind: DisplayKind
    classes: tuple[str, ...] | None = None
    vocabulary: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSet:
    """Samples for one component model, or for the pipeline.

    Attributes:
        name: unique in the package.
        inputs: npz file, one array per input.
        component: the component model; None for the pipeline.
        expected_outputs: npz file, one array per output.
        batch_axis: 0 if the leading axis of each array enumerates samples, so that as many can be
            fed at a time as the model accepts; None if each array is one feed.
        tolerances: output → tolerance.
        variant_tolerances: variant → output → tolerance, for variants that differ.
        task: the answers that decide, instead of the tolerance of that output; None for none.
        variant_tasks: variant → task, for variants that differ.
        labels, display: the right answers, and how to show outputs.
    """

    name: str
    inputs: Path
    description: str | None = None
    component: str | None = None
    expected_outputs: Path | None = None
    batch_axis: int | None = None
    tolerances: Mapping[str, Tolerance] = EMPTY
    variant_tolerances: Mapping[str, Mapping[str, Tolerance]] = EMPTY
    task: TaskTolerance | None = None
    variant_tasks: Mapping[str, TaskTolerance] = EMPTY
    labels: Labels | None = None
    display: Display | None = None

    def task_of(self, variant: str | None) -> TaskTolerance | None:
        """Return the task that judges a variant; None if a tolerance does.

        A tolerance stated for the variant alone takes precedence over the task of the whole set.
        """
        if variant is None:
            return self.task
        variant_task = self.variant_tasks.get(variant)
        if variant_task is not None or self.task is None:
            return variant_task
        tolerances = self.variant_tolerances.get(variant, EMPTY)
        return None if self.task.output in tolerances else self.task

    def tolerance(self, output: str, *, variant: str | None = None) -> Tolerance | None:
        """Return the tolerance for an output of a variant; None if the samples state none."""
        variant_tolerances = (
            self.variant_tolerances.get(variant, EMPTY) if variant is not None else EMPTY
        )
        return variant_tolerances.get(output) or self.tolerances.get(output)


def read_samples(package: PackageInfo) -> tuple[SampleSet, ...]:
    """Return the sample sets of a package, in document order; none without samples/samples.json.

    Sets whose files are absent (from a sparse package) are left out.

    Raises:
        PackageFormatError: the document, or a file that it names, is wrong; ``findings`` has
            everything.
    """
    samples, findings = _read(package)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise PackageFormatError.from_findings(findings, path=package.root / SAMPLES)
    return samples


def check_samples(package: PackageInfo) -> tuple[Finding, ...]:
    """Return everything that is wrong or doubtful in the package's samples."""
    return _read(package)[1]


def _read(package: PackageInfo) -> tuple[tuple[SampleSet, ...], tuple[Finding, ...]]:
    collector = FindingCollector()
    absences = AbsentFiles(package.root)
    resolver = PathResolver(package.root, absences=absences)
    value = read_sidecar(SAMPLES, schema="samples", resolver=resolver, collector=collector)
    samples: list[SampleSet] = []
    for index, body in enumerate(value["samples"] if value is not None else ()):
        sample = _SampleReader(package, index, resolver, collector).read(body)
        if any(sample.name == other.name for other in samples):
            message = f"sample set {quoted(sample.name)} is there twice"
            collector.add(
                DUPLICATE_SAMPLE, SAMPLES, message, pointer=json_pointer("samples", index, "name")
            )
        samples.append(sample)
    present = tuple(sample for sample in samples if not _is_absent(sample, absences))
    return present, collector.findings


def _is_absent(sample: SampleSet, absences: AbsentFiles) -> bool:
    if not absences.was_queried:
        return False
    labels = None if sample.labels is None else sample.labels.file
    vocabulary = None if sample.display is None else sample.display.vocabulary
    files = (sample.inputs, sample.expected_outputs, labels, vocabulary)
    return any(file is not None and absences.is_any_below(file) for file in files)


class _SampleReader:
    """Reader of one sample set whose JSON has passed the schema."""

    def __init__(
        self, package: PackageInfo, index: int, resolver: PathResolver, collector: FindingCollector
    ) -> None:
        self._package = package
        self._index = index
        self._resolver = resolver
        self._collector = collector

    def read(self, body: Mapping[str, Any]) -> SampleSet:
        variants = body.get("variants", {})
        component = self._read_component(body.get("component"))
        self._check_variants(variants, component)
        labels = body.get("labels")
        batch_axis = body.get("batch_axis")
        return SampleSet(
            name=body["name"],
            description=body.get("description"),
            component=component,
            inputs=self._file(body["inputs"], "inputs"),
            expected_outputs=self._optional_file(body, "expected_outputs"),
            batch_axis=None if batch_axis is None else int(batch_axis),
            tolerances=_read_tolerances(body.get("tolerances", {})),
            variant_tolerances=FrozenMapping(
                {
                    name: _read_tolerances(variant_body.get("tolerances", {}))
                    for name, variant_body in variants.items()
                }
            ),
            task=_read_task(body.get("task")),
            variant_tasks=FrozenMapping(
                {
                    name: task
                    for name, variant_body in variants.items()
                    if (task := _read_task(variant_body.get("task"))) is not None
                }
            ),
            labels=None
            if labels is None
            else Labels(file=self._file(labels["file"], "labels", "file"), name=labels["name"]),
            display=self._read_display(body.get("display")),
        )

    def _read_component(self, declared: str | None) -> str | None:
        components = self._package.components
        available = listed([component.name for component in components]) or "no component models"
        if declared is not None:
            if self._package.component(declared) is None:
                message = f"component model {quoted(declared)} does not exist"
                self._add(
                    SAMPLE_COMPONENT, message, "component", remedy=f"the package has {available}"
                )
            return declared
        if self._package.has_pipeline:
            return None
        if len(components) == 1:
            return components[0].name
        message = "names no component model, though the package has several and no pipeline"
        if not components:
            message = "has no component model to run on"
        self._add(SAMPLE_COMPONENT, message, remedy=f"the package has {available}")
        return None

    def _check_variants(self, variants: Mapping[str, Any], component_name: str | None) -> None:
        components = self._package.components
        if component_name is not None:
            components = tuple(
                component for component in components if component.name == component_name
            )
        variant_names = {variant.name for component in components for variant in component.variants}
        for name in (name for name in variants if name not in variant_names):
            self._add(SAMPLE_VARIANT, f"variant {quoted(name)} does not exist", "variants", name)

    def _read_display(self, declared: Mapping[str, Any] | None) -> Display | None:
        if declared is None:
            return None
        kind = DisplayKind(declared["as"])
        classes = declared.get("classes")
        if kind is DisplayKind.TEXT and "vocabulary" not in declared:
            self._add(SAMPLE_DISPLAY, "shows text without a vocabulary", "display")
        return Display(
            output=declared["output"],
            kind=kind,
            classes=None if classes is None else tuple(classes),
            vocabulary=self._optional_file(declared, "vocabulary", within="display"),
        )

    def _optional_file(
        self, body: Mapping[str, Any], key: str, *, within: str | None = None
    ) -> Path | None:
        tokens = (key,) if within is None else (within, key)
        return self._file(body[key], *tokens) if key in body else None

    def _file(self, reference: str, *tokens: str) -> Path:
        try:
            resolved = self._resolver.resolve(reference, base=SAMPLES_DIRECTORY)
        except PathRefusedError as error:
            pointer = json_pointer("samples", self._index, *tokens)
            self._collector.extend([error.finding(SAMPLES, pointer=pointer)])
            return self._resolver.root
        if resolved.kind is not PathKind.FILE:
            problem = "does not exist" if resolved.kind is PathKind.MISSING else "is not a file"
            self._add(
                FILE_MISSING, f"file {quoted(reference)} {problem} in {SAMPLES_DIRECTORY}/", *tokens
            )
        return resolved.path

    def _add(self, rule: Rule, message: str, *tokens: str, remedy: str = "") -> None:
        pointer = json_pointer("samples", self._index, *tokens)
        self._collector.add(rule, SAMPLES, message, pointer=pointer, remedy=remedy)


def _read_tolerances(declared: Mapping[str, Mapping[str, float]]) -> FrozenMapping[Tolerance]:
    return FrozenMapping(
        {
            output: Tolerance(
                absolute=float(body.get("absolute", 0)),
                relative=float(body.get("relative", 0)),
                of_largest=float(body.get("of_largest", 0)),
                cosine=None if body.get("cosine") is None else float(body["cosine"]),
            )
            for output, body in declared.items()
        }
    )


def _read_task(declared: Mapping[str, Any] | None) -> TaskTolerance | None:
    if declared is None:
        return None
    return TaskTolerance(
        output=declared["output"],
        kind=TaskKind(declared["same"]),
        error_rate=float(declared.get("error_rate", 0)),
    )
