"""Match a variant with an EP device: pure rules in a fixed order, each with a reason.

Source: MatchesVariant of onnxruntime's pull request 27786: EP, device, provider options that name a
device, compatibility info; architecture only on request. The caller's two filters (``--ep`` with
``--backend``, ``--device``) follow the constraint of the same kind, so that a reason says what is
wrong with a variant before it says that the variant was not asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ortpkg.foundations.ep_names import (
    is_known_ep,
    removed_ep_text,
    resolve_ep_name,
    suggest_ep_name,
)
from ortpkg.foundations.errors import quoted
from ortpkg.machine.architecture import architecture_distance, runs_code_for
from ortpkg.machine.hardware import DeviceType, EpDevice
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES
from ortpkg.package.package_info import Constraints
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, is_offered_unnamed
from ortpkg.selection.matching.candidate import Judgement
from ortpkg.selection.matching.provider_option_devices import (
    named_device_types,
    names_other_ordinal,
    wished_device_option,
)
from ortpkg.selection.matching.request import SelectionRequest
from ortpkg.selection.matching.verdict import ReasonCode

#: A distance greater than every known one.
NO_ARCHITECTURE = 1000


class Requirements(NamedTuple):
    """Properties of a variant that the rules use; variants with equal ones are judged once."""

    ep: str | None
    device: str | None
    architecture: str | None
    compatibility_info: str | None
    device_option: tuple[str, str] | None

    @classmethod
    def of(cls, constraints: Constraints, device_option: tuple[str, str] | None) -> Requirements:
        """Return the requirements of variants with these constraints."""
        return cls(
            ep=None if constraints.ep is None else resolve_ep_name(constraints.ep),
            device=None if not constraints.device else constraints.device.lower(),
            architecture=constraints.architecture or None,
            compatibility_info=constraints.ep_compatibility_info or None,
            device_option=device_option,
        )


#: Rule; returns None to pass, a rejection (with a code), or a note or rating.
MatchRule = Callable[[Requirements, EpDevice, SelectionRequest], Judgement | None]


def matches_variant(
    requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement:
    """Apply MATCH_RULES in order, up to the first rejection."""
    judgement = Judgement()
    for rule in MATCH_RULES:
        result = rule(requirements, ep_device, request)
        if result is not None:
            judgement = judgement.and_then(result)
            if result.code is not None:
                break
    return judgement


def unavailable_ep(requirements: Requirements, request: SelectionRequest) -> Judgement | None:
    """Return the judgement of a variant for which no EP device can be tried.

    None if there is one.
    """
    if requirements.ep is None:
        if request.ep_devices:
            return None
        return Judgement(
            code=ReasonCode.EP_NOT_AVAILABLE, reason="no execution provider is available here"
        )
    if request.has_ep(requirements.ep):
        return None
    available = tuple(dict.fromkeys(ep_device.ep_name for ep_device in request.ep_devices))
    removed = removed_ep_text(requirements.ep)
    reason = removed or f"{quoted(requirements.ep)} is not available here"
    suggestion = (
        None
        if removed or is_known_ep(requirements.ep)
        else suggest_ep_name(requirements.ep, available)
    )
    if suggestion is not None:
        reason += f" (did you mean {suggestion!r}?)"
    compatibility = (
        CompiledModelCompatibility.UNKNOWN
        if requirements.compatibility_info
        else CompiledModelCompatibility.NOT_APPLICABLE
    )
    return Judgement(code=ReasonCode.EP_NOT_AVAILABLE, reason=reason, compatibility=compatibility)


# --- the rules ------------------------------------------------------------------------------------


def match_ep(
    requirements: Requirements, ep_device: EpDevice, _request: SelectionRequest
) -> Judgement | None:
    """Match the constraint's EP, or any if it names none."""
    if requirements.ep is None or requirements.ep == ep_device.ep_name:
        return None
    return Judgement(code=ReasonCode.EP_MISMATCH, reason=f"it is for {quoted(requirements.ep)}")


