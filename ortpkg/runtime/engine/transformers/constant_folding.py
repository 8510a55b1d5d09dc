"""Compute nodes whose inputs are all constant once, instead of in each run."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.graph.graph import ML_DOMAIN, ONNX_DOMAIN, ArrayInitializer, Graph, Initializer, Node
from ortpkg.graph.load_control import load_control, poll_load
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import TensorType, element_type_of, numpy_dtype
from ortpkg.runtime.engine.kept_parts import part_nbytes
from ortpkg.runtime.engine.transformers.rewriting import tensor_type
from ortpkg.runtime.engine.transformers.transform_context import (
    GraphPass,
    TransformContext,
)

#: Operators that are no function of their inputs, or are left on purpose: providers look for
#: quantize/dequantize pairs, and a dequantized weight is four times as large.
_NEVER_FOLDED = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
    "Bernoulli", "Dropout", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
    "Constant",
})  # fmt: skip
_FREE_NBYTES = 1 << 20
_LARGEST_GROWTH = 2


def fold_nodes(
    graph: Graph, context: TransformContext, folds: Callable[[Node], bool], largest_growth: int
) -> int:
    """Replace nodes on constants by what they compute.

    Args:
        graph: graph to change.
        context: context that evaluates nodes, and decides which may change.
        folds: returns True for a node that is to be folded.
        largest_growth: factor by which a node's results may exceed the bytes of its inputs, past
            the first MiB.

    Returns:
        Number of nodes that were replaced.
    """
    if context.evaluate is None:
        return 0
    folded, left_nbytes = 0, _budget(graph)
    for index in topological_order(graph):
        poll_load()
        node = graph.node(index)
        if context.may_change(node) and folds(node):
            nbytes = _fold(graph, node, context, largest_growth, left_nbytes)
            if nbytes is not None:
                folded += 1
                left_nbytes -= nbytes
    return folded


def _budget(graph: Graph) -> float:
    """Return the bytes that folding may still make, so that constants keep to the memory limit."""
    control = load_control()
    if control is None or control.memory_limit_nbytes is None:
        return inf
    made = sum(
        initializer.nbytes
        for initializer in graph.initializers.values()
        if isinstance(initializer, ArrayInitializer)
    )
    return control.memory_limit_nbytes // 2 - made


def _fold(
    graph: Graph, node: Node, context: TransformContext, largest_growth: int, left_nbytes: float
) -> int | None:
    """Replace ``node`` by its results; return their size in bytes, or None if the node stays."""
    constants = _constant_inputs(graph, node)
    if constants is None or context.evaluate is None:
        return None
    input_nbytes = sum(constant.nbytes for constant in constants if constant is not None)
    limit_nbytes = min(
        max(largest_growth * input_nbytes, _FREE_NBYTES),
        context.largest_constant_nbytes,
        left_nbytes,
    )
    if any(_nbytes(tensor_type(graph, output)) > limit_nbytes for output in node.outputs if output):
        return None
    try:
        outputs = context.evaluate(
            graph, node, [None if constant is None else constant.numpy() for constant in constants]
        )
    except OrtpkgError:
        return None  # it fails at run time, with the node's name, if it ever runs
    if outputs is None or not _are_tensors(outputs):
        return None
    made_nbytes = sum(map(part_nbytes, outputs))
    if made_nbytes > limit_nbytes:
        return None
    graph.remove_node(node)
    for name, output in zip(node.outputs, outputs, strict=False):
        if name:
            _add(graph, name, output)
    return made_nbytes


def _constant_inputs(graph: Graph, node: Node) -> list[Initializer | None] | None:
    """Return the constant inputs, None for one left out; None if the node cannot be folded."""
    if node.domain not in (ONNX_DOMAIN, ML_DOMAIN) or node.subgraphs:
        return None
    if any(graph.is_output(output) for output in node.outputs):
        return None
    constants = [graph.constant(value) if value else None for value in node.inputs]
    if any(
        value and constant is None for value, constant in zip(node.inputs, constants, strict=True)
    ):
        return None
    return constants


def _nbytes(output_type: TensorType | None) -> int:
    """Return the size of an output in bytes before it is computed; 0 if it is not known."""
    if output_type is None or output_type.shape is None:
        return 0
    sizes = [dimension for dimension in output_type.shape if isinstance(dimension, int)]
    return (
        prod(sizes) * numpy_dtype(output_type.element_type).itemsize
        if len(sizes) == len(output_type.shape)
        else 0
    )


def _are_tensors(outputs: Any) -> bool:
    return all(isinstance(output, np.ndarray) for output in outputs)


def _add(graph: Graph, name: str, array: np.ndarray) -> None:
    array = np.array(array, order="C")  # a copy: an evaluator may return a view of an input
    array.flags.writeable = False
    element_type = element_type_of(array.dtype)
    graph.add_initializer(ArrayInitializer(name, array, element_type))
    graph.set_type(name, TensorType(element_type, array.shape))


def _run(graph: Graph, context: TransformContext) -> int:
    return fold_nodes(
        graph, context, lambda node: node.op_type not in _NEVER_FOLDED, _LARGEST_GROWTH
    )


CONSTANT_FOLDING = GraphPass(name="constant-folding", run=_run)
