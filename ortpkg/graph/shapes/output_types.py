"""Element types of outputs by the operator's definition: fixed, or tied to an input's."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.graph.graph import Node
from ortpkg.graph.operator_schemas import output_formals
from ortpkg.graph.shapes.knowledge import (
    Knowledge,
    KnownOptional,
    KnownSequence,
    KnownTensor,
    type_of,
)
from ortpkg.graph.types import ElementType


def output_by_definition(
    node: Node, slot: int, inputs: Sequence[Knowledge | None]
) -> Knowledge | None:
    """Return the kind and element type that the definition alone gives an output, without sizes.

    None if it gives none.
    """
    outputs = output_formals(node.domain, node.op_type, node.since_version)
    if not outputs:
        return None
    formal = outputs[min(slot, len(outputs) - 1)]
    if formal.fixed is not ElementType.UNDEFINED:
        return KnownTensor(formal.fixed, None)
    for source in formal.sources:
        knowledge = inputs[source] if source < len(inputs) else None
        if knowledge is not None:
            return _typed(knowledge, formal.allowed)
    return None


def _typed(knowledge: Knowledge, allowed: frozenset[str]) -> Knowledge | None:
    """Return the kind and element type of an input, without sizes; None if it is not allowed."""
    made = _without_sizes(knowledge)
    return made if made is None or str(type_of(made, str)) in allowed else None


def _without_sizes(knowledge: Knowledge) -> Knowledge | None:
    if isinstance(knowledge, KnownTensor):
        return (
            KnownTensor(knowledge.element_type, None)
            if knowledge.element_type is not ElementType.UNDEFINED
            else None
        )
    if isinstance(knowledge, KnownSequence | KnownOptional):
        element = None if knowledge.element is None else _without_sizes(knowledge.element)
        return type(knowledge)(element)
    return knowledge
