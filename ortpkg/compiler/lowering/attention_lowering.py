"""Lowers attention of queries over keys and values: shared heads, masks and caches."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    identity_read,
    number,
)
from ortpkg.compiler.lowering.moving_lowering import write_piece
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Coordinate,
    Element,
    Function,
    Made,
    Position,
    Read,
    SizeValue,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Attention, Combiner, Reduce
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.size_operations import divide_exactly
from ortpkg.graph.types import ElementType

_HIDDEN = number(-math.inf, Scalar.F32)
#: Widest head, as in fusion; wider heads are left to other providers.
_MOST_WIDTH = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Queries, keys or values: (batch, heads, length, width), or with length before heads."""

    tensor: Tensor
    is_flat: bool

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        """Batch, heads, length and width."""
        batch, heads, length, width = self.tensor.shape
        return (batch, length, heads, width) if self.is_flat else (batch, heads, length, width)

    def coordinates(
        self, batch: Coordinate, head: Coordinate, row: Coordinate, column: Coordinate
    ) -> tuple[Coordinate, ...]:
        """Return the coordinates, in the order of the dimensions."""
        return (batch, row, head, column) if self.is_flat else (batch, head, row, column)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mask:
    """Mask of scores: hides keys from queries, or adds numbers to their scores.

    Attributes:
        tensor: booleans, or numbers to add, broadcast to batch, heads, queries, keys.
        valid: number of keys of each sequence in the batch.
        before, after: number of keys that a query sees before and after its own position; negative
            for
            all.
        offset: position of the first query among the keys, unless ``valid`` determines it.
        length: number of queries.
    """

    tensor: Tensor | None
    valid: Tensor | None
    before: int
    after: int
    offset: Size
    length: Size

    def applied(
        self, score: Element, batch: Coordinate, head: Coordinate, query: int, key: int
    ) -> Element:
        """Return the score of the query and key that axes count; -infinity if the key is hidden."""
        if self.tensor is not None:
            every = (batch, head, along(query), along(key))
            rank = len(self.tensor.shape)
            coordinates = tuple(
                Coordinate() if size == 1 and at < 3 else coordinate
                for at, coordinate, size in zip(
                    range(4 - rank, 4), every[4 - rank :], self.tensor.shape, strict=True
                )
            )
            read = Read(self.tensor, coordinates)
            if self.tensor.scalar is Scalar.BOOL:
                score = Call(Function.SELECT, (read, score, _HIDDEN))
            else:
                score = Call(Function.ADD, (score, read))
        for visible in self._visibilities(batch, query, key):
            score = Call(Function.SELECT, (visible, score, _HIDDEN))
        return score

    def _visibilities(self, batch: Coordinate, query: int, key: int) -> list[Element]:
        conditions: list[Element] = []
        offset: Element = SizeValue(self.offset)
        if self.valid is not None:
            count = Read(self.valid, (batch,))
            conditions.append(Call(Function.LT, (Position(key), count)))
            offset = Call(Function.SUB, (count, SizeValue(self.length)))
        position = Call(Function.ADD, (Position(query), offset))
        for function, sign, distance in (
            (Function.LE, 1, self.after), (Function.GE, -1, self.before),
        ):  # fmt: skip
            if distance >= 0:
                edge = Call(Function.ADD, (position, number(sign * distance, Scalar.I64)))
                conditions.append(Call(function, (Position(key), edge)))
        return conditions

    def check(self, scope: LoweringScope, sizes: tuple[Size, Size, Size, Size]) -> None:
        """Raise NotLoweredError if the mask may not fit scores of these sizes."""
        if self.valid is not None:
            scope.require_equal(self.valid.shape[0], sizes[0])
        if self.tensor is None:
            return
        if self.tensor.scalar not in {Scalar.BOOL, Scalar.F32}:
            raise NotLoweredError("its mask is neither of truth values nor of float32")
        *outer, keys = self.tensor.shape
        scope.require_equal(keys, sizes[3])
        for size, wide in zip(reversed(outer), reversed(sizes[:3]), strict=False):
            scope.is_repeated(size, wide)

    @property
    def may_hide_all(self) -> bool:
        """True if a query may see no key at all; its output is then 0."""
        return self.tensor is not None or self.valid is not None or self.before >= 0