def match_requested_ep(
    requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement | None:
    """Match the caller's ``ep`` filter; a variant for any EP does not match an EP for another one.

    An EP that is offered only by name (a plug-in) is available only to the variant that names it:
    otherwise a rejected variant could decide what an unnamed one runs on.
    """
    if request.ep == ep_device.ep_name:
        return None
    if request.ep is None:
        if requirements.ep is not None or is_offered_unnamed(ep_device):
            return None
        return Judgement(
            code=ReasonCode.EP_NOT_REQUESTED,
            reason=(
                f"it names no execution provider, and {ep_device.ep_name} is used only where it is"
                " named"
            ),
        )
    return Judgement(
        code=ReasonCode.EP_NOT_REQUESTED, reason=f"only {quoted(request.ep)} was asked for"
    )


def match_requested_backend(
    requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement | None:
    """Match the caller's ``backend`` filter, even for a variant that names its EP."""
    wanted = request.backend
    if wanted is None or wanted == ep_device.backend:
        return None
    named = "" if requirements.ep is None else f"it is for {quoted(requirements.ep)}; "
    return Judgement(
        code=ReasonCode.BACKEND_NOT_REQUESTED,
        reason=(
            f"{named}only backend {quoted(wanted)} was asked for, and this EP device is of "
            f"{quoted(ep_device.backend)}"
        ),
    )


def match_device(
    requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement | None:
    """Match the constraint's device type; skipped if the named EP reports no devices.

    It is skipped for a variant that names the EP, and so vouches for it. A variant for any EP is
    judged by the type that the EP's name implies: otherwise every EP without devices (each stock
    onnxruntime has Azure) would match every accelerator's variant.
    """
    wanted = requirements.device
    if wanted is None:
        return None
    if ep_device.device is None and requirements.ep is not None:
        return Judgement(notes=(f"device rule skipped: {ep_device.ep_name} reports no devices",))
    actual = _device_type_of(ep_device)
    if actual is not None and actual.value == wanted:
        return None if ep_device.device else Judgement(notes=(_by_name(ep_device, wanted),))
    if not request.has_hardware(wanted):
        return Judgement(
            code=ReasonCode.DEVICE_NOT_PRESENT,
            reason=f"it needs {_with_article(wanted)}; this machine has none",
        )
    return Judgement(
        code=ReasonCode.DEVICE_MISMATCH,
        reason=f"it needs {_with_article(wanted)}; this EP device is {_device_text(actual)}",
    )


def match_requested_device(
    _requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement | None:
    """Match the caller's ``device`` filter; an EP without devices has the type its name implies."""
    if request.device is None:
        return None
    actual = _device_type_of(ep_device)
    wanted = request.device.value
    if actual is request.device:
        return None if ep_device.device else Judgement(notes=(_by_name(ep_device, wanted),))
    absent = "" if request.has_hardware(wanted) else f", and this machine has no {_shown(wanted)}"
    return Judgement(
        code=ReasonCode.DEVICE_NOT_REQUESTED,
        reason=(
            f"only {_with_article(wanted)} was asked for; this is {_device_text(actual)}{absent}"
        ),
    )


def match_provider_options(
    requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement | None:
    """Match a provider option that names device types with the constraint and this EP device.

    The caller's option replaces the variant's of the same key, as it does in a session.
    """
    requested = (
        wished_device_option(request.provider_options, ep_device)
        if request.provider_options
        else None
    )
    option = requested or requirements.device_option
    if option is None:
        return None
    key, value = option
    whose = f"its provider option {key}={quoted(value)}"
    if requested is not None:
        whose = f"the provider option {key}={quoted(value)} that was asked for"
        here = None if ep_device.device is None else ep_device.device.type.value
        if names_other_ordinal(key, value, ep_device) or not _allows(key, value, here):
            return _option_conflict(
                f"{whose} does not allow this EP device, {_device_text(_device_type_of(ep_device))}"
            )
    actual = requirements.device or (
        None if ep_device.device is None else ep_device.device.type.value
    )
    if actual is None or _allows(key, value, actual):
        return None
    what = "its device constraint" if requirements.device else "this EP device"
    return _option_conflict(f"{whose} does not allow {what}, {_with_article(actual)}")


def _allows(key: str, value: str, device: str | None) -> bool:
    named = named_device_types(key, value)
    return device is None or named is None or device in {device_type.value for device_type in named}


def _option_conflict(reason: str) -> Judgement:
    return Judgement(code=ReasonCode.PROVIDER_OPTION_DEVICE_CONFLICT, reason=reason)


def match_compatibility_info(
    requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement | None:
    """Rate ``ep_compatibility_info`` by the EP.

    If the EP fails, add a note and keep the variant.
    """
    info = requirements.compatibility_info
    if info is None:
        return None
    try:
        rating = request.compatibility(ep_device, info)
    except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises, the variant is kept (metadata rules)
        failed = f"{ep_device.ep_name} failed to judge ep_compatibility_info: {quoted(error)}"
        return Judgement(notes=(f"{failed}; not counted",))
    if rating is CompiledModelCompatibility.UNSUPPORTED:
        why = request.compiled_refusal(ep_device, info)
        return Judgement(
            code=ReasonCode.COMPILED_MODEL_UNSUPPORTED,
            reason=f"{ep_device.ep_name} does not support what it was compiled for: {quoted(info)}"
            + (f": {why}" if why else ""),
            compatibility=rating,
        )
    if rating is CompiledModelCompatibility.PREFER_RECOMPILATION:
        why = request.compiled_refusal(ep_device, info)
        return Judgement(compatibility=rating, why_recompile=why)
    is_optimal = rating is CompiledModelCompatibility.OPTIMAL
    distance = request.compiled_distance(ep_device, info) if is_optimal else 0
    return Judgement(compatibility=rating, architecture_distance=distance)


def match_architecture(
    requirements: Requirements, ep_device: EpDevice, request: SelectionRequest
) -> Judgement | None:
    """Match the architecture constraint: checked on request only, but always noted.

    onnxruntime never evaluates it.
    """
    wanted = requirements.architecture
    if wanted is None:
        return (
            Judgement(architecture_distance=NO_ARCHITECTURE) if request.check_architecture else None
        )
    actual = None if ep_device.device is None else ep_device.device.architecture
    if not request.check_architecture:
        return Judgement(
            notes=(
                f"architecture {quoted(wanted)} not checked (here: {quoted(actual or 'unknown')})",
            )
        )
    runs = None if actual is None else runs_code_for(actual, wanted)
    if runs is None and (
        actual is None or ep_device.device is None or ep_device.device.type is DeviceType.CPU
    ):
        here = quoted(actual or "unknown")
        return Judgement(
            notes=(f"architecture {quoted(wanted)} cannot be compared with {here}",),
            architecture_distance=NO_ARCHITECTURE,
        )
    if runs and actual is not None:
        return Judgement(architecture_distance=architecture_distance(actual, wanted) or 0)
    return Judgement(
        code=ReasonCode.ARCHITECTURE_MISMATCH,
        reason=f"it is for {quoted(wanted)}; this device is {quoted(actual)}",
    )


#: Rules in the order of evaluation; the first rejection gives the reason.
MATCH_RULES: tuple[MatchRule, ...] = (
    match_ep,
    match_requested_ep,
    match_requested_backend,
    match_device,
    match_requested_device,
    match_provider_options,
    match_compatibility_info,
    match_architecture,
)


def _device_type_of(ep_device: EpDevice) -> DeviceType | None:
    """Return the device's type, or the one that the EP's name implies; None if neither is known."""
    if ep_device.device is not None:
        return ep_device.device.type
    return IMPLIED_DEVICE_TYPES.get(ep_device.ep_name)


def _by_name(ep_device: EpDevice, device: str) -> str:
    return (
        f"{ep_device.ep_name} reports no devices; by its name it counts as {_with_article(device)}"
    )


def _device_text(device: DeviceType | None) -> str:
    return "a device of unknown type" if device is None else _with_article(device.value)


def _shown(device: str) -> str:
    return device.upper() if device in {"cpu", "gpu", "npu"} else quoted(device)


def _with_article(device: str) -> str:
    return f"{'an' if device == 'npu' else 'a'} {_shown(device)}"
