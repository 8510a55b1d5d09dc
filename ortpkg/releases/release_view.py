"""A package as an onnxruntime release finds it: whether it opens, what each variant reads as."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ortpkg.errors import quoted
from ortpkg.package.package_info import ComponentInfo, Constraints, PackageInfo, VariantInfo
from ortpkg.package.paths.disk_places import is_inside
from ortpkg.releases.release_lines import RELEASE_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseView:
    """How a release finds one component.

    Attributes:
        refusal: why it does not open the package; "" where it does.
        constraints: variant → what it reads; None where that is what the variants of the package
            carry.
        more: variants that it reads besides those of the package.
    """

    refusal: str = ""
    constraints: Mapping[str, Constraints] | None = None
    more: tuple[VariantInfo, ...] = ()


def release_view(package: PackageInfo, component: ComponentInfo, release: str) -> ReleaseView:
    """The view that ``release`` (a key of RELEASE_LINES) has of a component of ``package``.

    It is found out by reading the package again as that release does.
    """
    line = RELEASE_LINES[release]
    if package.compat == release:
        return ReleaseView()
    read, refusals = line.read(package.root)
    name = line.rules.release
    if read is None:
        return ReleaseView(refusal=f"{name} does not open the package: {refusals[0]}")
    if line.finds_the_same:
        return ReleaseView()
    (theirs,) = read.components
    # It goes by folders: a component may have one name for it and another one for us.
    if (
        os.path.realpath(theirs.directory) != os.path.realpath(component.directory)
        and theirs.name != component.name
    ):
        return ReleaseView(refusal=f"{name} reads another component model, {quoted(theirs.name)}")
    whole = package.component(component.name) or component
    known = {variant.name for variant in whole.variants}
    return ReleaseView(
        constraints={variant.name: variant.constraints for variant in theirs.variants},
        more=tuple(
            _confined(variant, package) for variant in theirs.variants if variant.name not in known
        ),
    )


def _confined(variant: VariantInfo, package: PackageInfo) -> VariantInfo:
    """The release follows a model out of the package.

    A session here does not, so that there is none for it.
    """
    path = variant.model_path
    is_outside = path is None or not is_inside(os.path.realpath(path), str(package.root))
    return replace(variant, model_path=None) if is_outside else variant
