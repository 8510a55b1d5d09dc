"""Common parts of the rules of two onnxruntime generations: their inputs, results, and scores.

A release selects by one execution provider (EP) and looks at the devices that this EP exposes. Each
generation's rules are a module of their own (``metadata_rules``, ``component_rules``), used by
``release_selector``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.foundations.errors import quoted
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.package_info import Constraints, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.verdict import ReasonCode

#: Returns an EP factory's rating of a compatibility string on several EP devices of one EP; may
#: raise.
JointCompatibilityOf = Callable[[Sequence[EpDevice], str], CompiledModelCompatibility]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Reason why a release does not open the package, with a document and a pointer into it.

    Attributes:
        document, pointer: location of the problem.
        message: the problem in words.
        status: the release's own name of it, if it has one.
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
        name: full name of the EP.
        exposed: EP devices that the release knows, each with a device; none for an EP without
            devices.
        runnable_devices: EP devices that could run a session here, on any backend, in order of
            preference.
    """

    name: str
    exposed: tuple[EpDevice, ...]
    runnable_devices: tuple[EpDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseJudgement:
    """A release's judgement of one variant: a rejection if it has a code, else a score.

    Attributes:
        code, reason: code and reason of a rejection.
        score: higher is better.
        device: the device type that the variant asks for and that was matched; "" if it asks for
            none.
        compatibility: the EP's rating of the compatibility string.
        notes: notes for the verdict.
    """

    code: ReasonCode | None = None
    reason: str = ""
    score: int = 0
    device: str = ""
    compatibility: CompiledModelCompatibility = CompiledModelCompatibility.NOT_APPLICABLE
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """Rules by which one generation of onnxruntime selects.

    Attributes:
        release: name for people, e.g. "onnxruntime 1.31".
        criteria: criteria among variants that can run, in order; the second decides among equal
            scores.
        constraints_of: returns the constraints that it reads; None if the variant has no keys that
            it reads.
        selecting_ep: returns the EP that counts among those that an application asks for, in order;
            None if it takes none.
        without_ep: its message if it takes none.
        names_end_at_nul: True if it looks the selected variant up by a name that ends at a NUL.
        exposes_cpu: True if the CPU EP has a device.
        judge: judges one variant.
        order: returns variants, given what the release reads of each, in the order in which they
            win among equal scores.
        observed_tie: returns what was observed for a tie of these variants, if the source does not
            say who wins; None if it does.
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
    observed_tie: Callable[[Sequence[str], Mapping[str, Constraints]], str] | None


#: Rating → its score; a rating that a release does not know has UNKNOWN_RATING_SCORE.
SCORES: Mapping[CompiledModelCompatibility, int] = {
    CompiledModelCompatibility.OPTIMAL: 100,
    CompiledModelCompatibility.PREFER_RECOMPILATION: 50,
    CompiledModelCompatibility.NOT_APPLICABLE: 0,
    CompiledModelCompatibility.UNKNOWN: 0,
}
UNKNOWN_RATING_SCORE = -100


def exposed_of_type(ep: SelectingEp, device: str) -> tuple[EpDevice, ...]:
    """Return the exposed EP devices of type ``device``, in lower case."""
    return tuple(
        ep_device
        for ep_device in ep.exposed
        if ep_device.device is not None and ep_device.device.type.value == device
    )


def device_rejection(ep: SelectingEp, device: str) -> ReleaseJudgement:
    """Return the rejection of a variant whose device type the EP does not expose."""
    types = dict.fromkeys(
        ep_device.device.type.value for ep_device in ep.exposed if ep_device.device is not None
    )
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
    """Return the rejection of a variant that the EP rates as unsupported."""
    return ReleaseJudgement(
        code=ReasonCode.COMPILED_MODEL_UNSUPPORTED,
        reason=f"{ep.name} does not support what it was compiled for: {quoted(info)}",
        compatibility=CompiledModelCompatibility.UNSUPPORTED,
    )


def rating_notes(rating: CompiledModelCompatibility) -> tuple[str, ...]:
    """Return a note on a rating that nobody here could give."""
    if rating is not CompiledModelCompatibility.UNKNOWN:
        return ()
    return ("its compatibility string cannot be rated here: counted as not applicable",)
