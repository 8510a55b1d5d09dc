"""Support of operators beyond those of ONNX, as far as it is known without a session.

Imports neither numpy nor onnx.

An EP leaves the nodes that it does not take to the embedded engine's CPU provider, so that an
operator is missing only if both lack it. EPContext nodes are no operators in this sense: they
belong to the EP that their ``source`` names. The embedded engine and onnxruntime go by the opset
that a model imports; OpenVINO takes an operator by its name, also if that opset does not have it.
Operators that an opset has taken out of use run in all of them but onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from ortpkg.foundations.ep_names import is_context_source_of
from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.graph.needed_operators import (
    MICROSOFT_DOMAIN,
    NOTHING,
    ONNX_DOMAINS,
    ModelOperators,
    OnnxOperator,
    Operator,
)
from ortpkg.graph.onnx_opsets import ADDED_BY_ONNXRUNTIME, OperatorState, operator_state
from ortpkg.runtime.providers.operator_tables import (
    EMBEDDED_CONTRIB_OPERATORS,
    ONNXRUNTIME_CONTRIB_OPERATORS,
    OTHER_ONNXRUNTIME_HAS,
    WHO_HAS,
    WHO_HAS_CUSTOM,
)


class OperatorSupport(NamedTuple):
    """Needs of a model that cannot be met, and needs for which that is unknown."""

    missing: ModelOperators = NOTHING
    unknown: ModelOperators = NOTHING


#: Asks a library which of these operators it lacks; raises ExecutionProviderError if it fails.
AskMissing = Callable[[Sequence[Operator]], Iterable[Operator]]


def who_has(operator: Operator) -> str:
    """Return, in a few words, what would have an operator that is missing."""
    domain, name = operator
    if domain != MICROSOFT_DOMAIN:
        return WHO_HAS.get(domain, WHO_HAS_CUSTOM)
    if name not in ONNXRUNTIME_CONTRIB_OPERATORS:
        return f"no known onnxruntime defines it: if its name is right, {WHO_HAS_CUSTOM}"
    return WHO_HAS[domain] if find_spec("onnxruntime") is None else OTHER_ONNXRUNTIME_HAS


def is_public_operator(operator: Operator) -> bool:
    """Return True if a library knows the operator's domain (com.microsoft: the operator itself)."""
    domain, name = operator
    if domain == MICROSOFT_DOMAIN:
        return name in ONNXRUNTIME_CONTRIB_OPERATORS
    return domain in ONNX_DOMAINS or domain in WHO_HAS


def is_embedded_operator(operator: Operator) -> bool:
    """Return True if the embedded engine, or an operator registered in this process, has it."""
    domain, name = operator
    if domain in ONNX_DOMAINS or (
        domain == MICROSOFT_DOMAIN and name in EMBEDDED_CONTRIB_OPERATORS
    ):
        return True
    return _is_custom_operator(domain, name)


def _is_embedded_anyway(operator: OnnxOperator) -> bool:
    """Return True if the embedded engine has an operator that ONNX lacks in that opset."""
    return (not operator.domain and operator.name in ADDED_BY_ONNXRUNTIME) or _is_custom_operator(
        operator.domain, operator.name
    )


def _is_custom_operator(domain: str, name: str) -> bool:
    from ortpkg.graph.custom_op_registry import (
        has_custom_op,  # most models have only ONNX's operators
    )

    return has_custom_op(domain, name)


def embedded_support(needed: ModelOperators, *, context_ep: str | None = None) -> OperatorSupport:
    """Return the support by the embedded engine alone.

    ``context_ep`` is the EP whose contexts it loads; None if it loads none.
    """
    return OperatorSupport(
        missing=ModelOperators(
            operators=tuple(
                operator for operator in needed.operators if not is_embedded_operator(operator)
            ),
            context_sources=tuple(
                source
                for source in needed.context_sources
                if context_ep is None or not is_context_source_of(context_ep, source)
            ),
            undefined=tuple(
                operator for operator in needed.undefined if not _is_embedded_anyway(operator)
            ),
        )
    )


