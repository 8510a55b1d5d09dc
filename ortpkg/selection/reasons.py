"""A selection in words: why a variant lost, which verdict tells most, what if nothing fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortpkg.devices.hardware import EpDevice, hardware_label
from ortpkg.errors import NoSuitableVariantError, TrustRequiredError, quoted, unquoted
from ortpkg.package.package_info import VariantInfo
from ortpkg.quantities import duration_text
from ortpkg.selection.candidate import Judgement
from ortpkg.selection.policies import device_kind
from ortpkg.selection.verdict import ReasonCode, Selection, Verdict


def ep_device_label(ep_device: EpDevice | None) -> str:
    """E.g. "OpenVINOExecutionProvider (openvino) on GPU (Intel Arc)"."""
    if ep_device is None:
        return "no execution provider"
    where = "no reported device" if ep_device.device is None else hardware_label(ep_device.device)
    return f"{ep_device.ep_name} ({ep_device.backend}) on {where}"


def asked_for(selection: Selection) -> str:
    """The caller's wishes in a few words, e.g. "policy default, device npu"."""
    asked = [f"policy {selection.policy}"]
    asked += [f"device {selection.device}"] if selection.device else []
    asked += [f"ep {unquoted(selection.ep)}"] if selection.ep else []
    asked += [f"backend {unquoted(selection.backend)}"] if selection.backend else []
    asked += [
        f"{unquoted(key)}={unquoted(value)} of {unquoted(ep)}"
        for ep, options in selection.provider_options.items()
        for key, value in options.items()
    ]
    asked += ["architecture checked"] if selection.check_architecture else []
    return ", ".join([*asked, *selection.limits])


def no_suitable_variant_message(selection: Selection) -> str:
    """What to say where nothing was selected: the wish, the machine, why each variant fell.

    And what was left out on the way: a backend that failed may be the one that was needed.
    """
    machine = f"machine {quoted(selection.machine)}" if selection.machine else "this machine"
    eps = ", ".join(dict.fromkeys(ep_device.ep_name for ep_device in selection.ep_devices))
    component = quoted(selection.component_name)
    lines = [
        f"no variant of component {component} fits {machine} (asked for: {asked_for(selection)})",
        (
            "  the machine has:"
            f" {', '.join(map(hardware_label, selection.hardware)) or 'no known devices'}"
        ),
        f"  execution providers: {eps or 'none'}",
        *(f"  {warning}" for warning in selection.warnings),
    ]
    lines += [f"  {quoted(name)}: {reason}" for name, reason in _main_reasons(selection)]
    return "\n".join(lines if selection.verdicts else [*lines, "  it has no variants"])


def selected(selection: Selection) -> Verdict:
    """Return the winner.

    Raises TrustRequiredError where nothing but trust is missing, else NoSuitableVariantError.
    """
    if selection.best is not None:
        return selection.best
    for verdict in selection.verdicts:
        verify_trusted(selection, verdict.variant)
    raise NoSuitableVariantError(no_suitable_variant_message(selection), selection=selection)


def verify_trusted(selection: Selection, variant: VariantInfo) -> None:
    """TrustRequiredError where the variant would run here, were it trusted."""
    for verdict in selection.verdicts:
        if verdict.variant == variant and verdict.code is ReasonCode.NEEDS_TRUST:
            raise TrustRequiredError(
                f"variant {quoted(variant.name)} of {quoted(selection.component_name)} may not run"
                f" here: {verdict.reason}; or run a plain variant",
                what=variant.name,
            )


def main_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on one variant that says most: the best rank, else the latest rejection."""
    eligible = [verdict for verdict in verdicts if verdict.rank is not None]
    if eligible:
        return min(eligible, key=lambda verdict: verdict.rank or ())
    return max(verdicts, key=lambda verdict: _PROGRESS[verdict.code])


#: How far a rejected variant came; the rejection that came farthest tells a person most.
_PROGRESS: dict[ReasonCode, int] = {
    code: position
    for position, code in enumerate(
        (
            ReasonCode.PACKAGE_REFUSED,
            ReasonCode.NO_EP_GIVEN,
            ReasonCode.EP_NOT_AVAILABLE,
            ReasonCode.EP_UNSET,
            ReasonCode.EP_MISMATCH,
            ReasonCode.EP_NOT_REQUESTED,
            ReasonCode.BACKEND_NOT_REQUESTED,
            ReasonCode.DEVICE_MISMATCH,
            ReasonCode.DEVICE_NOT_PRESENT,
            ReasonCode.DEVICE_NOT_REQUESTED,
            ReasonCode.PROVIDER_OPTION_DEVICE_CONFLICT,
            ReasonCode.COMPATIBILITY_CHECK_FAILED,
            ReasonCode.COMPILED_MODEL_UNSUPPORTED,
            ReasonCode.ARCHITECTURE_MISMATCH,
            ReasonCode.SOURCE_CHANGED,
            ReasonCode.OPERATOR_NOT_AVAILABLE,
            ReasonCode.METADATA_MISMATCH,
            ReasonCode.SIZE_TOO_LARGE,
            ReasonCode.PRECISION_TOO_LOW,
            ReasonCode.MEMORY_TOO_LARGE,
            ReasonCode.MEMORY_TOO_SMALL,
            ReasonCode.LATENCY_TOO_HIGH,
            ReasonCode.ERROR_TOO_LARGE,
            ReasonCode.FACT_UNKNOWN,
            ReasonCode.NOT_MEASURED,
            ReasonCode.CANARY_FAILED,
            ReasonCode.QUARANTINED,
            ReasonCode.VARIANT_ABSENT,
            ReasonCode.NEEDS_TRUST,
            ReasonCode.PREFERS_RECOMPILATION,
            ReasonCode.LOWER_RANK,
            ReasonCode.SELECTED,
        )
    )
}


def _main_reasons(selection: Selection) -> Iterable[tuple[str, str]]:
    by_variant: dict[str, list[Verdict]] = {}
    for verdict in selection.verdicts:
        by_variant.setdefault(verdict.variant.name, []).append(verdict)
    for name, verdicts in by_variant.items():
        verdict = main_verdict(verdicts)
        yield name, f"{verdict.code}: {verdict.reason}"


def lower_rank_reason(
    loser: tuple[EpDevice, Judgement],
    winner: tuple[EpDevice, Judgement],
    decided_by: str,
    which: str,
) -> str:
    """One sentence on why the winner was preferred; ``which`` names it in the sentence."""
    (_, own), (place, won) = loser, winner
    explanations = {
        "measured": "{which} was measured on this machine, this one was not",
        "latency": "{which} is faster here: median {time}, this one {own_time}",
        "device": "{which} runs on {kind}, which the policy prefers",
        "compatibility": "{which} is rated {rating} by its EP, this one {own_rating}",
        "architecture": "{which} is for an architecture that is nearer to this machine's",
        "named EP": "{which} names its execution provider, this one runs on any",
        "backend": "{which} runs on backend {backend}, which is known to be faster",
        "declaration order": "{which} ranks the same and is declared first",
        "EP device order": (
            "{which} runs on {kind} ({ep}), which comes first in the order of EP devices"
        ),
    }
    return "it can run, but " + explanations[decided_by].format(
        which=which,
        kind=device_kind(place).value,
        rating=won.compatibility.value,
        own_rating=own.compatibility.value,
        backend=place.backend,
        ep=place.ep_name,
        time=_median(won),
        own_time=_median(own),
    )


def _median(judgement: Judgement) -> str:
    return "" if judgement.measurement is None else duration_text(judgement.measurement.p50_s)
