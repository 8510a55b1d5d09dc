"""Helpers for axes, shapes and indices of operators: negative ones, checks, error messages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ortpkg.graph.types import MOST_DIMENSIONS
from ortpkg.runtime.kernels.op_kernel import Tensor

_POSITION = np.dtype(np.intp)


def normalized_axis(axis: int, rank: int) -> int:
    """Return ``axis`` counted from the front.

    Raises:
        ValueError: it is outside [-rank, rank); a scalar has the axes -1 and 0.
    """
    axis = operator.index(axis)
    most = max(rank, 1)
    if not -most <= axis < most:
        raise ValueError(
            f"axis {axis} is not in [{-most}, {most}), the axes of a rank-{rank} tensor"
        )
    return axis + most if axis < 0 else axis


def normalized_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Return each axis counted from the front, in the given order.

    Raises:
        ValueError: one is out of range, or named twice.
    """
    normalized = tuple(normalized_axis(axis, rank) for axis in axes)
    if len(set(normalized)) != len(normalized):
        raise ValueError(f"axes {normalized} name an axis twice")
    return normalized


def int_tuple(x: Tensor, most: int = 2 * MOST_DIMENSIONS) -> tuple[int, ...]:
    """Return a one-dimensional (or scalar) integer tensor as a tuple.

    Raises:
        ValueError: it has another rank, or more integers than ``most`` (by default two for each
            possible dimension).
    """
    if x.ndim > 1:
        raise ValueError(f"a list of integers has rank 1, but this tensor has shape {x.shape}")
    if x.size > most:
        raise ValueError(
            f"a list of {x.size} integers is too long here: a tensor has at most"
            f" {MOST_DIMENSIONS} dimensions"
        )
    return tuple(x.ravel().tolist())


def shape_from(x: Tensor) -> tuple[int, ...]:
    """Return a tensor of dimensions as a shape. Raises ValueError for a negative one."""
    shape = int_tuple(x)
    if any(dimension < 0 for dimension in shape):
        raise ValueError(f"shape {shape} has a negative dimension")
    return shape


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which all ``shapes`` broadcast, of any size.

    Raises:
        ValueError: they do not; the message names them.
    """
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, dimension in enumerate(shape, rank - len(shape)):
            if dimension != result[axis] and dimension != 1:
                if result[axis] != 1:
                    raise ValueError(
                        f"shapes {' and '.join(map(str, shapes))} do not broadcast together"
                    )
                result[axis] = dimension
    return tuple(result)


def grid(*axes: range) -> Iterator[tuple[int, ...]]:
    """Yield every tuple with a number of each range, the last one changing fastest.

    No list of a range is kept, unlike in itertools.product and np.ndindex.
    """
    if not axes:
        yield ()
        return
    for first in axes[0]:
        for others in grid(*axes[1:]):
            yield (first, *others)


def element_count(shape: Sequence[int]) -> int:
    """Return the exact number of elements of a tensor of ``shape`` (no overflow)."""
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def reshaped_view(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return ``x`` in another shape, in the same memory, so that writing there writes to ``x``.

    The layouts of our kernels allow it. numpy's own ``reshape(copy=False)`` came with 2.1.
    """
    view = x.reshape(shape)
    assert not view.size or np.may_share_memory(view, x)
    return view


def wrapped_indices(indices: Tensor, size: int, ask: Callable[[int], None]) -> Tensor:
    """Return indices into an axis of ``size``, negative ones counted from the end.

    ``ask`` is the context's ``check_allocation``.

    Raises:
        ValueError: an index is out of range.
    """
    if indices.size == 0:
        return indices.astype(_POSITION, copy=False)
    lowest, highest = int(indices.min()), int(indices.max())
    if lowest < -size or highest >= size:
        wrong = lowest if lowest < -size else highest
        raise ValueError(f"index {wrong} is out of range for an axis of size {size}")
    if lowest >= 0 and indices.dtype == _POSITION:
        return indices
    ask(indices.size * (_POSITION.itemsize + (lowest < 0)))
    wrapped = indices.astype(_POSITION)
    if lowest < 0:
        np.add(wrapped, size, out=wrapped, where=wrapped < 0)
    return wrapped


def only_number(value: Tensor, name: str) -> Tensor:
    """Return an input that must hold one number, of any rank, as a scalar."""
    if value.size != 1:
        raise ValueError(f"{name} has the shape {value.shape}; one number was expected")
    return value.reshape(())
