"""Choose the variants of a component that are measured, and their EP devices."""

from __future__ import annotations

from ortpkg.api.model_package import ModelPackage
from ortpkg.foundations.errors import OrtpkgError, UsageError, quoted
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.package.trust.package_verification import PackageVerifier
from ortpkg.runtime.providers.missing_libraries import verify_installed
from ortpkg.selection.matching.verdict import ReasonCode, Verdict
from ortpkg.selection.matching.wishes import SelectionWishes
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.candidate_making import QUARANTINED, candidate_of
from ortpkg.selection.measuring.workloads import component_samples

#: Codes of variants that are listed with a reason, but not measured.
_LISTED = (QUARANTINED, ReasonCode.NEEDS_TRUST)


def candidates_of(
    package: ModelPackage,
    component: ComponentInfo,
    wishes: SelectionWishes,
    *,
    backend: str | None,
    trust: bool,
) -> list[BenchCandidate]:
    """Return every variant on every EP device for which selection calls it eligible.

    Quarantined ones are listed and not measured. With ``backend``, only candidates on it.

    Raises:
        NoSuitableVariantError: there are none.
        UsageError: there are none on ``backend``.
    """
    selection = package.select(component.name, wishes)
    verdicts = [
        verdict for verdict in selection.verdicts if verdict.is_eligible or verdict.code in _LISTED
    ]
    if not verdicts:
        package.best_variant(component.name, wishes)  # raises, with every reason
    chosen = [verdict for verdict in verdicts if backend in {None, _backend(verdict)}]
    if not chosen:
        verify_installed((), backend, ())
        backends = ", ".join(sorted({_backend(verdict) for verdict in verdicts}))
        raise UsageError(
            f"no variant can be measured on backend {quoted(backend)}; here are: {backends}"
        )
    samples = component_samples(package.info, component.name)
    damaged = {
        verdict.variant.name: _damage(package.info, verdict.variant)
        for verdict in {verdict.variant.name: verdict for verdict in chosen}.values()
    }
    return [
        candidate_of(package.info, verdict, samples, trust, damaged[verdict.variant.name])
        for verdict in chosen
    ]


def _backend(verdict: Verdict) -> str:
    return "" if verdict.ep_device is None else verdict.ep_device.backend


def _damage(package: PackageInfo, variant: VariantInfo) -> str:
    """Return why the variant's files must not be loaded.

    "" if they match digests.json, or it has none.
    """
    try:
        PackageVerifier(package).verify_variant(variant)
    except OrtpkgError as error:
        return str(error)
    return ""
