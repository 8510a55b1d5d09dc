"""How exported models split heads: (batch, length, heads · size) ↔ (batch, heads, length, size)."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.engine.transformers.patterns import made_by, scaled
from ortpkg.engine.transformers.rewriting import constant_ints, known_shape, sole_consumer
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node

_HEADS_FIRST = (0, 2, 1, 3)
_HEADS_FIRST_TRANSPOSED = (0, 2, 3, 1)
_SWAP_LAST = (0, 1, 3, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """A value whose columns are heads.

    Attributes:
        value: of shape (batch, length, heads · size).
        factor: what it is multiplied with.
        nodes: all nodes between it and the value with the heads apart, the last one first.
    """

    value: str
    heads: int
    size: int
    factor: float
    nodes: list[Node]


def match_heads(graph: Graph, value: str, *, transposed: bool = False) -> Heads | None:
    """What ``value``, with heads split (and maybe swapped), was reshaped and transposed from."""
    value, factor, nodes = scaled(graph, value)
    transpose = made_by(graph, value, "Transpose")
    if transpose is None:
        return None
    nodes.append(transpose)
    if transposed and tuple(transpose.attribute("perm", ())) == _SWAP_LAST:
        inner, inner_factor, between = scaled(graph, transpose.inputs[0])
        factor *= inner_factor
        outer = made_by(graph, inner, "Transpose")
        if outer is None:
            return None
        transpose, transposed = outer, False
        nodes += [*between, outer]
    if tuple(transpose.attribute("perm", ())) != (
        _HEADS_FIRST_TRANSPOSED if transposed else _HEADS_FIRST
    ):
        return None
    apart, inner_factor, between = scaled(graph, transpose.inputs[0])
    reshape = made_by(graph, apart, "Reshape")
    if reshape is None:
        return None
    flat, outer_factor, behind = scaled(graph, reshape.inputs[0])
    shape = known_shape(graph, apart)
    if not _splits_columns(known_shape(graph, reshape.inputs[0]), shape) or shape is None:
        return None
    heads, size = shape[2], shape[3]
    assert isinstance(heads, int)
    assert isinstance(size, int)
    nodes += [*between, reshape, *behind]
    return Heads(
        value=flat, heads=heads, size=size, factor=factor * inner_factor * outer_factor, nodes=nodes
    )


def _splits_columns(flat: tuple[object, ...] | None, apart: tuple[object, ...] | None) -> bool:
    """Whether (batch, length, heads · size) becomes (batch, length, heads, size)."""
    if flat is None or apart is None or len(flat) != 3 or len(apart) != 4:
        return False
    heads, size = apart[2:]
    if not isinstance(heads, int) or not isinstance(size, int) or flat[2] != heads * size:
        return False
    return None not in flat and flat[:2] == apart[:2]


def match_joined_heads(
    graph: Graph, value: str, heads: int, size: int
) -> tuple[Node, Node | None] | None:
    """The transpose that brings the heads of ``value`` together, and the reshape that joins them.

    The reshape is None where it does more than join them: then it has to stay.
    """
    transpose = sole_consumer(graph, value)
    if transpose is None or transpose.domain != ONNX_DOMAIN or transpose.op_type != "Transpose":
        return None
    if tuple(transpose.attribute("perm", ())) != _HEADS_FIRST:
        return None
    reshape = sole_consumer(graph, transpose.outputs[0])
    if reshape is None or reshape.domain != ONNX_DOMAIN or reshape.op_type != "Reshape":
        return None
    apart, joined = known_shape(graph, transpose.outputs[0]), known_shape(graph, reshape.outputs[0])
    if apart is None or None in apart or len(apart) != 4 or apart[2:] != (heads, size):
        return None
    target = constant_ints(graph, reshape.inputs[1])
    surely = target is not None and _joins_columns(target, reshape, apart, heads * size)
    if surely or joined == (*apart[:2], heads * size):
        return transpose, reshape
    # Its target may not copy a dimension by position: there is one fewer of them then.
    return (transpose, None) if target is not None and 0 not in target else None


def _joins_columns(
    target: tuple[int, ...], reshape: Node, apart: tuple[object, ...], columns: int
) -> bool:
    """Whether a reshape of (batch, length, heads, size) surely gives (batch, length, columns).

    Inference finds no name for a length of -1 where the batch is copied, and a graph's output keeps
    its own.
    """
    if (
        len(target) != len(apart) - 1
        or target[2] != columns
        or (0 in target and reshape.attribute("allowzero", 0))
    ):
        return False
    return all(
        wanted in (0, -1) or wanted == own
        for wanted, own in zip(target[:2], apart[:2], strict=True)
    )


def fits_scores(mask: tuple[object, ...] | None, scores: tuple[object, ...] | None) -> bool:
    """Whether a mask of four dimensions surely broadcasts to the scores, all keys of it."""
    if mask is None or scores is None or len(mask) != 4 or len(scores) != 4:
        return False
    pairs = list(zip(mask, scores, strict=True))
    return all(own == 1 or _is_same(own, other) for own, other in pairs) and _is_same(*pairs[-1])


def _is_same(first: object, second: object) -> bool:
    return first is not None and first == second
