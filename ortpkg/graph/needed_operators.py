"""Needs of a model beyond the operators that every provider has, as values.

This module imports neither numpy nor onnx. ``operator_scan.py`` finds the needs in a model's
encoding.
"""

from __future__ import annotations

from typing import NamedTuple

#: An operator: domain ("" for ONNX's own), name.
Operator = tuple[str, str]

#: Domains whose operators are ONNX's own: the embedded engine runs all that it defines.
ONNX_DOMAINS: frozenset[str] = frozenset(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"}
)
MICROSOFT_DOMAIN = "com.microsoft"


class OnnxOperator(NamedTuple):
    """An operator of ONNX's own domains as a model uses it.

    ``opset`` is None if its domain is not imported.
    """

    domain: str
    name: str
    opset: int | None


class ModelOperators(NamedTuple):
    """Needs of a model beyond the operators that ONNX defines in the opsets which it imports.

    Attributes:
        operators: operators that are neither ONNX's nor functions of the model, without EPContext;
            sorted.
        context_sources: ``source`` of its EPContext nodes, "" if one has none; sorted.
        undefined: operators in ONNX's own domains that ONNX does not define in that opset; sorted.
        deprecated: operators that the opset has taken out of use; sorted.
        opset: the opset of ONNX's main domain, if not every onnx package knows it.
    """

    operators: tuple[Operator, ...] = ()
    context_sources: tuple[str, ...] = ()
    undefined: tuple[OnnxOperator, ...] = ()
    deprecated: tuple[OnnxOperator, ...] = ()
    opset: int | None = None

    def __bool__(self) -> bool:
        return self.opset is not None or any(
            (self.operators, self.context_sources, self.undefined, self.deprecated)
        )


NOTHING = ModelOperators()


def operator_text(operator: Operator) -> str:
    """Return the operator as text, e.g. "com.acme:Frobnicate".

    >>> operator_text(("", "Relu"))
    'ai.onnx:Relu'
    """
    return ":".join((operator[0] or "ai.onnx", operator[1]))
