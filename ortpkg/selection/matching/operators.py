"""Judge whether an EP device has the operators that a variant's model needs.

Pure: both sides come in as functions. A node that no provider takes, not even the CPU's, is an
error in a session; here it rejects the variant, with a hint on what would have the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ortpkg.foundations.ep_names import ep_of_context_source, removed_ep_text
from ortpkg.foundations.errors import quoted
from ortpkg.graph.needed_operators import ModelOperators, OnnxOperator, Operator, operator_text
from ortpkg.graph.onnx_opsets import (
    OperatorState,
    deprecating_opset,
    first_opset,
    newest_opset_here,
    operator_state,
)
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.package_info import VariantInfo
from ortpkg.runtime.providers.operator_support import OperatorSupport, who_has
from ortpkg.selection.matching.candidate import Judgement
from ortpkg.selection.matching.verdict import ReasonCode

#: Returns a variant's needs beyond the operators of the opsets that it imports; None if unknown.
NeedsOf = Callable[[VariantInfo], ModelOperators | None]
#: Returns the needs that an EP device does not meet.
SupportOf = Callable[[EpDevice, ModelOperators], OperatorSupport]

_MOST_NAMED = 3


class OperatorEvidence(NamedTuple):
    """Needs of variants, and support by EP devices."""

    needs: NeedsOf
    support: SupportOf


def judge_operators(
    needed: ModelOperators, ep_device: EpDevice, evidence: OperatorEvidence
) -> Judgement:
    """Judge whether the EP, or the CPU provider behind it, has the operators of the model.

    For a variant that is kept, ``unchecked`` also has operators that run here, and nowhere else.
    """
    unreadable = _unreadable_reason(needed)
    if unreadable:
        return Judgement(code=ReasonCode.OPERATOR_NOT_AVAILABLE, reason=unreadable)
    backend_text = ep_device.ep_and_backend
    try:
        support = evidence.support(ep_device, needed)
    except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises, the variant is kept
        failed = f"{backend_text} failed to tell whether it has {_listed(needed)}: {quoted(error)}"
        return Judgement(notes=(failed,), unchecked=(failed,))
    reason = _missing_reason(support.missing, backend_text)
    if reason:
        return Judgement(code=ReasonCode.OPERATOR_NOT_AVAILABLE, reason=reason)
    remarks = tuple(_remarks(needed, support, backend_text))
    return Judgement(notes=remarks, unchecked=remarks)


def _unreadable_reason(needed: ModelOperators) -> str:
    """Return the reason why no session can read the model; "" if one can."""
    if needed.opset is not None and not 1 <= needed.opset <= newest_opset_here():
        return (
            f"its model imports opset {needed.opset} of ai.onnx; opsets 1 to {newest_opset_here()}"
            " are known here"
        )
    homeless = [
        operator for operator in needed.undefined if operator.domain and operator.opset is None
    ]
    if homeless:
        return (
            f"its model needs {_onnx_names(homeless)}, and does not import the domain: no opset"
            " says which it means"
        )
    return ""


def _missing_reason(missing: ModelOperators, backend_text: str) -> str:
    if missing.operators:
        first = missing.operators[0]
        return (
            f"its model needs {_names(missing.operators)}, which {backend_text} does not have;"
            f" {who_has(first)}"
        )
    if missing.undefined:
        return (
            f"its model needs {_onnx_names(missing.undefined)}, which {backend_text} does not"
            f" have; {_which_opset_has(missing.undefined[0])}"
        )
    if missing.context_sources:
        source = missing.context_sources[0]
        if removed := removed_ep_text(source):
            return f"its model holds a context (EPContext), and {removed}"
        maker = (
            f"by {quoted(ep_of_context_source(source))}"
            if source
            else "by an execution provider that it does not name"
        )
        return (
            f"its model holds a context (EPContext) compiled {maker}, which {backend_text} does"
            " not load"
        )
    return ""


def _remarks(needed: ModelOperators, support: OperatorSupport, backend_text: str) -> Iterator[str]:
    """Yield remarks on a variant that is kept: unknown support, and what other runtimes refuse."""
    if support.unknown:
        yield f"it cannot be told here whether {backend_text} has {_listed(support.unknown)}"
    irregular = [
        operator
        for operator in needed.undefined
        if operator_state(*operator) is OperatorState.UNDEFINED
    ]
    if irregular and not support.unknown.undefined:
        hint = _which_opset_has(irregular[0])
        yield (
            f"its model needs {_onnx_names(irregular)}, which {backend_text} has all the same;"
            f" {hint}"
        )
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
    return _enumerated([quoted(operator_text(operator)) for operator in operators])


def _onnx_names(operators: Sequence[OnnxOperator]) -> str:
    """Return e.g. "operator 'ai.onnx:Gelu' of opset 17"."""
    names = (quoted(operator_text((operator.domain, operator.name))) for operator in operators)
    opsets = (
        "" if operator.opset is None else f" of opset {operator.opset}" for operator in operators
    )
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
