"""Check which readers would select a variant, and its options (ORT201 to ORT211)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ortpkg.authoring.checks.checked_package import CheckedPackage, finding_of_variant
from ortpkg.authoring.option_typos import meant_session_option
from ortpkg.authoring.rules import selection_rules
from ortpkg.authoring.rules.targets import UNIVERSAL
from ortpkg.foundations.documents.finding_collector import finding, listed
from ortpkg.foundations.ep_names import CPU_EP, stated_ep
from ortpkg.foundations.errors import Finding, InvalidSessionOptionError, quoted
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_31, ONNXRUNTIME_1_32
from ortpkg.machine.hardware import DeviceType
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES
from ortpkg.package.formats.constraints import DEVICES
from ortpkg.package.formats.executor_info import FORBIDDEN_SESSION_OPTIONS, PATH_SESSION_OPTIONS
from ortpkg.package.formats.variants import alike
from ortpkg.package.package_info import Constraints, PackageFormat, PackageInfo, VariantInfo
from ortpkg.package.paths.disk_places import is_inside
from ortpkg.package.trust.safe_options import SAFE_SESSION_OPTIONS, unsafe_provider_options
from ortpkg.package.trust.session_option_values import read_as_onnxruntime
from ortpkg.selection.matching.provider_option_devices import device_option_of, named_device_types


def check_cpu_coverage(package: CheckedPackage) -> Iterator[Finding]:
    """Check that some variant of each component runs on a CPU."""
    for component in package.info.components:
        constraints = [group.constraints for group in alike(component.variants)]
        if constraints and not any(map(_may_run_on_cpu, constraints)):
            message = f"component model {quoted(component.name)} has no variant that runs on a CPU"
            source = component.source
            yield finding(
                selection_rules.NO_CPU_VARIANT, source.document, message, pointer=source.pointer
            )


def check_ties(package: CheckedPackage) -> Iterator[Finding]:
    """Check that no two variants of a component have the same constraints."""
    for component in package.components:
        groups: defaultdict[Constraints, list[VariantInfo]] = defaultdict(list)
        for variant in component.variants:
            groups[variant.constraints].append(variant)
        for constraints, (first, *others) in groups.items():
            if not others:
                continue
            names = listed([variant.name for variant in others])
            message = (
                f"{names} and {quoted(first.name)} have the same constraints:"
                f" {_winner(package, first)}"
            )
            if package.info.format is not PackageFormat.COMPONENT and constraints.ep != CPU_EP:
                message += "; onnxruntime 1.26 and 1.27 select one that cannot be foretold"
            yield finding_of_variant(selection_rules.SELECTION_TIE, others[0], message)


def check_never_selected(package: CheckedPackage) -> Iterator[Finding]:
    """Check that onnxruntime's rules for the component generation can select each variant."""
    for variant in package.variants:
        constraints = variant.component_constraints
        if constraints is None:
            continue
        if not constraints.ep:
            message = (
                f"variant {quoted(variant.name)} names no ep: onnxruntime 1.28 to 1.32 never"
                " select it"
            )
            yield finding_of_variant(selection_rules.EP_NOT_STATED, variant, message)
        elif constraints.ep == CPU_EP and constraints.device:
            message = (
                f"variant {quoted(variant.name)} is for {CPU_EP} and states the device"
                f" {quoted(constraints.device)}: onnxruntime 1.28 to 1.31 never select it"
            )
            yield finding_of_variant(selection_rules.CPU_DEVICE_STATED, variant, message)


