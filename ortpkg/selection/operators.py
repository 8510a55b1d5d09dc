"""Whether an EP device has the operators that a variant's model needs. Pure: both sides come in as functions.

Source: what a session would find. A node that no provider takes, the CPU's included, is an error there; here it is a
reason to take another variant, with a hint what would have the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import ep_of_context_source
from ortpkg.errors import quoted
from ortpkg.graph.operator_scan import ModelOperators, Operator, operator_text
from ortpkg.package.package_info import VariantInfo
from ortpkg.providers.operator_support import OperatorSupport, who_has
from ortpkg.selection.verdict import ReasonCode

if TYPE_CHECKING:
    from ortpkg.selection.records import Rejection

#: A variant's needs beyond ONNX's own operators; None where they are not known.
NeedsOf = Callable[[VariantInfo], ModelOperators | None]
#: What of such needs an EP device does not meet.
SupportOf = Callable[[EpDevice, ModelOperators], OperatorSupport]

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEvidence:
    """What variants need, and what EP devices have."""

    needs: NeedsOf
    support: SupportOf


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOutcome:
    """What is to be said of a variant's operators on one EP device: a rejection, or what could not be told."""

    rejection: Rejection | None = None
    unchecked: tuple[str, ...] = ()


def judge_operators(needed: ModelOperators, ep_device: EpDevice, evidence: OperatorEvidence) -> OperatorOutcome:
    """The rule: what the model needs is there, in the EP or in the CPU provider behind it."""
    place = f"{ep_device.ep_name} ({ep_device.backend})"
    try:
        support = evidence.support(ep_device, needed)
    except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises, the variant is kept
        return OperatorOutcome(unchecked=(f"{place} failed to tell whether it has {_listed(needed)}: {quoted(error)}",))
    if support.missing.operators:
        first = support.missing.operators[0]
        reason = f"its model needs {_names(support.missing.operators)}, which {place} does not have; {who_has(first)}"
        return OperatorOutcome(rejection=(ReasonCode.OPERATOR_NOT_AVAILABLE, reason))
    if support.missing.context_sources:
        source = support.missing.context_sources[0]
        maker = (
            f"by {quoted(ep_of_context_source(source))}" if source else "by an execution provider that it does not name"
        )
        reason = f"its model holds a context (EPContext) compiled {maker}, which {place} does not load"
        return OperatorOutcome(rejection=(ReasonCode.OPERATOR_NOT_AVAILABLE, reason))
    if support.unknown:
        return OperatorOutcome(unchecked=(f"it cannot be told here whether {place} has {_listed(support.unknown)}",))
    return OperatorOutcome()


def _listed(needed: ModelOperators) -> str:
    return _names(needed.operators) if needed.operators else "its compiled context"


def _names(operators: tuple[Operator, ...]) -> str:
    named = ", ".join(quoted(operator_text(each)) for each in operators[:_MOST_NAMED])
    more = len(operators) - _MOST_NAMED
    return f"{'operators' if len(operators) > 1 else 'operator'} {named}{f' and {more} more' if more > 0 else ''}"
