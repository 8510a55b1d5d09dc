"""Replaces two products with a softmax between them by one attention.

The first product's epilogue and the expression of the softmax become the attention's score: scaling
and mask, however the model expresses them. A following map that only permutes dimensions, such as
the one that joins heads, becomes the coordinates of the output.

In an attention of 16-bit floats, probabilities are not rounded to 16 bits before they are
multiplied.
"""

from __future__ import annotations

from dataclasses import replace

from ortpkg.compiler.fusion.inlining import is_whole_map
from ortpkg.compiler.fusion.substitution import is_identity, moved, replace_reads
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Convert,
    Coordinate,
    Element,
    Made,
    Read,
    Tensor,
    along,
    parts_of,
    scalar_of,
    tensors_read,
)
from ortpkg.compiler.tensor_ir.operations import (
    Attention,
    Operation,
    Product,
    RowFunction,
    RowNormalize,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, reads_of

#: Widest head; a block of wider heads does not fit a core's own cache.
_MOST_WIDTH = 512
_MOST_PARTS = 96
_FLOATS = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})


def fuse_attention(program: TensorProgram) -> TensorProgram:
    """Return the program with an attention for each softmax between two products.

    The softmax stays if another operation, or an output of the program, reads a tensor in between,
    or if a head's width is not a known number.
    """
    neighbours = _Neighbours(program)
    fused: dict[int, Attention] = {}
    removed: set[int] = set()
    for index, operation in enumerate(program.operations):
        if isinstance(operation, RowNormalize):
            fusion = _attention(neighbours, operation)
            if fusion is not None:
                attention, parts = fusion
                fused[max(parts)] = attention
                removed.update({index, *parts})
    operations = tuple(
        fused.get(index, operation)
        for index, operation in enumerate(program.operations)
        if index in fused or index not in removed
    )
    return replace(program, operations=operations)


class _Neighbours:
    """Sole writers and sole readers of tensors."""

    def __init__(self, program: TensorProgram) -> None:
        self._operations = program.operations
        self._external = {*program.outputs, *program.inputs, *program.constants}
        self._writers: dict[Tensor, list[int]] = {}
        self._readers: dict[Tensor, list[int]] = {}
        for index, operation in enumerate(program.operations):
            self._writers.setdefault(operation.output, []).append(index)
            for tensor in reads_of(operation):
                self._readers.setdefault(tensor, []).append(index)

    def maker(self, tensor: Tensor) -> tuple[int, Operation] | None:
        """Return the operation that makes a tensor with a single writer and a single reader."""
        makers, readers = self._writers.get(tensor, []), self._readers.get(tensor, [])
        if len(makers) != 1 or len(readers) != 1 or tensor in self._external:
            return None
        return makers[0], self._operations[makers[0]]

    def reader(self, tensor: Tensor) -> tuple[int, Operation] | None:
        """Return the operation that reads a tensor with a single writer and a single reader."""
        if self.maker(tensor) is None:
            return None
        (reader,) = self._readers[tensor]
        return reader, self._operations[reader]


def _attention(
    neighbours: _Neighbours, softmax: RowNormalize
) -> tuple[Attention, list[int]] | None:
    """Return the attention around a softmax, and the indices of the operations it replaces."""
    if softmax.function is not RowFunction.SOFTMAX or any(softmax.statistics):
        return None
    if not _is_made(softmax.epilogue):
        return None
    scores = _scores(neighbours, softmax)
    taking = neighbours.reader(softmax.output)
    if scores is None or taking is None:
        return None
    score_index, product, score = scores
    index, second = taking
    if not isinstance(second, Product) or not _takes_probabilities(second, softmax, product):
        return None
    output, coordinates = second.output, tuple(map(along, range(len(second.output.shape))))
    parts = [score_index, index]
    permuted = _permuted(neighbours, second.output)
    if permuted is not None:
        map_index, output, coordinates = permuted
        parts.append(map_index)
    rank = len(product.batch)
    swapped = [*map(along, range(rank)), along(rank + 1), along(rank)]
    attention = Attention(
        output=output,
        batch=product.batch,
        queries=product.m,
        keys=product.n,
        width=product.k,
        value_width=second.n,
        query=product.left,
        key=moved(product.right, swapped),
        value=second.right,
        score=score,
        coordinates=coordinates,
    )
    return attention, parts


