"""Texts about a selection: why a variant lost, its main verdict, and if nothing fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortpkg.foundations.errors import NoSuitableVariantError, TrustRequiredError, quoted, unquoted
from ortpkg.foundations.quantities import duration_text
from ortpkg.machine.hardware import EpDevice, hardware_label
from ortpkg.machine.policies import device_kind
from ortpkg.package.derived_variants import plain_variant_hint
from ortpkg.package.package_info import VariantInfo
from ortpkg.selection.matching.candidate import Judgement
from ortpkg.selection.matching.verdict import ReasonCode, Selection, Verdict


def ep_device_label(ep_device: EpDevice | None) -> str:
    """Return e.g. "OpenVINOExecutionProvider (openvino) on GPU (Intel Arc)"."""
    if ep_device is None:
        return "no execution provider"
    where = "no reported device" if ep_device.device is None else hardware_label(ep_device.device)
    return f"{ep_device.ep_and_backend} on {where}"


def asked_for(selection: Selection) -> str:
    """Return the caller's request in a few words, e.g. "policy default, device npu"."""
    parts = [f"policy {selection.policy}"]
    parts += [f"device {selection.device}"] if selection.device else []
    parts += [f"ep {unquoted(selection.ep)}"] if selection.ep else []
    parts += [f"backend {unquoted(selection.backend)}"] if selection.backend else []
    parts += [
        f"{unquoted(key)}={unquoted(value)} of {unquoted(ep)}"
        for ep, options in selection.provider_options.items()
        for key, value in options.items()
    ]
    parts += ["architecture checked"] if selection.check_architecture else []
    return ", ".join([*parts, *selection.limits])


def no_suitable_variant_message(selection: Selection) -> str:
    """Return the message if nothing was selected: the request, the machine, each variant's reason.

    It includes the warnings: a backend that failed may be the one that was needed.
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

    Raises:
        TrustRequiredError: only trust is missing.
        NoSuitableVariantError: nothing fits.
    """
    if selection.best is not None:
        return selection.best
    for verdict in selection.verdicts:
        verify_trusted(selection, verdict.variant)
    raise NoSuitableVariantError(no_suitable_variant_message(selection), selection=selection)


def verify_trusted(selection: Selection, variant: VariantInfo) -> None:
    """Raise TrustRequiredError if the variant would run here once it is trusted."""
    for verdict in selection.verdicts:
        if verdict.variant == variant and verdict.code is ReasonCode.NEEDS_TRUST:
            runnable = (
                other.variant
                for other in selection.verdicts
                if other.is_eligible or other.code is ReasonCode.VARIANT_ABSENT
            )
            hint = plain_variant_hint(runnable)
            raise TrustRequiredError(
                f"variant {quoted(variant.name)} of {quoted(selection.component_name)} may not run"
                f" here: {verdict.reason}{hint and f'; {hint}'}",
                what=variant.name,
            )


def main_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the most informative verdict on a variant: the best rank, or the latest rejection."""
    eligible = [verdict for verdict in verdicts if verdict.rank is not None]
    if eligible:
        return min(eligible, key=lambda verdict: verdict.rank or ())
    return max(verdicts, key=lambda verdict: _PROGRESS[verdict.code])


#: Progress of a rejected variant; the rejection that came farthest is the most informative.
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
    """Return a sentence on why the winner was preferred; ``which`` names it in the sentence."""
    (_, loser_judgement), (winner_device, winner_judgement) = loser, winner
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
        kind=device_kind(winner_device).value,
        rating=winner_judgement.compatibility.value,
        own_rating=loser_judgement.compatibility.value,
        backend=winner_device.backend,
        ep=winner_device.ep_name,
        time=_median(winner_judgement),
        own_time=_median(loser_judgement),
    )


def _median(judgement: Judgement) -> str:
    return "" if judgement.measurement is None else duration_text(judgement.measurement.p50_s)
