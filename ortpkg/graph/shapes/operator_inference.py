"""Finds the inference function of an operator; it lists the modules that define them."""

from __future__ import annotations

from functools import cache

from ortpkg.graph.shapes import (
    attention_shapes,
    container_shapes,
    control_flow_shapes,
    elementwise_shapes,
    joining_shapes,
    making_shapes,
    normalization_shapes,
    product_shapes,
    reduction_shapes,
    reshaping_shapes,
    sampling_shapes,
    taking_shapes,
    window_shapes,
)
from ortpkg.graph.shapes.shape_context import InferenceFunction, inference_functions_of

_MODULES = (
    attention_shapes,
    container_shapes,
    control_flow_shapes,
    elementwise_shapes,
    joining_shapes,
    making_shapes,
    normalization_shapes,
    product_shapes,
    reduction_shapes,
    reshaping_shapes,
    sampling_shapes,
    taking_shapes,
    window_shapes,
)


@cache
def _functions() -> dict[tuple[str, str], InferenceFunction]:
    return {
        key: function
        for module in _MODULES
        for key, function in inference_functions_of(module).items()
    }


def find_inference(domain: str, op_type: str) -> InferenceFunction | None:
    """Return the function for an operator; None if there is none."""
    return _functions().get((domain, op_type))
