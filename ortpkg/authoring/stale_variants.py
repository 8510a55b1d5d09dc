"""Report derived variants whose source a change replaces or removes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from ortpkg.authoring.new_variant import Notify, PreparedVariant
from ortpkg.foundations.errors import StalePackageError, quoted
from ortpkg.foundations.storage.digest_cache import file_sha256
from ortpkg.package.derived_variants import (
    DigestsOf,
    current_digests,
    derivation_of,
    recorded_or_computed_digests,
    source_of,
    stale_note,
    stale_variants,
    why_another_source,
)
from ortpkg.package.named_parts import component_named, variant_named
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo


def report_stale_after(
    component: ComponentInfo, source: str, prepared: PreparedVariant, notify: Notify
) -> None:
    """Report the component's variants compiled from another ``source`` than ``prepared``."""
    if prepared.files.model_file is None:
        return
    sources = {Path(path): file for path, file in prepared.files.sources.items()}
    model = Path(prepared.files.model_file)
    for variant in component.variants:
        derivation = derivation_of(variant)
        if derivation is None or derivation.variant != source:
            continue
        folder = Path(PurePosixPath(model).parent)
        reason = why_another_source(
            derivation,
            model,
            folder,
            lambda path: (file_sha256(sources[path]),) if path in sources else (),
        )
        if reason:
            notify(stale_note(variant.name, reason))


def report_stale(package: PackageInfo, notify: Notify) -> None:
    """Report the package's variants whose source is another model by now."""
    for component in package.components:
        report_stale_in_component(component, recorded_or_computed_digests(package), notify)


def report_stale_in_component(
    component: ComponentInfo, digests_of: DigestsOf, notify: Notify
) -> None:
    """Report the component's variants whose source is another model by ``digests_of``."""
    for name, reason in stale_variants(component, digests_of).items():
        notify(stale_note(name, reason))


def verify_no_source_leaves_a_stale_variant(
    package: PackageInfo, leaving: Iterable[VariantInfo]
) -> None:
    """Check that no stale variant stays whose source is among the leaving variants.

    Without its source nothing could tell any more that it was compiled from another model.

    Raises:
        StalePackageError: some would stay; names them, their sources and the remedies.
    """
    names_by_component: dict[str, set[str]] = {}
    for variant in leaving:
        names_by_component.setdefault(variant.component_name, set()).add(variant.name)
    digests_of = current_digests(package)
    left = {
        variant.name: why
        for name, leaving_names in names_by_component.items()
        for variant, why in _stale_without_source(package, name, leaving_names, digests_of)
    }
    if left:
        listed = "\n".join(f"  variant {quoted(name)}: {why}" for name, why in left.items())
        raise StalePackageError(
            f"{quoted(package.root)} would keep stale variants without their sources, and nothing"
            f" could tell any more that they are stale:\n{listed}\nmake them anew first with ortpkg"
            " compile --renew, or take them out too; nothing was changed",
            variants=list(left),
            path=package.root,
        )


def _stale_without_source(
    package: PackageInfo, component_name: str, leaving: Collection[str], digests_of: DigestsOf
) -> Iterator[tuple[VariantInfo, str]]:
    component = component_named(package, component_name)
    for name, why in stale_variants(component, digests_of).items():
        variant = variant_named(component, name)
        source = source_of(variant, component)
        if name not in leaving and source is not None and source.name in leaving:
            yield variant, why
