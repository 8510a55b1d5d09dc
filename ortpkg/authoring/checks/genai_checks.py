"""Check GenAI variants (ORT601, ORT602), and the needs of onnxruntime-genai (ORT610 to 613).

Source: docs/model_package.md of onnxruntime-genai.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ortpkg.authoring.checks.checked_package import CheckedPackage, finding_of_variant
from ortpkg.authoring.checks.genai_config import read_genai_config
from ortpkg.authoring.rules import genai_rules
from ortpkg.authoring.rules.targets import GENAI
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import finding, listed
from ortpkg.foundations.errors import Finding, quoted
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.executor_info import ORT
from ortpkg.package.formats.model_search import GENAI_CONFIG
from ortpkg.package.package_info import PackageFormat


def check_genai_variants(package: CheckedPackage) -> Iterator[Finding]:
    """Check that a GenAI variant has a valid genai_config.json, and the files that it names."""
    for variant in package.variants:
        if not (variant.directory / GENAI_CONFIG).is_file():
            continue
        config = read_genai_config(package.info, variant)
        for problem in config.findings:
            yield finding(
                genai_rules.GENAI_CONFIG_WRONG,
                config.document,
                problem.message,
                pointer=problem.pointer,
            )
        for file in config.files:
            if file.path is None:
                message = f"{quoted(file.name)} is not in the variant's folder"
                yield finding(
                    genai_rules.GENAI_FILE_MISSING, config.document, message, pointer=file.pointer
                )


def check_genai_target(package: CheckedPackage) -> Iterator[Finding]:
    """Check that onnxruntime-genai opens the package, and can load every variant."""
    if GENAI not in package.targets:
        return
    info = package.info
    if len(info.components) != 1:
        names = listed([component.name for component in info.components]) or "none"
        yield _of_manifest(
            genai_rules.GENAI_ONE_COMPONENT,
            f"there are {len(info.components)} component models: {names}",
        )
    if info.format is PackageFormat.METADATA:
        message = (
            "has the keys of the metadata generation only: onnxruntime-genai needs schema_version"
            " and components"
        )
        yield _of_manifest(genai_rules.GENAI_GENERATION, message)
    if (info.root / GENAI_CONFIG).exists():
        message = (
            f"stands beside {GENAI_CONFIG}: onnxruntime-genai takes the folder for one model, not"
            " for a package"
        )
        yield _of_manifest(genai_rules.GENAI_GENERATION, message)
    for variant in package.variants:
        if not (variant.directory / GENAI_CONFIG).is_file():
            message = f"variant {quoted(variant.name)} has no {GENAI_CONFIG} in its folder"
            yield finding_of_variant(
                genai_rules.GENAI_CONFIG_MISSING, variant, message, target=GENAI
            )
        if variant.session_options or variant.provider_options:
            message = (
                f"the options of variant {quoted(variant.name)} in executor_info.{ORT} are not read"
            )
            yield finding_of_variant(
                genai_rules.GENAI_OPTIONS_IGNORED, variant, message, target=GENAI
            )


def _of_manifest(rule: Rule, message: str) -> Finding:
    return replace(finding(rule, MANIFEST, message), target=GENAI)
