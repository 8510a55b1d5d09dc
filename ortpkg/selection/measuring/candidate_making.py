"""Make the candidates of a measurement from verdicts: the model, its EP device, and options."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import OrtpkgError, PackageFormatError
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.formats.model_search import why_no_model
from ortpkg.package.formats.samples import SampleSet
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.trust.option_policy import provider_options_of, session_options_of
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.selection.contexts.context_trust import check_model_file
from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.matching.verdict import Verdict
from ortpkg.selection.measuring.bench_candidate import BenchCandidate, is_embedded
from ortpkg.selection.measuring.variant_precision import precision_of_variant
from ortpkg.selection.measuring.workloads import tasks_of, tolerances_of

QUARANTINED = "QUARANTINED"


def candidate_of(
    package: PackageInfo,
    verdict: Verdict,
    samples: Sequence[SampleSet],
    trust: bool,
    obstacle: str = "",
) -> BenchCandidate:
    """Return the candidate for a verdict that names an EP device.

    Anything that prevents its measurement becomes its obstacle.
    """
    variant = verdict.variant
    ep_device = verdict.ep_device
    assert ep_device is not None
    session_entries: dict[str, str] = {}
    provider_options: dict[str, str] = {}
    context_digests: tuple[str, ...] | None = ()
    if verdict.code == QUARANTINED:
        obstacle = verdict.reason
    elif variant.model_path is None:
        obstacle = f"it {why_no_model(variant)}"
    if not obstacle:
        try:
            context_digests = check_model_file(variant, package, trust=trust)
            session_entries = session_options_of(variant, package, trust=trust)
            provider_options = provider_options_of(variant, package, ep_device, trust=trust)
        except PackageFormatError:  # of the whole package, whatever the variant
            raise
        except OrtpkgError as error:
            obstacle = str(error)
    return BenchCandidate(
        component_name=variant.component_name,
        variant_name=variant.name,
        ep_device=ep_device,
        model_path=variant.model_path,
        session_entries=session_entries,
        provider_options=provider_options,
        context_digests=context_digests,
        tolerances=tolerances_of(samples, variant.name),
        tasks=tasks_of(samples, variant.name),
        precision=precision_of_variant(variant),
        obstacle=obstacle,
    )


def embedded_candidate(
    candidates: Sequence[BenchCandidate], offer: MachineOffer
) -> BenchCandidate | None:
    """Return the candidate to compare others with: a variant on the embedded engine.

    It is the first in full precision, or else the first. If the package lets no variant run there,
    the first one's model runs there all the same. None if this machine offers no embedded engine,
    or no variant is a model.
    """
    here = [candidate for candidate in candidates if is_embedded(candidate.ep_device)]
    if here:
        return _most_precise(here)
    device = next(
        (
            ep_device
            for ep_device in offer.ep_devices
            if is_embedded(ep_device) and ep_device.ep_name == CPU_EP
        ),
        None,
    )
    return None if device is None or not candidates else _moved(_most_precise(candidates), device)


def _most_precise(candidates: Sequence[BenchCandidate]) -> BenchCandidate:
    """Return the first candidate in full precision, or else the first of all."""
    full = (Precision.FP32, Precision.FP64)
    return next(
        (candidate for candidate in candidates if candidate.precision in full), candidates[0]
    )


def _moved(base: BenchCandidate, device: EpDevice) -> BenchCandidate:
    return BenchCandidate(
        component_name=base.component_name,
        variant_name=base.variant_name,
        ep_device=device,
        model_path=base.model_path,
        context_digests=base.context_digests,
    )
