"""Report what each line of onnxruntime releases would do with a package (``migrate-check``).

Four lines behave alike: 1.26 and 1.27 (metadata generation), 1.28 to 1.30, 1.31, and 1.32
(component generation). For each line the report says if it opens the package, which variant it
would select for which execution provider (EP), and what it ignores. Nothing of the package is run,
and no EP is asked. Ratings of compatibility strings depend on the machine, except for a few that
are the same everywhere; the others count as not rated, and if a rating of OPTIMAL would change the
selection, that is reported as a further choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.own_contexts import WHY_NOT_READ, has_own_contexts
from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
    PackageError,
    PackageNotFoundError,
    quoted,
    unquoted,
)
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_30,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.document_names import MANIFEST, METADATA
from ortpkg.package.formats.executor_info import FORBIDDEN_SESSION_OPTIONS
from ortpkg.package.package_info import (
    ComponentInfo,
    Constraints,
    PackageFormat,
    PackageInfo,
    VariantInfo,
)
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import PIPELINE
from ortpkg.package.trust.session_option_values import read_as_onnxruntime
from ortpkg.runtime.providers.compatibility_info import is_own_text
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.ep_registry import ep_known_here
from ortpkg.runtime.providers.openvino_requirements import rating_of_onnxruntime
from ortpkg.selection.matching.verdict import Selection
from ortpkg.selection.releases.release_lines import RELEASE_LINES, ReleaseLine
from ortpkg.selection.releases.release_selector import select_as_release

OTHER_EP = "any other EP"
"""Stand-in for an execution provider that no variant names.