def check_devices(package: CheckedPackage) -> Iterator[Finding]:
    """Check that each variant's device is allowed by its execution provider and its options."""
    for variant in package.variants:
        ep, device = stated_ep(variant.constraints.ep), variant.constraints.device
        if device is None or device not in DEVICES:  # the reader warns of other texts
            continue
        implied = IMPLIED_DEVICE_TYPES.get(ep or "")
        if implied is not None and implied != device:
            message = (
                f"variant {quoted(variant.name)} is for {quoted(device)}; {ep} runs on"
                f" {implied.value} only"
            )
            yield finding_of_variant(selection_rules.DEVICE_NEVER_MATCHES, variant, message)
        option = device_option_of(variant)
        named = named_device_types(*option) if option is not None else None
        if option is not None and named is not None and DeviceType(device) not in named:
            message = (
                f"variant {quoted(variant.name)} is for {quoted(device)}; its {option[0]} is"
                f" {quoted(option[1])}"
            )
            yield finding_of_variant(selection_rules.OPTION_DEVICE_CONFLICT, variant, message)


def check_options(package: CheckedPackage) -> Iterator[Finding]:
    """Check that each variant's options work without trust, with values that onnxruntime reads."""
    release = _strictest_release(package.targets)
    for variant in package.variants:
        unsafe = _unsafe_session_options(package.info, variant)
        unsafe += unsafe_provider_options(
            variant.provider_options, stated_ep(variant.constraints.ep)
        )
        if unsafe:
            writes = [key for key in unsafe if key in FORBIDDEN_SESSION_OPTIONS]
            typos = [
                f"; for {quoted(key)}, did you mean {quoted(meant)}?"
                for key, meant in _typos(variant, unsafe)
            ]
            more = f"; onnxruntime 1.31 forbids {listed(writes)} in packages" if writes else ""
            message = (
                f"variant {quoted(variant.name)} sets {listed(unsafe)}: a session needs"
                f" trust{more}{''.join(typos)}"
            )
            yield finding_of_variant(selection_rules.OPTION_NEEDS_TRUST, variant, message)
        for key, value in variant.session_options.items():
            try:
                read_as_onnxruntime({key: value}, release=release)
            except InvalidSessionOptionError as error:
                yield finding_of_variant(
                    selection_rules.OPTION_VALUE,
                    variant,
                    f"variant {quoted(variant.name)}: {error}",
                )


def _strictest_release(targets: Sequence[str]) -> str:
    """Return the one of the releases in ``targets`` that checks most values."""
    is_newest_asked = not targets or not {ONNXRUNTIME_1_32, UNIVERSAL}.isdisjoint(targets)
    return ONNXRUNTIME_1_32 if is_newest_asked else ONNXRUNTIME_1_31


def _typos(variant: VariantInfo, keys: Iterable[str]) -> list[tuple[str, str]]:
    """Return session options among ``keys`` that look mistyped, each with the one it resembles."""
    meant = ((key, meant_session_option(key)) for key in keys if key in variant.session_options)
    return [(key, suggestion) for key, suggestion in meant if suggestion is not None]


def _winner(package: CheckedPackage, first: VariantInfo) -> str:
    if package.info.format is PackageFormat.METADATA:
        return f"ortpkg selects {quoted(first.name)}, which is declared first"
    return (
        f"ortpkg, and onnxruntime 1.28 to 1.32, select {quoted(first.name)}, which is declared"
        " first"
    )


def _may_run_on_cpu(constraints: Constraints) -> bool:
    return constraints.device in (None, DeviceType.CPU) and (
        stated_ep(constraints.ep) in (None, CPU_EP) or constraints.device == DeviceType.CPU
    )


def _unsafe_session_options(package: PackageInfo, variant: VariantInfo) -> list[str]:
    """Return keys of session options that need trust.

    An option that names a place to read from needs it only for a place outside the package.
    """
    return [
        key
        for key, value in variant.session_options.items()
        if key not in SAFE_SESSION_OPTIONS
        and not (key in PATH_SESSION_OPTIONS and _is_in_package(package, variant.directory / value))
    ]


def _is_in_package(package: PackageInfo, path: Path) -> bool:
    try:
        return is_inside(os.path.realpath(path), str(package.root))
    except (OSError, ValueError):  # a NUL in the path
        return False
