"""``validate``: everything that is wrong or doubtful in a package, found without running anything of it.

The documents come first (``package.reader``); only a package whose documents are valid has models to look at. Each
check is one function in :data:`PACKAGE_CHECKS` and returns findings; none raises for what a package may contain.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.authoring import rules
from ortpkg.authoring.agreement import differences, fixed_dimension_differences
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.variant_files import data_files, why_not_a_data_file
from ortpkg.devices.hardware import DeviceType
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import Finding, ModelError, PackageFormatError, quoted
from ortpkg.graph.model_signature import ModelSignature, ValueSignature
from ortpkg.package.digests import (
    STAGING_PREFIX,
    DifferenceKind,
    check_digests,
    read_digests,
)
from ortpkg.package.documents import read_document
from ortpkg.package.findings import finding
from ortpkg.package.hashing import Progress
from ortpkg.package.metadata_format import MANIFEST
from ortpkg.package.model_file import GENAI_CONFIG
from ortpkg.package.package_info import ComponentInfo, PackageInfo, ValueInfo, VariantInfo
from ortpkg.package.path_resolver import PathKind, PathResolver, why_not_portable
from ortpkg.package.pipeline import ComponentStep, RepeatStep, Step, read_pipeline
from ortpkg.package.reader import check_package
from ortpkg.package.rules import Rule
from ortpkg.package.sidecar import DIGESTS_FILE, PIPELINE

_DIFFERENCE_RULES = {
    DifferenceKind.CHANGED: rules.FILE_CHANGED,
    DifferenceKind.MISSING: rules.FILE_LOST,
    DifferenceKind.UNREADABLE: rules.FILE_UNREADABLE,
    DifferenceKind.EXTRA: rules.FILE_NOT_RECORDED,
}
_MOST_FILE_NAMES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPackage:
    """What the checks look at.

    Attributes:
        info: the package.
        signatures: (component, variant) → signature of its model, where it has one and that can be read.
        model_errors: likewise → why it cannot be read.
        progress: told which file is being hashed.
    """

    info: PackageInfo
    signatures: dict[tuple[str, str], ModelSignature]
    model_errors: dict[tuple[str, str], str]
    progress: Progress | None = None

    def signatures_of(self, component: ComponentInfo) -> list[tuple[VariantInfo, ModelSignature]]:
        """The component's variants with a model, in declaration order."""
        return [
            (variant, self.signatures[component.name, variant.name])
            for variant in component.variants
            if (component.name, variant.name) in self.signatures
        ]


def validate(root: Path | str, *, progress: Progress | None = None) -> tuple[Finding, ...]:
    """Every finding of a package: documents, digests, models and their data files, agreement, coverage, GenAI.

    Args:
        root: the package.
        progress: called with (file, bytes done, bytes in total) while files are hashed.

    Raises:
        PackageNotFoundError: there is no directory at ``root``.
    """
    info, findings = check_package(root)
    if info is None:
        return findings
    package = _open_models(info, progress)
    return (*findings, *(found for check in PACKAGE_CHECKS.values() for found in check(package)))


def _open_models(info: PackageInfo, progress: Progress | None) -> CheckedPackage:
    package = CheckedPackage(info=info, signatures={}, model_errors={}, progress=progress)
    for variant in _variants(info):
        if variant.model_path is not None:
            try:
                signature = read_model_facts(variant.model_path).signature
            except ModelError as error:
                package.model_errors[variant.component_name, variant.name] = str(error)
            else:
                package.signatures[variant.component_name, variant.name] = signature
    return package


def _check_digests(package: CheckedPackage) -> Iterator[Finding]:
    try:
        if read_digests(package.info.root) is None:
            yield finding(rules.NO_DIGESTS, DIGESTS_FILE, "is missing: the package is unverified")
            return
        for difference in check_digests(package.info.root, progress=package.progress):
            yield finding(_DIFFERENCE_RULES[difference.kind], _shown(difference.file), difference.message)
    except PackageFormatError:
        return  # the reader has said what is wrong with digests.json


def _check_leftovers(package: CheckedPackage) -> Iterator[Finding]:
    try:
        recorded = read_digests(package.info.root)
    except PackageFormatError:
        return
    if recorded is not None and recorded.pending is not None:
        document = recorded.pending.commit_document
        yield finding(rules.CHANGE_INTERRUPTED, DIGESTS_FILE, f"a change to {quoted(document)} was interrupted")
    with os.scandir(package.info.root) as entries:
        for name in sorted(entry.name for entry in entries if entry.name.startswith(STAGING_PREFIX)):
            yield finding(rules.CHANGE_INTERRUPTED, _shown(name), "was left over by a command that was interrupted")


def _check_models(package: CheckedPackage) -> Iterator[Finding]:
    for variant in _variants(package.info):
        key = variant.component_name, variant.name
        if key in package.model_errors:
            yield _of_variant(rules.MODEL_WRONG, variant, package.model_errors[key])
        elif key in package.signatures and variant.model_path is not None:
            for location, nbytes in data_files(package.signatures[key]).items():
                if reason := why_not_a_data_file(variant.model_path.parent, location, nbytes):
                    message = f"data file {quoted(location)} of variant {quoted(variant.name)} {reason}"
                    yield _of_variant(rules.DATA_FILE_WRONG, variant, message)


