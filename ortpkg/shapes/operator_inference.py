"""Which function infers what an operator makes; the modules are named here, one after the other."""

from __future__ import annotations

from functools import cache

from ortpkg.shapes import (
    attention,
    containers,
    control_flow,
    elementwise,
    joining,
    making,
    normalization,
    products,
    reduction,
    reshaping,
    sampling,
    taking,
    windows,
)
from ortpkg.shapes.shape_context import InferenceFunction, inference_functions_of

_MODULES = (
    attention, containers, control_flow, elementwise, joining, making, normalization, products, reduction, reshaping,
    sampling, taking, windows,
)  # fmt: skip


@cache
def _functions() -> dict[tuple[str, str], InferenceFunction]:
    return {key: function for module in _MODULES for key, function in inference_functions_of(module).items()}


def find_inference(domain: str, op_type: str) -> InferenceFunction | None:
    """The function for an operator; None where there is none."""
    return _functions().get((domain, op_type))
