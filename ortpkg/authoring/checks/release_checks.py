"""Check what onnxruntime's releases would do with a package (ORT701 to ORT711)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ortpkg.authoring.checks.checked_package import CheckedPackage, finding_of_variant
from ortpkg.authoring.own_contexts import WHY_NOT_READ, has_own_contexts
from ortpkg.authoring.rules import release_rules
from ortpkg.authoring.rules.targets import GENAI, UNIVERSAL
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import finding, listed
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import Finding, quoted
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.machine.hardware import DeviceType
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.constraints import DEVICES
from ortpkg.package.package_info import Constraints, PackageFormat, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.openvino_requirements import rating_of_onnxruntime
from ortpkg.selection.releases.release_lines import RELEASE_LINES


def check_release_opens(root: Path, targets: Sequence[str]) -> Iterator[Finding]:
    """Check that the releases in ``targets`` would open the package; ortpkg need not open it."""
    for target in targets:
        for release in _RELEASES[target]:
            for refusal in RELEASE_LINES[release].read(root)[1]:
                status = f" ({refusal.status})" if refusal.status else ""
                message = f"{_name(release)} refuses the package: {refusal.message}{status}"
                result = finding(
                    release_rules.RELEASE_REFUSES,
                    refusal.document,
                    message,
                    pointer=refusal.pointer,
                )
                yield replace(result, target=target)


def check_release_selects(package: CheckedPackage) -> Iterator[Finding]:
    """Check that the target releases can select every variant."""
    for target in package.targets:
        if target not in release_rules.RELEASE_NEVER_SELECTS.targets:
            continue
        for release in _RELEASES[target]:
            for variant in package.variants:
                if reason := _NEVER_SELECTS[release](variant):
                    message = (
                        f"{_name(release)} never selects variant {quoted(variant.name)}: {reason}"
                    )
                    yield finding_of_variant(
                        release_rules.RELEASE_NEVER_SELECTS, variant, message, target=target
                    )


def check_release_reads_models(package: CheckedPackage) -> Iterator[Finding]:
    """Check that the target releases read each model's IR version and operator sets."""
    for target in package.targets:
        newest = min(
            (NEWEST_READ[release] for release in _RELEASES[target]), key=lambda read: read[0]
        )
        for variant in package.variants:
            for model in package.models_of(variant):
                if model.signature is None:
                    continue
                imports = model.signature.opset_imports
                for reason in _too_new(model.signature.ir_version, imports, newest):
                    model_name, variant_name = quoted(model.path.name), quoted(variant.name)
                    message = f"model {model_name} of variant {variant_name} {reason}"
                    yield finding_of_variant(
                        release_rules.RELEASE_MODEL_TOO_NEW, variant, message, target=target
                    )


def check_release_reads_contexts(package: CheckedPackage) -> Iterator[Finding]:
    """Check that the EPs of the target releases read the contexts of the variants."""
    for variant in package.variants if package.targets else ():
        for model in package.models_of(variant):
            if not model.contexts or not has_own_contexts(model.path):
                continue
            for target in package.targets:
                message = (
                    f"{_names(target)} cannot run variant {quoted(variant.name)}: {WHY_NOT_READ}"
                )
                yield finding_of_variant(
                    release_rules.RELEASE_READS_NO_CONTEXTS, variant, message, target=target
                )


def check_universal_target(package: CheckedPackage) -> Iterator[Finding]:
    """Check that a package for all releases has the keys of both generations, and one component."""
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
    """Check that packages also for onnxruntime 1.26 and 1.27 have one component model."""
    components = package.info.components
    if len(components) > 1 and package.info.format is not PackageFormat.COMPONENT:
        names = listed([component.name for component in components])
        message = (
            f"onnxruntime 1.26 and 1.27 refuse a package with {len(components)} component models:"
            f" {names}"
        )
        yield finding(release_rules.SEVERAL_COMPONENTS, MANIFEST, message)


def _names(target: str) -> str:
    return " and ".join(map(_name, _RELEASES[target]))


def _name(release: str) -> str:
    return RELEASE_LINES[release].rules.release


