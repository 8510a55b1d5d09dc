"""Checks of what a release of onnxruntime would do with a package (ORT701 to ORT711), for the
targets asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.authoring.checks.checked_package import CheckedPackage, of_variant
from ortpkg.authoring.own_contexts import WHY_NOT_READ, has_own_contexts
from ortpkg.authoring.rules import release_rules
from ortpkg.authoring.rules.targets import GENAI, UNIVERSAL
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import Finding, PackageNotFoundError, quoted
from ortpkg.onnxruntime_releases import ONNXRUNTIME_1_27, ONNXRUNTIME_1_31
from ortpkg.package.findings import finding, listed
from ortpkg.package.formats.constraints import DEVICES
from ortpkg.package.formats.metadata_format import MANIFEST
from ortpkg.package.package_info import Constraints, PackageFormat, VariantInfo
from ortpkg.package.reader import check_package
from ortpkg.package.rules import Rule
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.providers.openvino_requirements import rating_of_onnxruntime
from ortpkg.releases.release_1_27 import Refusal, why_1_27_refuses


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    """A release, and those that behave like it (docs/rules.md).

    Attributes:
        name: how messages call it.
        refusals: why it does not open a package.
        never_selects: why it never selects a variant; None if it may.
        newest_ir_version: of models that it reads.
        newest_opsets: domain → the newest version that it reads.
    """

    name: str
    refusals: Callable[[Path], Iterator[Refusal]]
    never_selects: Callable[[VariantInfo], str | None]
    newest_ir_version: int
    newest_opsets: Mapping[str, int]


def check_release_opens(root: Path, targets: Sequence[str]) -> Iterator[Finding]:
    """The releases that ``targets`` stand for open the package in ``root``, whatever ortpkg thinks
    of it.
    """
    for target in targets:
        for release in _RELEASES[target]:
            for refusal in release.refusals(root):
                message = f"{release.name} refuses the package: {refusal.message}"
                found = finding(
                    release_rules.RELEASE_REFUSES,
                    refusal.document,
                    message,
                    pointer=refusal.pointer,
                )
                yield replace(found, target=target)


def check_release_selects(package: CheckedPackage) -> Iterator[Finding]:
    """The releases that were asked for can select every variant."""
    for target in package.targets:
        if target not in release_rules.RELEASE_NEVER_SELECTS.targets:
            continue
        for release in _RELEASES[target]:
            for variant in package.variants:
                if reason := release.never_selects(variant):
                    message = (
                        f"{release.name} never selects variant {quoted(variant.name)}: {reason}"
                    )
                    yield of_variant(
                        release_rules.RELEASE_NEVER_SELECTS, variant, message, target=target
                    )


def check_release_reads_models(package: CheckedPackage) -> Iterator[Finding]:
    """The releases that were asked for read each model's IR version and operator sets."""
    for target in package.targets:
        for variant in package.variants:
            for model in package.models_of(variant):
                if model.signature is None:
                    continue
                imports = model.signature.opset_imports
                for release in _RELEASES[target][-1:]:  # they read the same versions of ONNX
                    for reason in _too_new(model.signature.ir_version, imports, release):
                        message = (
                            f"model {quoted(model.path.name)} of variant {quoted(variant.name)}"
                            f" {reason}"
                        )
                        yield of_variant(
                            release_rules.RELEASE_MODEL_TOO_NEW, variant, message, target=target
                        )


def check_release_reads_contexts(package: CheckedPackage) -> Iterator[Finding]:
    """The execution providers of the releases that were asked for read the variants' compiled
    contexts.
    """
    for variant in package.variants if package.targets else ():
        for model in package.models_of(variant):
            if not model.contexts or not has_own_contexts(model.path):
                continue
            for target in package.targets:
                message = (
                    f"{_names(target)} cannot run variant {quoted(variant.name)}: {WHY_NOT_READ}"
                )
                yield of_variant(
                    release_rules.RELEASE_READS_NO_CONTEXTS, variant, message, target=target
                )


def check_universal_target(package: CheckedPackage) -> Iterator[Finding]:
    """A package for all releases has the keys of both generations, and one component model."""
    if UNIVERSAL not in package.targets:
        return
    info = package.info
    if info.format is not PackageFormat.UNIVERSAL:
        missing = "component" if info.format is PackageFormat.METADATA else "metadata"
        yield _of_manifest(
            release_rules.UNIVERSAL_GENERATIONS, f"lacks the keys of the {missing} generation"
        )
    if len(info.components) != 1:
        names = listed([component.name for component in info.components]) or "none"
        yield _of_manifest(
            release_rules.UNIVERSAL_ONE_COMPONENT,
            f"there are {len(info.components)} component models: {names}",
        )


