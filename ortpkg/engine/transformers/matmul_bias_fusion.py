"""A product of stacked rows with a matrix, and a bias row, becomes Gemm between reshapes.

The reshapes are aliases and cost nothing; what it buys is Gemm's bias, and the activation that
fuses with it. Runs after the fusions that take a bias along by themselves.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ortpkg.engine.transformers.norm_patterns import as_row, row_parameter
from ortpkg.engine.transformers.patterns import may_fuse
from ortpkg.engine.transformers.rewriting import (
    add_constant,
    known_shape,
    replace_nodes,
    sole_consumed_producer,
    tensor_type,
)
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.types import Dimension, ElementType, Shape, TensorType

_FIRST_OPSET_WITH_BROADCASTING_GEMM = 7
_MATRIX_RANK = 2
_TYPES = frozenset(
    {ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16, ElementType.BFLOAT16}
)


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    if node.since_version < _FIRST_OPSET_WITH_BROADCASTING_GEMM:
        return False
    known = tensor_type(graph, node.outputs[0])
    if known is None or known.shape is None or known.element_type not in _TYPES:
        return False
    target = reshape_target(known.shape)
    found = row_parameter(graph, node, "Add", node.outputs[0])
    if target is None or found is None:
        return False
    for value in node.inputs:
        product = sole_consumed_producer(graph, value, "MatMul")
        if product is None or not may_fuse(graph, [product, node], context):
            continue
        left, right = (known_shape(graph, name) for name in product.inputs)
        if left is None or right is None or len(left) <= _MATRIX_RANK or len(right) != _MATRIX_RANK:
            continue
        if (*left[:-1], right[1]) != known.shape or not isinstance(right[0], int):
            continue
        _fuse(graph, product, node, as_row(graph, found[1]), target)
        return True
    return False


def reshape_target(shape: Shape) -> tuple[int, ...] | None:
    """What Reshape makes ``shape`` of with at most one dimension left to it.

    None where more are unknown.
    """
    unknown = [size for size in shape if not isinstance(size, int)]
    if len(unknown) > 1 or 0 in shape:
        return None
    return tuple(size if isinstance(size, int) else -1 for size in shape)


def _fuse(graph: Graph, product: Node, node: Node, bias: str, target: tuple[int, ...]) -> None:
    x, weight = product.inputs
    known = tensor_type(graph, node.outputs[0])
    columns = known_shape(graph, weight)
    assert known is not None
    assert columns is not None
    count: Dimension = prod(target[:-1]) if -1 not in target else None
    flat = _reshape(
        graph, node, x, (-1, columns[0]), TensorType(known.element_type, (count, columns[0]))
    )
    rows = graph.make_name(f"{node.outputs[0]}_rows")
    graph.set_type(rows, TensorType(known.element_type, (count, columns[1])))
    output = node.outputs[0]
    replace_nodes(graph, [product, node], "Gemm", [flat, weight, bias], outputs=[rows])
    _reshape(graph, node, rows, target, known, output=output)


def _reshape(
    graph: Graph,
    beside: Node,
    value: str,
    target: tuple[Dimension, ...],
    made: TensorType,
    *,
    output: str = "",
) -> str:
    name = output or graph.make_name(f"{value}_rows")
    shape = add_constant(graph, f"{name}_shape", np.array(target, np.int64))
    graph.set_type(name, made)
    graph.add_node(
        "Reshape",
        [value, shape],
        [name],
        since_version=resolve_since_version(
            ONNX_DOMAIN, "Reshape", graph.opset_imports[ONNX_DOMAIN]
        ),
        execution_provider=beside.execution_provider,
        at=beside,
    )
    return name


MATMUL_BIAS_FUSION = RewriteRule(
    name="matmul-bias-fusion", op_types=frozenset({"Add"}), rewrite=_rewrite
)
