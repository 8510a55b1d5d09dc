"""The constant parameters of activations, in the order of com.microsoft's fused nodes."""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.engine.transformers.rewriting import constant_array
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Graph, Node

#: (domain, activation) → its parameters with their defaults.
PARAMETERS: Mapping[tuple[str, str], Mapping[str, float]] = {
    (ONNX_DOMAIN, "Relu"): {},
    (ONNX_DOMAIN, "Sigmoid"): {},
    (ONNX_DOMAIN, "Tanh"): {},
    (ONNX_DOMAIN, "LeakyRelu"): {"alpha": 0.01},
    (ONNX_DOMAIN, "HardSigmoid"): {"alpha": 0.2, "beta": 0.5},
    (ONNX_DOMAIN, "HardSwish"): {},
    (ONNX_DOMAIN, "Clip"): {},
    (MICROSOFT_DOMAIN, "QuickGelu"): {"alpha": 1.702},
}
_LOWEST, _HIGHEST = float("-inf"), float("inf")
_FIRST_CLIP_VERSION_WITH_INPUTS = 11


def activation_parameters(graph: Graph, node: Node) -> tuple[float, ...] | None:
    """The parameters of an activation of :data:`PARAMETERS`; None where they are not constant."""
    if node.op_type == "Clip":
        return _clip_bounds(graph, node)
    defaults = PARAMETERS[node.domain, node.op_type]
    return tuple(node.attribute(name, default) for name, default in defaults.items())


def _clip_bounds(graph: Graph, node: Node) -> tuple[float, ...] | None:
    if node.since_version < _FIRST_CLIP_VERSION_WITH_INPUTS:
        return node.attribute("min", _LOWEST), node.attribute("max", _HIGHEST)
    bounds = []
    for value, default in zip((*node.inputs[1:], "", "")[:2], (_LOWEST, _HIGHEST), strict=True):
        constant = constant_array(graph, value, largest_nbytes=64)
        if value and (constant is None or constant.size != 1):
            return None
        bounds.append(default if constant is None else float(constant.reshape(-1)[0]))
    return tuple(bounds)