def _scores(
    neighbours: _Neighbours, softmax: RowNormalize
) -> tuple[int, Product, Element | None] | None:
    """Return the product below a softmax, its index, and the score computed from its sums."""
    for tensor in tensors_read(softmax.value):
        making = neighbours.maker(tensor)
        if making is None:
            continue
        index, product = making
        if not isinstance(product, Product) or not _is_of_floats(product):
            continue
        if softmax.axes != tensor.shape:
            continue
        reads = [
            part
            for part in parts_of(softmax.value)
            if isinstance(part, Read) and part.tensor is tensor
        ]
        if all(is_identity(part.coordinates, tensor.shape) for part in reads):
            score = _score(softmax.value, product)
            if sum(1 for _ in parts_of(score)) <= _MOST_PARTS:
                return index, product, None if isinstance(score, Made) else score
    return None


def _score(value: Element, product: Product) -> Element:
    """Return the softmax's operand as an expression of the product's result."""
    made = Made(Scalar.F32) if product.epilogue is None else product.epilogue
    return replace_reads(value, lambda read: made if read.tensor is product.output else read)


def _takes_probabilities(second: Product, softmax: RowNormalize, first: Product) -> bool:
    """Return True if a product only multiplies the probabilities by values of a known width."""
    left = second.left
    if isinstance(left, Convert) and left.scalar is Scalar.F32:
        left = left.operand
    return (
        isinstance(left, Read)
        and left.tensor is softmax.output
        and is_identity(left.coordinates, softmax.axes)
        and softmax.output not in tensors_read(second.right)
        and (second.batch, second.m, second.k) == (first.batch, first.m, first.n)
        and _is_of_floats(second)
        and _is_made(second.epilogue)
        and all(
            isinstance(width, int) and 0 < width <= _MOST_WIDTH for width in (first.k, second.n)
        )
    )


def _is_of_floats(product: Product) -> bool:
    return product.left_zero is None and scalar_of(product.left) in _FLOATS


def _is_made(epilogue: Element | None) -> bool:
    """Return True if an epilogue only converts the result to another float type."""
    if isinstance(epilogue, Convert) and epilogue.scalar in _FLOATS:
        epilogue = epilogue.operand
    return epilogue is None or isinstance(epilogue, Made)


def _permuted(
    neighbours: _Neighbours, tensor: Tensor
) -> tuple[int, Tensor, tuple[Coordinate, ...]] | None:
    """Return the map that only permutes a tensor's dimensions: index, output, coordinates."""
    reading = neighbours.reader(tensor)
    if reading is None:
        return None
    index, operation = reading
    if not is_whole_map(operation):
        return None
    value = operation.value
    if not isinstance(value, Read):
        return None
    axis_coordinates: list[Coordinate | None] = [None] * len(operation.axes)
    for dimension, coordinate in enumerate(value.coordinates):
        axis, size = _axis_of(coordinate), tensor.shape[dimension]
        if axis is not None and axis_coordinates[axis] is None and operation.axes[axis] == size:
            axis_coordinates[axis] = along(dimension)
        elif size != 1:  # along a dimension of 1, the only coordinate is 0
            return None
    by_axis = [
        Coordinate() if coordinate is None and operation.axes[axis] == 1 else coordinate
        for axis, coordinate in enumerate(axis_coordinates)
    ]
    coordinates = tuple(coordinate for coordinate in by_axis if coordinate is not None)
    return (index, operation.output, coordinates) if len(coordinates) == len(by_axis) else None


def _axis_of(coordinate: Coordinate) -> int | None:
    """Return the axis that a coordinate equals, else None."""
    axes = [axis for axis, _ in coordinate.terms]
    return axes[0] if len(axes) == 1 and coordinate == along(axes[0]) else None
