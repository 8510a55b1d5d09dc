"""The component or variant of a package that somebody names."""

from __future__ import annotations

from ortpkg.errors import UnknownComponentError, quoted
from ortpkg.names import did_you_mean
from ortpkg.package.findings import listed
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
    names = listed(known) or "none"
    if name is None:
        message = f"has {len(known)} component models ({names}): name one"
    else:
        message = (
            f"has no component model {quoted(name)}{did_you_mean(name, known)}; it has {names}"
        )
    raise UnknownComponentError(f"package {quoted(package.name)} {message}", known=known)


def variant_named(component: ComponentInfo, name: str) -> VariantInfo:
    """The variant of that name; UnknownComponentError, which lists them, where there is none."""
    found = component.variant(name)
    if found is not None:
        return found
    known = [each.name for each in component.variants]
    raise UnknownComponentError(
        f"component model {quoted(component.name)} has no variant"
        f" {quoted(name)}{did_you_mean(name, known)}; it has {listed(known) or 'none'}",
        known=known,
    )
