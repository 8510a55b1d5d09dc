"""MultiHeadAttention on projections of one input becomes com.microsoft's Attention.

The three constant weights are packed side by side, biases too, so that one matrix product makes all
three. A projection that is packed already and split (GPT-2) is taken as it is. Where there are no
biases, zeros are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ortpkg.engine.transformers.norm_patterns import as_row, row_parameter
from ortpkg.engine.transformers.patterns import has_kernel, made_by, may_fuse
from ortpkg.engine.transformers.rewriting import (
    add_constant,
    constant_array,
    known_shape,
    replace_nodes,
    sole_consumed_producer,
    tensor_type,
)
from ortpkg.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Attribute, Graph, Node
from ortpkg.graph.types import numpy_dtype

_BIAS, _MASK, _ATTENTION_BIAS = 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Projection:
    """x · weight + bias ("" for none): the values, and the nodes that make it."""

    x: str
    weight: str
    bias: str
    nodes: list[Node]


def _rewrite(graph: Graph, node: Node, context: TransformContext) -> bool:
    names = (*node.inputs, *[""] * 6)[:6]
    if (
        len(node.inputs) > len(names)
        or len(node.outputs) > 1
        or names[_BIAS]
        or names[_MASK]
        or not all(names[:3])
    ):
        return False
    known = tensor_type(graph, names[0])
    if known is None or not has_kernel(graph, context, node, "Attention", known.element_type):
        return False
    return _fuse_split(graph, node, names, context) or _fuse_three(graph, node, names, context)


# --- three projections ----------------------------------------------------------------------------


def _fuse_three(
    graph: Graph, node: Node, names: tuple[str, ...], context: TransformContext
) -> bool:
    parts = [_projection(graph, name) for name in names[:3]]
    known = [part for part in parts if part is not None]
    if (
        len(known) < len(parts)
        or len({part.x for part in known}) > 1
        or len(set(names[:3])) < len(parts)
    ):
        return False
    nodes = [*(inner for part in known for inner in part.nodes), node]
    weights = [
        constant_array(graph, part.weight, largest_nbytes=context.largest_constant_nbytes)
        for part in known
    ]
    biases = [
        constant_array(graph, part.bias, largest_nbytes=context.largest_constant_nbytes)
        for part in known
    ]
    arrays = [weight for weight in weights if weight is not None]
    if len(arrays) < len(weights) or any(
        part.bias and bias is None for part, bias in zip(known, biases, strict=True)
    ):
        return False
    # A weight without rows takes nothing, and may have any number of columns.
    nbytes = sum(max(array.shape[0], 1) * array.shape[1] * array.itemsize for array in arrays)
    if nbytes > context.largest_constant_nbytes or not may_fuse(graph, nodes, context):
        return False
    packed = add_constant(graph, f"{known[0].weight}_qkv", np.concatenate(arrays, axis=1))
    rows = [
        np.zeros(weight.shape[1], weight.dtype) if bias is None else bias.reshape(-1)
        for weight, bias in zip(arrays, biases, strict=True)
    ]
    bias = add_constant(graph, f"{known[0].weight}_qkv_bias", np.concatenate(rows))
    widths = tuple(array.shape[1] for array in arrays)
    _replace(graph, nodes, node, [known[0].x, packed, bias], names, widths)
    return True


def _projection(graph: Graph, value: str) -> _Projection | None:
    """``value`` as a product with a constant matrix, of three dimensions, used once."""
    addition = sole_consumed_producer(graph, value, "Add")
    found = None if addition is None else row_parameter(graph, addition, "Add", value)
    if addition is not None and found is not None:
        product = next(
            (
                name
                for name in addition.inputs
                if known_shape(graph, name) == known_shape(graph, value)
            ),
            "",
        )
        inner = _projection(graph, product) if product else None
        if inner is None or inner.bias:
            return None
        return _Projection(
            x=inner.x, weight=inner.weight, bias=found[1], nodes=[*inner.nodes, addition]
        )
    node = sole_consumed_producer(graph, value, "MatMul")
    if node is None:
        return None
    shape, weight = known_shape(graph, node.inputs[0]), known_shape(graph, node.inputs[1])
    if shape is None or len(shape) != 3 or weight is None or len(weight) != 2:
        return None
    return _Projection(x=node.inputs[0], weight=node.inputs[1], bias="", nodes=[node])


# --- one projection, split ------------------------------------------------------------------------


def _fuse_split(
    graph: Graph, node: Node, names: tuple[str, ...], context: TransformContext
) -> bool:
    split = graph.producer_of(names[0])
    if (
        split is None
        or split.domain != ONNX_DOMAIN
        or split.op_type != "Split"
        or split.outputs != names[:3]
    ):
        return False
    shape = known_shape(graph, split.inputs[0])
    widths = tuple((known_shape(graph, name) or (None,))[-1] for name in names[:3])
    if shape is None or len(shape) != 3 or split.attribute("axis", 0) not in (-1, 2):
        return False
    if not all(isinstance(width, int) for width in widths):
        return False
    projection = _projection(graph, split.inputs[0]) or _flat_projection(graph, split.inputs[0])
    if projection is None or not graph.is_constant(projection.weight):
        return False
    nodes = [*projection.nodes, split, node]
    if not may_fuse(graph, nodes, context):
        return False
    sizes = tuple(width for width in widths if isinstance(width, int))
    if projection.bias:
        bias = as_row(graph, projection.bias)
    else:
        bias = _no_bias(graph, projection.weight, sum(sizes), context)
    if not bias:
        return False
    _replace(graph, nodes, node, [projection.x, projection.weight, bias], names, sizes)
    return True


def _no_bias(graph: Graph, weight: str, columns: int, context: TransformContext) -> str:
    """A new constant of zeros, as onnxruntime's CPU kernel of Attention crashes without a bias.

    "" where that would be larger than a transformer may make it.
    """
    known = tensor_type(graph, weight)
    if known is None:
        return ""
    dtype = numpy_dtype(known.element_type)
    if columns * dtype.itemsize > context.largest_constant_nbytes:
        return ""
    return add_constant(graph, f"{weight}_bias", np.zeros(columns, dtype))


def _flat_projection(graph: Graph, value: str) -> _Projection | None:
    """A Gemm on the rows of a tensor of three dimensions, between two reshapes."""
    outer = sole_consumed_producer(graph, value, "Reshape")
    gemm = None if outer is None else sole_consumed_producer(graph, outer.inputs[0], "Gemm")
    inner = None if gemm is None else made_by(graph, gemm.inputs[0], "Reshape")
    if outer is None or gemm is None or inner is None:
        return None
    attributes = [
        gemm.attribute(name, default) for name, default in (("alpha", 1.0), ("beta", 1.0))
    ]
    if attributes != [1.0, 1.0] or gemm.attribute("transA", 0) or gemm.attribute("transB", 0):
        return None
    x, rows, result = (
        known_shape(graph, name) for name in (inner.inputs[0], inner.outputs[0], value)
    )
    if x is None or rows is None or result is None or len(x) != 3 or len(rows) != 2 or None in x:
        return None
    if x[-1] != rows[-1] or len(result) != 3 or result[:2] != x[:2]:
        return None
    bias = gemm.inputs[2] if len(gemm.inputs) > 2 else ""
    columns = known_shape(graph, gemm.inputs[1])
    if bias and (columns is None or known_shape(graph, bias) != columns[1:]):
        return None
    # The inner reshape may have other uses; without any it is removed with what nobody uses.
    return _Projection(x=inner.inputs[0], weight=gemm.inputs[1], bias=bias, nodes=[gemm, outer])


def _replace(
    graph: Graph,
    nodes: list[Node],
    node: Node,
    inputs: list[str],
    names: tuple[str, ...],
    widths: tuple[int, ...],
) -> None:
    inputs = [*inputs, "", "", names[_ATTENTION_BIAS]]
    while not inputs[-1]:
        inputs.pop()
    attributes = {**node.attributes, "qkv_hidden_sizes": Attribute("INTS", widths)}
    replace_nodes(graph, nodes, "Attention", inputs, domain=MICROSOFT_DOMAIN, attributes=attributes)


PACKED_ATTENTION_FUSION = RewriteRule(
    name="packed-attention-fusion",
    op_types=frozenset({"MultiHeadAttention"}),
    rewrite=_rewrite,
    domains=frozenset({MICROSOFT_DOMAIN}),
)
