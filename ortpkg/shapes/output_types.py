"""Outputs' element types by the operator's definition: fixed, or tied to an input's."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.graph.graph import Node
from ortpkg.graph.operator_schemas import output_formals
from ortpkg.graph.types import ElementType
from ortpkg.shapes.knowledge import Knowledge, KnownOptional, KnownSequence, KnownTensor, type_of


def output_by_definition(
    node: Node, slot: int, inputs: Sequence[Knowledge | None]
) -> Knowledge | None:
    """What the definition alone says of an output: its kind and element type, no sizes.

    None where that is nothing.
    """
    outputs = output_formals(node.domain, node.op_type, node.since_version)
    if not outputs:
        return None
    formal = outputs[min(slot, len(outputs) - 1)]
    if formal.fixed is not ElementType.UNDEFINED:
        return KnownTensor(formal.fixed, None)
    for source in formal.sources:
        known = inputs[source] if source < len(inputs) else None
        if known is not None:
            return _typed(known, formal.allowed)
    return None


def _typed(known: Knowledge, allowed: frozenset[str]) -> Knowledge | None:
    """The kind and element type of an input, without sizes.

    None for one that its operator does not take.
    """
    made = _without_sizes(known)
    return made if made is None or str(type_of(made, str)) in allowed else None


def _without_sizes(known: Knowledge) -> Knowledge | None:
    if isinstance(known, KnownTensor):
        return (
            KnownTensor(known.element_type, None)
            if known.element_type is not ElementType.UNDEFINED
            else None
        )
    if isinstance(known, KnownSequence | KnownOptional):
        element = None if known.element is None else _without_sizes(known.element)
        return type(known)(element)
    return known
