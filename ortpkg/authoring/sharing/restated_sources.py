"""Update the records of derived variants whose source's files are rewritten.

Sharing weights splits a model's file without changing the model, so variants compiled from it do
not become stale.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortpkg.authoring.sharing.sharing_group import SharingGroup
from ortpkg.package.derived_variants import Derivation, DigestsOf, derivation_of, why_stale
from ortpkg.package.package_info import ComponentInfo
from ortpkg.storage.composed_file import ComposedFile


def restated_sources(
    component: ComponentInfo, group: SharingGroup, digests_of: DigestsOf
) -> Iterator[tuple[str, Derivation]]:
    """Yield derived variants whose source ``group`` rewrites, each with its updated record.

    ``digests_of`` looks up digests of the current files; a variant that is already stale stays so.
    """
    for folder, joined in group.joined:
        sources = {location.name: location for location in folder.variants_of(joined.model)}
        digests: dict[str, str] = {}
        for variant in component.variants:
            record = derivation_of(variant)
            source = None if record is None else sources.get(record.variant)
            if record is None or source is None or why_stale(variant, source, digests_of):
                continue
            digests = digests or {
                location: _sha256(group, location) for location in sorted(joined.used_files)
            }
            data = {
                location: digests[location] for location in digests if location != joined.model_file
            }
            yield variant.name, record._replace(model=digests[joined.model_file], data=data)


def _sha256(group: SharingGroup, location: str) -> str:
    content = group.new_files.get(location) or ComposedFile.copy_of(group.host.path / location)
    return content.sha256()
