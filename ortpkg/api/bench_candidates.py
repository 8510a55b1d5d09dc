"""Which variants of a component are measured, where, and with which options of the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortpkg.api.bench_feeds import component_samples, tolerances_of
from ortpkg.api.model_package import ModelPackage
from ortpkg.api.model_variant import ModelVariant
from ortpkg.benchmarking.candidate import Candidate, is_embedded
from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import OrtpkgError, UsageError, quoted
from ortpkg.package.formats.samples import SampleSet
from ortpkg.package.formats.variant_model import why_no_model
from ortpkg.package.package_info import ComponentInfo, VariantInfo
from ortpkg.providers.machine_offer import MachineOffer
from ortpkg.selection.verdict import Selection, Verdict
from ortpkg.trust.context_trust import check_model_file
from ortpkg.trust.option_policy import provider_options_of, session_options_of

if TYPE_CHECKING:
    from ortpkg.api.bench import BenchWishes
    from ortpkg.api.wishes import SelectionWishes

_QUARANTINED = "QUARANTINED"


def candidates_of(
    package: ModelPackage, component: ComponentInfo, wishes: BenchWishes
) -> list[Candidate]:
    """Every variant on every EP device where selection calls it eligible, and those in quarantine,
    which are skipped.

    Raises NoSuitableVariantError where there are none.
    """
    asked: SelectionWishes = {"variant": wishes.variant, "ep": wishes.ep, "device": wishes.device}
    selection = package.select(component.name, **asked)
    verdicts = [
        each for each in selection.verdicts if each.is_eligible or each.code == _QUARANTINED
    ]
    if not verdicts:
        package.best_variant(component.name, **asked)  # raises, with every reason
    chosen = [each for each in verdicts if wishes.backend in {None, _backend(each)}]
    if not chosen:
        known = ", ".join(sorted({_backend(each) for each in verdicts}))
        raise UsageError(
            f"no variant can be measured on backend {quoted(wishes.backend)}; here are: {known}"
        )
    samples = component_samples(package.info, component.name)
    damaged = {
        each.variant.name: _damage(package, each.variant, selection)
        for each in {each.variant.name: each for each in chosen}.values()
    }
    return [
        candidate_of(package, each, samples, wishes.trust, damaged[each.variant.name])
        for each in chosen
    ]


def candidate_of(
    package: ModelPackage,
    verdict: Verdict,
    samples: Sequence[SampleSet],
    trust: bool,
    obstacle: str = "",
) -> Candidate:
    """The candidate for a verdict that names an EP device; what stands in its way becomes its
    obstacle.
    """
    variant = verdict.variant
    ep_device = verdict.ep_device
    assert ep_device is not None
    session_entries: dict[str, str] = {}
    provider_options: dict[str, str] = {}
    context_digests: tuple[str, ...] | None = ()
    if verdict.code == _QUARANTINED:
        obstacle = verdict.reason
    elif variant.model_path is None:
        obstacle = f"it {why_no_model(variant)}"
    if not obstacle:
        try:
            context_digests = check_model_file(variant, trust=trust)
            session_entries = session_options_of(variant, package.info, trust=trust)
            provider_options = provider_options_of(variant, package.info, ep_device, trust=trust)
        except OrtpkgError as error:
            obstacle = str(error)
    return Candidate(
        component_name=variant.component_name,
        variant_name=variant.name,
        ep_device=ep_device,
        model_path=variant.model_path,
        session_entries=session_entries,
        provider_options=provider_options,
        context_digests=context_digests,
        tolerances=tolerances_of(samples, variant.name),
        obstacle=obstacle,
    )


def embedded_candidate(
    component: ComponentInfo, candidates: Sequence[Candidate], offer: MachineOffer
) -> Candidate | None:
    """The candidate to compare others with: a variant on the embedded engine, the first in full
    precision if any is.

    Where the package lets no variant run there, the first one's model runs there all the same. None
    where this machine has no embedded engine to offer, or no variant is a model.
    """
    here = [each for each in candidates if is_embedded(each.ep_device)]
    precise = {each.name for each in component.variants if _is_full_precision(each)}
    found = next((each for each in here if each.variant_name in precise), None) or next(
        iter(here), None
    )
    if found is not None:
        return found
    device = next(
        (each for each in offer.ep_devices if is_embedded(each) and each.ep_name == CPU_EP), None
    )
    base = next((each for each in candidates if each.variant_name in precise), None) or next(
        iter(candidates), None
    )
    return None if device is None or base is None else _moved(base, device)


def _moved(base: Candidate, device: EpDevice) -> Candidate:
    return Candidate(
        component_name=base.component_name,
        variant_name=base.variant_name,
        ep_device=device,
        model_path=base.model_path,
        context_digests=base.context_digests,
    )


def _is_full_precision(variant: VariantInfo) -> bool:
    types = variant.metadata.get("data_types")
    return (
        not variant.metadata.get("quantization")
        and isinstance(types, list | tuple)
        and "float" in types
        and not {"float16", "bfloat16"} & set(types)
    )


def _backend(verdict: Verdict) -> str:
    return "" if verdict.ep_device is None else verdict.ep_device.backend


def _damage(package: ModelPackage, variant: VariantInfo, selection: Selection) -> str:
    """Why the variant's files must not be loaded; "" where they are as digests.json says, or there
    is none.
    """
    try:
        ModelVariant(variant, selection, package=package.info).verify()
    except OrtpkgError as error:
        return str(error)
    return ""
