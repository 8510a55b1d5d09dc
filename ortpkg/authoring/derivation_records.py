"""Record the source of a compiled variant, and how it was compiled, to compile it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ortpkg.authoring.compile_targets import CompileGroup, CompileTarget, why_not_plain
from ortpkg.authoring.compile_wishes import CompileWishes
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.needed_files import needed_files
from ortpkg.foundations.ep_names import resolve_ep_name
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.digest_cache import file_sha256
from ortpkg.package.derived_variants import (
    FOR_DEVICE,
    Derivation,
    DigestsOf,
    derivation_of,
    is_derived,
    recorded_or_computed_digests,
    stale_variants,
)
from ortpkg.package.formats.executor_info import data_folder_of
from ortpkg.package.named_parts import component_named, verify_variants_known
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.selection.contexts.context_trust import context_digests

_COMMAND = "compile"
_FOR_ONNXRUNTIME = "onnxruntime"


def derivation_record(
    target: CompileTarget,
    wishes: CompileWishes,
    digests_of: DigestsOf,
    context_model: Path,
    *,
    absent_device: str = "",
) -> Derivation:
    """Return the record of the source from which ``context_model`` was compiled.

    Args:
        target, wishes: what was compiled, and how.
        digests_of: recorded digests of the package's files, which were verified just before.
        context_model: the compiled model.
        absent_device: the device it was compiled for if this machine lacks it.
    """
    source = target.source
    assert source.model_path is not None
    folder = data_folder_of(source)
    locations = sorted(
        needed_files(source.model_path, read_model_facts(source.model_path)).locations
    )
    return Derivation(
        variant=source.name,
        model=_digest(source.model_path, digests_of),
        data={location: _digest(folder / location, digests_of) for location in locations},
        made_by=_made_by(target, wishes, absent_device),
        contexts=context_digests(context_model),
    )


def groups_to_renew(package: PackageInfo, wishes: CompileWishes) -> list[CompileGroup]:
    """Return groups that compile stale variants, or the named ones, again as before.

    Variants that share a folder with one of them are compiled again with it.

    Raises:
        UnknownComponentError: no such component or variant.
        AuthoringError: a named variant has no record of how it was compiled, or its source is gone.
    """
    components = (
        package.components
        if wishes.component is None
        else (component_named(package, wishes.component),)
    )
    variants = [candidate for component in components for candidate in component.variants]
    scope = components[0] if len(components) == 1 else package
    verify_variants_known(scope, wishes.variants, [candidate.name for candidate in variants])
    renewed = {
        (component.name, candidate.name)
        for component in components
        for candidate in _variants_to_renew(
            component, wishes, recorded_or_computed_digests(package)
        )
    }
    groups: dict[tuple[object, ...], list[CompileTarget]] = {}
    for variant in variants:
        shared = _folder_mates(variant, variants)
        if any((mate.component_name, mate.name) in renewed for mate in shared):
            groups.setdefault(_group_key(variant), []).append(_renewed(variant, package))
    return [
        CompileGroup(wishes=_wishes_of(targets, wishes), targets=tuple(targets))
        for targets in groups.values()
    ]


def _variants_to_renew(
    component: ComponentInfo, wishes: CompileWishes, digests_of: DigestsOf
) -> Iterable[VariantInfo]:
    stale = stale_variants(component, digests_of)
    for variant in component.variants:
        if variant.name not in (wishes.variants or stale):
            continue
        derivation = derivation_of(variant)
        ep = "" if derivation is None else str(derivation.made_by.get("ep", ""))
        if not wishes.ep or ep == resolve_ep_name(wishes.ep):
            yield variant


def _folder_mates(variant: VariantInfo, variants: Iterable[VariantInfo]) -> list[VariantInfo]:
    """Return the variants that were compiled into one folder with this one, itself included."""
    derivation = derivation_of(variant)
    if derivation is None or not derivation.made_by.get("shares_weights"):
        return [variant]
    return [
        other for other in variants if other.directory == variant.directory and is_derived(other)
    ]


def _group_key(variant: VariantInfo) -> tuple[object, ...]:
    derivation = derivation_of(variant)
    if derivation is not None and derivation.made_by.get("shares_weights"):
        return (variant.directory,)
    return (variant.component_name, variant.name)


def _renewed(variant: VariantInfo, package: PackageInfo) -> CompileTarget:
    component, derivation = package.component(variant.component_name), derivation_of(variant)
    assert component is not None
    name = quoted(variant.name)
    if derivation is None or derivation.made_by.get("command") != _COMMAND:
        raise AuthoringError(
            f"variant {name} does not record that ortpkg compile made it, and how: compile its"
            f" source again, with --overwrite and --name {variant.name}"
        )
    source = component.variant(derivation.variant)
    if source is None:
        raise AuthoringError(
            f"variant {name} was made of variant {quoted(derivation.variant)}, which is not in the"
            " package: add that first"
        )
    if reason := why_not_plain(source):
        raise AuthoringError(f"variant {quoted(source.name)} cannot be compiled: {reason}")
    return CompileTarget(
        component=component,
        source=source,
        name=variant.name,
        provider_options=_options_of(derivation),
        replaces=variant,
    )


def _wishes_of(targets: Iterable[CompileTarget], wishes: CompileWishes) -> CompileWishes:
    """Return the wishes by which the group was made, within the limits of ``wishes``."""
    first = next(iter(targets))
    assert first.replaces is not None
    derivation = derivation_of(first.replaces)
    assert derivation is not None
    made_by = derivation.made_by
    device, backend = (made_by.get(key) for key in ("device", "backend"))
    absent = made_by.get(FOR_DEVICE)
    return CompileWishes(
        ep=str(made_by.get("ep", "")),
        device=device if isinstance(device, str) else None,
        backend=backend if isinstance(backend, str) else None,
        provider_options=first.provider_options,
        is_embedded=made_by.get("embedded") is True,
        shares_weights=made_by.get("shares_weights") is True,
        for_onnxruntime=made_by.get("reader") == _FOR_ONNXRUNTIME,
        for_device=absent if isinstance(absent, str) else "",
        timeout_s=wishes.timeout_s,
        memory_limit_nbytes=wishes.memory_limit_nbytes,
    )


def _made_by(target: CompileTarget, wishes: CompileWishes, absent_device: str) -> dict[str, object]:
    record = {
        "command": _COMMAND,
        "ep": resolve_ep_name(wishes.ep),
        "device": wishes.device,
        "backend": wishes.backend,
        "options": {**wishes.provider_options, **target.provider_options},
        "embedded": wishes.is_embedded,
        "shares_weights": wishes.shares_weights,
        "reader": _FOR_ONNXRUNTIME if wishes.is_for_onnxruntime else None,
        FOR_DEVICE: absent_device,
    }
    return {key: value for key, value in record.items() if value}


def _options_of(derivation: Derivation) -> dict[str, str]:
    options = derivation.made_by.get("options")
    return dict(options) if isinstance(options, Mapping) else {}


def _digest(path: Path, digests_of: DigestsOf) -> str:
    """Return a file's recorded SHA-256; hash it if there is none, or two during a change."""
    recorded = list(digests_of(path))
    return recorded[0] if len(recorded) == 1 else file_sha256(path)
