"""Moves an activation, and a residual before it, into com.microsoft's fused ``Conv`` or ``Gemm``.

Source: ContribOperators.md of ONNX Runtime, FusedConv (``activation_params``, fourth input Z) and
FusedGemm (``activation_alpha``, ``activation_beta``). Done only where the node's provider has a
kernel for the fused node. Ours know a few activations more than onnxruntime's, which refuses a
model with one of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.engine.transformers.activation_parameters import PARAMETERS, activation_parameters
from ortpkg.engine.transformers.patterns import fuse, has_kernel, may_fuse, number, same_shape
from ortpkg.engine.transformers.rewriting import known_shape, sole_consumed_producer, tensor_type
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import Attribute, Graph, Node

#: Activations that onnxruntime 1.31 refuses in the fused nodes.
_OURS_ALONE = {
    "FusedConv": frozenset({"QuickGelu"}),
    "FusedGemm": frozenset({"Clip", "HardSwish", "QuickGelu"}),
}


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    if (node.domain, node.op_type) not in PARAMETERS:
        return False
    parameters = activation_parameters(graph, node)
    if parameters is None:
        return False
    activation = node.op_type.encode()
    producer = sole_consumed_producer(graph, node.inputs[0], "Conv", "Gemm")
    if producer is not None:
        op_type = f"Fused{producer.op_type}"
        if context.only_portable and node.op_type in _OURS_ALONE[op_type]:
            return False
        attributes = {
            "activation": Attribute("STRING", activation),
            **_parameter_attributes(op_type, parameters),
        }
        return _fuse(graph, [producer, node], op_type, producer.inputs, attributes, context)
    addition = sole_consumed_producer(graph, node.inputs[0], "Add")
    if addition is None or (context.only_portable and node.op_type in _OURS_ALONE["FusedConv"]):
        return False
    attributes = {
        "activation": Attribute("STRING", activation),
        **_parameter_attributes("FusedConv", parameters),
    }
    return _fuse_residual(graph, addition, [node], attributes, context)


def _rewrite_addition(graph: Graph, node: Node, context: TransformContext) -> bool:
    return _fuse_residual(graph, node, [], {}, context)


def _fuse_residual(
    graph: Graph,
    addition: Node,
    behind: Sequence[Node],
    attributes: dict[str, Attribute],
    context: TransformContext,
) -> bool:
    """Conv + residual, and the activation ``behind``.

    The residual must have the convolution's shape.
    """
    for slot in (0, 1):
        conv = sole_consumed_producer(graph, addition.inputs[slot], "Conv")
        residual = addition.inputs[1 - slot]
        if conv is None or not same_shape(
            known_shape(graph, addition.inputs[slot]), known_shape(graph, residual)
        ):
            continue
        inputs = (*(*conv.inputs, "", "")[:3], residual)
        if _fuse(graph, [conv, addition, *behind], "FusedConv", inputs, attributes, context):
            return True
    return False


def _fuse(
    graph: Graph,
    nodes: list[Node],
    op_type: str,
    inputs: Sequence[str],
    attributes: dict[str, Attribute],
    context: TransformContext,
) -> bool:
    result = tensor_type(graph, nodes[-1].outputs[0])
    if result is None or not may_fuse(graph, nodes, context):
        return False
    attributes = {**nodes[0].attributes, **attributes}
    if not has_kernel(
        graph, context, nodes[-1], op_type, result.element_type, attributes=attributes
    ):
        return False
    return fuse(graph, nodes, op_type, inputs, attributes=attributes)


def _parameter_attributes(op_type: str, parameters: tuple[float, ...]) -> dict[str, Attribute]:
    if op_type == "FusedConv":
        return {"activation_params": Attribute("FLOATS", parameters)} if parameters else {}
    names = ("activation_alpha", "activation_beta")
    return {name: number(value) for name, value in zip(names, parameters, strict=False)}


ACTIVATION_FUSION = RewriteRule(
    name="activation-fusion",
    op_types=frozenset(op_type for _, op_type in PARAMETERS),
    rewrite=_rewrite,
    domains=frozenset(domain for domain, _ in PARAMETERS),
)
#: Comes after the activations, which take a residual along.
RESIDUAL_FUSION = RewriteRule(
    name="residual-fusion", op_types=frozenset({"Add"}), rewrite=_rewrite_addition
)
