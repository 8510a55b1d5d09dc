"""Whether an EP device has the operators that a variant's model needs.

Pure: both sides come in as functions.

Source: what a session would find. A node that no provider takes, the CPU's included, is an error
there; here it is a reason to take another variant, with a hint what would have the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import ep_of_context_source
from ortpkg.errors import quoted
from ortpkg.graph.needed_operators import ModelOperators, OnnxOperator, Operator, operator_text
from ortpkg.graph.onnx_opsets import (
    OperatorState,
    deprecating_opset,
    first_opset,
    newest_opset_here,
    operator_state,
)
from ortpkg.package.package_info import VariantInfo
from ortpkg.providers.operator_support import OperatorSupport, who_has
from ortpkg.selection.candidate import Judgement
from ortpkg.selection.verdict import ReasonCode

#: A variant's needs beyond the operators of the opsets that it imports; None where they are not
#: known.
NeedsOf = Callable[[VariantInfo], ModelOperators | None]
#: What of such needs an EP device does not meet.
SupportOf = Callable[[EpDevice, ModelOperators], OperatorSupport]

_MOST_NAMED = 3


class OperatorEvidence(NamedTuple):
    """What variants need, and what EP devices have."""

    needs: NeedsOf
    support: SupportOf


def judge_operators(
    needed: ModelOperators, ep_device: EpDevice, evidence: OperatorEvidence
) -> Judgement:
    """Whether the EP, or the CPU provider behind it, has the operators that the model needs.

    Of a variant that is kept, ``unchecked`` has also what can be run there, and nowhere else.
    """
    unreadable = _why_unreadable(needed)
    if unreadable:
        return Judgement(code=ReasonCode.OPERATOR_NOT_AVAILABLE, reason=unreadable)
    place = f"{ep_device.ep_name} ({ep_device.backend})"
    try:
        support = evidence.support(ep_device, needed)
    except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises, the variant is kept
        failed = f"{place} failed to tell whether it has {_listed(needed)}: {quoted(error)}"
        return Judgement(notes=(failed,), unchecked=(failed,))
    reason = _why_missing(support.missing, place)
    if reason:
        return Judgement(code=ReasonCode.OPERATOR_NOT_AVAILABLE, reason=reason)
    told = tuple(_what_to_know(needed, support, place))
    return Judgement(notes=told, unchecked=told)


def _why_unreadable(needed: ModelOperators) -> str:
    """Why no session reads the model, whatever its execution provider; "" where one does."""
    if needed.opset is not None and not 1 <= needed.opset <= newest_opset_here():
        return (
            f"its model imports opset {needed.opset} of ai.onnx; opsets 1 to {newest_opset_here()}"
            " are known here"
        )
    homeless = [each for each in needed.undefined if each.domain and each.opset is None]
    if homeless:
        return (
            f"its model needs {_onnx_names(homeless)}, and does not import the domain: no opset"
            " says which it means"
        )
    return ""


def _why_missing(missing: ModelOperators, place: str) -> str:
    if missing.operators:
        first = missing.operators[0]
        return (
            f"its model needs {_names(missing.operators)}, which {place} does not have;"
            f" {who_has(first)}"
        )
    if missing.undefined:
        return (
            f"its model needs {_onnx_names(missing.undefined)}, which {place} does not have; "
            f"{_which_opset_has(missing.undefined[0])}"
        )
    if missing.context_sources:
        source = missing.context_sources[0]
        maker = (
            f"by {quoted(ep_of_context_source(source))}"
            if source
            else "by an execution provider that it does not name"
        )
        return (
            f"its model holds a context (EPContext) compiled {maker}, which {place} does not load"
        )
    return ""


def _what_to_know(needed: ModelOperators, support: OperatorSupport, place: str) -> Iterator[str]:
    """Of a variant that is kept: what could not be told, and what other runtimes would refuse."""
    if support.unknown:
        yield f"it cannot be told here whether {place} has {_listed(support.unknown)}"
    irregular = [
        each for each in needed.undefined if operator_state(*each) is OperatorState.UNDEFINED
    ]
    if irregular and not support.unknown.undefined:
        where = _which_opset_has(irregular[0])
        yield f"its model needs {_onnx_names(irregular)}, which {place} has all the same; {where}"
    if needed.deprecated:
        yield (
            f"its model needs {_onnx_names(needed.deprecated)}, out of use since opset"
            f" {deprecating_opset(*needed.deprecated[0][:2])}: onnxruntime itself refuses such a"
            " model"
        )


def _listed(needed: ModelOperators) -> str:
    if needed.operators:
        return _names(needed.operators)
    return _onnx_names(needed.undefined) if needed.undefined else "its compiled context"


def _names(operators: Sequence[Operator]) -> str:
    return _enumerated([quoted(operator_text(each)) for each in operators])


def _onnx_names(operators: Sequence[OnnxOperator]) -> str:
    """E.g. "operator 'ai.onnx:Gelu' of opset 17"."""
    names = (quoted(operator_text((each.domain, each.name))) for each in operators)
    opsets = ("" if each.opset is None else f" of opset {each.opset}" for each in operators)
    return _enumerated([name + opset for name, opset in zip(names, opsets, strict=True)])


def _which_opset_has(operator: OnnxOperator) -> str:
    first = first_opset(operator.domain, operator.name)
    if first is not None:
        return f"ONNX has {operator.name} from opset {first} on"
    return f"no opset of ONNX has an operator {quoted(operator.name)}"


def _enumerated(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_NAMED
    named = ", ".join(texts[:_MOST_NAMED])
    return (
        f"{'operators' if len(texts) > 1 else 'operator'}"
        f" {named}{f' and {more} more' if more > 0 else ''}"
    )