def _check_agreement(package: CheckedPackage) -> Iterator[Finding]:
    """Each variant against the first of its component, which is what the author started from."""
    for component in package.info.components:
        opened = package.signatures_of(component)
        for variant, signature in opened[1:]:
            first, theirs = opened[0]
            found = differences(signature, theirs)
            rule = rules.VALUES_DIFFER if found else rules.FIXED_DIMENSIONS_DIFFER
            for difference in found or fixed_dimension_differences(signature, theirs):
                message = f"variant {quoted(variant.name)} differs from {quoted(first.name)}: {difference}"
                yield _of_variant(rule, variant, message)


def _check_overall_values(package: CheckedPackage) -> Iterator[Finding]:
    if len(package.info.components) != 1 or package.info.has_pipeline:
        return
    for _, signature in package.signatures_of(package.info.components[0])[:1]:
        for what, stated, actual in (
            ("inputs", package.info.inputs, signature.inputs),
            ("outputs", package.info.outputs, signature.outputs),
        ):
            if stated and list(map(_name_and_type, stated)) != list(map(_name_and_type, actual)):
                message = f"{what} are {_listed(stated)}, those of the model are {_listed(actual)}"
                yield finding(rules.OVERALL_VALUES_OUTDATED, MANIFEST, message, pointer=f"/{what}")


def _check_pipeline(package: CheckedPackage) -> Iterator[Finding]:
    pipeline = read_pipeline(package.info) if package.info.has_pipeline else None
    for step in _component_steps(pipeline.steps if pipeline is not None else ()):
        component = package.info.component(step.component)
        for _, signature in package.signatures_of(component)[:1] if component is not None else ():
            yield from _check_step(step, "input", step.inputs, signature.inputs)
            yield from _check_step(step, "output", step.outputs, signature.outputs)


def _check_step(
    step: ComponentStep, what: str, names: Iterable[str], values: Sequence[ValueSignature]
) -> Iterator[Finding]:
    known = {value.name for value in values}
    for name in names:
        if name not in known:
            message = f"a step of {quoted(step.component)} uses the {what} {quoted(name)}; there is {_listed(values)}"
            yield finding(rules.PIPELINE_VALUE_UNKNOWN, PIPELINE, message, pointer="/steps")


def _check_cpu_coverage(package: CheckedPackage) -> Iterator[Finding]:
    for component in package.info.components:
        if component.variants and not any(map(_may_run_on_cpu, component.variants)):
            message = f"component model {quoted(component.name)} has no variant that runs on a CPU"
            source = component.source
            yield finding(rules.NO_CPU_VARIANT, source.document, message, pointer=source.pointer)


def _check_genai(package: CheckedPackage) -> Iterator[Finding]:
    for variant in _variants(package.info):
        if variant.model_path is not None:
            continue
        document = (variant.directory / GENAI_CONFIG).relative_to(package.info.root).as_posix()
        try:
            config = read_document(variant.directory / GENAI_CONFIG, document=document)
        except PackageFormatError as error:
            for each in error.findings:
                yield finding(rules.GENAI_CONFIG_WRONG, document, each.message, pointer=each.pointer)
            continue
        folder = variant.directory.relative_to(package.info.root).as_posix()
        resolver = PathResolver(package.info.root)
        for pointer, name in list(_file_names(config.get("model"), "/model"))[:_MOST_FILE_NAMES]:
            if why_not_portable(name) or resolver.resolve(name, base=folder).kind is not PathKind.FILE:
                message = f"{quoted(name)} is not in the variant's folder"
                yield finding(rules.GENAI_FILE_MISSING, document, message, pointer=pointer)


PACKAGE_CHECKS: dict[str, Callable[[CheckedPackage], Iterable[Finding]]] = {
    "digests": _check_digests,
    "leftovers": _check_leftovers,
    "models": _check_models,
    "agreement": _check_agreement,
    "overall values": _check_overall_values,
    "pipeline": _check_pipeline,
    "cpu coverage": _check_cpu_coverage,
    "genai": _check_genai,
}
"""What is checked → the function that does it, in the order in which findings are listed."""


def _variants(info: PackageInfo) -> Iterator[VariantInfo]:
    for component in info.components:
        yield from component.variants


def _may_run_on_cpu(variant: VariantInfo) -> bool:
    constraints = variant.constraints
    return constraints.device in (None, DeviceType.CPU) and (
        constraints.ep in (None, CPU_EP) or constraints.device == DeviceType.CPU
    )


def _component_steps(steps: Iterable[Step]) -> Iterator[ComponentStep]:
    for step in steps:
        if isinstance(step, RepeatStep):
            yield from _component_steps(step.steps)
        else:
            yield step


def _file_names(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Values of the key ``filename`` in genai_config.json's model section, with where they stand."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "filename" and isinstance(inner, str):
                yield f"{pointer}/filename", inner
            else:
                yield from _file_names(inner, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _file_names(inner, f"{pointer}/{index}")


def _of_variant(rule: Rule, variant: VariantInfo, message: str) -> Finding:
    return finding(rule, variant.source.document, message, pointer=variant.source.pointer)


def _name_and_type(value: ValueInfo | ValueSignature) -> tuple[str, str]:
    return value.name, value.type


def _listed(values: Iterable[ValueInfo | ValueSignature]) -> str:
    return ", ".join(quoted(f"{value.name}: {value.type}") for value in values) or "none"


def _shown(file: str) -> str:
    """A file's name as ``Finding.document``, which is printed as it is: with odd characters it is quoted."""
    return file if file.isprintable() else quoted(file)