@lowers("Attention")
def lower_attention(scope: LoweringScope, node: Node) -> None:
    """Lower ONNX's Attention with past and present keys, masks, causal order, shared heads."""
    names = [*node.inputs, *[""] * 7]
    precision = attribute(node, "softmax_precision", None)
    if any(node.outputs[3:4]):
        raise NotLoweredError("its output of scores is used")
    if precision not in (None, int(ElementType.FLOAT)):
        raise NotLoweredError("its softmax is not computed in float32")
    query = heads_of(scope, names[0], int(attribute(node, "q_num_heads", 0)))
    shared = int(attribute(node, "kv_num_heads", 0))
    key, past = _with_past(scope, node, heads_of(scope, names[1], shared), names[4], 1)
    value, _ = _with_past(scope, node, heads_of(scope, names[2], shared), names[5], 2)
    after = int(attribute(node, "right_window_size", -1))
    mask = _Mask(
        tensor=scope.tensor(names[3]) if names[3] else None,
        valid=_valid_counts(scope, names[6]),
        before=int(attribute(node, "left_window_size", -1)),
        after=0 if attribute(node, "is_causal", 0) else after,
        offset=past,
        length=query.sizes[2],
    )
    width = query.sizes[3]
    scale = attribute(node, "scale", None)
    if scale is None:
        if not isinstance(width, int):
            raise NotLoweredError("the width of its heads is known only when it runs")
        scale = 1 / math.sqrt(max(width, 1))
    cap = float(attribute(node, "softcap", 0.0))
    output = Heads(tensor=_output_view(scope, node, query, value), is_flat=query.is_flat)
    _attend(scope, (query, key, value), mask, (float(scale), cap), output)
    if query.is_flat:
        scope.alias(scope.tensor(node.outputs[0]), output.tensor)


def heads_of(scope: LoweringScope, name: str, count: Size) -> Heads:
    """Return a tensor of four dimensions, or of three whose last one holds ``count`` heads."""
    tensor = scope.tensor(name)
    if tensor.scalar is not Scalar.F32:
        raise NotLoweredError("it is compiled for float32 alone")
    if len(tensor.shape) == 4:
        return Heads(tensor=tensor, is_flat=False)
    batch, length, columns = tensor.shape
    width = divide_exactly(columns, count)
    if width is None:
        raise NotLoweredError("whether its heads divide an input is known only when it runs")
    view = scope.temporary(tensor.scalar, (batch, length, count, width), "heads")
    scope.alias(view, tensor)
    return Heads(tensor=view, is_flat=True)


def _with_past(
    scope: LoweringScope, node: Node, new: Heads, past_name: str, slot: int
) -> tuple[Heads, Size]:
    """Return keys or values appended to past ones, and the number of past ones.

    The joined tensor may be an output of the node.
    """
    is_output = any(node.outputs[slot : slot + 1])
    if not past_name and not is_output:
        return new, 0
    batch, heads, length, width = new.sizes
    past: Size = 0
    if past_name:
        old = scope.tensor(past_name)
        past = old.shape[2]
        for left, right in zip((batch, heads, width), (*old.shape[:2], old.shape[3]), strict=True):
            scope.require_equal(left, right)
    shape = (batch, heads, past + length, width)
    made = (
        scope.tensor(node.outputs[slot])
        if is_output
        else scope.temporary(new.tensor.scalar, shape, "present")
    )
    for left, right in zip(shape, made.shape, strict=True):
        scope.require_equal(left, right)
    if past_name:
        write_piece(scope, made, old.shape, identity_read(old), 2, 0)
    read = Read(new.tensor, new.coordinates(*map(along, range(4))))
    write_piece(scope, made, new.sizes, read, 2, past)
    return Heads(tensor=made, is_flat=False), past


def _valid_counts(scope: LoweringScope, name: str) -> Tensor | None:
    if not name:
        return None
    tensor = scope.tensor(name)
    if tensor.scalar is not Scalar.I64 or len(tensor.shape) != 1:
        raise NotLoweredError("its counts of keys are no vector of int64")
    return tensor


def _output_view(scope: LoweringScope, node: Node, query: Heads, value: Heads) -> Tensor:
    """Return the output with heads as a dimension of their own."""
    output = scope.tensor(node.outputs[0])
    if not query.is_flat:
        return output
    batch, heads, length, _ = query.sizes
    return scope.temporary(output.scalar, (batch, length, heads, value.sizes[3]), "output")


