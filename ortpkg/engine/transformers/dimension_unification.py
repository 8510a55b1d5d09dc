"""Dimensions that a ``Reshape`` only carries over get the name that they have before it.

Inference makes up a new name for what a target of -1 leaves open. Where both sides differ in one name only and all else
multiplies to the same, it is the old dimension, and rules that ask whether shapes agree can see that they do. What is
then known of sums and products of such values, whose dimensions inference had to leave open, is filled in behind. The
names of the graph's own inputs and outputs stay.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from ortpkg.engine.transformers.rewriting import known_shape
from ortpkg.engine.transformers.transform_context import GraphPass, TransformContext
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import Shape, TensorType

_ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div", "Pow"})
_LIKE_THEIR_INPUT = frozenset({
    "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "Softmax", "Erf", "Tanh", "Sigmoid",
    "Relu", "Gelu", "Sqrt", "Neg", "Cast", "Identity", "Clip", "LeakyRelu", "HardSigmoid", "HardSwish", "Swish",
})  # fmt: skip
_MATRIX_RANK = 2


def _run(graph: Graph, _context: TransformContext) -> int:
    kept = {name for value in graph.inputs for name in known_shape(graph, value) or () if isinstance(name, str)}
    renamed: dict[str, str] = {}
    changes = 0
    for index in topological_order(graph):
        node = graph.node(index)
        if node.domain != ONNX_DOMAIN or not node.outputs:
            continue
        after = known_shape(graph, node.outputs[0])
        if after is None:
            continue
        before = [_named(known_shape(graph, value), renamed) for value in node.inputs if value]
        if node.op_type == "Reshape":
            pair = _carried_over(before[0], _named(after, renamed))
            if pair is not None and pair[1] not in kept:
                renamed[pair[1]] = pair[0]
            continue
        expected = _expected(node, before)
        if expected is None or len(expected) != len(after):
            continue
        pairs = zip(expected, _named(after, renamed) or (), strict=True)
        renamed |= {
            mine: size
            for size, mine in pairs
            if isinstance(size, str) and isinstance(mine, str) and mine != size and mine not in kept
        }
        filled = tuple(size if mine is None else mine for size, mine in zip(expected, after, strict=True))
        changes += _set_shape(graph, node.outputs[0], filled)
    if renamed:
        for value in list(graph.types):
            changes += _set_shape(graph, value, _named(known_shape(graph, value), renamed))
    return changes


def _set_shape(graph: Graph, value: str, shape: Shape | None) -> bool:
    known = graph.types.get(value)
    if not isinstance(known, TensorType) or shape is None or known.shape == shape or graph.is_output(value):
        return False
    graph.set_type(value, TensorType(known.element_type, shape))
    return True


def _expected(node: Node, before: list[Shape | None]) -> Shape | None:
    """The shape of the node's output from those of its inputs, None for what is open."""
    if not before or before[0] is None:
        return None
    first = before[0]
    if node.op_type in _LIKE_THEIR_INPUT:
        return first
    second = before[1] if len(before) > 1 else None
    if second is None:
        return None
    if node.op_type == "MatMul" and len(second) == _MATRIX_RANK <= len(first):
        return (*first[:-1], second[-1])
    if node.op_type not in _ELEMENTWISE:
        return None
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (first, second)]
    return tuple(
        mine if mine == its or its == 1 else its if mine == 1 else None for mine, its in zip(*padded, strict=True)
    )


def _named(shape: Shape | None, renamed: dict[str, str]) -> Shape | None:
    return None if shape is None else _with_names(shape, renamed)


def _with_names(shape: Shape, renamed: dict[str, str]) -> Shape:
    return tuple(renamed.get(size, size) if isinstance(size, str) else size for size in shape)


def _carried_over(before: Shape | None, after: Shape | None) -> tuple[str, str] | None:
    """The name before and the other one behind, where nothing else differs; None where there is no such pair."""
    if before is None or after is None or None in before or None in after or 0 in before or 0 in after:
        return None
    names = [Counter(size for size in side if isinstance(size, str)) for side in (before, after)]
    numbers = [prod(size for size in side if isinstance(size, int)) for side in (before, after)]
    left, right = list((names[0] - names[1]).elements()), list((names[1] - names[0]).elements())
    if len(left) != 1 or len(right) != 1 or numbers[0] != numbers[1]:
        return None
    return left[0], right[0]


DIMENSION_UNIFICATION = GraphPass(name="dimension-unification", run=_run)
