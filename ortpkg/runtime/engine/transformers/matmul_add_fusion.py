"""Fuse a ``MatMul`` of two matrices and the ``Add`` behind it into one ``Gemm``."""

from __future__ import annotations

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import Dimension, ElementType
from ortpkg.runtime.engine.transformers.rewriting import (
    known_shape,
    replace_nodes,
    same_provider,
    sole_consumed_producer,
    tensor_type,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_OPSET_WITH_BROADCASTING_GEMM = 7
_MATRIX_RANK = 2
_TYPES = frozenset(
    {ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16, ElementType.BFLOAT16}
)


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    if node.since_version < _FIRST_OPSET_WITH_BROADCASTING_GEMM:
        return False
    return any(_fuse(graph, node, slot) for slot in (0, 1))


def _fuse(graph: Graph, node: Node, slot: int) -> bool:
    product = sole_consumed_producer(graph, node.inputs[slot], "MatMul")
    if product is None or not same_provider(product, node):
        return False
    left, right = (known_shape(graph, value) for value in product.inputs)
    result, addend = tensor_type(graph, node.outputs[0]), known_shape(graph, node.inputs[1 - slot])
    if (
        left is None
        or right is None
        or result is None
        or addend is None
        or result.element_type not in _TYPES
    ):
        return False
    if (
        len(left) != _MATRIX_RANK
        or len(right) != _MATRIX_RANK
        or not _broadcasts(addend, (left[0], right[1]))
    ):
        return False
    replace_nodes(graph, [product, node], "Gemm", (*product.inputs, node.inputs[1 - slot]))
    return True


def _broadcasts(addend: tuple[Dimension, ...], result: tuple[Dimension, Dimension]) -> bool:
    """Return True if ``addend`` surely broadcasts to the product's shape without enlarging it."""
    if len(addend) > _MATRIX_RANK:
        return False
    aligned = result[_MATRIX_RANK - len(addend) :]
    return all(
        size == 1 or (size is not None and size == most)
        for size, most in zip(addend, aligned, strict=True)
    )


MATMUL_ADD_FUSION = RewriteRule(
    name="matmul-add-fusion", op_types=frozenset({"Add"}), rewrite=_rewrite
)