def _why_unsupported(constraints: Constraints) -> str | None:
    """Return why the variant's EP rates it unsupported on every machine; None if it may not."""
    ep, info = constraints.ep or "", constraints.ep_compatibility_info or ""
    if rating_of_onnxruntime(ep, info) is not CompiledModelCompatibility.UNSUPPORTED:
        return None
    return (
        f"{ep} rates its compatibility string, {quoted(info)},"
        f" {CompiledModelCompatibility.UNSUPPORTED} everywhere"
    )


def _never_by_1_27(variant: VariantInfo) -> str | None:
    if variant.constraints.ep != CPU_EP:
        return _why_unsupported(variant.constraints)
    return f"it passes over {CPU_EP}, and fails where that is the only one"


def _never_by_1_31(variant: VariantInfo) -> str | None:
    constraints = variant.component_constraints
    if constraints is not None and constraints.device and constraints.ep == CPU_EP:
        return (
            f"the variant states the device {quoted(constraints.device)}, and {CPU_EP} has no"
            " devices there"
        )
    return _never_by_1_32(variant)


def _never_by_1_32(variant: VariantInfo) -> str | None:
    constraints = variant.component_constraints
    if constraints is None:
        return None
    if not constraints.ep:
        return "the variant names no ep"
    if (
        constraints.device
        and constraints.ep == CPU_EP
        and constraints.device.lower() != DeviceType.CPU
    ):
        return (
            f"the variant states the device {quoted(constraints.device)}, and {CPU_EP} runs on the"
            " CPU"
        )
    if constraints.device and constraints.device.lower() not in DEVICES:
        return f"no device is {quoted(constraints.device)}"
    return _why_unsupported(constraints)


def _too_new(ir_version: int, imports: Mapping[str, int], newest: NewestRead) -> Iterator[str]:
    if ir_version > newest.ir_version:
        yield f"has IR version {ir_version}; the newest that is read is {newest.ir_version}"
    for domain, version in newest.opsets.items():
        if imports.get(domain, 0) > version:
            name = domain or "ai.onnx"
            yield (
                f"imports version {imports[domain]} of {name}; the newest that is read is {version}"
            )


def _of_manifest(rule: Rule, message: str) -> Finding:
    return replace(finding(rule, MANIFEST, message), target=UNIVERSAL)


class NewestRead(NamedTuple):
    """Newest versions that a release reads: of ONNX's IR, and of operator sets by domain."""

    ir_version: int
    opsets: Mapping[str, int]


# Measured with a model of one Identity in 1.26.0, 1.27.0, 1.28.0, 1.29.0, 1.30.0, 1.31.0 and
# 1.31.1, which all read the same, and in 1.32.0.
_UP_TO_1_31 = NewestRead(13, {"": 26, "ai.onnx.ml": 5})
NEWEST_READ: Mapping[str, NewestRead] = {
    ONNXRUNTIME_1_27: _UP_TO_1_31,
    ONNXRUNTIME_1_31: _UP_TO_1_31,
    ONNXRUNTIME_1_32: NewestRead(14, {"": 28, "ai.onnx.ml": 5}),
}

_NEVER_SELECTS: Mapping[str, Callable[[VariantInfo], str | None]] = {
    ONNXRUNTIME_1_27: _never_by_1_27,
    ONNXRUNTIME_1_31: _never_by_1_31,
    ONNXRUNTIME_1_32: _never_by_1_32,
}
"""Release → function that returns why it never selects a variant; None if it may."""

_RELEASES: Mapping[str, tuple[str, ...]] = {
    ONNXRUNTIME_1_27: (ONNXRUNTIME_1_27,),
    ONNXRUNTIME_1_31: (ONNXRUNTIME_1_31,),
    ONNXRUNTIME_1_32: (ONNXRUNTIME_1_32,),
    GENAI: (ONNXRUNTIME_1_31,),
    UNIVERSAL: (ONNXRUNTIME_1_27, ONNXRUNTIME_1_31, ONNXRUNTIME_1_32),
}
"""Target → the releases that must read the package."""
