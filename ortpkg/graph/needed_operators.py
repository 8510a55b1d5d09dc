"""What a model needs beyond the operators that everybody has, as values.

Imports neither numpy nor onnx. ``operator_scan.py`` finds it in a model's encoding.
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

    ``opset`` is None where its domain is not imported.
    """

    domain: str
    name: str
    opset: int | None


class ModelOperators(NamedTuple):
    """What a model needs beyond the operators that ONNX defines in the opsets which it imports.

    Attributes:
        operators: those that are neither ONNX's nor functions of the model, EPContext not among
            them; sorted.
        context_sources: ``source`` of its EPContext nodes, "" where one states none; sorted.
        undefined: operators in ONNX's own domains that ONNX does not define in that opset; sorted.
        deprecated: those that the opset has taken out of use; sorted.
        opset: that of ONNX's main domain, where it is one that not every onnx package knows.
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
    """E.g. "com.acme:Frobnicate".

    >>> operator_text(("", "Relu"))
    'ai.onnx:Relu'
    """
    return ":".join((operator[0] or "ai.onnx", operator[1]))