def check_several_components(package: CheckedPackage) -> Iterator[Finding]:
    """Packages that are written for onnxruntime 1.26 and 1.27 too have one component model."""
    components = package.info.components
    if len(components) > 1 and package.info.format is not PackageFormat.COMPONENT:
        names = listed([component.name for component in components])
        message = (
            f"onnxruntime 1.26 and 1.27 refuse a package with {len(components)} component models:"
            f" {names}"
        )
        yield finding(release_rules.SEVERAL_COMPONENTS, MANIFEST, message)


def _refusals_of_1_31(root: Path) -> Iterator[Refusal]:
    try:
        package, findings = check_package(root, compat=ONNXRUNTIME_1_31)
    except (
        PackageNotFoundError
    ):  # a component's own folder, for those who read the metadata generation
        yield Refusal(document=MANIFEST, message="there is none (ORTC-IO)")
        return
    for each in findings if package is None else ():
        yield Refusal(
            document=each.document, message=f"{each.message} ({each.rule})", pointer=each.pointer
        )


def _names(target: str) -> str:
    return " and ".join(release.name for release in _RELEASES[target])


def _is_unsupported(stated: Constraints) -> str | None:
    """Why the variant's EP rates it unsupported on every machine; None if it may not."""
    ep, info = stated.ep or "", stated.ep_compatibility_info or ""
    if rating_of_onnxruntime(ep, info) is not CompiledModelCompatibility.UNSUPPORTED:
        return None
    return (
        f"{ep} rates its compatibility string, {quoted(info)},"
        f" {CompiledModelCompatibility.UNSUPPORTED} everywhere"
    )


def _never_by_1_27(variant: VariantInfo) -> str | None:
    if variant.constraints.ep != CPU_EP:
        return _is_unsupported(variant.constraints)
    return f"it passes over {CPU_EP}, and fails where that is the only one"


def _never_by_1_31(variant: VariantInfo) -> str | None:
    stated = variant.component_constraints
    if stated is None:
        return None
    if not stated.ep:
        return "the variant names no ep"
    if stated.device and stated.ep == CPU_EP:
        return (
            f"the variant states the device {quoted(stated.device)}, and {CPU_EP} has no devices"
            " there"
        )
    if stated.device and stated.device.lower() not in DEVICES:
        return f"no device is {quoted(stated.device)}"
    return _is_unsupported(stated)


def _too_new(ir_version: int, imports: Mapping[str, int], release: _Release) -> Iterator[str]:
    if ir_version > release.newest_ir_version:
        yield f"has IR version {ir_version}; the newest that is read is {release.newest_ir_version}"
    for domain, newest in release.newest_opsets.items():
        if imports.get(domain, 0) > newest:
            name = domain or "ai.onnx"
            yield (
                f"imports version {imports[domain]} of {name}; the newest that is read is {newest}"
            )


def _of_manifest(rule: Rule, message: str) -> Finding:
    return replace(finding(rule, MANIFEST, message), target=UNIVERSAL)


# Measured with a model of one Identity in 1.26.0, 1.27.0, 1.28.0, 1.29.0, 1.30.0, 1.31.0 and
# 1.31.1: all read the same.
NEWEST_IR_VERSION = 13
NEWEST_OPSETS = {"": 26, "ai.onnx.ml": 5}

_LINE_1_27 = _Release(
    name="onnxruntime 1.27",
    refusals=why_1_27_refuses,
    never_selects=_never_by_1_27,
    newest_ir_version=NEWEST_IR_VERSION,
    newest_opsets=NEWEST_OPSETS,
)
_LINE_1_31 = _Release(
    name="onnxruntime 1.31",
    refusals=_refusals_of_1_31,
    never_selects=_never_by_1_31,
    newest_ir_version=NEWEST_IR_VERSION,
    newest_opsets=NEWEST_OPSETS,
)
_RELEASES: Mapping[str, tuple[_Release, ...]] = {
    ONNXRUNTIME_1_27: (_LINE_1_27,),
    ONNXRUNTIME_1_31: (_LINE_1_31,),
    GENAI: (_LINE_1_31,),
    UNIVERSAL: (_LINE_1_27, _LINE_1_31),
}
"""Target → the releases that must read the package."""
