"""A package as a release of onnxruntime finds it: whether it opens it, and what it reads of each variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ortpkg.errors import PackageError, PackageFormatError, Severity
from ortpkg.package.frozen import EMPTY
from ortpkg.package.metadata_format import MANIFEST
from ortpkg.package.package_info import Constraints, PackageFormat, PackageInfo
from ortpkg.package.reader import open_package
from ortpkg.package.reading_rules import ONNXRUNTIME_1_31 as COMPAT_1_31
from ortpkg.selection.policies import ONNXRUNTIME_1_31


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseView:
    """How a release finds one component.

    Attributes:
        refusal: why it does not open the package; "" where it does.
        constraints: variant → what it reads, where that is not what the variants of the package carry.
    """

    refusal: str = ""
    constraints: Mapping[str, Constraints] = EMPTY


def release_view(package: PackageInfo, component_name: str, policy: str) -> ReleaseView:
    """The view of the release of ``policy`` (one of ``policies.RELEASE_POLICIES``).

    onnxruntime 1.31's is found out by reading the package again by its rules. Of 1.27 it is known what it makes of a
    package that ortpkg reads by its strict rules; what those refuse counts as refused.
    """
    return _component_view(package) if policy == ONNXRUNTIME_1_31 else _metadata_view(package, component_name)


def _component_view(package: PackageInfo) -> ReleaseView:
    if package.compat == COMPAT_1_31:
        return ReleaseView()
    try:
        open_package(package.root, compat=COMPAT_1_31)
    except PackageError as error:
        return ReleaseView(refusal=f"onnxruntime 1.31 does not open the package: {_first_problem(error)}")
    return ReleaseView()


def _metadata_view(package: PackageInfo, component_name: str) -> ReleaseView:
    """The metadata generation's keys are read by the strict rules alone."""
    strict = package
    if package.compat is not None:
        try:
            strict = open_package(package.root)
        except PackageError as error:
            return ReleaseView(refusal=f"the package is not one that can be predicted: {_first_problem(error)}")
    if problem := _why_1_27_refuses(strict):
        return ReleaseView(refusal=f"onnxruntime 1.27 does not open the package: {problem}")
    component = strict.component(component_name)
    if strict is package or component is None:
        return ReleaseView()
    return ReleaseView(constraints={variant.name: variant.constraints for variant in component.variants})


def _why_1_27_refuses(package: PackageInfo) -> str:
    """What 1.26 and 1.27 refuse of what the strict reader takes; "" for nothing."""
    if package.format is PackageFormat.COMPONENT:
        return f"{MANIFEST} has no model_name"
    if len(package.components) != 1:
        return f"it has {len(package.components)} component models, and exactly one is allowed"
    variants = package.components[0].variants
    if any(variant.source.document == MANIFEST for variant in variants):
        return f"component_models in {MANIFEST} must be a list of names"
    for variant in variants:
        if variant.model_path is None:
            return f"the folder of a GenAI variant, {variant.directory.name!r}, is no model"
    return ""


def _first_problem(error: PackageError) -> str:
    if isinstance(error, PackageFormatError):
        for finding in error.findings:
            if finding.severity is Severity.ERROR:
                return str(finding)
    return str(error)
