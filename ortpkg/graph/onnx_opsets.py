"""Operators that ONNX's opsets define: a table used instead of onnx, which loads slowly."""

from __future__ import annotations

from enum import Enum, auto
from functools import cache

from ortpkg.graph.onnx_operators import (
    DEPRECATING_OPSETS,
    FIRST_OPSETS,
    NEWEST_OPSETS,
    ONNX_VERSION,
)

#: Operators that onnxruntime adds to ONNX's own domain, in version 1; later opsets took some of
#: them over.
ADDED_BY_ONNXRUNTIME = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
#: Operators of ONNX's own domain that onnxruntime defines from opset 1 on, whether or not this
#: engine has them.
ONNXRUNTIME_ADDITIONS: frozenset[str] = ADDED_BY_ONNXRUNTIME | {
    *(
        "DisentangledAttention_TRT",
        "EfficientNMS_TRT",
        "MultilevelCropAndResize_TRT",
        "PyramidROIAlign_TRT",
    ),
    *("MeanVarianceNormalization", "MemcpyFromHost", "MemcpyToHost", "ThresholdedRelu"),
}
#: Operators of ONNX's own domain that onnxruntime defines in opsets before 10 only.
OLD_ONNXRUNTIME_ADDITIONS: frozenset[str] = frozenset(
    {
        *(
            "Affine",
            "Crop",
            "DynamicSlice",
            "GRUUnit",
            "GivenTensorFill",
            "ImageScaler",
            "ParametricSoftplus",
        ),
        *("Scale", "ScaledTanh"),
    }
)
_OPSET_WITHOUT_OLD_ADDITIONS = 10


#: Every onnx package that ortpkg works with knows the opsets up to this one.
_OPSET_KNOWN_EVERYWHERE = 24


class OperatorState(Enum):
    """The state of an operator in an opset.

    ADDED: ONNX does not define it, but onnxruntime has it there. UNKNOWN: the opset is newer than
    the table.
    """

    DEFINED = auto()
    ADDED = auto()
    DEPRECATED = auto()
    UNDEFINED = auto()
    UNKNOWN = auto()


def operator_state(domain: str, op_type: str, opset: int | None) -> OperatorState:
    """Return the state of an operator in opset ``opset`` of one of ONNX's own domains.

    ``opset`` is None if the domain is not imported.
    """
    if opset is None:
        return OperatorState.UNDEFINED
    first = FIRST_OPSETS.get(domain, {}).get(op_type)
    if first is not None and first <= opset:
        deprecating = DEPRECATING_OPSETS.get(domain, {}).get(op_type)
        return (
            OperatorState.DEPRECATED
            if deprecating is not None and deprecating <= opset
            else OperatorState.DEFINED
        )
    if domain == "" and op_type in ONNXRUNTIME_ADDITIONS:
        return OperatorState.ADDED
    if (
        domain == ""
        and op_type in OLD_ONNXRUNTIME_ADDITIONS
        and opset < _OPSET_WITHOUT_OLD_ADDITIONS
    ):
        return OperatorState.ADDED
    return (
        OperatorState.UNDEFINED if opset <= NEWEST_OPSETS.get(domain, 0) else OperatorState.UNKNOWN
    )


def first_opset(domain: str, op_type: str) -> int | None:
    """Return the first opset that defines an operator; None if the table knows none."""
    return FIRST_OPSETS.get(domain, {}).get(op_type)


def deprecating_opset(domain: str, op_type: str) -> int | None:
    """Return the first opset in which an operator is out of use; None if none is known."""
    return DEPRECATING_OPSETS.get(domain, {}).get(op_type)


def is_known_everywhere(opset: int) -> bool:
    """Return True if every supported onnx package knows this opset of ONNX's main domain."""
    return 1 <= opset <= _OPSET_KNOWN_EVERYWHERE


@cache
def newest_opset_here() -> int:
    """Return the newest opset of ONNX's main domain in the installed onnx; later ones fail."""
    from importlib.metadata import version  # 15 ms; only for models of the newest opsets

    if version("onnx") == ONNX_VERSION:
        return NEWEST_OPSETS[""]
    import onnx.defs  # as above, and where it is another one than that of the table

    return onnx.defs.onnx_opset_version()
