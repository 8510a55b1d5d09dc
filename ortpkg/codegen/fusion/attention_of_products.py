"""Puts one attention in the place of two products with a softmax between them.

The first product's epilogue and what the softmax computes of it become the attention's score: the
scaling and the mask, in whichever form the model has them. A map behind that only permutes the
dimensions, as the one that brings heads side by side, becomes the places of the output.

In an attention of 16-bit floats, probabilities are not rounded to 16 bits before they are
multiplied.
"""

from __future__ import annotations

from dataclasses import replace

from ortpkg.codegen.fusion.inlining import is_whole_map
from ortpkg.codegen.fusion.substitution import is_identity, moved, replace_reads
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import (
    Convert,
    Element,
    Made,
    Place,
    Read,
    Tensor,
    along,
    parts_of,
    scalar_of,
    tensors_read,
)
from ortpkg.codegen.tensor_ir.operations import (
    Attention,
    Operation,
    Product,
    RowFunction,
    RowNormalize,
)
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram, reads_of

#: A block of wider heads does not stay in a core's own cache.
_MOST_WIDTH = 512
_MOST_PARTS = 96
_FLOATS = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})


def fuse_attention(program: TensorProgram) -> TensorProgram:
    """The program with an attention for each softmax that one product feeds and one product reads.

    It is left as it is where another operation, or an output of the program, takes what lies
    between, and where a head's width is no number that is known.
    """
    neighbours = _Neighbours(program)
    fused: dict[int, Attention] = {}
    removed: set[int] = set()
    for index, operation in enumerate(program.operations):
        if isinstance(operation, RowNormalize):
            found = _attention(neighbours, operation)
            if found is not None:
                attention, parts = found
                fused[max(parts)] = attention
                removed.update({index, *parts})
    operations = tuple(
        fused.get(index, operation)
        for index, operation in enumerate(program.operations)
        if index in fused or index not in removed
    )
    return replace(program, operations=operations)


class _Neighbours:
    """Who alone makes a tensor, and who alone reads it."""

    def __init__(self, program: TensorProgram) -> None:
        self._operations = program.operations
        self._kept = {*program.outputs, *program.inputs, *program.constants}
        self._writers: dict[Tensor, list[int]] = {}
        self._readers: dict[Tensor, list[int]] = {}
        for index, operation in enumerate(program.operations):
            self._writers.setdefault(operation.output, []).append(index)
            for tensor in reads_of(operation):
                self._readers.setdefault(tensor, []).append(index)

    def maker(self, tensor: Tensor) -> tuple[int, Operation] | None:
        """What makes a tensor that one operation alone makes and one alone reads."""
        makers, readers = self._writers.get(tensor, []), self._readers.get(tensor, [])
        if len(makers) != 1 or len(readers) != 1 or tensor in self._kept:
            return None
        return makers[0], self._operations[makers[0]]

    def reader(self, tensor: Tensor) -> tuple[int, Operation] | None:
        """What reads a tensor that one operation alone makes and one alone reads."""
        if self.maker(tensor) is None:
            return None
        (reader,) = self._readers[tensor]
        return reader, self._operations[reader]


def _attention(
    neighbours: _Neighbours, softmax: RowNormalize
) -> tuple[Attention, list[int]] | None:
    """The attention around a softmax, and where the operations stand that it does the work of."""
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
    output, places = second.output, tuple(map(along, range(len(second.output.shape))))
    parts = [score_index, index]
    permuted = _permuted(neighbours, second.output)
    if permuted is not None:
        place, output, places = permuted
        parts.append(place)
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
        places=places,
    )
    return attention, parts


def _scores(
    neighbours: _Neighbours, softmax: RowNormalize
) -> tuple[int, Product, Element | None] | None:
    """The product that a softmax is of, where it stands, and what becomes of its sums."""
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
            each
            for each in parts_of(softmax.value)
            if isinstance(each, Read) and each.tensor is tensor
        ]
        if all(is_identity(each.places, tensor.shape) for each in reads):
            score = _score(softmax.value, product)
            if sum(1 for _ in parts_of(score)) <= _MOST_PARTS:
                return index, product, None if isinstance(score, Made) else score
    return None


def _score(value: Element, product: Product) -> Element:
    """What the softmax is of, over what the product makes."""
    made = Made(Scalar.F32) if product.epilogue is None else product.epilogue
    return replace_reads(value, lambda read: made if read.tensor is product.output else read)


def _takes_probabilities(second: Product, softmax: RowNormalize, first: Product) -> bool:
    """Whether a product is nothing but the probabilities times values of a width that is known."""
    left = second.left
    if isinstance(left, Convert) and left.scalar is Scalar.F32:
        left = left.operand
    return (
        isinstance(left, Read)
        and left.tensor is softmax.output
        and is_identity(left.places, softmax.axes)
        and softmax.output not in tensors_read(second.right)
        and (second.batch, second.m, second.k) == (first.batch, first.m, first.n)
        and _is_of_floats(second)
        and _is_made(second.epilogue)
        and all(isinstance(each, int) and 0 < each <= _MOST_WIDTH for each in (first.k, second.n))
    )


def _is_of_floats(product: Product) -> bool:
    return product.left_zero is None and scalar_of(product.left) in _FLOATS


def _is_made(epilogue: Element | None) -> bool:
    """Whether an epilogue does no more than to write what was made as another kind of float."""
    if isinstance(epilogue, Convert) and epilogue.scalar in _FLOATS:
        epilogue = epilogue.operand
    return epilogue is None or isinstance(epilogue, Made)


def _permuted(
    neighbours: _Neighbours, tensor: Tensor
) -> tuple[int, Tensor, tuple[Place, ...]] | None:
    """The map that only permutes a tensor's dimensions: where it stands, its output, places."""
    reading = neighbours.reader(tensor)
    if reading is None:
        return None
    index, operation = reading
    if not is_whole_map(operation):
        return None
    value = operation.value
    if not isinstance(value, Read):
        return None
    places: list[Place | None] = [None] * len(operation.axes)
    for dimension, place in enumerate(value.places):
        axis, size = _axis_of(place), tensor.shape[dimension]
        if axis is not None and places[axis] is None and operation.axes[axis] == size:
            places[axis] = along(dimension)
        elif size != 1:  # the only place along it is 0
            return None
    found = [
        Place() if place is None and operation.axes[axis] == 1 else place
        for axis, place in enumerate(places)
    ]
    known = tuple(place for place in found if place is not None)
    return (index, operation.output, known) if len(known) == len(found) else None


def _axis_of(place: Place) -> int | None:
    """The axis that a place counts, and nothing else, or None."""
    axes = [axis for axis, _ in place.terms]
    return axes[0] if len(axes) == 1 and place == along(axes[0]) else None
