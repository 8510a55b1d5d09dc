"""Choose the component model that a change is about: the named one, or the only one."""

from __future__ import annotations

from ortpkg.authoring.new_variant import Notify
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.package.named_parts import component_named
from ortpkg.package.package_info import PackageFormat, PackageInfo

#: Default name of the component model in a new package.
DEFAULT_COMPONENT = "model"


def component_to_extend(package: PackageInfo, name: str | None) -> str:
    """Return the component for a new variant; in an empty package, the default name.

    Raises:
        UnknownComponentError: none is named and there are several.
    """
    if name is not None:
        return name
    return component_named(package, None).name if package.components else DEFAULT_COMPONENT


def warn_of_new_component(package: PackageInfo, component: str, notify: Notify) -> None:
    """Report that a package gets a further component: its name may be a typing error."""
    names = [existing.name for existing in package.components]
    listed = ", ".join(map(quoted, names))
    notify(
        f"component model {quoted(component)} is new{did_you_mean(component, names)}; the package"
        f" had {listed}"
    )
    if package.format is not PackageFormat.COMPONENT:
        notify("onnxruntime 1.26 and 1.27 open packages with one component model only")
