"""What the rules of two onnxruntime generations share: what they look at, answer, and rate by.

A release selects by one execution provider (EP) and looks at what that EP exposes; each
generation's rules are a module of their own (``metadata_rules``, ``component_rules``), followed by
``release_selector``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.devices.hardware import EpDevice
from ortpkg.errors import quoted
from ortpkg.package.package_info import Constraints, VariantInfo
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.verdict import ReasonCode

#: An EP factory's rating of a compatibility string on several EP devices of one EP at once; may
#: raise.
JointCompatibilityOf = Callable[[Sequence[EpDevice], str], CompiledModelCompatibility]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a release does not open the package, and where: a document and a pointer into it.

    ``status``: the release's own word for it, where it has one.
    """

    document: str
    message: str
    pointer: str = ""
    status: str = ""

    def __str__(self) -> str:
        status = f" [{self.status}]" if self.status else ""
        return f"{self.document}{'#' if self.pointer else ''}{self.pointer}: {self.message}{status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectingEp:
    """The EP by which a release selects.

    Attributes:
        name: its full name.
        exposed: EP devices that the release knows of, each with a device; none for an EP without
            devices.
        places: EP devices that could run a session here, on any backend, in order of preference.
    """

    name: str
    exposed: tuple[EpDevice, ...]
    places: tuple[EpDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseJudgement:
    """What a release's rules say of one variant: a rejection if it has a code, else a score.

    Attributes:
        code, reason: of a rejection.
        score: higher is better.
        device: the device type that the variant asks for and was matched, "" where none was asked
            for.
        compatibility: what the EP said of the compatibility string.
        notes: what was noted on the way.
    """

    code: ReasonCode | None = None
    reason: str = ""
    score: int = 0
    device: str = ""
    compatibility: CompiledModelCompatibility = CompiledModelCompatibility.NOT_APPLICABLE
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """How one generation of onnxruntime selects.

    Attributes:
        release: for people, e.g. "onnxruntime 1.31".
        criteria: what decides among variants that can run, in order; the second one among equal
            scores.
        constraints_of: the constraints that it reads; None where the variant has no keys that it
            reads.
        selecting_ep: of the EPs that an application asks for, in order, the one that counts; None
            if it takes none.
        without_ep: what it says where it takes none.
        names_end_at_nul: whether it finds the selected variant again by a name that ends at a NUL.
        exposes_cpu: whether the CPU EP is known with its device.
        judge: its rules for one variant.
        order: of variants with what the release reads of each: in which order they win among equal
            scores.
        seen_of_tie: what is known of a tie of these variants, where the source does not say who
            wins it; None where it does.
    """

    release: str
    criteria: tuple[str, ...]
    constraints_of: Callable[[VariantInfo], Constraints | None]
    selecting_ep: Callable[[Sequence[str]], str | None]
    without_ep: str
    names_end_at_nul: bool
    exposes_cpu: bool
    judge: Callable[[Constraints, SelectingEp, JointCompatibilityOf], ReleaseJudgement]
    order: Callable[[Mapping[str, Constraints]], list[str]]
    seen_of_tie: Callable[[Sequence[str], Mapping[str, Constraints]], str] | None


#: What a rating adds to a score; one that a release does not know scores UNKNOWN_RATING_SCORE.
SCORES: Mapping[CompiledModelCompatibility, int] = {
    CompiledModelCompatibility.OPTIMAL: 100,
    CompiledModelCompatibility.PREFER_RECOMPILATION: 50,
    CompiledModelCompatibility.NOT_APPLICABLE: 0,
    CompiledModelCompatibility.UNKNOWN: 0,
}
UNKNOWN_RATING_SCORE = -100


def exposed_of_type(ep: SelectingEp, device: str) -> tuple[EpDevice, ...]:
    """The exposed EP devices whose type is ``device``, in lower case."""
    return tuple(
        each for each in ep.exposed if each.device is not None and each.device.type.value == device
    )


def device_rejection(ep: SelectingEp, device: str) -> ReleaseJudgement:
    """The rejection of a variant whose device none of the exposed ones is."""
    types = dict.fromkeys(each.device.type.value for each in ep.exposed if each.device is not None)
    exposed = (
        f"exposes {', '.join(types)} only"
        if types
        else "exposes no devices, so that no device matches"
    )
    return ReleaseJudgement(
        code=ReasonCode.DEVICE_MISMATCH,
        reason=f"it needs the device {quoted(device)}; {ep.name} {exposed}",
    )


def unsupported(ep: SelectingEp, info: str) -> ReleaseJudgement:
    """The rejection of a variant that the EP calls unsupported."""
    return ReleaseJudgement(
        code=ReasonCode.COMPILED_MODEL_UNSUPPORTED,
        reason=f"{ep.name} does not support what it was compiled for: {quoted(info)}",
        compatibility=CompiledModelCompatibility.UNSUPPORTED,
    )


def rating_notes(rating: CompiledModelCompatibility) -> tuple[str, ...]:
    """What to say of a rating that nobody here could give."""
    if rating is not CompiledModelCompatibility.UNKNOWN:
        return ()
    return ("its compatibility string cannot be rated here: counted as not applicable",)
