"""Check that the source of a derived variant is the model that it was compiled from (ORT123)."""

from __future__ import annotations

from collections.abc import Iterator

from ortpkg.authoring.checks.checked_package import CheckedPackage, finding_of_variant
from ortpkg.authoring.rules import model_rules
from ortpkg.foundations.errors import Finding, PackageFormatError, quoted
from ortpkg.package.derived_variants import recorded_or_computed_digests, stale_variants


def check_sources(package: CheckedPackage) -> Iterator[Finding]:
    """Find derived variants whose source has another model by now."""
    digests_of = recorded_or_computed_digests(package.info)
    for component in package.components:
        try:
            stale = stale_variants(component, digests_of)
        except PackageFormatError:
            return  # digests.json is damaged, which another check reports
        for variant in component.variants:
            if reason := stale.get(variant.name):
                message = f"variant {quoted(variant.name)} is stale: {reason}"
                yield finding_of_variant(model_rules.SOURCE_CHANGED, variant, message)