A variant that is selected for it needs no particular provider.
"""


#: EP and device in question, and a release's selection for them.
_Selected = tuple[str | None, str | None, Selection]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseChoice:
    """Selection of a release for one execution provider.

    Attributes:
        component: of the package.
        ep: full name; None if the application names none. :data:`OTHER_EP` is none in particular.
        device: the device that the EP runs on; None if it reports no devices.
        variant: the selected one; None for none.
        alternatives: variants between which the release's rules do not decide; empty if they do.
        reason: in a sentence.
        can_run: True if a session can be made of it: in the component generation a variant may name
            no model, and contexts in ortpkg's own container are read by ortpkg only.
        rated_optimal: the variant whose compatibility string the EP is assumed to rate OPTIMAL;
            None for no rating.
    """

    component: str
    ep: str | None
    device: str | None
    variant: str | None
    alternatives: tuple[str, ...]
    reason: str
    can_run: bool
    rated_optimal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """Behaviour of one line of releases with a package.

    Attributes:
        release: name for people.
        refusals: why it does not open the package; empty if it does.
        remedy: command that makes a package of a form that it opens; "" if the form is not the
            reason.
        choices: for each component and EP.
        never_selected: (component/variant, reason) of variants that it selects for none of these
            EPs.
        ignored: what it ignores, a phrase each.
    """

    release: str
    refusals: tuple[str, ...]
    remedy: str = ""
    choices: tuple[ReleaseChoice, ...] = ()
    never_selected: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def opens(self) -> bool:
        """True if the release opens the package at all."""
        return not self.refusals


def migrate_check(
    root: str | PathLike[str], *, eps: Sequence[str] = ()
) -> tuple[ReleaseReport, ...]:
    """Report what each line of releases would do with the package at ``root``.

    Args:
        root: the package.
        eps: execution providers to ask about in addition to those that the package names; aliases
            are allowed.

    Raises:
        PackageNotFoundError: there is no directory at ``root``, or neither manifest.json nor
            metadata.json in it.
        UsageError: an unknown execution provider.
    """
    path = Path(root)
    if not any((path / name).is_file() for name in (MANIFEST, METADATA)):
        message = (
            f"{quoted(root)} is not a model package: there is neither {MANIFEST} nor {METADATA}"
        )
        raise PackageNotFoundError(message, path=path)
    names = [ep_known_here(ep) for ep in eps]
    return tuple(_report(release, path, names) for release in RELEASE_LINES)


def _report(release: str, root: Path, eps: Sequence[str]) -> ReleaseReport:
    line = RELEASE_LINES[release]
    package, refusals = line.read(root)
    if package is None:
        return ReleaseReport(
            release=line.covers,
            refusals=tuple(
                f"{refusal.document}{refusal.pointer}: {refusal.message}" for refusal in refusals
            ),
            remedy=_remedy(root),
        )
    choices: list[ReleaseChoice] = []
    never: list[tuple[str, str]] = []
    for component in package.components:
        selections = [
            (*pair, _select(release, component, *pair))
            for pair in _pairs_to_ask(line, component, eps)
        ]
        choices += [_choice(release, *selection) for selection in selections]
        rated = list(_rated_selections(release, component, selections))
        choices += [
            replace(_choice(release, *selection), rated_optimal=variant)
            for variant, selection in rated
        ]
        never += _never_selected(
            line, component, [*(selection for _, selection in rated), *selections]
        )
    return ReleaseReport(
        release=line.covers,
        refusals=(),
        choices=tuple(choices),
        never_selected=tuple(never),
        ignored=tuple(_IGNORED[release](package)),
    )


def _remedy(root: Path) -> str:
    """Return the command that converts a package to the form of all releases; "" for none."""
    try:
        package = open_package(root)
    except PackageError:
        return ""
    if package.format is PackageFormat.UNIVERSAL and not package.is_olives:
        return ""
    return f"ortpkg convert {unquoted(root)} --to universal -o NEW"


def _pairs_to_ask(
    line: ReleaseLine, component: ComponentInfo, eps: Iterable[str]
) -> list[tuple[str | None, str | None]]:
    """Return the (EP, device) pairs to ask about: none, the CPU's, the variants', and another."""
    pairs: dict[tuple[str | None, str | None], None] = {
        (None, None): None,
        (CPU_EP, DeviceType.CPU.value): None,
    }
    for variant in component.variants:
        constraints = line.rules.constraints_of(variant) or Constraints()
        device = (constraints.device or "").lower()
        known_device = device if device in set(DeviceType) else None
        if constraints.ep != CPU_EP:
            pairs[constraints.ep or OTHER_EP, known_device] = None
    devices = list(dict.fromkeys(device for _, device in pairs)) or [None]
    pairs |= {(ep, device): None for ep in eps if ep != CPU_EP for device in devices}
    return list(pairs)


def _rated_selections(
    release: str, component: ComponentInfo, selections: Sequence[_Selected]
) -> Iterator[tuple[str, _Selected]]:
    """Yield each variant whose rating OPTIMAL would change a selection, with the new selection."""
    for ep, device, unrated in selections:
        for variant in component.variants:
            constraints = RELEASE_LINES[release].rules.constraints_of(variant) or Constraints()
            info = constraints.ep_compatibility_info or ""
            if ep is None or constraints.ep not in (None, ep) or not _may_be_optimal(ep, info):
                continue
            selection = _select(release, component, ep, device, optimal=info)
            if _winner(selection) != _winner(unrated):
                yield variant.name, (ep, device, selection)


def _may_be_optimal(ep: str, info: str) -> bool:
    """Return True if onnxruntime's EP of the name may rate the string OPTIMAL on some machine.

    It never does for a string of ortpkg's own backends, which it does not know.
    """
    is_ours = any(is_own_text(info, backend) for backend in ("onnxruntime", "openvino"))
    is_known = rating_of_onnxruntime(ep, info) is not CompiledModelCompatibility.UNKNOWN
    return bool(info) and ep != CPU_EP and not is_ours and not is_known


def _winner(selection: Selection) -> object:
    return selection.unpredictable or (selection.best is not None and selection.best.variant.name)


def _select(
    release: str,
    component: ComponentInfo,
    ep: str | None,
    device: str | None,
    *,
    optimal: str | None = None,
) -> Selection:
    hardware = [HardwareDevice(type=DeviceType(device))] if device else []
    devices: list[HardwareDevice | None] = [*hardware] or [None]
    if ep is None:  # every release has the CPU's
        devices = [HardwareDevice(type=DeviceType.CPU)]
    offered = [
        EpDevice(ep_name=ep or CPU_EP, device=hardware_device, backend="onnxruntime")
        for hardware_device in devices
    ]
    return select_as_release(
        component,
        offered,
        policy=release,
        hardware=hardware,
        compatibility=lambda devices, info: (
            CompiledModelCompatibility.OPTIMAL
            if info == optimal
            else rating_of_onnxruntime(devices[0].ep_name, info)
        ),
        eps=[ep] if ep else [],
    )


def _choice(
    release: str, ep: str | None, device: str | None, selection: Selection
) -> ReleaseChoice:
    best = selection.best
    obstacle = "" if best is None else _obstacle(release, best.variant)
    return ReleaseChoice(
        component=selection.component_name,
        ep=ep,
        device=device,
        variant=best.variant.name if best is not None else None,
        alternatives=selection.unpredictable,
        reason=obstacle or _reason(selection),
        can_run=best is not None and not obstacle,
    )


def _obstacle(release: str, variant: VariantInfo) -> str:
    """Return why the release makes no session of a variant that it selects; "" if it may."""
    if not _names_model(variant):
        return "it names no model in executor_info, so that it can be selected, but not run"
    if not _has_model(variant):
        return "what it names is no file, so that it can be selected, but not run"
    if _has_own_contexts(variant):
        return f"it can be selected, but not run: {WHY_NOT_READ}"
    if release != ONNXRUNTIME_1_27:  # that line reads no options of packages
        try:
            read_as_onnxruntime(variant.session_options, release=release)
        except InvalidSessionOptionError as error:
            return f"it can be selected, but not run: {error}"
    return ""


def _reason(selection: Selection) -> str:
    if selection.best is not None:
        return selection.best.reason
    reasons = dict.fromkeys(verdict.reason for verdict in selection.verdicts)
    return next(iter(reasons)) if len(reasons) == 1 else "no variant is for it"


def _has_own_contexts(variant: VariantInfo) -> bool:
    return variant.model_path is not None and has_own_contexts(variant.model_path)


def _names_model(variant: VariantInfo) -> bool:
    return variant.model_path is not None


def _has_model(variant: VariantInfo) -> bool:
    return variant.model_path is not None and variant.model_path.is_file()


def _never_selected(
    line: ReleaseLine, component: ComponentInfo, selections: Sequence[_Selected]
) -> Iterator[tuple[str, str]]:
    """Yield variants that win nowhere, each with the reason that its own EP's selection gives."""
    winners = {name for _, _, selection in selections for name in selection.unpredictable}
    winners |= {
        selection.best.variant.name for _, _, selection in selections if selection.best is not None
    }
    reasons: dict[str, str] = {}
    reasons_by_ep: dict[tuple[str | None, str], str] = {}  # the last reason of each EP
    for ep, _, selection in selections:
        reasons |= {verdict.variant.name: verdict.reason for verdict in selection.verdicts}
        reasons_by_ep |= {
            (ep, verdict.variant.name): verdict.reason for verdict in selection.verdicts
        }
    for variant in component.variants:
        if variant.name in winners:
            continue
        ep_of_variant = (line.rules.constraints_of(variant) or Constraints()).ep or OTHER_EP
        yield (
            f"{component.name}/{variant.name}",
            reasons_by_ep.get((ep_of_variant, variant.name)) or reasons[variant.name],
        )