def plugin_support(needed: ModelOperators, *, ep_name: str) -> OperatorSupport:
    """Return the support by a plug-in, which only a session tells, with the embedded engine.

    Contexts of its own are supported; whether it takes others, and operators that the embedded
    engine lacks, is unknown.
    """
    return OperatorSupport(
        unknown=ModelOperators(
            operators=tuple(
                operator for operator in needed.operators if not is_embedded_operator(operator)
            ),
            context_sources=tuple(
                source
                for source in needed.context_sources
                if not is_context_source_of(ep_name, source)
            ),
            undefined=tuple(
                operator for operator in needed.undefined if not _is_embedded_anyway(operator)
            ),
        )
    )


def native_support(
    needed: ModelOperators, *, ep_name: str, ask: AskMissing, goes_by_opset: bool = True
) -> OperatorSupport:
    """Return the support by a native library's EP, with the embedded engine behind it.

    Contexts that name no source are unknown: some libraries take them.

    Args:
        needed: needs of the model.
        ep_name: name of the execution provider.
        ask: asks the library which operators it lacks.
        goes_by_opset: True if it has those of ONNX's operators that the imported opset has, as
            onnxruntime does; False to ask for them by name.
    """
    undefined = [operator for operator in needed.undefined if not _is_embedded_anyway(operator)]
    by_name = [] if goes_by_opset else undefined
    by_opset = [
        operator
        for operator in undefined
        if goes_by_opset and operator_state(*operator) is OperatorState.UNDEFINED
    ]
    foreign = [operator for operator in needed.operators if not is_embedded_operator(operator)]
    candidates = [
        *foreign,
        *dict.fromkeys((operator.domain, operator.name) for operator in by_name),
    ]
    missing, unknown = _missing_and_unknown(candidates, ask) if candidates else ((), ())
    others = (
        source
        for source in needed.context_sources
        if source and not is_context_source_of(ep_name, source)
    )
    return OperatorSupport(
        missing=ModelOperators(
            operators=tuple(operator for operator in foreign if operator in missing),
            context_sources=tuple(others),
            undefined=(*by_opset, *_named_in(missing, by_name)),
        ),
        unknown=ModelOperators(
            operators=tuple(operator for operator in foreign if operator in unknown),
            context_sources=tuple(source for source in needed.context_sources if not source),
            undefined=_named_in(unknown, by_name),
        ),
    )


def support_of_absent(needed: ModelOperators, *, backend: str) -> OperatorSupport:
    """Return the support by an absent library: operators in no version are missing.

    Everything else is unknown.
    """
    if backend != "onnxruntime":
        return OperatorSupport(unknown=needed)
    lacking = tuple(
        operator
        for operator in needed.undefined
        if operator_state(*operator) is OperatorState.UNDEFINED
    )
    return OperatorSupport(
        missing=ModelOperators(undefined=lacking),
        unknown=ModelOperators(operators=needed.operators, context_sources=needed.context_sources),
    )


def _named_in(
    names: Sequence[Operator], operators: Iterable[OnnxOperator]
) -> tuple[OnnxOperator, ...]:
    return tuple(operator for operator in operators if (operator.domain, operator.name) in names)


def read_operators(answer: object) -> Iterator[Operator]:
    """Yield the operators in a child process's answer; entries of another form are left out."""
    for entry in answer if isinstance(answer, list) else []:
        match entry:
            case [str(domain), str(name)]:
                yield domain, name


def _missing_and_unknown(
    operators: Sequence[Operator], ask: AskMissing
) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    """Return the operators that the library lacks, and those of which it could not tell.

    A library may crash over a model of one node; then each operator is asked for by itself.
    """
    try:
        lacking = set(ask(operators))
    except ExecutionProviderError:
        if len(operators) == 1:
            return (), tuple(operators)
        answers = [_missing_and_unknown([operator], ask) for operator in operators]
        return (
            tuple(operator for missing, _ in answers for operator in missing),
            tuple(operator for _, unknown in answers for operator in unknown),
        )
    return tuple(operator for operator in operators if operator in lacking), ()
