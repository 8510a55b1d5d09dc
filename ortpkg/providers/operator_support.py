"""Which operators beyond those of ONNX can be run, as far as that is known without a session.

Imports neither numpy nor onnx.

An EP leaves the nodes that it does not take to the embedded engine's CPU provider, so that an
operator is missing only where both lack it. EPContext nodes are no operators in this sense: they
belong to the EP that their ``source`` names. The embedded engine and onnxruntime go by the opset
that a model imports; OpenVINO takes an operator by its name, also where that opset does not have
it. Operators that an opset has taken out of use run in all of them but onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from ortpkg.ep_names import is_context_source_of
from ortpkg.errors import ExecutionProviderError
from ortpkg.graph.needed_operators import (
    MICROSOFT_DOMAIN,
    NOTHING,
    ONNX_DOMAINS,
    ModelOperators,
    OnnxOperator,
    Operator,
)
from ortpkg.graph.onnx_opsets import ADDED_BY_ONNXRUNTIME, OperatorState, operator_state
from ortpkg.providers.operator_tables import (
    EMBEDDED_CONTRIB_OPERATORS,
    ONNXRUNTIME_CONTRIB_OPERATORS,
    OTHER_ONNXRUNTIME_HAS,
    WHO_HAS,
    WHO_HAS_CUSTOM,
)


class OperatorSupport(NamedTuple):
    """What of a model's needs cannot be met, and of what that cannot be told."""

    missing: ModelOperators = NOTHING
    unknown: ModelOperators = NOTHING


#: Asks a library which of these operators it lacks; raises ExecutionProviderError where it fails.
AskMissing = Callable[[Sequence[Operator]], Iterable[Operator]]


def who_has(operator: Operator) -> str:
    """In a few words, what would have an operator that is missing."""
    domain, name = operator
    if domain != MICROSOFT_DOMAIN:
        return WHO_HAS.get(domain, WHO_HAS_CUSTOM)
    if name not in ONNXRUNTIME_CONTRIB_OPERATORS:
        return f"no known onnxruntime defines it: if its name is right, {WHO_HAS_CUSTOM}"
    return WHO_HAS[domain] if find_spec("onnxruntime") is None else OTHER_ONNXRUNTIME_HAS


def is_public_operator(operator: Operator) -> bool:
    """Whether a library knows the operator's domain (com.microsoft: onnxruntime's definition)."""
    domain, name = operator
    if domain == MICROSOFT_DOMAIN:
        return name in ONNXRUNTIME_CONTRIB_OPERATORS
    return domain in ONNX_DOMAINS or domain in WHO_HAS


def is_embedded_operator(operator: Operator) -> bool:
    """Whether the embedded engine, or an operator registered in this process, has it."""
    domain, name = operator
    if domain in ONNX_DOMAINS or (
        domain == MICROSOFT_DOMAIN and name in EMBEDDED_CONTRIB_OPERATORS
    ):
        return True
    return _is_custom_operator(domain, name)


def _is_embedded_anyway(operator: OnnxOperator) -> bool:
    """Whether the embedded engine has an operator that ONNX does not define in that opset."""
    return (not operator.domain and operator.name in ADDED_BY_ONNXRUNTIME) or _is_custom_operator(
        operator.domain, operator.name
    )


def _is_custom_operator(domain: str, name: str) -> bool:
    from ortpkg.kernels.custom_ops import has_custom_op  # most models have ONNX's operators alone

    return has_custom_op(domain, name)


def embedded_support(needed: ModelOperators, *, context_ep: str | None = None) -> OperatorSupport:
    """Of the embedded engine alone.

    ``context_ep`` is the EP whose contexts it loads, None where it loads none.
    """
    return OperatorSupport(
        missing=ModelOperators(
            operators=tuple(each for each in needed.operators if not is_embedded_operator(each)),
            context_sources=tuple(
                each
                for each in needed.context_sources
                if context_ep is None or not is_context_source_of(context_ep, each)
            ),
            undefined=tuple(each for each in needed.undefined if not _is_embedded_anyway(each)),
        )
    )


def plugin_support(needed: ModelOperators, *, ep_name: str) -> OperatorSupport:
    """A plug-in's, which only a session tells, with the embedded engine behind it.

    Contexts of its own are its; whether it takes others, and operators that the embedded engine
    lacks, nobody knows.
    """
    return OperatorSupport(
        unknown=ModelOperators(
            operators=tuple(each for each in needed.operators if not is_embedded_operator(each)),
            context_sources=tuple(
                each for each in needed.context_sources if not is_context_source_of(ep_name, each)
            ),
            undefined=tuple(each for each in needed.undefined if not _is_embedded_anyway(each)),
        )
    )


def native_support(
    needed: ModelOperators, *, ep_name: str, ask: AskMissing, goes_by_opset: bool = True
) -> OperatorSupport:
    """Of a native library's EP, with the embedded engine behind it.

    ``goes_by_opset``: it has of ONNX's operators what the imported opset has, as onnxruntime; else
    it is asked for them by name. Contexts that name no source are somebody's own affair: some
    libraries take them.
    """
    undefined = [each for each in needed.undefined if not _is_embedded_anyway(each)]
    by_name = [] if goes_by_opset else undefined
    by_opset = [
        each
        for each in undefined
        if goes_by_opset and operator_state(*each) is OperatorState.UNDEFINED
    ]
    foreign = [each for each in needed.operators if not is_embedded_operator(each)]
    asked = [*foreign, *dict.fromkeys((each.domain, each.name) for each in by_name)]
    missing, unknown = _asked(asked, ask) if asked else ((), ())
    others = (
        each for each in needed.context_sources if each and not is_context_source_of(ep_name, each)
    )
    return OperatorSupport(
        missing=ModelOperators(
            operators=tuple(each for each in foreign if each in missing),
            context_sources=tuple(others),
            undefined=(*by_opset, *_named_in(missing, by_name)),
        ),
        unknown=ModelOperators(
            operators=tuple(each for each in foreign if each in unknown),
            context_sources=tuple(each for each in needed.context_sources if not each),
            undefined=_named_in(unknown, by_name),
        ),
    )


def support_of_absent(needed: ModelOperators, *, backend: str) -> OperatorSupport:
    """An absent library's: what no version has is missing, the rest cannot be told."""
    if backend != "onnxruntime":
        return OperatorSupport(unknown=needed)
    lacking = tuple(
        each for each in needed.undefined if operator_state(*each) is OperatorState.UNDEFINED
    )
    return OperatorSupport(
        missing=ModelOperators(undefined=lacking),
        unknown=ModelOperators(operators=needed.operators, context_sources=needed.context_sources),
    )


def _named_in(
    names: Sequence[Operator], operators: Iterable[OnnxOperator]
) -> tuple[OnnxOperator, ...]:
    return tuple(each for each in operators if (each.domain, each.name) in names)


def read_operators(answer: object) -> Iterator[Operator]:
    """Operators as they come from a child process, as far as they are such."""
    for each in answer if isinstance(answer, list) else []:
        match each:
            case [str(domain), str(name)]:
                yield domain, name


def _asked(
    operators: Sequence[Operator], ask: AskMissing
) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    """Those that the library lacks, and those of which it could not tell.

    A library may crash over a model of one node; then each operator is asked for by itself.
    """
    try:
        lacking = set(ask(operators))
    except ExecutionProviderError:
        if len(operators) == 1:
            return (), tuple(operators)
        found = [_asked([each], ask) for each in operators]
        return (
            tuple(each for missing, _ in found for each in missing),
            tuple(each for _, unknown in found for each in unknown),
        )
    return tuple(each for each in operators if each in lacking), ()
