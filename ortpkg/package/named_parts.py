"""The component or variants of a package that somebody names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortpkg.documents.findings import listed
from ortpkg.errors import UnknownComponentError, quoted
from ortpkg.names import did_you_mean
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo


def component_named(package: PackageInfo, name: str | None) -> ComponentInfo:
    """The component of that name; the only one where none is named.

    UnknownComponentError, which lists the components, for an unknown name, or none where there are
    several.
    """
    components = package.components
    if name is None and len(components) == 1:
        return components[0]
    found = None if name is None else package.component(name)
    if found is not None:
        return found
    known = [each.name for each in components]
    if name is not None:
        raise _unknown(package, "component model", name, known)
    raise UnknownComponentError(
        f"package {quoted(package.name)} has {len(known)} component models"
        f" ({listed(known) or 'none'}): name one",
        known=known,
    )


def verify_is_only_component(package: PackageInfo, variant: str) -> None:
    """Raises UnknownComponentError, which lists the components, where there are several.

    A pipeline runs a variant of each of them, so that ``variant`` alone says too little.
    """
    if len(package.components) > 1:
        known = [each.name for each in package.components]
        raise UnknownComponentError(
            f"variant {quoted(variant)} of which component model? package {quoted(package.name)}"
            f" runs {len(known)} of them ({listed(known)}): name one",
            known=known,
        )


def variant_named(component: ComponentInfo, name: str) -> VariantInfo:
    """The variant of that name; UnknownComponentError, which lists them, where there is none."""
    found = component.variant(name)
    if found is None:
        raise _unknown(component, "variant", name, [each.name for each in component.variants])
    return found


def verify_variants_known(
    whose: PackageInfo | ComponentInfo, names: Iterable[str], known: Sequence[str]
) -> None:
    """Raises UnknownComponentError for the first of ``names`` that is none of ``known``.

    These are the names by which the variants of ``whose`` go.
    """
    for name in names:
        if name not in known:
            raise _unknown(whose, "variant", name, known)


def _unknown(
    whose: PackageInfo | ComponentInfo, what: str, name: str, known: Sequence[str]
) -> UnknownComponentError:
    kind = "component model" if isinstance(whose, ComponentInfo) else "package"
    return UnknownComponentError(
        f"{kind} {quoted(whose.name)} has no {what} {quoted(name)}{did_you_mean(name, known)};"
        f" it has {listed(known) or 'none'}",
        known=known,
    )
