"""Choose the plain variants to compile, the names of the results, and what is compiled together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortpkg.authoring.compile_wishes import CompileWishes, default_name, suffixes_and_options
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.new_variant import Notify, check_new_name
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.ep_names import CPU_EP, resolve_ep_name, stated_ep
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.package.derived_variants import derivation_of
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.named_parts import component_named, verify_variants_known
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTarget:
    """One variant to be compiled.

    Attributes:
        component: its future component.
        source: the plain variant that it is compiled from.
        name: of the new variant.
        provider_options: of the EP for it, in addition to those of the wishes.
        replaces: the compiled variant of that name that it replaces; None for none.
    """

    component: ComponentInfo
    source: VariantInfo
    name: str
    provider_options: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    replaces: VariantInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileGroup:
    """Targets that are compiled together into one folder, with their options."""

    wishes: CompileWishes
    targets: tuple[CompileTarget, ...]


def groups_to_compile(
    package: PackageInfo, wishes: CompileWishes, notify: Notify
) -> list[CompileGroup]:
    """Return the groups of targets that ``wishes`` ask for, before anything is compiled.

    Raises:
        UnknownComponentError, UsageError, AuthoringError: as
            :func:`~ortpkg.authoring.compile_variants.compile_variants`.
    """
    targets = _targets(package, wishes)
    return [
        CompileGroup(wishes=wishes, targets=tuple(group))
        for group in _grouped(package, targets, wishes, notify)
    ]


def why_not_plain(variant: VariantInfo) -> str | None:
    """Return why a variant cannot be compiled; None if it can."""
    if variant.model_path is None:
        return "it is a set of files, not one model"
    facts = read_model_facts(variant.model_path)
    if not facts.has_contexts:
        return None
    return (
        "it is compiled already, by"
        f" {', '.join(map(quoted, facts.context_sources)) or 'nobody that it names'}"
    )


def check_is_free(target: CompileTarget, component: ComponentInfo) -> None:
    """Raise AuthoringError if the target's name exists in ``component``, as it is now."""
    other_variants = [
        variant for variant in component.variants if not _is_replaced(target, variant)
    ]
    existing_names = {
        name for variant in other_variants for name in (variant.name, variant.directory.name)
    }
    namesake = component.variant(target.name)
    if namesake is None or not _is_compiled(namesake):
        check_new_name("variant", target.name, sorted(existing_names))
        return
    renew = ""
    if derivation_of(namesake) is not None:
        renew = f", --renew --variant {namesake.name} makes it anew as it was made"
    remedy = f"--overwrite replaces it{renew}, and --name NAME makes another one beside it"
    check_new_name("variant", target.name, sorted(existing_names), remedy)


def _is_compiled(variant: VariantInfo) -> bool:
    return variant.model_path is not None and why_not_plain(variant) is not None


def _is_replaced(target: CompileTarget, variant: VariantInfo) -> bool:
    return target.replaces is not None and variant.name == target.replaces.name


def _targets(package: PackageInfo, wishes: CompileWishes) -> list[CompileTarget]:
    components = (
        package.components
        if wishes.component is None
        else (component_named(package, wishes.component),)
    )
    targets = [
        _target(component, source, short, options, wishes)
        for component in components
        for source in _sources(component, wishes)
        for short, options in suffixes_and_options(wishes)
    ]
    variant_names = dict.fromkeys(
        variant.name for component in components for variant in component.variants
    )
    scope = components[0] if len(components) == 1 else package
    verify_variants_known(scope, wishes.variants, list(variant_names))
    for component in components:
        component_targets = [variant for variant in targets if variant.component is component]
        if wishes.name is not None and len(component_targets) > 1:
            raise UsageError(
                f"{len(component_targets)} variants of {quoted(component.name)} cannot all be"
                f" {quoted(wishes.name)}"
            )
        for variant in component_targets:
            check_is_free(variant, component)
    return targets


def _target(
    component: ComponentInfo,
    source: VariantInfo,
    short: str,
    options: Mapping[str, str],
    wishes: CompileWishes,
) -> CompileTarget:
    name = wishes.name or default_name(source.name, short, wishes)
    replaces = component.variant(name) if wishes.overwrites else None
    if replaces is not None and not _is_compiled(replaces):
        raise AuthoringError(
            f"variant {quoted(name)} is no compiled one, and is not replaced: choose another name"
        )
    return CompileTarget(
        component=component,
        source=source,
        name=name,
        provider_options=options,
        replaces=replaces,
    )


def _sources(component: ComponentInfo, wishes: CompileWishes) -> list[VariantInfo]:
    if wishes.variants:
        named = [variant for variant in component.variants if variant.name in wishes.variants]
        for variant in named:
            if reason := why_not_plain(variant):
                raise AuthoringError(f"variant {quoted(variant.name)} cannot be compiled: {reason}")
        return named
    ep = resolve_ep_name(wishes.ep)
    plain = [variant for variant in component.variants if why_not_plain(variant) is None]
    for eps in ((None, CPU_EP), (ep,)):
        for variant in plain:
            if stated_ep(variant.constraints.ep) in eps:
                return [variant]
    raise AuthoringError(
        f"component model {quoted(component.name)} has no plain variant for any EP, {CPU_EP} or"
        f" {ep}: name one with --variant"
    )


def _grouped(
    package: PackageInfo, targets: Sequence[CompileTarget], wishes: CompileWishes, notify: Notify
) -> list[list[CompileTarget]]:
    """Group the targets that are compiled together into one folder."""
    if not wishes.shares_weights:
        return [[target] for target in targets]
    if package.format is PackageFormat.COMPONENT and all(
        _is_inline(package, target.component) for target in targets
    ):
        return [list(targets)]
    names = dict.fromkeys(target.component.name for target in targets)
    if len(names) > 1:
        notify(
            "component models of this package cannot share a folder, so each gets a binary of its"
            " own; in a package of the component format whose manifest holds the components"
            " themselves, they share one"
        )
    return [[target for target in targets if target.component.name == name] for name in names]


def _is_inline(package: PackageInfo, component: ComponentInfo) -> bool:
    """Return True for a component in the manifest: variants' folders are relative to the root.

    Other components may have the same folders.
    """
    return component.directory == package.root and component.source.document == MANIFEST
