"""migrate-check: what each line of onnxruntime releases would do with a package.

Four lines behave alike: 1.26 and 1.27 (metadata generation), 1.28 to 1.30, 1.31, and 1.32
(component generation). For each: whether it opens the package, which variant it would select for
which execution provider (EP), what it passes over. Nothing of the package is run, and no EP is
asked. What EPs say of compatibility strings depends on the machine, but for
those of which it is known what the EP says anywhere: they count as not rated, and where it would
select another variant if the EP rated one OPTIMAL, that is a choice more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.own_contexts import WHY_NOT_READ, has_own_contexts
from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.documents.findings import listed
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import (
    InvalidSessionOptionError,
    PackageError,
    PackageNotFoundError,
    quoted,
    unquoted,
)
from ortpkg.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_30,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
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
from ortpkg.providers.compatibility_info import is_own_text
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.providers.ep_registry import ep_known_here
from ortpkg.providers.openvino_requirements import rating_of_onnxruntime
from ortpkg.releases.release_lines import RELEASE_LINES, ReleaseLine
from ortpkg.releases.release_selector import select_as_release
from ortpkg.selection.verdict import Selection
from ortpkg.trust.session_option_values import read_as_onnxruntime

OTHER_EP = "any other EP"
"""Stands for an execution provider that no variant names: what is selected for it needs no
particular one.
"""


#: EP and device that were asked for, and what a release selects for them.
_Selected = tuple[str | None, str | None, Selection]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseChoice:
    """What a release selects for one execution provider.

    Attributes:
        component: of the package.
        ep: full name; None: the application names none. :data:`OTHER_EP` is none in particular.
        device: what the EP runs on here; None: it reports no devices.
        variant: selected; None for none.
        alternatives: the variants among which the release's rules do not decide; empty where they
            do.
        reason: in a sentence.
        can_run: whether a session can be made of it: in the component generation a variant may name
            no model, and contexts in ortpkg's own container are read by ortpkg only.
        rated_optimal: the variant whose compatibility string the EP is taken to rate OPTIMAL; None:
            it rates none.
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
    """What one line of releases does with a package.

    Attributes:
        release: for people.
        refusals: why it does not open the package; empty where it does.
        remedy: command that makes a package of a form that it opens; "" where the form is not what
            it refuses.
        choices: for each component and EP.
        never_selected: (component/variant, why) of variants that it selects for none of these EPs.
        ignored: what it passes over, a phrase each.
    """

    release: str
    refusals: tuple[str, ...]
    remedy: str = ""
    choices: tuple[ReleaseChoice, ...] = ()
    never_selected: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def opens(self) -> bool:
        """Whether the release opens the package at all."""
        return not self.refusals


def migrate_check(
    root: str | PathLike[str], *, eps: Sequence[str] = ()
) -> tuple[ReleaseReport, ...]:
    """What each line of releases would do with the package at ``root``.

    ``eps``: execution providers to ask for besides those that the package names; aliases are
        understood.

    Raises:
        PackageNotFoundError: there is no directory at ``root``, or neither manifest.json nor
            metadata.json in it.
        UsageError: an execution provider that nobody knows.
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
            refusals=tuple(f"{each.document}{each.pointer}: {each.message}" for each in refusals),
            remedy=_remedy(root),
        )
    choices: list[ReleaseChoice] = []
    never: list[tuple[str, str]] = []
    for component in package.components:
        selections = [
            (*asked, _select(release, component, *asked)) for asked in _asked(line, component, eps)
        ]
        choices += [_choice(release, *each) for each in selections]
        rated = list(_rated_selections(release, component, selections))
        choices += [
            replace(_choice(release, *each), rated_optimal=variant) for variant, each in rated
        ]
        never += _never_selected(line, component, [*(each for _, each in rated), *selections])
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


def _asked(
    line: ReleaseLine, component: ComponentInfo, eps: Iterable[str]
) -> list[tuple[str | None, str | None]]:
    """(EP, device) pairs to ask about: none, the CPU's, those that variants name, and another."""
    asked: dict[tuple[str | None, str | None], None] = {
        (None, None): None,
        (CPU_EP, DeviceType.CPU.value): None,
    }
    for variant in component.variants:
        stated = line.rules.constraints_of(variant) or Constraints()
        device = (stated.device or "").lower()
        known = device if device in set(DeviceType) else None
        if stated.ep != CPU_EP:
            asked[stated.ep or OTHER_EP, known] = None
    devices = list(dict.fromkeys(device for _, device in asked)) or [None]
    asked |= {(ep, device): None for ep in eps if ep != CPU_EP for device in devices}
    return list(asked)


def _rated_selections(
    release: str, component: ComponentInfo, selections: Sequence[_Selected]
) -> Iterator[tuple[str, _Selected]]:
    """What is selected instead where the EP rates one variant OPTIMAL: that variant, selection."""
    for ep, device, unrated in selections:
        for variant in component.variants:
            stated = RELEASE_LINES[release].rules.constraints_of(variant) or Constraints()
            info = stated.ep_compatibility_info or ""
            if ep is None or stated.ep not in (None, ep) or not _may_be_optimal(ep, info):
                continue
            selection = _select(release, component, ep, device, optimal=info)
            if _winner(selection) != _winner(unrated):
                yield variant.name, (ep, device, selection)


def _may_be_optimal(ep: str, info: str) -> bool:
    """Whether onnxruntime's EP of the name may rate the string so on some machine.

    None may for a string of ortpkg's own backends, which such an EP does not know.
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
        EpDevice(ep_name=ep or CPU_EP, device=each, backend="onnxruntime") for each in devices
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
    if release != ONNXRUNTIME_1_27:  # which reads no options of packages
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
    """Variants that win nowhere, each with what is said of it where its own EP selects."""
    winners = {name for _, _, one in selections for name in one.unpredictable}
    winners |= {one.best.variant.name for _, _, one in selections if one.best is not None}
    said: dict[str, str] = {}
    said_by: dict[tuple[str | None, str], str] = {}  # the last word of each EP
    for ep, _, one in selections:
        said |= {each.variant.name: each.reason for each in one.verdicts}
        said_by |= {(ep, each.variant.name): each.reason for each in one.verdicts}
    for variant in component.variants:
        if variant.name in winners:
            continue
        own = (line.rules.constraints_of(variant) or Constraints()).ep or OTHER_EP
        yield (
            f"{component.name}/{variant.name}",
            said_by.get((own, variant.name)) or said[variant.name],
        )


def _ignored_by_1_27(package: PackageInfo) -> Iterator[str]:
    if (package.root / PIPELINE).exists():
        yield PIPELINE
    strict = _strictly(package)
    if strict is not None and strict.format is PackageFormat.UNIVERSAL:
        yield "schema_version, components and variants: the keys for later releases"
    for what in ("session_options", "provider_options"):
        if strict is not None and (
            names := [each.name for each in _variants(strict) if getattr(each, what)]
        ):
            yield f"{what} of {listed(names)}"
    yield from _ignored_architecture(package, "is never matched")


def _ignored_by_1_31(package: PackageInfo) -> Iterator[str]:
    if (package.root / PIPELINE).exists():
        yield PIPELINE
    strict = _strictly(package)
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
    if names := [each.name for each in _variants(package) if each.constraints.architecture]:
        yield f"architecture of {listed(names)}, which {why}"


def _strictly(package: PackageInfo) -> PackageInfo | None:
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
"""Release → what it passes over in a package, a phrase each."""
