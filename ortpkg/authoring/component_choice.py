"""Which component model a change is about: the one that is named, or the only one."""

from __future__ import annotations

from ortpkg.authoring.new_variant import Notify
from ortpkg.errors import quoted
from ortpkg.names import did_you_mean
from ortpkg.package.named_parts import component_named
from ortpkg.package.package_info import PackageFormat, PackageInfo

#: What the component model of a new package is called where nobody says.
DEFAULT_COMPONENT = "model"


def component_to_extend(package: PackageInfo, name: str | None) -> str:
    """The name of the component that a new variant belongs to; of an empty package, the usual one.

    UnknownComponentError where none is named and there are several.
    """
    if name is not None:
        return name
    return component_named(package, None).name if package.components else DEFAULT_COMPONENT


def say_what_is_new(package: PackageInfo, component: str, notify: Notify) -> None:
    """Says that a package gets a further component, which a mistyped name would do as well."""
    known = [each.name for each in package.components]
    listed = ", ".join(map(quoted, known))
    notify(
        f"component model {quoted(component)} is new{did_you_mean(component, known)}; the package"
        f" had {listed}"
    )
    if package.format is not PackageFormat.COMPONENT:
        notify("onnxruntime 1.26 and 1.27 open packages with one component model only")
