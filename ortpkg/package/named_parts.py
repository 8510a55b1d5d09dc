"""Look up the component or variants of a package by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.errors import UnknownComponentError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo


def component_named(package: PackageInfo, name: str | None) -> ComponentInfo:
    """Return the component of that name; without a name, the only one.

    Raises:
        UnknownComponentError: the name is unknown, or there is none and the package has several
            components; the error lists them.
    """
    components = package.components
    if name is None and len(components) == 1:
        return components[0]
    named = None if name is None else package.component(name)
    if named is not None:
        return named
    names = [component.name for component in components]
    if name is not None:
        raise _unknown(package, "component model", name, names)
    raise UnknownComponentError(
        f"package {quoted(package.name)} has {len(names)} component models"
        f" ({listed(names) or 'none'}): name one",
        valid_names=names,
    )


def verify_is_only_component(package: PackageInfo, variant: str) -> None:
    """Raise UnknownComponentError, which lists the components, if there are several.

    A pipeline runs a variant of each of them, so that ``variant`` alone is ambiguous.
    """
    if len(package.components) > 1:
        names = [component.name for component in package.components]
        raise UnknownComponentError(
            f"variant {quoted(variant)} of which component model? package {quoted(package.name)}"
            f" runs {len(names)} of them ({listed(names)}): name one",
            valid_names=names,
        )


def variant_named(component: ComponentInfo, name: str) -> VariantInfo:
    """Return the variant of that name; UnknownComponentError, which lists them, if unknown."""
    named = component.variant(name)
    if named is None:
        raise _unknown(component, "variant", name, [variant.name for variant in component.variants])
    return named


def verify_variants_known(
    owner: PackageInfo | ComponentInfo, names: Iterable[str], variant_names: Sequence[str]
) -> None:
    """Raise UnknownComponentError for the first of ``names`` that is not ``known``.

    ``known`` are the names of the variants of ``owner``.
    """
    for name in names:
        if name not in variant_names:
            raise _unknown(owner, "variant", name, variant_names)


def _unknown(
    owner: PackageInfo | ComponentInfo, kind_named: str, name: str, available: Sequence[str]
) -> UnknownComponentError:
    kind = "component model" if isinstance(owner, ComponentInfo) else "package"
    return UnknownComponentError(
        f"{kind} {quoted(owner.name)} has no {kind_named} {quoted(name)}"
        f"{did_you_mean(name, available)}; it has {listed(available) or 'none'}",
        valid_names=available,
    )
