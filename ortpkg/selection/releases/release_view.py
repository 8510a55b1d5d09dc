"""View of a package by an onnxruntime release: whether it opens, and what each variant has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ortpkg.foundations.errors import quoted
from ortpkg.package.package_info import ComponentInfo, Constraints, PackageInfo, VariantInfo
from ortpkg.package.paths.disk_places import is_inside
from ortpkg.selection.releases.release_lines import RELEASE_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseView:
    """View of one component by a release.

    Attributes:
        refusal: reason why it does not open the package; "" if it does.
        constraints: variant → constraints that it reads; None if these are the package's own.
        more: variants that it reads besides those of the package.
    """

    refusal: str = ""
    constraints: Mapping[str, Constraints] | None = None
    more: tuple[VariantInfo, ...] = ()


def release_view(package: PackageInfo, component: ComponentInfo, release: str) -> ReleaseView:
    """Return the view of ``release`` (a key of RELEASE_LINES) on a component of ``package``.

    The package is read again as that release does.
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
    # Folders are compared: a component may have another name for the release than for us.
    if (
        os.path.realpath(theirs.directory) != os.path.realpath(component.directory)
        and theirs.name != component.name
    ):
        return ReleaseView(refusal=f"{name} reads another component model, {quoted(theirs.name)}")
    whole = package.component(component.name) or component
    names = {variant.name for variant in whole.variants}
    return ReleaseView(
        constraints={variant.name: variant.constraints for variant in theirs.variants},
        more=tuple(
            _confined(variant, package) for variant in theirs.variants if variant.name not in names
        ),
    )


def _confined(variant: VariantInfo, package: PackageInfo) -> VariantInfo:
    """Return a variant without a model outside of the package.

    The release follows such a path; a session here does not.
    """
    path = variant.model_path
    is_outside = path is None or not is_inside(os.path.realpath(path), str(package.root))
    return replace(variant, model_path=None) if is_outside else variant
