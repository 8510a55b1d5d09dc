"""Says which derived variants a change of a package leaves behind with another source."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from ortpkg.authoring.new_variant import Notify, PreparedVariant
from ortpkg.package.derived_variants import (
    DigestsOf,
    derivation_of,
    known_digests,
    stale_note,
    stale_variants,
    why_another_source,
)
from ortpkg.package.package_info import ComponentInfo, PackageInfo
from ortpkg.storage.digest_cache import file_sha256


def tell_of_stale_after(
    component: ComponentInfo, source: str, prepared: PreparedVariant, notify: Notify
) -> None:
    """Name the component's variants that were made of another ``source`` than ``prepared``."""
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


def tell_of_stale(package: PackageInfo, notify: Notify) -> None:
    """Name the package's variants whose source is another model by now."""
    for component in package.components:
        tell_of_stale_in(component, known_digests(package), notify)


def tell_of_stale_in(component: ComponentInfo, digests_of: DigestsOf, notify: Notify) -> None:
    """Name the component's variants whose source is another model by ``digests_of``."""
    for name, reason in stale_variants(component, digests_of).items():
        notify(stale_note(name, reason))