def _ignored_by_1_27(package: PackageInfo) -> Iterator[str]:
    if (package.root / PIPELINE).exists():
        yield PIPELINE
    strict = _read_strictly(package)
    if strict is not None and strict.format is PackageFormat.UNIVERSAL:
        yield "schema_version, components and variants: the keys for later releases"
    for key in ("session_options", "provider_options"):
        if strict is not None and (
            names := [variant.name for variant in _variants(strict) if getattr(variant, key)]
        ):
            yield f"{key} of {listed(names)}"
    yield from _ignored_architecture(package, "is never matched")


def _ignored_by_1_31(package: PackageInfo) -> Iterator[str]:
    if (package.root / PIPELINE).exists():
        yield PIPELINE
    strict = _read_strictly(package)
    if strict is not None and strict.format is PackageFormat.UNIVERSAL:
        yield "model_name, component_models and model_variants: the keys for earlier releases"
    if strict is not None:
        yield from _ignored_architecture(strict, "is not part of the format")


def _ignored_by_1_30(package: PackageInfo) -> Iterator[str]:
    yield from _ignored_by_1_31(package)
    for variant in _variants(package):
        for key in FORBIDDEN_SESSION_OPTIONS:
            if key in variant.session_options:
                yield (
                    f"nothing of {quoted(key)} of {quoted(variant.name)}: it writes files where the"
                    " package says"
                )


def _ignored_architecture(package: PackageInfo, why: str) -> Iterator[str]:
    if names := [
        variant.name for variant in _variants(package) if variant.constraints.architecture
    ]:
        yield f"architecture of {listed(names)}, which {why}"


def _read_strictly(package: PackageInfo) -> PackageInfo | None:
    try:
        return open_package(package.root)
    except PackageError:
        return None


def _variants(package: PackageInfo) -> Iterator[VariantInfo]:
    return (variant for component in package.components for variant in component.variants)


_IGNORED: Mapping[str, Callable[[PackageInfo], Iterator[str]]] = {
    ONNXRUNTIME_1_27: _ignored_by_1_27,
    ONNXRUNTIME_1_30: _ignored_by_1_30,
    ONNXRUNTIME_1_31: _ignored_by_1_31,
    ONNXRUNTIME_1_32: _ignored_by_1_31,
}
"""Release → function that yields what it ignores in a package, a phrase each."""
