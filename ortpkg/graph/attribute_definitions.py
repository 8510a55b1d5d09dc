"""Attributes of ONNX's operators by opset: the defined ones, and the first opset of each.

Source: onnx.defs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ortpkg.graph.needed_operators import OnnxOperator
from ortpkg.graph.onnx_operators import NEWEST_OPSETS
from ortpkg.graph.operator_schemas import find_schema

#: onnx lets attributes pass whose names begin so.
_INTERNAL = "__"


def undefined_attributes(operator: OnnxOperator, names: Iterable[str]) -> Iterator[str]:
    """Return the ``names`` that the operator does not have in its opset.

    None of them if the operator itself is not defined there.
    """
    schema = (
        None
        if operator.opset is None
        else find_schema(operator.domain, operator.name, operator.opset)
    )
    if schema is not None and not schema.deprecated:
        defined = schema.attributes
        yield from (
            name for name in names if name not in defined and not name.startswith(_INTERNAL)
        )


def opset_that_adds(operator: OnnxOperator, name: str) -> int | None:
    """Return the first later opset in which the operator has this attribute; None if none has."""
    newest = NEWEST_OPSETS.get(operator.domain, 0)
    for opset in range((operator.opset or 0) + 1, newest + 1):
        schema = find_schema(operator.domain, operator.name, opset)
        if schema is not None and name in schema.attributes:
            return opset
    return None
