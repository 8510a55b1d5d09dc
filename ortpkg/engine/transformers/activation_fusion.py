"""An activation behind ``Conv`` or ``Gemm``, and a residual added between, move into the com.microsoft fused node.

Source: ContribOperators.md of ONNX Runtime, FusedConv (``activation_params``, fourth input Z) and FusedGemm
(``activation_alpha``, ``activation_beta``). Done only where the node's provider has a kernel for the fused node.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.engine.transformers.rewriting import (
    constant_array,
    replace_nodes,
    same_provider,
    sole_consumed_producer,
    tensor_type,
)
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, Attribute, Graph, Node
from ortpkg.graph.types import ElementType

#: Activation → its parameters with ONNX's defaults, in the order of the fused node's.
_PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "LeakyRelu": {"alpha": 0.01},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "Clip": {},
}
_LOWEST, _HIGHEST = float("-inf"), float("inf")
_FIRST_CLIP_VERSION_WITH_INPUTS = 11


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    parameters = _activation_parameters(graph, node)
    if parameters is None:
        return False
    producer = sole_consumed_producer(graph, node.inputs[0], "Conv", "Gemm")
    if producer is not None:
        return _fuse(graph, [producer, node], producer.inputs, parameters, context)
    addition = sole_consumed_producer(graph, node.inputs[0], "Add")
    if addition is None:
        return False
    return any(_fuse_residual(graph, addition, slot, node, parameters, context) for slot in (0, 1))


def _fuse_residual(
    graph: Graph, addition: Node, slot: int, node: Node, parameters: tuple[float, ...], context: TransformContext
) -> bool:
    """Conv + residual + activation; the residual must have the convolution's shape."""
    conv = sole_consumed_producer(graph, addition.inputs[slot], "Conv")
    residual = addition.inputs[1 - slot]
    mine, other = tensor_type(graph, addition.inputs[slot]), tensor_type(graph, residual)
    if conv is None or mine is None or mine.shape is None or None in mine.shape or mine != other:
        return False
    inputs = (*conv.inputs, "", "")[:3]
    return _fuse(graph, [conv, addition, node], (*inputs, residual), parameters, context)


def _fuse(
    graph: Graph, nodes: list[Node], inputs: tuple[str, ...], parameters: tuple[float, ...], context: TransformContext
) -> bool:
    first, last = nodes[0], nodes[-1]
    result = tensor_type(graph, last.outputs[0])
    if result is None or not same_provider(*nodes) or not all(context.may_change(node) for node in nodes):
        return False
    op_type = f"Fused{first.op_type}"
    attributes = {
        **first.attributes,
        "activation": Attribute("STRING", last.op_type.encode()),
        **_parameter_attributes(op_type, parameters),
    }
    if not _has_kernel(op_type, last, attributes, result.element_type, context):
        return False
    replace_nodes(graph, nodes, op_type, inputs, domain=MICROSOFT_DOMAIN, attributes=attributes)
    return True


def _has_kernel(
    op_type: str, node: Node, attributes: Mapping[str, Attribute], element_type: ElementType, context: TransformContext
) -> bool:
    candidate = Node(
        index=-1,
        name=node.name,
        op_type=op_type,
        domain=MICROSOFT_DOMAIN,
        inputs=(),
        outputs=(),
        attributes=attributes,
        since_version=1,
        execution_provider=node.execution_provider,
    )
    return context.kernel_exists(candidate, {"T": element_type})


def _parameter_attributes(op_type: str, parameters: tuple[float, ...]) -> dict[str, Attribute]:
    if op_type == "FusedConv":
        return {"activation_params": Attribute("FLOATS", parameters)} if parameters else {}
    names = ("activation_alpha", "activation_beta")
    return {name: Attribute("FLOAT", value) for name, value in zip(names, parameters, strict=False)}


def _activation_parameters(graph: Graph, node: Node) -> tuple[float, ...] | None:
    """The activation's parameters; None where they are not constant."""
    if node.op_type == "Clip":
        return _clip_bounds(graph, node)
    return tuple(node.attribute(name, default) for name, default in _PARAMETERS[node.op_type].items())


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


ACTIVATION_FUSION = RewriteRule(name="activation-fusion", op_types=frozenset(_PARAMETERS), rewrite=_rewrite)
