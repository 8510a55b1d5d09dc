"""Which function infers what an operator makes; the modules are named here, one after the other."""

from __future__ import annotations

from functools import cache

from ortpkg.shapes import attention_shapes as attention
from ortpkg.shapes import container_shapes as containers
from ortpkg.shapes import control_flow_shapes as control_flow
from ortpkg.shapes import elementwise_shapes as elementwise
from ortpkg.shapes import joining_shapes as joining
from ortpkg.shapes import making_shapes as making
from ortpkg.shapes import normalization_shapes as normalization
from ortpkg.shapes import product_shapes as products
from ortpkg.shapes import reduction_shapes as reduction
from ortpkg.shapes import reshaping_shapes as reshaping
from ortpkg.shapes import sampling_shapes as sampling
from ortpkg.shapes import taking_shapes as taking
from ortpkg.shapes import window_shapes as windows
from ortpkg.shapes.shape_context import InferenceFunction, inference_functions_of

_MODULES = (
    attention, containers, control_flow, elementwise, joining, making, normalization, products, reduction, reshaping,
    sampling, taking, windows,
)  # fmt: skip


@cache
def _functions() -> dict[tuple[str, str], InferenceFunction]:
    return {
        key: function
        for module in _MODULES
        for key, function in inference_functions_of(module).items()
    }


def find_inference(domain: str, op_type: str) -> InferenceFunction | None:
    """The function for an operator; None where there is none."""
    return _functions().get((domain, op_type))