def _attend(
    scope: LoweringScope,
    sides: tuple[Heads, Heads, Heads],
    mask: _Mask,
    scaling: tuple[float, float],
    output: Heads,
) -> None:
    """Emit one attention.

    Args:
        scope: the partition.
        sides: queries, keys and values.
        mask: the mask of the scores.
        scaling: scale and soft cap of the scores.
        output: the heads to write.
    """
    query, key, value = sides
    batch, heads, length, width = query.sizes
    _, shared, total, key_width = key.sizes
    for left, right in (
        (width, key_width), (total, value.sizes[2]), (shared, value.sizes[1]),
        (batch, key.sizes[0]), (batch, value.sizes[0]),
    ):  # fmt: skip
        scope.require_equal(left, right)
    widths = (width, value.sizes[3])
    if not all(isinstance(size, int) and 0 < size <= _MOST_WIDTH for size in widths):
        raise NotLoweredError(f"the width of its heads is no number up to {_MOST_WIDTH}")
    per_key = divide_exactly(heads, shared)
    if not isinstance(per_key, int) or per_key < 1:
        raise NotLoweredError("how many heads share keys is known only when it runs")
    rank = 2 if per_key == 1 else 3
    head = along(1) if per_key == 1 else Coordinate(((1, per_key), (2, 1)))
    row, column = along(rank), along(rank + 1)
    mask.check(scope, (batch, heads, length, total))
    score = mask.applied(_scaled(scaling), along(0), head, rank, rank + 1)
    is_direct = not mask.may_hide_all
    made = output.tensor if is_direct else scope.temporary(Scalar.F32, output.tensor.shape, "made")
    scope.emit(
        Attention(
            output=made,
            batch=(batch, shared) if per_key == 1 else (batch, shared, per_key),
            queries=length,
            keys=total,
            width=width,
            value_width=value.sizes[3],
            query=Read(query.tensor, query.coordinates(along(0), head, row, column)),
            key=Read(key.tensor, key.coordinates(along(0), along(1), row, column)),
            value=Read(value.tensor, value.coordinates(along(0), along(1), row, column)),
            score=None if isinstance(score, Made) else score,
            coordinates=output.coordinates(along(0), head, row, column),
        )
    )
    if not is_direct:
        _write_zero_if_all_hidden(scope, made, mask, output, (batch, heads, length, total))


def _scaled(scaling: tuple[float, float]) -> Element:
    scale, cap = scaling
    score: Element = Made(Scalar.F32)
    if scale != 1:
        score = Call(Function.MUL, (score, number(scale, Scalar.F32)))
    if cap > 0:
        inner = Call(Function.DIV, (score, number(cap, Scalar.F32)))
        score = Call(Function.MUL, (Call(Function.TANH, (inner,)), number(cap, Scalar.F32)))
    return score


def _write_zero_if_all_hidden(
    scope: LoweringScope,
    made: Tensor,
    mask: _Mask,
    output: Heads,
    sizes: tuple[Size, Size, Size, Size],
) -> None:
    """Write 0 for queries that see no key, for which the attention computes NaN."""
    *outer, total = sizes
    shape = [1, 1] if mask.tensor is None else [*[1] * 4, *mask.tensor.shape][-4:-2]
    axes = [size if mask_size != 1 else 1 for mask_size, size in zip(shape, outer[:2], strict=True)]
    if mask.valid is not None:
        axes[0] = outer[0]
    coordinates = [Coordinate() if size == 1 else along(at) for at, size in enumerate(axes)]
    bias = mask.applied(number(0, Scalar.F32), coordinates[0], coordinates[1], 2, 3)
    largest = scope.temporary(Scalar.F32, (*axes, outer[2]), "largest")
    scope.emit(
        Reduce(
            output=largest, axes=largest.shape, reduced=(total,), combiner=Combiner.MAX, value=bias
        )
    )
    head, row = (2, 1) if output.is_flat else (1, 2)
    at = [
        Coordinate() if size == 1 else along(axis)
        for size, axis in zip(axes, (0, head), strict=True)
    ]
    sees_nothing = Call(Function.EQ, (Read(largest, (*at, along(row))), _HIDDEN))
    kept_value = Call(Function.SELECT, (sees_nothing, number(0, Scalar.F32), identity_read(made)))
    scope.map(output.tensor, kept_value)
